"""The page of a proposal: one HTML file that loads nothing, and beside it the document whose numbers it shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import economics
import scaling
from economics.proposal.numbers import Document
from economics.proposal.words import machine_statements
from economics.run_estimates import dollars

if TYPE_CHECKING:
    from economics.proposal.result import Proposal

#: Kinds of machine that the page lists; the document has all.
LISTED = 14


@dataclass(frozen=True, eq=False, repr=False)
class Page:
    """A page, ready to be written.

    Parameters
    ----------
    html : str
        Self-contained.
    document : str
        JSON with every number of it.
    """

    html: str
    document: str

    def files(self, path: str | Path) -> dict[Path, str]:
        """Return the files for a page at `path`, and their text."""
        page = Path(path)
        return {page: self.html, beside(page): self.document}

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write the page, and ``<stem>.json`` beside it.

        Raises
        ------
        OSError
            The folder is missing or the disk full; each file is written whole or not at all.
        """
        from scaling.storage import write_atomically

        files = self.files(path)
        for target, text in files.items():
            write_atomically(target, text)
        return tuple(files)


def beside(path: str | Path) -> Path:
    """Return where the document of a page goes."""
    page = Path(path)
    return page.with_name(f"{page.stem}.json")


def build(p: Proposal, *, command: str = "", spelling: Callable[[str], str] = str) -> Page:
    """Return the page of a proposal.

    Parameters
    ----------
    p : Proposal
    command : str
        The command line that makes it again.
    spelling : callable
        Rewrites sentences that name arguments of Python functions, for readers who type commands.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    from economics.proposal.figures import pictures

    text = p.to_json()
    content: dict[str, Any] = json.loads(text)  # the page shows what the file holds, and nothing else
    document = Document(content)
    folders = [Path(str(package.__file__)).parent / "templates" for package in (economics, scaling)]
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=select_autoescape(("html.j2",)), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["spell"] = spelling
    offers = content["offers"]
    order = sorted(
        range(len(offers)), key=lambda i: (not offers[i]["measured"], i)
    )  # what may be recommended first
    html = environment.get_template("proposal.html.j2").render(
        d=content, n=document.show, estimate=document.interval, machines=machine_statements(p),
        pictures={one["name"]: one for one in pictures(content)}, money=dollars(p.question.usd), command=command,
        order=order[:LISTED],
        tone="not-identified" if p.best is None else p.verdict.replace(" ", "-"),
        split=None if p.learning.suggested is None else p.learning.splits.index(p.learning.suggested),
    )  # fmt: skip
    return Page(html, text)
