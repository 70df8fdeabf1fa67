"""Put a measured table into the README of this folder, between its two markers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

README = Path(__file__).with_name("README.md")


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write(name: str, text: str, readme: Path = README) -> None:
    """Replace what stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    old = readme.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1:
        raise SystemExit(f"{readme} needs the markers {begin} and {end}, once each")
    before, rest = old.split(begin)
    after = rest.split(end)[1]
    readme.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
