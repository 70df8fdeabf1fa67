"""The search for runs: its costs, its linear algebra, its optima, and whether its designs tell what it says."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import pytest

from experiments.benchmarks import tables
from experiments.benchmarks.design import PARTS
from experiments.benchmarks.design_duels import duel
from experiments.benchmarks.design_predictions import designs
from experiments.benchmarks.design_search import brute_force
from experiments.benchmarks.design_sets import PRIOR, TARGET, Design, law_of, searcher
from scaling import DataError, RunTable, fit_chinchilla
from scaling.design import (
    SPREAD,
    Candidates,
    Known,
    Search,
    believe,
    design_runs,
    grid_candidates,
    moments,
    predicted_se,
)
from scaling.laws.chinchilla import attach
from scaling.newton import Objective
from scaling.solver import solve_global
from scaling.targets import target_function
from tests.scaling.fit_worlds import BESIROGLU, crossed, table

LAW = law_of(PRIOR)


def small() -> Candidates:
    """Three sizes, four token counts, two trunks each."""
    return grid_candidates([2e7, 1e8, 5e8], [1e8, 4e8, 1.6e9, 6.4e9], [1e-9, 3e-9, 1e-8])


def told(c: Candidates, known: Known | None = None, **options: Any) -> Any:
    laws = believe(LAW, (5e7, 1e9), n=5).laws
    settings = {"sigma": 0.004, "rho": 0.5, "delta": 1e-3} | options
    return moments(laws, target_function(TARGET), known or Known.nothing(), c, **settings), laws


# --- costs -----------------------------------------------------------------------------------------


def test_the_longest_run_of_a_trunk_pays_for_it_and_branches_for_their_cooldown() -> None:
    c = Candidates.of([1e8] * 3 + [1e8, 2e8], [1e9, 2e9, 4e9, 4e9, 1e9], [1e-9] * 4 + [2e-9], [0, 0, 0, 1, 2])
    assert c.shares([0, 1, 2]).tolist() == pytest.approx([0.2, 0.4, 4.0])
    assert c.cost([0, 1]) == pytest.approx(2.2)
    # Another seed is another trunk, another size another rate.
    assert c.cost([2, 3, 4]) == pytest.approx(4 + 4 + 2)
    # D = 1, 2, 4, 8 on one trunk cost 63% of separate runs.
    four = Candidates.of([1e8] * 4, [1e9, 2e9, 4e9, 8e9], [1e-9] * 4, [0] * 4)
    assert four.cost(range(4)) / 15 == pytest.approx(0.63, abs=0.01)


def test_what_a_run_adds_is_the_difference_of_costs() -> None:
    c, rng = small(), np.random.default_rng(0)
    for size in (0, 1, 3, 8):
        chosen = rng.choice(len(c), size, replace=False).tolist()
        added = c.added_cost(chosen)
        for i in set(range(len(c))) - set(chosen):
            assert added[i] == pytest.approx(c.cost([*chosen, i]) - c.cost(chosen), rel=1e-9)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([1e8, 1e8], [1e9], [1, 1]), "one of each per run"),
        (([1e8, 2e8], [1e9, 2e9], [1, 1], [0, 0]), "one size and one rate"),
        (([1e8, 1e8], [1e9, 1e9], [1, 1], [0, 0]), "the same tokens twice"),
        (([1e8], [1e9], [1], [0, 1]), "trunk has shape"),
        (([1e8], [-1e9], [1]), "tokens must be finite and positive"),
        (([1e8], [1e9], [1], None, 1.5), "cooldown"),
    ],
)
def test_candidates_that_cannot_be(arrays: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Candidates.of(*arrays)


# --- linear algebra --------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("held", [{}, {"fixed": ("E",)}, {"fixed": ("A",)}, {"tied": True}])
def test_one_run_more_or_less_is_that_set(rho: float, held: dict[str, Any]) -> None:
    """Rank-one updates give what the set says that is computed afresh."""
    c, rng = small(), np.random.default_rng(1)
    n, d, _ = crossed(3, 2)
    m, _ = told(c, Known(n, d, np.array([0, 0, 1, 1, 2, 2])), rho=rho, **held)
    chosen = rng.choice(len(c), 7, replace=False).tolist()
    more, less = m.log_se_with_each(chosen), m.log_se_without_each(chosen)
    for i in range(len(c)):
        if i in chosen:
            assert less[:, i] == pytest.approx(m.log_se([k for k in chosen if k != i]), abs=1e-6)
        else:
            assert more[:, i] == pytest.approx(m.log_se([*chosen, i]), abs=1e-8)


@pytest.mark.parametrize("held", [{}, {"fixed": ("E",)}, {"tied": True}])
def test_sets_have_the_standard_errors_of_plans(held: dict[str, Any]) -> None:
    """Runs at hand, trunks and all: `predicted_se` says the same, but for the little that is taken as known."""
    c, (n, d, _) = small(), crossed(4, 3)
    cluster = np.repeat([0, 1, 2], 4)
    m, laws = told(c, Known(n, d, cluster), **held)
    chosen = [0, 1, 2, 3, 4, 6, 8, 9, 13, 20]
    plan = (np.append(n, c.params[chosen]), np.append(d, c.tokens[chosen]))
    groups = np.append(cluster, 10 + c.trunk[chosen])
    for law, found in zip(laws, np.exp(m.log_se(chosen)), strict=True):
        exact = predicted_se(plan, TARGET, law=law, sigma=0.004, rho=0.5, groups=groups, **held)
        assert found == pytest.approx(exact, rel=0.01)


# --- optima ----------------------------------------------------------------------------------------


def test_the_search_finds_the_best_of_all_subsets() -> None:
    worst, best = brute_force(6, largest=9)
    assert worst < 1.02 and best >= 5


def nine() -> Candidates:
    """Nine runs of three sizes: few enough to look at every subset."""
    n, rate, trunk = (np.repeat(x, [4, 3, 2]) for x in ([2e7, 8e7, 3e8], [1e-9, 3e-9, 9e-9], [0, 1, 2]))
    return Candidates.of(n, [1e8, 4e8, 1.6e9, 6.4e9, 1e8, 4e8, 1.6e9, 1e8, 4e8], rate, trunk)


def test_the_cheapest_set_is_the_cheapest_of_all_subsets() -> None:
    c = nine()
    s = Search(told(c)[0])
    sets = [x for k in range(1, 10) for x in itertools.combinations(range(9), k)]
    for wanted in (0.3, 0.6, 0.9):
        score = s.score(range(9)) * wanted + s.score(range(3)) * (1 - wanted)
        found = s.cheapest(score)
        assert found is not None and found.score <= score
        assert found.cost <= 1.05 * min(c.cost(x) for x in sets if s.score(x) <= score)
    assert s.cheapest(s.score(range(9)) - 1.0) is None
    assert s.cheapest(s.score(range(9)), limit=0.01) is None


def test_answers_stay_in_the_budget_and_beat_their_beginnings() -> None:
    c = small()
    s = Search(told(c)[0])
    start = [0, 1, 4, 5]
    found = s.most_precise(20.0, starts=[start])
    assert found.cost <= 20.0 and found.score <= s.score(start) and found.score <= s.greedy(20.0).score
    assert found == s.most_precise(20.0, starts=[start])
    assert s.most_precise(40.0).score <= found.score
    with pytest.raises(DataError, match=r"pays for none .* the cheapest costs 0.1"):
        s.most_precise(0.05)
    with pytest.raises(DataError, match="quantile"):
        Search(s.moments, quantile=1.5)


def test_a_quantile_guards_against_the_worse_laws() -> None:
    c = nine()
    sets = [x for k in range(1, 10) for x in itertools.combinations(range(9), k) if c.cost(x) <= 8]
    careful = Search(told(c)[0], quantile=0.9)
    found = careful.most_precise(8)
    assert found.score == pytest.approx(min(map(careful.score, sets)), abs=0.02)
    assert found.score == pytest.approx(np.quantile(careful.moments.log_se(found.positions), 0.9))


def test_greedy_over_200_candidates_takes_a_few_fits() -> None:
    sizes = np.geomspace(1e7, 5e8, 8)
    c = grid_candidates(sizes, 1e8 * 1.75 ** np.arange(13), 5e-10 * (1 + sizes / 2e7))
    assert len(c) >= 200
    s = searcher(c, 0.005, 0.5)
    n, d, loss = crossed(16, 15, noise=0.01)
    problem = Objective(attach(n, d, np.log(loss)).form, np.log(loss), np.ones(240), np.ones(240), 1e-3)

    def cpu(work: Any) -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    fit, greedy = (
        min(cpu(w) for _ in range(3)) for w in (lambda: solve_global(problem), lambda: s.greedy(50.0))
    )
    assert greedy < 30 * fit


# --- predictions and what comes true ---------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_predicted_errors_of_designs_come_true(rho: float) -> None:
    for name, design in designs(20.0).items():
        sigma = 0.002
        found = design.answers(LAW, (TARGET,), sigma, rho, 250)[0]
        assert design.predicted(LAW, TARGET, sigma, rho) == pytest.approx(float(np.std(found)), rel=0.2), name


@pytest.mark.parametrize("truth", [PRIOR, "Muennighoff C4 base (untied)"])
def test_searched_designs_beat_grids_and_random_sets(truth: str) -> None:
    """Of equal dollars, at a law the search does not know: intervals at most 0.9 times as wide."""
    found = duel(truth, 20.0, 0.002, 0.5, worlds=150, n_random=7, n_grids=4)
    assert found.searched <= 0.9 * found.grid
    assert found.searched <= 0.9 * found.random_median and found.searched < found.random_best


def test_the_plan_of_three_runs_identifies_nothing() -> None:
    three = Candidates.of([5e6, 25e6, 1e8], [1e9] * 3, [1e-9, 2e-9, 5e-9])
    assert Design.of(three, [0, 1, 2]).predicted(LAW, TARGET, 0.01, 0.5) == math.inf


def test_the_tables_of_the_benchmark_hold_no_miss() -> None:
    text = tables.README.read_text(encoding="utf-8")
    for name in PARTS:
        written = text.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]
        assert "| --- |" in written and "MISSED" not in written, name


# --- the search put together -----------------------------------------------------------------------


def test_runs_are_designed_for_what_is_at_hand() -> None:
    c = small()
    fit = fit_chinchilla(table(6, 4, noise=0.004), n_boot=60)
    found = design_runs(fit, TARGET, c, sigma=0.004, budget=20.0, n_laws=6)
    assert found.cost <= 20.0 and found.cost == pytest.approx(c.cost(found.positions))
    assert (found.se_after < found.se_before).all() and found.se_before.shape == (6,)
    one = design_runs(fit.runs, TARGET, c, law=fit.law, sigma=0.004, budget=20.0)
    plan = (np.append(fit.runs.params, c.params[list(one.positions)]),
            np.append(fit.runs.tokens, c.tokens[list(one.positions)]))  # fmt: skip
    groups = np.append(np.arange(24), 24 + c.trunk[list(one.positions)])
    exact = predicted_se(plan, TARGET, law=fit.law, sigma=0.004, rho=0.5, groups=groups)
    assert one.se_after == pytest.approx([exact], rel=1e-9)
    nothing = design_runs(None, "params_exponent", c, law=fit.draws, sigma=0.004, budget=20.0, n_laws=6)
    assert np.isinf(nothing.se_before).all() and "from infinite to" in str(nothing)


def test_a_standard_error_is_reached_or_said_not_to_be() -> None:
    c = small()
    options: Any = {"law": LAW, "sigma": 0.004}
    found = design_runs(None, TARGET, c, se=0.5, **options)
    assert found.reached and found.se_after == pytest.approx([0.5], rel=0.1)
    dear = design_runs(None, TARGET, c, se=0.01, budget=20.0, **options)
    assert not dear.reached and dear.cost <= 20.0
    for wrong, message in (
        ({}, "give a budget"),
        ({"se": -1}, "se must be"),
        ({"budget": 0.001}, "pays for none"),
    ):
        with pytest.raises(DataError, match=message):
            design_runs(None, TARGET, c, **wrong, **options)
    with pytest.raises(DataError, match="give law="):
        design_runs(None, TARGET, c, budget=9, sigma=0.01)
    with pytest.raises(DataError, match="4 groups"):
        design_runs(([1e8] * 5, [1e9] * 5), TARGET, c, budget=9, groups=[0] * 4, **options)


# --- what is believed ------------------------------------------------------------------------------


def test_a_prior_has_the_spread_it_states() -> None:
    found = believe(LAW, (5e7, 1e9), n=4000)
    assert found.law.alpha == pytest.approx(LAW.alpha) and found.law.E == pytest.approx(LAW.E)
    laws = found.laws
    logs = [[law.A * 5e7**-law.alpha, law.alpha, law.B * 1e9**-law.beta, law.beta, law.E] for law in laws]
    assert np.std(np.log(logs), axis=0) == pytest.approx(SPREAD, rel=0.05)
    assert believe(LAW, (5e7, 1e9), n=3).laws == believe(LAW, (5e7, 1e9), n=3).laws


def test_runs_draw_a_prior_to_themselves() -> None:
    """Many precise runs of another law, in another unit: the prior ends at that law."""
    truth = law_of("Gadre over-training RedPajama").scaled(loss=1.4427)
    n, d, _ = crossed(8, 8)
    known = Known(n, d, np.arange(64))
    noisy = truth.loss(n, d) * np.exp(0.001 * np.random.default_rng(0).normal(size=64))
    found = believe(LAW, (2e8, 1e10), known, noisy, sigma=0.001, n=200)
    assert found.law.log_tokens_at(1e9) == pytest.approx(truth.log_tokens_at(1e9), abs=0.15)
    assert found.law.E == pytest.approx(truth.E, rel=0.02)
    spread = np.std([law.log_tokens_at(1e9) for law in found.laws])
    assert spread == pytest.approx(
        # The Gaussian bound: sqrt(pi/2) below what a fit at delta = 1e-3 reaches.
        predicted_se((n, d), TARGET, law=truth, sigma=0.001, delta=0.1), rel=0.25,
    )  # fmt: skip


def test_few_runs_narrow_what_they_speak_of() -> None:
    """Runs at D = 20 N say their own losses, and leave D* about as open as the prior has it."""
    n = np.geomspace(2e7, 2e8, 6)
    runs = RunTable.from_arrays(params=n, tokens=20 * n, loss=0.7 * BESIROGLU.loss(n, 20 * n))
    known = Known(runs.params, runs.tokens, np.arange(6))
    alone, informed = (believe(LAW, (6e7, 1.3e9), *a, sigma=0.003, n=400) for a in ((), (known, runs.loss)))
    assert informed.scale == pytest.approx(0.7, rel=0.01)

    def spread(belief: Any, what: Any) -> float:
        return float(np.std([what(law) for law in belief.laws]))

    def at_hand(law: Any) -> float:
        return math.log(law.loss(6e7, 1.2e9))

    def wanted(law: Any) -> float:
        return float(law.log_tokens_at(1e9))

    assert spread(informed, at_hand) < 0.2 * spread(alone, at_hand)
    assert spread(informed, wanted) > 0.5 * spread(alone, wanted)
