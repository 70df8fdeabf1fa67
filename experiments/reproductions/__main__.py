"""``python -m experiments.reproductions [NAME ...] [--write]``: fit the public tables again, write the pages."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.benchmarks.tables import markdown, write
from experiments.reproductions import (
    besiroglu,
    gadre,
    gemstones,
    isoflops,
    muennighoff,
    olmo_ladder,
    seed_repeats,
)
from experiments.reproductions.page import Page
from scaling.storage import write_atomically

FOLDER = Path(__file__).parent
SCRIPTS: dict[str, Callable[[], Page]] = {
    module.__name__.rsplit(".", 1)[1]: module.reproduce
    for module in (besiroglu, muennighoff, gadre, gemstones, olmo_ladder, seed_repeats, isoflops)
}
HEAD = ["table", "published", "refit, 95%", "objective above the least", "verdict of the refit"]

COUPLED_HEAD = ["table", "runs", "k, 95%", "objective below k = 1", "condition", "verdict"]


def index_rows(pages: dict[str, Page]) -> dict[str, dict[str, Any]]:
    """Return what the index says of every page: of those just made, and what stands there of the others."""
    path = FOLDER / "index.json"
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    rows |= {name: {"row": page.row(), "coupled": list(page.coupled)} for name, page in pages.items()}
    return {name: rows[name] for name in SCRIPTS if name in rows}


def main(words: list[str] | None = None) -> None:
    """Make the pages asked for, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m experiments.reproductions", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[[], *SCRIPTS], help="pages to make; all by default")
    parser.add_argument("--write", action="store_true", help="write the pages and the index")
    options = parser.parse_args(words)
    pages = {}
    for name in options.name or SCRIPTS:
        page = pages[name] = SCRIPTS[name]()
        if options.write:
            write_atomically(FOLDER / f"{name}.md", page.text())
        else:
            print(page.text())
    if options.write:
        rows = index_rows(pages)
        write_atomically(FOLDER / "index.json", json.dumps(rows, indent=1) + "\n")
        write("index", markdown(HEAD, [row["row"] for row in rows.values()]), FOLDER / "README.md")
        curved = [line for row in rows.values() for line in row["coupled"]]
        write("coupled", markdown(COUPLED_HEAD, curved), FOLDER / "README.md")


if __name__ == "__main__":
    main()
