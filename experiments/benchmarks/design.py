"""Whether designed runs tell what was predicted, and more than plain grids or random sets for the same dollars.

    python -m experiments.benchmarks.design            # 10 minutes of one core
    python -m experiments.benchmarks.design --write    # the same, and put the tables into README.md

A law is taken to be true, tables of runs are made from it with normal noise that branches of a trunk share, each is
fitted as a user would fit it, and the spread of the answers is the truth about a design. Designs are searched without
knowledge of that law: from the published fit of Hoffmann et al.'s points with the spread of published laws.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import scaling.datasets as datasets
from economics.next_runs.grid import Pool, make_pool, plain_grids
from experiments.benchmarks import tables
from scaling import load_runs
from scaling.bootstrap import search as refit
from scaling.design import Candidates, Known, Search, believe, grid_candidates, moments, predicted_se
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import ChinchillaLaw, attach
from scaling.newton import Objective
from scaling.published import published
from scaling.solver import solve_global
from scaling.targets import target_function

PRIOR = "Besiroglu replication (best of grid)"
#: Laws that are taken to be true; the search knows none of them but the first.
TRUTHS = (
    PRIOR,
    "Muennighoff C4 base (untied)",
    "ml-scalefit, Huber on the loss",
    "Gadre over-training RedPajama",
)
TARGET = "ln_tokens@1B"
#: The middle of the runs that are looked at, about which the prior is uncertain.
CENTRE = (5e7, 1e9)
DELTA = 1e-3
#: An A100 at a price of its own: the tables do not change with the price book.
MACHINE = {"gpu": "A100 SXM 80GB", "n_gpus": 1, "price": 1.5, "seq_len": 1024, "draws": 500}
WORLDS = 400
#: For standard deviations, which are held to a fifth: known to 2.5%.
WORLDS_OF_SD = 800
_N_LAWS, _N_RANDOM, _N_GRIDS, _STARTS = 24, 30, 12, 4


@dataclass(frozen=True, eq=False)
class Design:
    """Runs, and which share a trunk."""

    params: Array
    tokens: Array
    trunk: Index

    @classmethod
    def of(cls, candidates: Candidates, positions: Sequence[int], known: Known | None = None) -> Design:
        """Return chosen candidates, beside runs at hand."""
        at, k = np.array(positions, dtype=np.int64), known or Known.nothing()
        above = int(k.cluster.max()) + 1 if len(k.cluster) else 0
        trunk = np.concatenate([k.cluster, above + candidates.trunk[at]])
        return cls(
            np.concatenate([k.params, candidates.params[at]]),
            np.concatenate([k.tokens, candidates.tokens[at]]),
            np.unique(trunk, return_inverse=True)[1],
        )

    def predicted(self, law: ChinchillaLaw, target: str, sigma: float, rho: float) -> float:
        """Return the predicted standard error."""
        return predicted_se(
            (self.params, self.tokens), target, law=law, sigma=sigma, rho=rho, groups=self.trunk
        )

    def answers(
        self,
        law: ChinchillaLaw,
        targets: Sequence[str],
        sigma: float,
        rho: float,
        worlds: int,
        *,
        cold: bool = True,
    ) -> list[Array]:
        """Return what fits to made-up tables answer, one array of shape (worlds,) for each target.

        Fits that are not `cold` begin at the truth and never end in another basin: a favour to whoever gets it.
        """
        rng = np.random.default_rng(0)
        clean = np.log(law.loss(self.params, self.tokens))
        own = rng.normal(size=(worlds, len(clean)))
        shared = rng.normal(size=(worlds, int(self.trunk.max()) + 1))[:, self.trunk]
        noisy = clean + sigma * (math.sqrt(1 - rho) * own + math.sqrt(rho) * shared)
        attached, one = attach(self.params, self.tokens, clean), np.ones(len(clean))
        starts = attached.plain(law)[None]
        if cold:
            starts = np.concatenate([starts, attached.form.starts(clean, one)[:_STARTS]])
        ends = refit(Objective(attached.form, noisy, one, one, DELTA), starts, cold=cold)
        laws = attached.law(ends.plain)
        if all(t == TARGET for t in targets):
            return [np.asarray(laws.log_tokens_at(1e9))]
        each = [ChinchillaLaw(*(float(c[i]) for c in vars(laws).values())) for i in range(worlds)]
        return [np.array([target_function(t)(law) for law in each]) for t in targets]


def width(answers: Array) -> float:
    """Return the width of the interval that holds 95% of the answers."""
    low, high = np.quantile(answers, (0.025, 0.975))
    return float(high - low)


@cache
def law_of(name: str) -> ChinchillaLaw:
    """Return a published law."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = published(name).law
    assert isinstance(found, ChinchillaLaw)
    return found


@cache
def pool(budget: float) -> Pool:
    """Return what an A100 could train for this."""
    return make_pool(
        None, budget, vocab=50257, sizes=None, tokens=None, trunks=2, max_hours=None, settings=dict(MACHINE)
    )


def searcher(
    candidates: Candidates, sigma: float, rho: float, known: Known | None = None, loss: Any = None
) -> Search:
    """Return the search of someone who knows the prior alone, and the runs at hand."""
    belief = believe(law_of(PRIOR), CENTRE, known, loss, sigma=sigma, rho=rho, n=_N_LAWS)
    told = moments(
        belief.laws,
        target_function(TARGET),
        known or Known.nothing(),
        candidates,
        sigma=sigma,
        rho=rho,
        delta=DELTA,
    )
    return Search(told)


def random_set(candidates: Candidates, budget: float, rng: np.random.Generator) -> list[int]:
    """Return candidates in random order as long as the money lasts."""
    out: list[int] = []
    left = budget
    for i in rng.permutation(len(candidates)).tolist():
        added = candidates.added_cost(out)[i]
        if added <= left:
            out.append(i)
            left -= added
    return out


# --- do predictions come true? ---------------------------------------------------------------------


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


TARGETS = (TARGET, "loss@1B,20B", "params_exponent")


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
                shown = (f"{r:.2f}{_missed(abs(r - 1) <= 0.2)}" for r in ratios)
                what = (f"{name}, ${budget:.0f}", len(design.params), f"{sigma:.1%}", rho)
                rows.append([*what, f"{np.std(found[0]):.3f}", *shown])
    return rows


def _missed(held: bool) -> str:
    return "" if held else " MISSED"


# --- are searched designs better? ------------------------------------------------------------------


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
            f"{d.grid:.2f}", f"**{to_grid:.2f}**{_missed(to_grid <= 0.9)}",
            f"**{to_random:.2f}**{_missed(to_random <= 0.9)}", f"{d.searched / d.random_best:.2f}",
        ]  # fmt: skip


# --- is the search right, and fast? ----------------------------------------------------------------


def brute_force(instances: int = 20, largest: int = 12, seed: int = 0) -> tuple[float, int]:
    """Return the worst ratio of searched to best standard error over small instances, and how often it is the best."""
    rng, worst, best = np.random.default_rng(seed), 1.0, 0
    for _ in range(instances):
        size = rng.integers(0, 4, largest)
        tokens = 1e8 * 2.0 ** rng.permutation(np.arange(largest) % 6)
        n = np.geomspace(2e7, 3e8, 4)[size]
        trunk = size * largest + np.where(rng.random(largest) < 0.5, 0, np.arange(largest))
        keep = sorted({(int(trunk[i]), float(tokens[i])): i for i in range(largest)}.values())  # no run twice
        c = Candidates.of(n[keep], tokens[keep], 1e-9 * (1 + n[keep] / 2e7), trunk[keep])
        s = searcher(c, 0.003, 0.5)
        budget = 0.5 * c.cost(range(len(c)))
        found = s.most_precise(budget)
        subsets = (
            x
            for k in range(1, len(c) + 1)
            for x in itertools.combinations(range(len(c)), k)
            if c.cost(x) <= budget
        )
        lowest = min(s.score(x) for x in subsets)
        worst, best = max(worst, math.exp(found.score - lowest)), best + (found.score <= lowest + 1e-9)
    return worst, best


def speed() -> list[list[object]]:
    """Return rows of CPU times beside one global fit of 240 runs."""
    runs = load_runs(datasets.builtin("hoffmann2022"))
    log_loss, weight = np.log(runs.loss), np.ones(len(runs))
    problem = Objective(attach(runs.params, runs.tokens, log_loss).form, log_loss, weight, weight, DELTA)
    one = _cpu(lambda: solve_global(problem), 5)
    sizes = np.geomspace(1e7, 5e8, 8)
    c = grid_candidates(sizes, 1e8 * 1.75 ** np.arange(13), 5e-10 * (1 + sizes / 2e7))
    s, n = searcher(c, 0.005, 0.5), len(c)
    reach = math.log(math.log(2.5) / 1.96)
    rows: list[list[object]] = [[f"one global fit of {len(runs)} runs", _ms(one), "1"]]
    for what, work in (
        (f"greedy over {n} candidates, {_N_LAWS} laws", lambda: s.greedy(50.0)),
        ("greedy and exchange, most precise for $50", lambda: s.most_precise(50.0)),
        ("cheapest for x/÷ 2.5", lambda: s.cheapest(reach)),
    ):
        seconds = _cpu(work, 3)
        rows.append([what, _ms(seconds), f"{seconds / one:.2g}"])
    return rows


def _cpu(work: Callable[[], object], repeats: int) -> float:
    best = math.inf
    for _ in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms"


def plan_as_written() -> str:
    """Say what the three runs of the plan determine: 5M, 25M and 100M parameters at one token count."""
    law = law_of(PRIOR)
    n, d = np.array([5e6, 25e6, 1e8]), np.full(3, 1e9)
    se = predicted_se((n, d), TARGET, law=law, sigma=0.005)
    return (
        f"The plan as written (5M, 25M and 100M parameters at one token count) has a predicted standard error of "
        f"ln D*(1B) of {se}: three runs for five coefficients, and no second token count. It counts for nothing here."
    )


def _predictions() -> str:
    return tables.markdown(_PREDICTED, predictions())


def _duels() -> str:
    rows = []
    for row in duels():
        print(*row, flush=True)
        rows.append(row)
    return f"{tables.markdown(_DUEL, rows)}\n\n{plan_as_written()}"


def _search() -> str:
    worst, best = brute_force()
    return (
        f"{tables.markdown(['search', 'CPU', 'in global fits'], speed())}\n\n"
        f"Of 20 instances of up to 12 candidates with costs and shared trunks, the search finds the best of all "
        f"subsets in {best}, and is at worst {100 * (worst - 1):.2f}% above its standard error{_missed(worst <= 1.02)}."
    )


_PREDICTED = (
    "design", "runs", "noise", "rho", "realised sd of ln D*(1B)", "predicted / realised", "of the loss at (1B, 20B)",
    "of a",
)  # fmt: skip
_DUEL = (
    "true law", "money", "noise", "rho", "runs", "width", "predicted", "best 3 x 5 grid", "ratio",
    "to the median random set", "to the best of 30",
)  # fmt: skip
PARTS: dict[str, Callable[[], str]] = {
    "design_predictions": _predictions, "design_duels": _duels, "design_search": _search,
}  # fmt: skip


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
