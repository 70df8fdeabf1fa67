"""Numbers on the page: each is read from a file in the folder and says from which, so that it can be checked there."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from economics.run_estimates import dollars
from experiments.x1.stages import file_hash
from scaling.report.phrases import count, flops_text, number, percent

#: How a number is written, by name.
FORMATS: dict[str, Callable[[float], str]] = {
    "count": count,
    "usd": dollars,
    "number": lambda x: number(x, 4),
    "signed": lambda x: f"{x:+.3g}".replace("-", "−"),
    "short": lambda x: number(x, 3),
    "percent": lambda x: percent(x, 3),
    "flops": flops_text,
    "whole": lambda x: f"{x:,.0f}",
    "mb": lambda x: f"{x / 1e6:.1f} MB",
    "times": lambda x: f"x/÷ {x:.2f}",
}


class Files:
    """The files of a folder, read as the page needs them.

    Parameters
    ----------
    folder : pathlib.Path
        The folder of the report.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, Any] = {}

    def read(self, name: str) -> Any:
        """Return what a JSON file holds; None where there is none."""
        if name not in self._read:
            path = self.folder / name
            self._read[name] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        return self._read[name]

    def at(self, name: str, path: str) -> Any:
        """Return the value at a dotted path of a JSON file."""
        return lookup(self.read(name), path)

    def show(self, name: str, path: str, form: str = "number") -> Markup:
        """Return a number of a file as HTML that names file and place.

        Raises
        ------
        KeyError, IndexError
            There is nothing at that place.
        """
        value = self.at(name, path)
        if value is None:
            return Markup("–")
        text = FORMATS[form](value)
        where = html.escape(f"{name}#{path}")
        return Markup(
            f'<data value="{value!r}" data-form="{form}" title="{where}">{html.escape(text)}</data>'
        )

    def interval(self, name: str, path: str, form: str = "number", *, level: bool = True) -> Markup:
        """Return an estimate of a file: its value, the ends of its interval, and the level unless a head says it."""
        if self.at(name, f"{path}.low") is None:
            return self.show(name, f"{path}.value", form)
        says = f"{percent(self.at(name, f'{path}.level'), 3)}: " if level else ""
        ends = Markup(" to ").join(self.show(name, f"{path}.{end}", form) for end in ("low", "high"))
        return Markup("{} ({}{})").format(self.show(name, f"{path}.value", form), says, ends)

    def picture(self, name: str, caption: str) -> Markup:
        """Return a PNG of the folder as an inline figure; nothing where there is none."""
        path = self.folder / name
        if not path.exists():
            return Markup("")
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        table = path.with_suffix(".csv").name
        return Markup(
            '<figure><img alt="{}" src="data:image/png;base64,{}"><figcaption>{} Files: {}, {}.</figcaption></figure>'
        ).format(caption, Markup(data), caption, name, table)

    @cached_property
    def table(self) -> list[tuple[str, int, str]]:
        """Name, bytes and sha256 of each result file of the stages."""
        names: set[str] = set()
        for record in sorted((self.folder / "stages").glob("*.json")):
            names |= set(json.loads(record.read_text(encoding="utf-8"))["files"])
        names -= {"report.html"}
        return [
            (name, path.stat().st_size, file_hash(path))
            for name in sorted(names)
            if (path := self.folder / name).exists()
        ]


def lookup(content: Any, path: str) -> Any:
    """Return the value at a dotted path: names of keys, numbers of places.

    Examples
    --------
    >>> lookup({"a": [{"b": 3}]}, "a.0.b")
    3
    """
    for part in path.split("."):
        content = content[int(part)] if isinstance(content, list) else content[part]
    return content
