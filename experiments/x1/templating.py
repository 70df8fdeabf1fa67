"""How the pages of the experiments are filled in: strictly, escaped where they are HTML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(*folders: Path) -> Environment:
    """Return what reads templates from folders: a name that is missing is an error, not an empty place.

    Parameters
    ----------
    *folders : pathlib.Path
        Searched in turn.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=FileSystemLoader(folders), autoescape=select_autoescape(("html.j2",)), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
