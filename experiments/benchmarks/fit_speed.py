"""What a fit costs, against scipy doing the same.

    python -m experiments.benchmarks.fit_speed            # about 3 minutes of one core
    python -m experiments.benchmarks.fit_speed --write    # the same, and put the tables into README.md

scipy minimises the same objective with BFGS, with exact gradients and with numerical ones, from the 4,500-start
grid of Hoffmann et al. 2022 (extrapolated from 100 starts drawn from it) and, for the bootstrap, from the
optimum. Times are CPU seconds of one thread, the least of a few tries, so that other work on the machine does not
count. Memory is the peak of a fresh process.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: times are of one thread

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import minimize

from experiments.benchmarks import tables
from experiments.benchmarks.coverage import published
from scaling import RunTable
from scaling.bootstrap import bootstrap
from scaling.laws.chinchilla import Attached, attach
from scaling.newton import Objective
from scaling.resample import Plan
from scaling.solver import solve_global

DELTA = 1e-3
#: Hoffmann et al. 2022, section D.2: log A, log B, log E, alpha, beta.
GRID = tuple(
    product(
        range(0, 30, 5),
        range(0, 30, 5),
        np.arange(-1, 1.1, 0.5),
        np.arange(0, 2.1, 0.5),
        np.arange(0, 2.1, 0.5),
    )
)
#: Ratios to be reached: (exact, numerical gradients) for the global fit and the bootstrap.
TARGETS = {"global": (800, 4000), "bootstrap": (12, 80)}


def cpu_seconds(work: Callable[[], object], tries: int = 3) -> float:
    """Return the least CPU time of a few tries."""
    times = []
    for _ in range(tries):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


class Scipy:
    """The same objective for scipy.optimize, in (log A, log B, log E, alpha, beta)."""

    def __init__(self, runs: RunTable) -> None:
        self.x, self.y, self.log_loss = np.log(runs.params), np.log(runs.tokens), np.log(runs.loss)

    def terms(self, v: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the shares of the three terms, the log residuals, and ln N and ln D."""
        x, y = self.x[rows], self.y[rows]
        stack = np.stack([v[0] - v[3] * x, v[1] - v[4] * y, np.full(len(x), v[2])])
        top = stack.max(axis=0)
        parts = np.exp(stack - top)
        total = parts.sum(axis=0)
        return parts / total, self.log_loss[rows] - top - np.log(total), x, y

    def value(self, v: np.ndarray, rows: np.ndarray) -> float:
        """Return the objective."""
        _, r, _, _ = self.terms(v, rows)
        c = np.clip(r, -DELTA, DELTA)
        return float(np.sum(c * (r - c / 2)))

    def both(self, v: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and its gradient."""
        share, r, x, y = self.terms(v, rows)
        c = np.clip(r, -DELTA, DELTA)
        a, b, e = (share * -c).sum(axis=1)
        slopes = (share[0] * x) @ c, (share[1] * y) @ c
        return float(np.sum(c * (r - c / 2))), np.array([a, b, e, *slopes])

    def minimise(self, start: Sequence[float], rows: np.ndarray, exact: bool) -> float:
        """Return the lowest objective BFGS finds from one start."""
        with np.errstate(all="ignore"):
            at = np.array(start, float)
            if exact:
                found = minimize(self.both, at, args=(rows,), jac=True, method="BFGS")
            else:
                found = minimize(self.value, at, args=(rows,), method="BFGS")
        return float(found.fun)


@dataclass(frozen=True)
class Race:
    """CPU seconds of one job done three ways."""

    name: str
    ours: float
    exact: float
    numerical: float
    targets: tuple[int, int]

    def row(self) -> list[str]:
        """Return the race as a row of a table."""
        ratios = [self.exact / self.ours, self.numerical / self.ours]
        marks = [
            f"**{r:,.0f}x** (at least {t:,}: {'reached' if r >= t else 'MISSED'})"
            for r, t in zip(ratios, self.targets, strict=True)
        ]
        return [
            self.name,
            _seconds(self.ours),
            _seconds(self.exact),
            marks[0],
            _seconds(self.numerical),
            marks[1],
        ]


def race_global(runs: RunTable, starts: int) -> Race:
    """One global fit against the grid of starts."""
    rows, scipy = np.arange(len(runs)), Scipy(runs)
    chosen = np.random.default_rng(0).choice(len(GRID), size=starts, replace=False)

    def ours() -> None:
        problem, _ = _problem(runs)
        solve_global(problem)

    def theirs(exact: bool) -> float:
        once = cpu_seconds(lambda: [scipy.minimise(GRID[i], rows, exact) for i in chosen], tries=1)
        return once * len(GRID) / starts

    return Race("global fit", cpu_seconds(ours, 20), theirs(True), theirs(False), TARGETS["global"])


def race_bootstrap(runs: RunTable, replicates: int, sample: int) -> Race:
    """Bootstrap refits, warm, against one BFGS per replicate from the optimum (extrapolated from a sample)."""
    problem, attached = _problem(runs)
    best, _, _ = solve_global(problem)
    law, scipy = attached.law(best), Scipy(runs)
    start = [np.log(law.A), np.log(law.B), np.log(law.E), law.alpha, law.beta]
    rng = np.random.default_rng(0)
    picks = [rng.integers(0, len(runs), len(runs)) for _ in range(sample)]
    plan = Plan("pairs", np.arange(len(runs)), "row")

    def theirs(exact: bool) -> float:
        once = cpu_seconds(lambda: [scipy.minimise(start, rows, exact) for rows in picks], tries=1)
        return once * replicates / sample

    ours = cpu_seconds(lambda: bootstrap(problem, best, plan, replicates, 0))
    return Race(f"{replicates:,} bootstrap refits", ours, theirs(True), theirs(False), TARGETS["bootstrap"])


def growth(sizes: Sequence[int], replicates: Sequence[int], base: tuple[int, int]) -> list[list[str]]:
    """CPU seconds and peak memory of whole calls, fresh processes, as rows of a table."""
    cases = [(n, base[1]) for n in sizes] + [(base[0], r) for r in replicates if r != base[1]]
    rows = []
    for n, n_boot in cases:
        seconds, peak = fresh_process(n, n_boot)
        rows.append([f"{n:,}", f"{n_boot:,}", _seconds(seconds), f"{peak:.0f} MB"])
    return rows


def fresh_process(n: int, n_boot: int) -> tuple[float, float]:
    """Fit `n` runs in a new interpreter (none for 0); return CPU seconds of the call and peak memory in MB."""
    command = [sys.executable, "-m", "experiments.benchmarks.one_fit", str(n), str(n_boot)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def _problem(runs: RunTable) -> tuple[Objective, Attached]:
    log_loss, w = np.log(runs.loss), np.ones(len(runs))
    attached = attach(runs.params, runs.tokens, log_loss)
    return Objective(attached.form, log_loss, w, w, DELTA), attached


def _seconds(s: float) -> str:
    return f"{1000 * s:.3g} ms" if s < 1 else f"{s:,.3g} s" if s < 1000 else f"{s:,.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    parser.add_argument(
        "--tiny", action="store_true", help="the same at the smallest size, to see that it runs"
    )
    args = parser.parse_args()
    runs = published()[0]
    starts, replicates, sample = (2, 60, 2) if args.tiny else (100, 4000, 100)
    races = [race_global(runs, starts), race_bootstrap(runs, replicates, sample)]
    head = ["job", "here", "scipy, exact gradients", "slower by", "scipy, numerical gradients", "slower by"]
    text = tables.markdown(head, [r.row() for r in races])
    if args.tiny:
        grown = growth([40], [], (40, 60))
    else:
        grown = growth([60, 240, 1000, 4000, 10_000], [0, 500, 2000, 4000, 8000], (240, 1000))
    nothing = fresh_process(0, 0)[1]
    text += "\n\n" + tables.markdown(["runs", "replicates", "`fit_chinchilla`", "peak memory"], grown)
    text += (
        f"\n\nThe imports alone take {nothing:.0f} MB. {len(runs)} points; Python {platform.python_version()}, numpy "
        f"{np.__version__}, one thread."
    )
    print(text)
    if args.write and not args.tiny:
        tables.write("fit_speed", text)


if __name__ == "__main__":
    main()
