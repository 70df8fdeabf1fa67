"""The law with its form left open: its sampler, its posterior, its answers and the test of the form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scaling import ChinchillaFit, datasets, fit_chinchilla, load_runs
from scaling.errors import DataError, NotIdentifiedError
from scaling.laws.coupled import CoupledLaw
from scaling.open_form.calibration import evidence
from scaling.open_form.form_test import power_test
from scaling.open_form.posterior import MOST_ROWS, Evidence, Prior, design_effect, posterior
from scaling.open_form.sampler import sample
from tests.scaling.fit_worlds import crossed

#: Quarter of what Hoffmann's law leaves above E at the centre of the grid below; k alone differs.
POWERS = {
    1.0: CoupledLaw(1.8, 480.0, 2100.0, 0.35, 0.37, 1.0),
    0.6: CoupledLaw(1.8, 2.9e4, 3.4e5, 0.58, 0.62, 0.6),
}


def world(k: float, noise: float = 0.004, seed: int = 0) -> ChinchillaFit:
    n, d = (v.ravel() for v in np.meshgrid(np.geomspace(2e7, 5e9, 8), np.geomspace(5e8, 2e11, 7)))
    loss = POWERS[k].loss(n, d) * np.exp(np.random.default_rng(seed).normal(0, noise, n.size))
    return fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0)


# --- the sampler ---------------------------------------------------------------------------------


def test_particles_find_both_modes_and_their_weights() -> None:
    """Two Gaussians at +-4 of weights 3 and 1 (both as likely under the prior): 3/4 of the draws at one."""

    def log_likelihood(u: np.ndarray) -> np.ndarray:
        apart = [np.log(w) - 8.0 * np.sum((u - at) ** 2, axis=1) for w, at in ((3, 1.5), (1, -1.5))]
        return np.logaddexp(*apart)

    draws = sample(2, log_likelihood, 2048)
    assert draws.shape == (8192, 2)
    assert np.mean(draws[:, 0] > 0) == pytest.approx(0.75, abs=0.06)
    # A normal prior of variance 1 against a likelihood of variance 1/16.
    right = draws[draws[:, 0] > 0]
    assert right.mean(axis=0) == pytest.approx([1.5 * 16 / 17] * 2, abs=0.03)
    assert right.std(axis=0) == pytest.approx([17**-0.5] * 2, rel=0.1)


def test_particles_shed_impossible_draws_and_refuse_where_all_are() -> None:
    half = sample(1, lambda u: np.where(u[:, 0] > 1.0, 0.0, -np.inf), 512)
    assert half.min() > 1.0 and half.mean() == pytest.approx(1.525, abs=0.05)  # mean of a normal beyond 1
    with pytest.raises(FloatingPointError, match="no draw"):
        sample(1, lambda u: np.full(len(u), np.nan))
    with pytest.raises(FloatingPointError, match="too narrow"):
        sample(1, lambda u: -1e100 * (u[:, 0] - 9.0) ** 2, 64)


def test_draws_are_the_same_every_time() -> None:
    one, other = (sample(3, lambda u: -np.abs(u).sum(axis=1), 64, seed=5) for _ in range(2))
    assert np.array_equal(one, other)


# --- the posterior -------------------------------------------------------------------------------


def test_without_evidence_the_posterior_is_the_prior() -> None:
    """One run of enormous spread: medians and scatter of k and of the exponents are those of published laws."""
    one = np.array([1e9]), np.array([2e10]), np.array([2.5])
    nothing = Evidence(*one, np.ones(1), 1e9, 1, {}, False)
    law = posterior(nothing)
    assert np.median(law.k) == pytest.approx(0.55, rel=0.06)
    assert np.std(np.log(law.k)) == pytest.approx(0.4, rel=0.1)
    for exponent in (law.alpha * law.k, law.beta * law.k):
        assert np.median(exponent) == pytest.approx(0.33, rel=0.06)
        assert np.std(np.log(exponent)) == pytest.approx(0.35, rel=0.1)


def test_the_prior_is_that_of_the_published_laws_that_ship() -> None:
    import pandas as pd

    table = pd.read_csv(datasets.data_dir() / "published_fits.csv")
    laws = table[table["form"].isin(["chinchilla", "exponents", "data_constrained"])].dropna(
        subset=["alpha", "beta"]
    )
    logs = np.log(laws[["alpha", "beta"]].to_numpy())
    assert len(laws) >= 20
    assert np.exp(logs.mean()) == pytest.approx(Prior().exponent, abs=0.01)
    assert logs.std() == pytest.approx(Prior().exponent_sd, abs=0.03)


@pytest.mark.parametrize("k", [1.0, 0.6])
def test_truth_lies_inside_and_exact_runs_leave_little_open(k: float) -> None:
    law = POWERS[k]
    for noise in (0.004, 0.0):
        open_ = world(k, noise).open_form
        for name in ("k", "E"):
            found = open_.ci(name)
            assert found.low <= getattr(law, name) <= found.high
        tokens = open_.tokens_at(1e9)
        assert tokens.low <= law.tokens_at(1e9) <= tokens.high
    if k == 1.0:  # losses exact to rounding; elsewhere the spread is what the law fitted, k = 1, leaves over
        assert open_.ci("E").high - open_.ci("E").low < 0.25


def test_rows_count_as_one_over_rho_at_most() -> None:
    """Ten times the rows of the same scatter: the interval of E narrows by less than a tenth."""
    assert design_effect(11, 0.1) == pytest.approx(2.0)
    fit = world(1.0)
    known = evidence(fit)
    many = Evidence(
        np.tile(known.params, 10), np.tile(known.tokens, 10), np.tile(known.loss, 10), np.tile(known.weights, 10),
        known.spread, 560, {}, False,
    )  # fmt: skip
    assert len(many.loss) > MOST_ROWS
    few, more = (np.subtract(*np.quantile(posterior(e).E, [0.975, 0.025])) for e in (known, many))
    assert 0.75 * few < more < 1.05 * few


def test_of_very_many_rows_those_with_weight_are_looked_at() -> None:
    """20,000 rows of which 60 count: the posterior is that of the 60."""
    fit = world(1.0)
    known = evidence(fit)
    rng = np.random.default_rng(0)
    far = [
        np.exp(rng.uniform(np.log(v.min()), np.log(v.max()), 20_000)) for v in (known.params, known.tokens)
    ]
    many = Evidence(
        np.r_[known.params, far[0]], np.r_[known.tokens, far[1]], np.r_[known.loss, np.full(20_000, 9.0)],
        np.r_[known.weights, np.full(20_000, 1e-9)] * (20_056 / 56), known.spread, known.n_units, {}, False,
    )  # fmt: skip
    few, more = (np.quantile(posterior(e).E, [0.1, 0.5, 0.9]) for e in (known, many))
    assert more[1] == pytest.approx(few[1], abs=0.1) and more[0] > 1.2


@pytest.mark.parametrize(
    "held",
    [
        {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.35, "beta": 0.37},
        {"E": 1.8},
        {"alpha": 0.35, "beta": 0.37},
        {"A": 480.0},
        {"A": 480.0, "B": 2100.0, "E": 1.8},
    ],
    ids=lambda held: "".join(held),
)
def test_what_is_held_stays_held(held: dict[str, float]) -> None:
    n, d, loss = crossed(6, 5, noise=0.004)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0, fixed=held)
    draws = fit.open_form.draws
    for name, value in held.items():
        # An exponent held is the one its shortage alone shows; A and B mean the same at k = 1 alone.
        found = getattr(draws, name) * (draws.k if name in ("alpha", "beta") else 1.0)
        assert np.allclose(found, value, rtol=1e-9)
    assert np.all(draws.k == 1.0) == ("A" in held)
    low, high = np.quantile(np.log(draws.loss(1e9, 2e10)), [0.025, 0.975])
    assert low - 1e-12 <= math.log(fit.law.loss(1e9, 2e10)) <= high + 1e-12
    assert all(np.isfinite(fit.calibration.rollouts))


def test_tied_exponents_stay_tied() -> None:
    n, d, loss = crossed(6, 5, noise=0.004)
    draws = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0, tied=True).open_form.draws
    assert np.array_equal(draws.alpha, draws.beta)


@settings(max_examples=8, deadline=None)
@given(units=st.floats(-6, 6), log_params=st.floats(-3, 3), log_loss=st.floats(-2, 2))
def test_units_change_nothing(units: float, log_params: float, log_loss: float) -> None:
    """N, D and the loss in other units: the same laws in those units, draw by draw."""
    fit = world(0.6)
    known = evidence(fit)
    one, other, scale = math.exp(log_params), math.exp(units), math.exp(log_loss)
    moved = Evidence(
        known.params * one, known.tokens * other, known.loss * scale, known.weights, known.spread, known.n_units, {},
        False,
    )  # fmt: skip
    a, b = (posterior(e, particles=64) for e in (known, moved))
    assert np.allclose(b.E, a.E * scale, rtol=1e-5) and np.allclose(b.k, a.k, rtol=1e-5)
    assert np.allclose(b.loss(1e9 * one, 2e10 * other), a.loss(1e9, 2e10) * scale, rtol=1e-5)


# --- its answers ---------------------------------------------------------------------------------


def test_answers_are_those_of_the_draws() -> None:
    open_ = world(0.6).open_form
    best = open_.optimal(1e21)
    # On the path of optima N*(C) and D*(N*) agree.
    assert open_.tokens_at(best.params.value).value == pytest.approx(best.tokens.value, rel=0.02)
    assert 6 * best.params.value * best.tokens.value == pytest.approx(1e21, rel=0.02)
    assert best.loss.low < POWERS[0.6].loss(best.params.value, best.tokens.value) < best.loss.high
    assert open_.params_at(best.tokens.value).value == pytest.approx(best.params.value, rel=0.02)
    narrow, wide = (open_.tokens_at(1e9, level=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert "k left open" in repr(open_) and "D*(1B)" in repr(open_)
    with pytest.raises(DataError, match="none of"):
        open_.ci("gamma")


def test_it_refuses_what_lies_beyond_reach() -> None:
    small = fit_chinchilla(load_runs(datasets.builtin("markov_ladder")), n_boot=0)
    with pytest.raises(NotIdentifiedError, match="not identified"):
        small.open_form.tokens_at(1e9)
    assert "not identified" in repr(small.open_form)


def test_noise_levels_count_but_no_row_for_better_than_the_middling_one() -> None:
    n, d, loss = crossed(6, 5, noise=0.004)
    sigma = np.full(30, 0.01)
    sigma[:5], sigma[5:10] = 0.1, 1e-4
    known = evidence(fit_chinchilla(params=n, tokens=d, loss=loss, sigma=sigma, n_boot=0))
    assert (
        known.weights.max() == 1.0 and (known.weights[5:10] == 1.0).all() and known.weights[10:].min() > 0.7
    )
    assert known.weights[:5] == pytest.approx(0.13, abs=0.04)


# --- the test of the form ------------------------------------------------------------------------


def test_the_form_is_rejected_where_it_is_wrong_and_seldom_where_it_is_right() -> None:
    """Size 1% at k = 1: of 40 worlds 2 at most; at k = 0.6 all 40. Measured: 0.6% of 300 and all."""
    rejected = {k: 0 for k in POWERS}
    for k in POWERS:
        for seed in range(40):
            fit = world(k, seed=seed)
            at, p_value = power_test(fit.law, fit.runs, fit.residuals, fit.cluster)
            rejected[k] += p_value < 0.01
            assert (fit.diagnostics.finding("form_rejected") is not None) == (p_value < 0.01)
            assert p_value >= 0.01 or at < 1 or k == 1.0
    assert rejected[1.0] <= 2 and rejected[0.6] == 40


def test_the_finding_says_on_which_side_and_what_to_do() -> None:
    found = world(0.6).diagnostics.finding("form_rejected")
    assert found is not None and found.evidence["side"] == "below" and "open_form" in found.message
    assert fit_chinchilla(load_runs(datasets.builtin("hoffmann2022")), n_boot=0).diagnostics.finding(
        "form_rejected"
    )


def test_checkpoints_of_a_run_are_no_witnesses_of_their_own() -> None:
    """20 runs of 8 checkpoints that share their run's luck: k = 0.6 is seen, k = 1 seldom rejected."""
    n, group = np.repeat(np.geomspace(2e7, 5e9, 20), 8), np.repeat(np.arange(20), 8)
    d = np.tile(np.geomspace(5e8, 2e11, 8), 20)
    rejected = {1.0: 0, 0.6: 0}
    for k, law in POWERS.items():
        for seed in range(20):
            rng = np.random.default_rng(seed)
            loss = law.loss(n, d) * np.exp(0.005 * rng.normal(size=20)[group] + 0.002 * rng.normal(size=160))
            fit = fit_chinchilla(params=n, tokens=d, loss=loss, groups=group, n_boot=0)
            rejected[k] += power_test(fit.law, fit.runs, fit.residuals, fit.cluster)[1] < 0.01
    assert rejected[1.0] <= 2 and rejected[0.6] == 20


def test_too_few_runs_reject_nothing() -> None:
    n, d, loss = crossed(3, 3, noise=0.004)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0)
    assert power_test(fit.law, fit.runs, fit.residuals, fit.cluster) == (1.0, 1.0)
