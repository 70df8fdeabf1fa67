"""From draws to interval ends: percentiles, bias correction, few units, draws without bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from scaling import DataError
from scaling.intervals import check_level, estimate, interval

NORMAL = np.random.default_rng(0).normal(10.0, 2.0, 200_000)


def test_percentiles_of_normal_draws() -> None:
    low, high = interval(NORMAL, 10.0, 0.95)
    assert (low, high) == pytest.approx((10 - 1.96 * 2, 10 + 1.96 * 2), abs=0.03)


def test_bias_correction_moves_both_ends_by_twice_the_bias() -> None:
    """Efron & Tibshirani 1993, section 14.3 without acceleration: draws half a sd above the value."""
    low, high = interval(NORMAL, 9.0, 0.95, "bias-corrected")
    z0 = stats.norm.ppf(np.mean(NORMAL < 9.0))
    expected = np.quantile(NORMAL, stats.norm.cdf(2 * z0 + stats.norm.ppf([0.025, 0.975])))
    assert (low, high) == pytest.approx(tuple(expected), rel=1e-9)
    assert high < interval(NORMAL, 9.0, 0.95)[1]


def test_bias_correction_survives_draws_on_one_side() -> None:
    for value in (-1.0, 100.0):
        low, high = interval(np.linspace(0, 1, 100), value, 0.95, "bias-corrected")
        assert 0 <= low <= high <= 1


@pytest.mark.parametrize(("units", "factor"), [(240, 1.00719), (24, 1.07816), (12, 1.17291), (2, 9.168)])
def test_few_units_stretch_the_interval(units: int, factor: float) -> None:
    """sqrt(G/(G-1)) t_{G-1}/z: exactly the t interval where the statistic is a mean."""
    assert factor == pytest.approx(
        math.sqrt(units / (units - 1)) * stats.t.ppf(0.975, units - 1) / stats.norm.ppf(0.975), rel=1e-3
    )
    plain, wide = interval(NORMAL, 10.0, 0.95), interval(NORMAL, 10.0, 0.95, n_units=units)
    assert (wide[1] - 10) / (plain[1] - 10) == pytest.approx(factor, rel=1e-4)
    assert (10 - wide[0]) / (10 - plain[0]) == pytest.approx(factor, rel=1e-4)


def test_a_stretched_bootstrap_of_a_mean_is_the_t_interval() -> None:
    data = np.random.default_rng(3).normal(size=12)
    picks = np.random.default_rng(4).integers(0, 12, (100_000, 12))
    low, high = interval(data[picks].mean(axis=1), float(data.mean()), 0.95, n_units=12)
    expected = stats.t.interval(0.95, 11, loc=data.mean(), scale=stats.sem(data))
    assert high - low == pytest.approx(expected[1] - expected[0], rel=0.04)


def test_factors_stretch_in_logs() -> None:
    draws = np.exp(NORMAL / 10)
    low, high = interval(draws, math.e, 0.95, n_units=12, log_scale=True)
    a, b = interval(NORMAL / 10, 1.0, 0.95, n_units=12)
    assert (math.log(low), math.log(high)) == pytest.approx((a, b), rel=1e-6)
    assert interval(draws, math.e, 0.95, n_units=3, log_scale=True)[0] > 0


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    st.floats(-1e6, 1e6),
    st.floats(0.05, 0.99),
    st.sampled_from(["percentile", "bias-corrected"]),
    st.sampled_from([None, 2, 5, 100]),
)
def test_ends_are_ordered_and_stretching_only_widens(draws, value, level, method, units) -> None:
    low, high = interval(np.array(draws), value, level, method)
    wide = interval(np.array(draws), value, level, method, n_units=units)
    assert low <= high
    assert wide[0] <= low <= high <= wide[1]


def test_draws_without_bounds_make_open_intervals() -> None:
    """A law that is not identified: D* of some draws overflows, and that is the answer."""
    draws = np.concatenate([np.linspace(1, 2, 90), np.full(10, np.inf)])
    low, high = interval(draws, 1.5, 0.95)
    assert low == pytest.approx(1.02, abs=0.02) and high == math.inf
    assert interval(draws, 1.5, 0.95, n_units=12, log_scale=True)[1] == math.inf
    both = np.concatenate([np.full(10, -np.inf), draws])
    assert interval(both, 1.5, 0.95) == (-math.inf, math.inf)


def test_no_draws_no_interval() -> None:
    assert all(math.isnan(end) for end in interval(np.empty(0), 1.0, 0.95))
    answer = estimate(np.empty(0), 22.6e9, 0.95, name="D*", unit="tokens")
    assert str(answer) == "22.6B tokens (no interval)"
    assert float(answer) == 22.6e9


def test_an_estimate_in_words() -> None:
    answer = estimate(np.linspace(19e9, 27e9, 1001), 22.6e9, 0.9, name="D*(1B)", unit="tokens")
    assert repr(answer) == "D*(1B): 22.6B tokens, 90% [19.4B, 26.6B]"
    assert answer.interval == (answer.low, answer.high)
    assert answer.to_dict()["kind"] == "optimum"


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, 95, 100, float("nan"), "95%", None, "x", [0.9]])
def test_levels_that_are_none(level: object) -> None:
    with pytest.raises(DataError, match="level must be a number between 0 and 1") as caught:
        check_level(level)  # type: ignore[arg-type]
    assert caught.value.column == "level"
    if level == 95:
        assert "95% is level=0.95" in str(caught.value)
