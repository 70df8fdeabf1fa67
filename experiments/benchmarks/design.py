"""Whether designed runs tell what was predicted, and more than plain grids or random sets for the same dollars.

    python -m experiments.benchmarks.design            # 1 minute of one core
    python -m experiments.benchmarks.design --write    # the same, and put the tables into README.md

A law is taken to be true, tables of runs are made from it with normal noise that branches of a trunk share, each is
fitted as a user would fit it, and the spread of the answers is the truth about a design. Designs are searched without
knowledge of that law: from the published fit of Hoffmann et al.'s points with the spread of published laws.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from experiments.benchmarks import design_duels, design_predictions, design_search, tables

#: Marker in README.md -> what writes it.
PARTS: dict[str, Callable[[], str]] = {
    "design_predictions": design_predictions.text,
    "design_duels": design_duels.text,
    "design_search": design_search.text,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    parser.add_argument("--part", choices=PARTS, help="one table alone")
    args = parser.parse_args()
    for name in [args.part] if args.part else PARTS:
        text = PARTS[name]()
        print(text, flush=True)
        if args.write:
            tables.write(name, text)


if __name__ == "__main__":
    main()
