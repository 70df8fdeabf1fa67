"""Whether predicted standard errors of designed runs come true."""

from __future__ import annotations

import numpy as np

from economics.next_runs.grid import plain_grids
from experiments.benchmarks import tables
from experiments.benchmarks.design_sets import (
    PRIOR,
    TARGET,
    Design,
    law_of,
    missed,
    pool,
    random_set,
    searcher,
)  # fmt: skip

#: What is predicted and made.
TARGETS = (TARGET, "loss@1B,20B", "params_exponent")
#: For standard deviations, which are held to a fifth: known to 2.5%.
WORLDS_OF_SD = 800
_HEAD = (
    "design", "runs", "noise", "rho", "realised sd of ln D*(1B)", "predicted / realised", "of the loss at (1B, 20B)",
    "of a",
)  # fmt: skip


def designs(budget: float, sigma: float = 0.005) -> dict[str, Design]:
    """Return the kinds of designs that predictions are held against."""
    p = pool(budget)
    family = plain_grids(p, budget)
    assert family is not None
    grids, sets, _ = family
    rng = np.random.default_rng(1)
    best = min(sets, key=searcher(grids, sigma, 0.5).score)
    return {
        "3 x 5 grid": Design.of(grids, best),
        "searched": Design.of(
            p.candidates, searcher(p.candidates, sigma, 0.5).most_precise(budget).positions
        ),
        "random": Design.of(p.candidates, random_set(p.candidates, budget, rng)),
    }


def predictions(worlds: int = WORLDS_OF_SD) -> list[list[object]]:
    """Return rows of predicted against realised standard deviations."""
    rows: list[list[object]] = []
    law = law_of(PRIOR)
    for budget in (20.0, 50.0, 200.0):
        for name, design in designs(budget).items():
            for sigma, rho in ((0.002, 0.0), (0.002, 0.5), (0.005, 0.5)):
                found = design.answers(law, TARGETS, sigma, rho, worlds)
                ratios = []
                for target, values in zip(TARGETS, found, strict=True):
                    ratios.append(design.predicted(law, target, sigma, rho) / float(np.std(values)))
                shown = (f"{r:.2f}{missed(abs(r - 1) <= 0.2)}" for r in ratios)
                what = (f"{name}, ${budget:.0f}", len(design.params), f"{sigma:.1%}", rho)
                rows.append([*what, f"{np.std(found[0]):.3f}", *shown])
    return rows


def text() -> str:
    """Return the table."""
    return tables.markdown(_HEAD, predictions())
