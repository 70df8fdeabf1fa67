"""How fast a decision is: beside one global fit with its bootstrap.

python -m experiments.benchmarks.proposal_speed            # print the ratios, about 30 s of one core
python -m experiments.benchmarks.proposal_speed --write    # and put them into README.md
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import scaling.datasets as datasets
from economics import plan
from economics.price_book import load_book
from experiments.benchmarks import tables
from scaling import fit_chinchilla, load_runs

#: A day whose prices are in the book that ships.
DAY = "2026-10-10"
REPEATS = 3


def seconds(work: Callable[[], Any]) -> float:
    """Return the shortest of several runs, seconds of CPU time; the first one warms what is read once."""
    times = []
    for _ in range(REPEATS + 1):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times[1:])


def measure() -> list[list[str]]:
    """Return a row for each question."""
    runs = load_runs(datasets.builtin("hoffmann2022"))
    unit = seconds(lambda: fit_chinchilla(runs))
    fit = fit_chinchilla(runs)
    kinds = len({(row.gpu, row.market) for row in load_book(None) if row.market in ("on-demand", "spot")})
    one: dict[str, Any] = {"gpu": "A100-80GB-SXM", "as_of": DAY}
    found = plan(fit, 50, **one)
    rows = [[f"one global fit of {len(runs)} runs, 1,000 bootstrap refits", f"{unit:.2f} s", "1"]]
    works: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("`plan`, one GPU, on demand and spot", lambda: plan(fit, 50, **one)),
        ("the same with serving and scarce data",
         lambda: plan(fit, 50, serve_tokens="10B", unique_tokens="2B", **one)),
        (f"`plan`, every kind of machine in the price book ({kinds})", lambda: plan(fit, 50, as_of=DAY)),
        ("its page, with three pictures", found.report),
    )  # fmt: skip
    for what, work in works:
        took = seconds(work)
        rows.append([what, f"{took:.2f} s", f"{took / unit:.1f}"])
    return rows


def main() -> None:
    """Print the ratios, or write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    arguments = parser.parse_args()
    text = tables.markdown(["what", "CPU", "in fits"], measure())
    print(text)
    if arguments.write:
        tables.write("proposal_speed", text)


if __name__ == "__main__":
    main()
