"""How fast a cost is: against a bare numpy draw of as many numbers, and over many what-ifs.

python -m experiments.benchmarks.cost_speed            # print the ratios, about 20 s
python -m experiments.benchmarks.cost_speed --write    # and put them into README.md
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from economics import RunCost, cost

DRAWS = 10_000
#: What one cost may take, in bare draws.
LIMIT = 20.0
ANSWERS = ("usd", "gpu_hours", "wall_hours", "energy_kwh", "co2_kg")


def run(market: str = "on-demand", seed: int = 0) -> RunCost:
    """Return the cost of a 7B model, with all its answers computed."""
    found = cost(
        N="7B", D="2T", gpu="H100 SXM", n_gpus=64, market=market, as_of="2026-10-10", draws=DRAWS, seed=seed
    )
    for name in ANSWERS:
        getattr(found, name)
    return found


def best(function: Callable[[], object], repeats: int = 30) -> float:
    """Return the shortest of several runs, seconds of CPU time: what the machine's other work does not lengthen."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def what_ifs(n: int) -> float:
    """Return the seconds of CPU time that n what-ifs take, each with another utilisation."""
    base = run()
    begin = time.process_time()
    for mfu in np.linspace(0.3, 0.5, n):
        _ = base.what_if(mfu=float(mfu)).usd
    return time.process_time() - begin


def measure(counts: tuple[int, ...] = (100, 300, 1000)) -> list[list[str]]:
    """Return a row for each measurement."""
    rng = np.random.default_rng(0)
    bare = best(lambda: rng.standard_normal(DRAWS), 200)
    fresh = iter(range(1, 10**6))
    rows = [["bare draw: `standard_normal(10_000)`", f"{1e3 * bare:.3f} ms", "1"]]
    for name, function in (
        ("`cost()`, five answers", run),
        ("`cost(market='spot')`, five answers", lambda: run("spot")),
        ("`cost(seed=...)`, a seed that was never drawn", lambda: run(seed=next(fresh))),
        ("`cost(market='spot', seed=...)`, the same", lambda: run("spot", next(fresh))),
    ):
        took = best(function)
        rows.append([name, f"{1e3 * took:.2f} ms", f"{took / bare:.1f}"])
    what_ifs(10)
    first = None
    for n in counts:
        took = min(what_ifs(n) for _ in range(3))
        first = first or took / n
        rows.append(
            [f"{n:,} what-ifs", f"{took:.3f} s", f"{took / n / bare:.1f} each, x{took / n / first:.2f}"]
        )
    return rows


def main() -> None:
    """Print the ratios, or write them."""
    from experiments.benchmarks.tables import markdown, write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    arguments = parser.parse_args()
    text = markdown(["what", "time", "bare draws"], measure())
    print(text)
    if arguments.write:
        write("cost_speed", text)


if __name__ == "__main__":
    main()
