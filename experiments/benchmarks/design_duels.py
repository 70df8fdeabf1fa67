"""Whether searched designs tell more than plain grids and random sets of runs for the same dollars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from economics.next_runs.grid import plain_grids
from experiments.benchmarks import tables
from experiments.benchmarks.design_sets import (
    DELTA,
    PRIOR,
    TARGET,
    Design,
    law_of,
    missed,
    pool,
    random_set,
    searcher,
)  # fmt: skip
from scaling.design import Known, Search, moments, predicted_se
from scaling.laws.base import Array
from scaling.targets import target_function

#: Laws that are taken to be true; the search knows none of them but the first.
TRUTHS = (
    PRIOR,
    "Muennighoff C4 base (untied)",
    "ml-scalefit, Huber on the loss",
    "Gadre over-training RedPajama",
)
#: Tables made up for one width.
WORLDS = 400
_N_RANDOM, _N_GRIDS = 30, 12
_HEAD = (
    "true law", "money", "noise", "rho", "runs", "width", "predicted", "best 3 x 5 grid", "ratio",
    "to the median random set", "to the best of 30",
)  # fmt: skip


def width(answers: Array) -> float:
    """Return the width of the interval that holds 95% of the answers."""
    low, high = np.quantile(answers, (0.025, 0.975))
    return float(high - low)


@dataclass(frozen=True)
class Duel:
    """A searched design against others of equal dollars: widths of 95% of the answers.

    Parameters
    ----------
    searched, grid : float
        Of the search, and of the best plain grid: the best of those most precise by prediction *at the true law*,
        by what they then really reach.
    random_median, random_best : float
        Of random sets.
    predicted : float
        What was predicted for the search at the true law.
    runs : int
        Runs searched.
    """

    searched: float
    grid: float
    random_median: float
    random_best: float
    predicted: float
    runs: int


def duel(
    truth: str, budget: float, sigma: float, rho: float, *, at_hand: bool = False, worlds: int = WORLDS,
    n_random: int = _N_RANDOM, n_grids: int = _N_GRIDS,
) -> Duel:  # fmt: skip
    """Let designs of equal dollars meet, at a law that the search does not know."""
    law, p = law_of(truth), pool(budget)
    known, loss = None, None
    if at_hand:  # six runs on the line D = 20 N, which identify nothing
        n = np.geomspace(2e7, 2e8, 6)
        known = Known(n, 20 * n, np.arange(6))
        loss = law.loss(n, 20 * n) * np.exp(sigma * np.random.default_rng(3).normal(size=6))
    chosen = searcher(p.candidates, sigma, rho, known, loss).most_precise(budget)
    design = Design.of(p.candidates, chosen.positions, known)

    def realised(one: Design, cold: bool = False) -> float:
        return width(one.answers(law, (TARGET,), sigma, rho, worlds, cold=cold)[0])

    family = plain_grids(p, chosen.cost)
    assert family is not None
    grids, sets, _ = family
    oracle = Search(
        moments(
            [law], target_function(TARGET), known or Known.nothing(), grids, sigma=sigma, rho=rho, delta=DELTA
        )
    )
    ranked = sorted(sets, key=oracle.score)[:n_grids]
    rng = np.random.default_rng(2)
    randoms = [
        Design.of(p.candidates, random_set(p.candidates, chosen.cost, rng), known) for _ in range(n_random)
    ]
    lucky = sorted(realised(r) for r in randoms)
    return Duel(
        realised(design, cold=True), min(realised(Design.of(grids, s, known)) for s in ranked), float(np.median(lucky)),
        lucky[0], 2 * 1.959964 * design.predicted(law, TARGET, sigma, rho), len(chosen.positions),
    )  # fmt: skip


CASES: tuple[tuple[str, float, float, float, bool], ...] = (
    *((truth, 50.0, 0.002, 0.5, False) for truth in TRUTHS),
    (PRIOR, 20.0, 0.002, 0.5, False),
    (PRIOR, 200.0, 0.002, 0.5, False),
    (PRIOR, 50.0, 0.005, 0.5, False),
    (PRIOR, 50.0, 0.002, 0.0, False),
    (TRUTHS[1], 20.0, 0.002, 0.5, True),
)


def duels(worlds: int = WORLDS) -> Iterator[list[object]]:
    """Yield rows of searched designs against grids and random sets."""
    for truth, budget, sigma, rho, at_hand in CASES:
        d = duel(truth, budget, sigma, rho, at_hand=at_hand, worlds=worlds)
        name = truth.split(" (")[0] + (", 6 runs at D = 20N at hand" if at_hand else "")
        to_grid, to_random = d.searched / d.grid, d.searched / d.random_median
        yield [
            name, f"${budget:.0f}", f"{sigma:.1%}", rho, d.runs, f"{d.searched:.2f}", f"{d.predicted:.2f}",
            f"{d.grid:.2f}", f"**{to_grid:.2f}**{missed(to_grid <= 0.9)}",
            f"**{to_random:.2f}**{missed(to_random <= 0.9)}", f"{d.searched / d.random_best:.2f}",
        ]  # fmt: skip


def plan_as_written() -> str:
    """Say what the three runs of the plan determine: 5M, 25M and 100M parameters at one token count."""
    law = law_of(PRIOR)
    n, d = np.array([5e6, 25e6, 1e8]), np.full(3, 1e9)
    se = predicted_se((n, d), TARGET, law=law, sigma=0.005)
    return (
        f"The plan as written (5M, 25M and 100M parameters at one token count) has a predicted standard error of "
        f"ln D*(1B) of {se}: three runs for five coefficients, and no second token count. It counts for nothing here."
    )


def text() -> str:
    """Return the table, and what the plan as written is worth; rows are printed as they come."""
    rows = []
    for row in duels():
        print(*row, flush=True)
        rows.append(row)
    return f"{tables.markdown(_HEAD, rows)}\n\n{plan_as_written()}"
