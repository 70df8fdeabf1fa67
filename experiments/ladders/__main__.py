"""``python -m experiments.ladders known-law|text|pages``: make the points of a ladder, fit, write the pages.

Training goes on where it was stopped. ``--fit-only`` fits the points that are committed; ``pages`` writes
``prediction.md`` again from what the fits left.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: two workers share two cores

import argparse
import sys
from pathlib import Path

from experiments.ladders import known_law, pages
from experiments.x1.stages import ROOT
from scaling.errors import ScalingError
from scaling.storage import write_atomically

#: Exit status: fine, bad input, stopped and to be gone on with.
FINE, BAD, AGAIN = 0, 2, 75
OUT = ROOT / "out" / "ladders"


def train(name: str, jobs: int) -> bool:
    """Make the points of a ladder and put them beside its file; return whether all were made."""
    from reference_trainer.ladder import read_ladder
    from reference_trainer.sweep import sweep

    if name == "known-law":
        known_law.prepare(OUT / name)
    result = sweep(read_ladder(pages.HOME / f"{name}-ladder.toml"), jobs=jobs)
    if result.ended_by != "done":
        print(
            f"stopped by {result.ended_by}: {result.left} runs are left; the same command goes on",
            file=sys.stderr,
        )
        return False
    for run_id, why in result.errors.items():
        print(f"{run_id}: {why}", file=sys.stderr)
    folder = pages.HOME / name
    folder.mkdir(exist_ok=True)
    write_atomically(folder / "points.csv", Path(result.points).read_bytes())
    return True


def main(arguments: list[str] | None = None) -> int:
    """Read the options and do it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m experiments.ladders", description=__doc__)
    parser.add_argument("name", choices=[*pages.LADDERS, "pages"], help="which ladder, or the page of all")
    parser.add_argument("--jobs", type=int, default=2, help="workers, one thread each")
    parser.add_argument("--fit-only", action="store_true", help="fit the committed points, train nothing")
    given = parser.parse_args(arguments)
    try:
        if given.name != "pages":
            if not given.fit_only and not train(given.name, given.jobs):
                return AGAIN
            pages.fit(given.name)
            print(f"written: {pages.ship(given.name)}")
        print(f"written: {pages.write()}")
    except (ScalingError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD
    return FINE


if __name__ == "__main__":
    sys.exit(main())
