"""IsoFLOP curves: intervals against statsmodels and by simulation, noise of small budgets, frontier."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings, strategies as st

from scaling import DataError
from scaling.isoflop import IsoflopFit, fit_isoflop
from scaling.isoflop.noise import moderated_variances
from scaling.isoflop.regression import generalised
from tests.scaling.isoflop_worlds import BESIROGLU, BUDGETS, SKEWED, world


def test_parabola_of_one_noise_level_is_ordinary_least_squares() -> None:
    """With equal variances everything is pooled: curve, mean and prediction interval are statsmodels' own."""
    table = world()
    # The same misses at every budget: their variances agree, so moderation pools them.
    table["loss"] = table["loss"] + np.tile(0.004 * np.random.default_rng(2).standard_normal(9), 4)
    fit = fit_isoflop(**table, surface=None)
    curve = fit.used[1].parabola
    assert curve is not None
    x = np.log(table["params"])
    blocks = np.repeat(np.arange(len(BUDGETS)), 9)
    z = x - np.array([x[blocks == b].mean() for b in range(4)])[blocks]
    design = np.zeros((len(x), 12))
    for b in range(4):
        design[blocks == b, 3 * b : 3 * b + 3] = np.vander(z[blocks == b], 3, increasing=True)
    joint = sm.OLS(table["loss"], design).fit()
    assert curve.dof == pytest.approx(joint.df_resid)
    assert curve.noise_sd == pytest.approx(np.sqrt(joint.scale), rel=1e-9)
    n = np.exp(np.linspace(x[9], x[17], 5))
    at = np.zeros((5, 12))
    at[:, 3:6] = np.vander(np.log(n) - curve.log_params_center, 3, increasing=True)
    frame = joint.get_prediction(at).summary_frame(alpha=0.05)
    mine = curve.predict(n)
    for column, values in {
        "mean": mine.loss,
        "mean_ci_lower": mine.mean_low,
        "mean_ci_upper": mine.mean_high,
        "obs_ci_lower": mine.low,
        "obs_ci_upper": mine.high,
    }.items():
        np.testing.assert_allclose(values, frame[column], rtol=1e-9)
    # The minimum of a parabola, by the delta method on the same covariance.
    _, b, c = joint.params[3:6]
    gradient = np.array([-1 / (2 * c), b / (2 * c**2)])
    se = np.sqrt(gradient @ joint.cov_params()[4:6, 4:6] @ gradient)
    assert np.log(curve.params.value) == pytest.approx(curve.log_params_center - b / (2 * c), rel=1e-12)
    assert curve.log_params_se == pytest.approx(se, rel=1e-6)


def test_prediction_needs_positive_sizes_and_any_level() -> None:
    fit = fit_isoflop(**world(noise=0.004, rng=np.random.default_rng(2)), surface=None)
    curve = fit.used[0].law
    assert curve is not None
    wide, narrow = curve.predict([1e8], level=0.99), curve.predict(1e8, level=0.5)
    assert wide.low[0] < narrow.low[0] < narrow.mean_low[0] < narrow.loss[0] < narrow.high[0] < wide.high[0]
    with pytest.raises(DataError, match="params"):
        curve.predict([0.0])


# --- coverage -------------------------------------------------------------------------------------


def _coverage(worlds: int, **options: object) -> dict[str, float]:
    rng = np.random.default_rng(11)
    law = options.pop("law", BESIROGLU)
    hits: dict[str, list[float]] = {"N*": [], "curve": [], "run": [], "a": [], "far": []}
    for _ in range(worlds):
        fit = fit_isoflop(**world(law, rng=rng, **options), surface=None)  # type: ignore[arg-type]
        noise = np.broadcast_to(options["noise"], len(BUDGETS))  # type: ignore[arg-type]
        for b, sd in zip(fit.used, noise, strict=True):
            assert b.law is not None
            best = law.optimal(b.flops).params  # type: ignore[attr-defined]
            hits["N*"].append(b.law.params.low <= best <= b.law.params.high)
            n = np.geomspace(*b.params_range, 5)
            truth = law.loss(n, b.flops / 6 / n)  # type: ignore[attr-defined]
            p = b.law.predict(n)
            hits["curve"] += list((p.mean_low <= truth) & (truth <= p.mean_high))
            new = truth + sd * rng.standard_normal(len(n))
            hits["run"] += list((p.low <= new) & (new <= p.high))
        a, far = fit.frontier.params.exponent, fit.frontier.params.at(1e23)
        hits["a"].append(a.low <= law.params_exponent <= a.high)  # type: ignore[attr-defined]
        hits["far"].append(far.low <= law.optimal(1e23).params <= far.high)  # type: ignore[attr-defined]
    return {name: float(np.mean(h)) for name, h in hits.items()}


@pytest.mark.parametrize(
    "options",
    [
        {"n": 8, "width": 0.6, "offset": 0.1, "noise": 0.005},
        {"n": 8, "width": 0.6, "offset": 0.1, "noise": (0.010, 0.007, 0.004, 0.003)},
        {"n": 10, "width": 0.8, "offset": 0.1, "noise": 0.004, "law": SKEWED},
    ],
    ids=["one noise", "noise falls with compute", "skewed law"],
)
def test_intervals_of_the_law_curve_cover_what_they_say(options: dict[str, object]) -> None:
    """80 worlds of 4 budgets: the binomial error is 2.4% for a and N* far away, less for the others."""
    coverage = _coverage(80, **options)
    for name, low in {"N*": 0.90, "curve": 0.90, "run": 0.90, "a": 0.88, "far": 0.88}.items():
        assert low <= coverage[name] <= 0.995, (name, coverage)


def test_the_parabola_interval_misses_where_the_law_curve_does_not() -> None:
    """Why the law-shaped curve exists: on a wide skewed design the parabola's interval is nearly empty of truth."""
    rng = np.random.default_rng(0)
    inside = {"parabola": 0, "law": 0}
    for _ in range(10):
        fit = fit_isoflop(**world(SKEWED, n=12, width=1.0, noise=0.004, rng=rng), surface=None)
        for b in fit.used:
            for kind, c in b.curves.items():
                inside[kind] += c.params.low <= SKEWED.optimal(b.flops).params <= c.params.high
    assert inside["law"] >= 34 and inside["parabola"] <= 10  # of 40


# --- noise of small budgets -----------------------------------------------------------------------


def test_equal_variances_are_pooled_and_unequal_ones_kept_apart() -> None:
    variance, dof = moderated_variances([1.0, 1.0, 1.0, 1.0], [4, 4, 4, 4])
    np.testing.assert_allclose(variance, 1.0)
    np.testing.assert_allclose(dof, 16.0)
    variance, dof = moderated_variances([100.0, 10.0, 1.0, 0.1, 0.01], [50] * 5)
    np.testing.assert_allclose(variance, [100.0, 10.0, 1.0, 0.1, 0.01], rtol=0.1)
    assert (dof < 60).all()


def test_a_budget_without_degrees_of_freedom_borrows_them() -> None:
    variance, dof = moderated_variances([0.0, 2.0, 2.0], [0, 3, 3])
    np.testing.assert_allclose(variance, 2.0)
    np.testing.assert_allclose(dof, 6.0)
    variance, dof = moderated_variances([0.0, 0.0], [0, 0])
    assert not variance.any() and not dof.any()


@given(st.lists(st.tuples(st.floats(1e-8, 1e8), st.integers(1, 30)), min_size=2, max_size=12))
def test_moderation_stays_between_own_and_common_noise(pairs: list[tuple[float, int]]) -> None:
    own = np.array([v for v, _ in pairs])
    dof = np.array([d for _, d in pairs])
    variance, out = moderated_variances(own, dof)
    assert (variance >= own.min() * 0.01).all() and np.isfinite(variance).all()
    assert (out >= dof * (1 - 1e-12)).all() and (out <= dof.sum() * (1 + 1e-12)).all()
    # Order of budgets and unit of variance do not matter.
    back, _ = moderated_variances(own[::-1] * 4.0, dof[::-1])
    np.testing.assert_allclose(back[::-1], variance * 4.0, rtol=1e-6)


# --- regression across budgets --------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(3, 9))
def test_scatter_between_budgets_sets_chi_square_to_its_degrees_of_freedom(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    design = np.stack([np.ones(k), np.linspace(-1, 1, k)], axis=1)
    covariance = np.diag(rng.uniform(0.001, 0.02, k) ** 2)
    y = design @ [1.0, 0.5] + rng.normal(0, 0.05, k)
    fit = generalised(design, y, covariance, 10.0)
    total = covariance + fit.between_sd**2 * np.eye(k)
    rest = y - design @ fit.theta
    chi = float(rest @ np.linalg.solve(total, rest))
    if fit.between_sd > 0:
        assert fit.dispersion > 1
        assert chi == pytest.approx(k - 2, rel=1e-4)
    else:
        assert fit.dispersion <= 1 and chi <= (k - 2) * (1 + 1e-6)
    assert fit.dof == k - 2


def test_budgets_that_scatter_more_than_their_noise_are_reported() -> None:
    table = world(noise=0.001, rng=np.random.default_rng(0), budgets=(1e18, 3e18, 1e19, 3e19, 1e20), n=9)
    shifted = table["params"].reshape(5, 9) * np.exp([[0.3], [-0.3], [0.3], [-0.3], [0.3]])
    fit: IsoflopFit = fit_isoflop(
        params=shifted.ravel(),
        tokens=table["params"] * table["tokens"] / shifted.ravel(),
        loss=table["loss"],
        surface=None,
    )
    assert fit.finding("budgets_scatter") is not None
    assert fit.frontier.params.between_sd == pytest.approx(0.38, abs=0.05)
