"""What must hold for every table of runs: units, order, copies, storage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from scaling import ChinchillaFit, RunTable, fit_chinchilla
from scaling.laws.base import Array
from scaling.laws.chinchilla import COEFFICIENTS, ChinchillaLaw
from tests.scaling.fit_worlds import scattered

SLOW = [HealthCheck.too_slow]
FEW = settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
#: With a bootstrap in every example.
FEWER = settings(max_examples=4, deadline=None, suppress_health_check=SLOW)
SEEDS = st.integers(0, 100_000)
#: A law found from other start points agrees to the solver's tolerance, and D* to that times its condition.
SAME = 1e-6


def fit(n: Array, d: Array, loss: Array, **options: object) -> ChinchillaFit:
    return fit_chinchilla(params=n, tokens=d, loss=loss, **{"n_boot": 0, **options})  # type: ignore[arg-type]


def identified(seed: int, n: int = 40) -> tuple[Array, Array, Array]:
    """Runs that determine the law, with no second basin at hand: elsewhere "the" answer is not one."""
    runs = scattered(n, seed)
    found = fit(*runs)
    assume(found.status == "converged" and found.diagnostics.condition_number < 300)
    assume((found.certificate.second_basin_gap or 1.0) > 1e-6)
    return runs


def assert_same_law(one: ChinchillaLaw, other: ChinchillaLaw, rel: float = SAME) -> None:
    for name in COEFFICIENTS:
        tolerance = rel * (20 if name in ("A", "B") else 1)
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=tolerance), name


# -- units -----------------------------------------------------------------------------------------


@given(seed=SEEDS, power=st.sampled_from([-6, 6]))
@FEW
def test_losses_rescaled(seed: int, power: int) -> None:
    """Another unit of loss scales E, A, B and leaves exponents, D* and the objective alone."""
    n, d, loss = identified(seed)
    factor = 10.0**power
    plain, scaled = fit(n, d, loss), fit(n, d, loss * factor)
    assert_same_law(scaled.law, plain.law.scaled(loss=factor))
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-8)
    assert scaled.law.tokens_at(1e9) == pytest.approx(plain.law.tokens_at(1e9), rel=1e-5)


@given(seed=SEEDS, fn=st.floats(1e-6, 1e6), fd=st.floats(1e-6, 1e6), fl=st.floats(0.1, 10))
@FEW
def test_equivariance_in_the_units_of_n_d_and_loss(seed: int, fn: float, fd: float, fl: float) -> None:
    """Parameters in millions, tokens in billions, losses in bits: the same law in those units."""
    n, d, loss = identified(seed)
    plain, scaled = fit(n, d, loss), fit(n * fn, d * fd, loss * fl)
    assert_same_law(scaled.law, plain.law.scaled(params=fn, tokens=fd, loss=fl))


@given(seed=SEEDS)
@FEWER
def test_draws_follow_the_units_too(seed: int) -> None:
    n, d, loss = identified(seed)
    plain, scaled = fit(n, d, loss, n_boot=60), fit(n / 1e6, d / 1e9, loss * 2, n_boot=60)
    assert scaled.n_failed == plain.n_failed
    agree = np.isclose(scaled.draws.alpha, plain.draws.alpha, rtol=1e-4)
    # A replicate with two minima of nearly one height may fall to either side.
    assert agree.mean() > 0.95


# -- rows ------------------------------------------------------------------------------------------


@given(seed=SEEDS, shuffle=st.randoms(use_true_random=False))
@FEW
def test_order_of_rows_is_nothing(seed: int, shuffle: object) -> None:
    n, d, loss = identified(seed)
    order = np.arange(n.size)
    shuffle.shuffle(order)  # type: ignore[attr-defined]
    plain, other = fit(n, d, loss), fit(n[order], d[order], loss[order])
    assert other.objective == pytest.approx(plain.objective, rel=1e-9)
    assert_same_law(other.law, plain.law)
    assert other.verdict == plain.verdict


@given(seed=SEEDS, data=st.data())
@FEW
def test_whole_weights_are_copies_of_rows(seed: int, data: st.DataObject) -> None:
    """Weight 2 is a row twice, weight 0 a row that is not there."""
    n, d, loss = identified(seed, 30)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=30, max_size=30)))
    assume((weights > 0).sum() >= 20)
    weighted = fit(n, d, loss, weights=weights)
    copied = fit(*(np.repeat(a, weights) for a in (n, d, loss)))
    assume(copied.status == "converged" and (copied.certificate.second_basin_gap or 1.0) > 1e-6)
    assert weighted.objective == pytest.approx(copied.objective, rel=1e-9)
    assert_same_law(weighted.law, copied.law)
    assert weighted.n_runs == (weights > 0).sum()
    dropped = [row for row, why in weighted.audit.dropped if why == "weight 0"]
    assert dropped == np.flatnonzero(weights == 0).tolist()


@given(seed=SEEDS)
@FEWER
def test_rows_of_weight_zero_are_as_if_they_were_not_there(seed: int) -> None:
    """Also for the draws, the clusters and the noise levels given per row."""
    n, d, loss = identified(seed)
    keep = np.arange(40) % 4 > 0
    sigma = np.linspace(0.01, 0.03, 40)
    groups = np.arange(40) // 2
    with_them = fit(n, d, loss, weights=keep, n_boot=50, sigma=sigma, groups=groups)
    without = fit(n[keep], d[keep], loss[keep], n_boot=50, sigma=sigma[keep], groups=groups[keep])
    assert np.array_equal(with_them.draws.alpha, without.draws.alpha)
    assert with_them.settings.n_clusters == without.settings.n_clusters


def test_even_noise_levels_are_no_noise_levels() -> None:
    n, d, loss = scattered(40, 1)
    assert_same_law(fit(n, d, loss, sigma=0.02 * loss).law, fit(n, d, loss).law, rel=1e-11)


# -- answers ---------------------------------------------------------------------------------------


@given(seed=SEEDS, n=st.floats(1e7, 1e11), d=st.floats(1e9, 1e12))
@FEWER
@pytest.mark.filterwarnings("ignore::scaling.errors.ScalingWarning")
def test_predictions_fall_in_both_and_lie_in_their_intervals(seed: int, n: float, d: float) -> None:
    found = fit(*identified(seed), n_boot=60)
    here, larger, longer = (found.predict(*at) for at in ((n, d), (2 * n, d), (n, 2 * d)))
    assert larger.mean.value < here.mean.value > longer.mean.value
    for said in (here.mean, here.prediction):
        assert 0 < said.low < said.value < said.high
    # What a run scatters by is known of every one.
    assert here.prediction.high / here.prediction.low > np.exp(3 * found.calibration.noise)


@given(seed=SEEDS)
@FEWER
@pytest.mark.filterwarnings("ignore::scaling.errors.ScalingWarning")
def test_answers_agree_with_one_another(seed: int) -> None:
    found = fit(*identified(seed), n_boot=60)
    c = float(np.median(found.runs.compute))
    best = found.optimal(c, unidentified="return")
    at = found.tokens_at(best.params.value, unidentified="return")
    assert at.value == pytest.approx(best.tokens.value, rel=1e-9)
    back = found.params_at(at.value, unidentified="return")
    assert back.value == pytest.approx(best.params.value, rel=1e-9)
    ratio = found.tokens_per_param(best.params.value, unidentified="return")
    assert ratio.value == pytest.approx(best.tokens_per_param.value, rel=1e-9)
    for e in (best.params, best.tokens, best.loss, best.tokens_per_param, at, back):
        assert e.low <= e.value <= e.high
    assert (at.low, at.high) == pytest.approx((ratio.low * best.params.value, ratio.high * best.params.value))


@given(seed=SEEDS, level=st.floats(0.5, 0.9))
@FEWER
def test_intervals_grow_with_the_level(seed: int, level: float) -> None:
    found = fit(*identified(seed), n_boot=80)
    narrow, wide = found.ci("alpha", level), found.ci("alpha", level + 0.05)
    assert wide.low <= narrow.low <= narrow.high <= wide.high


# -- storage ---------------------------------------------------------------------------------------


@given(seed=SEEDS, n_boot=st.sampled_from([0, 50]), clustered=st.booleans())
@FEWER
def test_a_fit_reads_back_to_the_same_bits(seed: int, n_boot: int, clustered: bool) -> None:
    n, d, loss = scattered(24, seed)
    run_id = np.repeat(np.arange(12), 2) if clustered else None
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss, run_id=run_id, covariates={"lr": d / n})
    found = fit_chinchilla(runs, n_boot=n_boot)
    back = ChinchillaFit.from_json(found.to_json())
    assert back.to_json() == found.to_json()
    assert back.law == found.law and back.settings == found.settings
    assert back.objective == found.objective
    for name in COEFFICIENTS:
        assert np.array_equal(getattr(back.draws, name), getattr(found.draws, name))
    assert back.summary() == found.summary()


@given(seed=SEEDS)
@FEWER
def test_the_seed_decides_everything(seed: int) -> None:
    runs = scattered(24, 3)
    first, again, other = (fit(*runs, n_boot=50, seed=s) for s in (seed, seed, seed + 1))
    assert np.array_equal(first.draws.alpha, again.draws.alpha)
    assert not np.array_equal(first.draws.alpha, other.draws.alpha)
    assert first.law == other.law
