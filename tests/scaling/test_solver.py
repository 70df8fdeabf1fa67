"""The solver: right minima, whatever the start, the scale and the neighbours in the batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize

from scaling import ChinchillaLaw, IdentificationWarning, datasets, fit_chinchilla, load_runs
from scaling.bootstrap import bootstrap
from scaling.laws.base import Array
from scaling.laws.chinchilla import Attached, attach
from scaling.linalg import solve_spd
from scaling.newton import Objective
from scaling.resample import Plan
from scaling.solver import solve, solve_global

DELTA = 1e-3


def _problem(params: Array, tokens: Array, loss: Array, **held: float) -> tuple[Objective, Attached]:
    log_loss, one = np.log(loss), np.ones(len(loss))
    attached = attach(params, tokens, log_loss, held)
    return Objective(attached.form, log_loss, one, one, DELTA), attached


def _noisy(n: int, seed: int, noise: float = 0.01) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    params = 10 ** rng.uniform(7.5, 10, n)
    tokens = params * 10 ** rng.uniform(0.3, 2.7, n)
    law = ChinchillaLaw(1.82, 482.0, 2085.0, 0.348, 0.366)
    return params, tokens, law.loss(params, tokens) * np.exp(noise * rng.standard_t(3, n))


def _huber(theta: Array, x: Array, y: Array, log_loss: Array, weights: Array) -> tuple[float, Array]:
    """Objective and gradient in (log A, alpha, log B, beta, log E): an independent formulation."""
    a = np.exp(theta[0] - theta[1] * x)
    b = np.exp(theta[2] - theta[3] * y)
    e = np.exp(theta[4])
    total = a + b + e
    r = log_loss - np.log(total)
    c = np.clip(r, -DELTA, DELTA)
    pull = -weights * c / total
    gradient = np.array([pull @ a, -pull @ (a * x), pull @ b, -pull @ (b * y), e * pull.sum()])
    return float(weights @ (c * (r - c / 2))), gradient


def test_never_worse_than_bfgs_from_twenty_starts() -> None:
    """On 50 bootstrap replicates of the embedded table, against scipy with exact gradients."""
    runs = load_runs(datasets.builtin("hoffmann2022"))
    problem, attached = _problem(runs.params, runs.tokens, runs.loss)
    best, _, _ = solve_global(problem)
    weights = next(Plan("pairs", np.arange(len(runs)), "row").blocks(50, seed=7))
    mine = solve(
        Objective(attached.form, problem.log_loss, weights, problem.scale, DELTA),
        np.repeat(best[None], 50, axis=0),
        cold=False,
    )
    assert mine.converged.all()
    x = np.log(runs.params) - attached.centre[0]
    y = np.log(runs.tokens) - attached.centre[1]
    rng = np.random.default_rng(0)
    scale = 1e3  # BFGS's tolerances are absolute: at the objective's own scale it stops early
    for w, lowest in zip(weights, mine.objective, strict=True):
        others = []
        for _ in range(20):
            start = np.array(
                [rng.normal(-1, 1), rng.uniform(0.1, 0.8), rng.normal(-1, 1), rng.uniform(0.1, 0.8), 0.4]
            )

            def scaled(t: Array, w: Array = w) -> tuple[float, Array]:
                value, gradient = _huber(t, x, y, problem.log_loss, w)
                return scale * value, scale * gradient

            others.append(minimize(scaled, start, jac=True, method="BFGS").fun / scale)
        assert lowest <= min(others) * (1 + 1e-9)


SURFACES = [
    ChinchillaLaw(1.82, 482.0, 2085.0, 0.348, 0.366),
    ChinchillaLaw(1.69337368, 406.401018, 410.722827, 0.33917084, 0.2849083),
    ChinchillaLaw(0.6, 59.1, 155.1, 0.31, 0.3136),
    ChinchillaLaw(3.169, 215886.0, 4750.0, 0.684, 0.439),
    ChinchillaLaw(2.0, 100.0, 5.0e6, 0.25, 0.72),
]


@pytest.mark.parametrize("law", SURFACES, ids=lambda law: f"alpha={law.alpha}")
def test_exact_recovery_without_noise(law: ChinchillaLaw) -> None:
    n, d = (a.ravel() for a in np.meshgrid(np.geomspace(3e7, 1e10, 7), np.geomspace(1e9, 1e12, 7)))
    fit = fit_chinchilla(params=n, tokens=d, loss=law.loss(n, d), n_boot=0)
    for name in ("E", "A", "B", "alpha", "beta"):
        assert getattr(fit.law, name) == pytest.approx(getattr(law, name), rel=1e-8), name
    assert fit.tokens_at(1e9).value == pytest.approx(law.tokens_at(1e9), rel=1e-8)


@pytest.mark.parametrize(
    "held", [{"E": 1.82}, {"A": 482.0}, {"B": 2085.0}, {"alpha": 0.348}, {"beta": 0.366}], ids=str
)
def test_exact_recovery_with_a_coefficient_held(held: dict[str, float]) -> None:
    law = SURFACES[0]
    n, d = (a.ravel() for a in np.meshgrid(np.geomspace(3e7, 1e10, 7), np.geomspace(1e9, 1e12, 7)))
    fit = fit_chinchilla(params=n, tokens=d, loss=law.loss(n, d), n_boot=0, fixed=held)
    for name in ("E", "A", "B", "alpha", "beta"):
        assert getattr(fit.law, name) == pytest.approx(getattr(law, name), rel=1e-7), name


def test_exact_recovery_of_tied_exponents() -> None:
    law = ChinchillaLaw(1.8691435, 520.7, 1487.7, 0.3526596, 0.3526596)
    n, d = (a.ravel() for a in np.meshgrid(np.geomspace(3e7, 1e10, 7), np.geomspace(1e9, 1e12, 7)))
    fit = fit_chinchilla(params=n, tokens=d, loss=law.loss(n, d), n_boot=0, tied=True)
    assert fit.law.alpha == fit.law.beta == pytest.approx(law.alpha, rel=1e-8)
    assert fit.law.tokens_per_param(1e8) == pytest.approx(fit.law.tokens_per_param(1e10), rel=1e-9)


def test_no_floor_in_the_data_ends_on_the_bound_and_says_so() -> None:
    law = ChinchillaLaw(0.0, 20.0, 60.0, 0.15, 0.2)
    n, d = (a.ravel() for a in np.meshgrid(np.geomspace(3e7, 1e10, 6), np.geomspace(1e9, 1e12, 6)))
    noise = np.exp(0.005 * np.random.default_rng(11).normal(size=n.size))
    # A bend the wrong way: losses that fall ever faster leave no room for a floor above zero.
    bent = law.loss(n, d) * noise * np.exp(-0.02 * np.log(d / d.min()) ** 2 / 10)
    with pytest.warns(IdentificationWarning, match="E is not identified"):
        fit = fit_chinchilla(params=n, tokens=d, loss=bent, n_boot=0)
    assert fit.status == "bound_hit"
    assert fit.law.E == 0.0
    assert fit.verdict == "not identified"


@given(seed=st.integers(0, 10_000), power=st.sampled_from([-6, -3, 3, 6]))
@settings(max_examples=15, deadline=None)
def test_scaling_the_weights_changes_nothing_but_the_objective(seed: int, power: int) -> None:
    """Mean or sum, or any other factor: the same law (general optimisers fail this, case U01)."""
    n, d, loss = _noisy(40, seed)
    factor = 10.0**power
    plain = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0)
    scaled = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0, weights=np.full(40, factor))
    assert scaled.objective == pytest.approx(plain.objective * factor, rel=1e-9)
    assert scaled.law.alpha == pytest.approx(plain.law.alpha, rel=1e-6)
    assert scaled.law.beta == pytest.approx(plain.law.beta, rel=1e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_every_cold_start_that_converges_is_a_minimum(seed: int) -> None:
    """No step of 1e-4 in any direction lowers the objective from where the solver stopped."""
    n, d, loss = _noisy(30, seed)
    problem, attached = _problem(n, d, loss)
    best, lowest, certificate = solve_global(problem)
    assert certificate.converged
    rng = np.random.default_rng(seed)
    for _ in range(30):
        near = best * (1 + 1e-4 * rng.normal(size=best.size))
        f = attached.law(near).loss(n, d)
        c = np.clip(problem.log_loss - np.log(f), -DELTA, DELTA)
        value = float(np.sum(c * (problem.log_loss - np.log(f) - c / 2)))
        assert value >= lowest * (1 - 1e-12)


def test_a_problem_does_not_feel_its_neighbours_in_the_batch() -> None:
    n, d, loss = _noisy(60, 3)
    problem, _ = _problem(n, d, loss)
    best, _, _ = solve_global(problem)
    weights = next(Plan("pairs", np.arange(60), "row").blocks(20, seed=1))
    together = solve(
        Objective(problem.form, problem.log_loss, weights, problem.scale, DELTA),
        np.tile(best, (20, 1)),
        cold=False,
    )
    for i in range(20):
        one = Objective(problem.form, problem.log_loss, weights[i : i + 1], problem.scale, DELTA)
        alone = solve(one, best[None], cold=False)
        assert alone.objective[0] == pytest.approx(together.objective[i], rel=1e-12)


def test_draws_are_a_prefix_of_more_draws() -> None:
    n, d, loss = _noisy(40, 5)
    few = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=70, seed=3).draws
    many = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=160, seed=3).draws
    assert np.array_equal(few.alpha, many.alpha[:70])


def test_memory_of_weights_does_not_grow_with_the_replicates() -> None:
    """Weights are made block by block: no array has a row for every replicate."""
    blocks = Plan("pairs", np.arange(500), "row").blocks(10_000, seed=0)
    assert next(blocks).shape == (50, 500)
    assert np.allclose(next(blocks).sum(axis=1), 500)


def test_failed_resamples_are_counted_and_left_out() -> None:
    """Two rows of the third size out of 24: one resample in eight lacks that size (case U04)."""
    sizes = np.array([1e8] * 11 + [1e9] * 11 + [4e9] * 2)
    tokens = np.geomspace(1e9, 1e12, 24)[np.random.default_rng(0).permutation(24)]
    law = SURFACES[0]
    loss = law.loss(sizes, tokens) * np.exp(0.002 * np.random.default_rng(1).normal(size=24))
    fit = fit_chinchilla(params=sizes, tokens=tokens, loss=loss, n_boot=400)
    assert 20 <= fit.n_failed <= 90  # 400 (22/24)^24 = 50
    assert fit.draws.E.size == 400 - fit.n_failed
    assert fit.failures[0] == ("too few distinct N or D in the resample", fit.n_failed)
    finding = fit.diagnostics.finding("failed_replicates")
    assert finding is not None and finding.evidence["n_failed"] == fit.n_failed


def test_warm_replicates_are_audited_against_cold_starts() -> None:
    n, d, loss = _noisy(40, 5)
    problem, _ = _problem(n, d, loss)
    best, _, _ = solve_global(problem)
    drawn = bootstrap(problem, best, Plan("pairs", np.arange(40), "row"), 60, 0)
    assert drawn.n_audited == 20
    assert drawn.n_missed == 0


@given(st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_batched_cholesky_solves_and_tells_the_indefinite(p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, p, p))
    matrices = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(p)
    matrices[2] -= (np.linalg.eigvalsh(matrices[2])[0] + 0.5) * np.eye(p)
    rhs = rng.normal(size=(4, p))
    x, definite = solve_spd(matrices, rhs)
    assert definite.tolist() == [True, True, False, True]
    assert not x[2].any()
    for i in (0, 1, 3):
        assert np.allclose(matrices[i] @ x[i], rhs[i])
