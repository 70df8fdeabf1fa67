"""Fast draws and fast quantiles are those of the exact distributions and of numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from economics.power import Factor
from economics.quantile_draws import CELLS, normal, student_t
from economics.run_estimates import order_statistics, quantiles

N = 200_000


def test_draws_of_a_normal_and_of_students_t():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for drawn, exact in (
        (normal(rng, N), stats.norm()),
        *((student_t(rng, k, N), stats.t(k)) for k in (1, 2, 7, 12)),
    ):
        # 1.95 / sqrt(n): passed by chance once in a thousand (Kolmogorov), at these seeds never.
        assert stats.kstest(drawn, exact.cdf).statistic < 1.95 / N**0.5
        assert np.unique(drawn).size > 0.9 * CELLS


@pytest.mark.parametrize("df", [1, 2, 3, 8, 12, 200])
def test_the_table_of_t_holds_its_quantiles(df):
    """Every draw is a quantile (i + 1/2) / 16,384."""
    stats = pytest.importorskip("scipy.stats")
    share = stats.t.cdf(student_t(np.random.default_rng(df), df, 5000), df) * CELLS - 0.5
    np.testing.assert_allclose(share, np.round(share), atol=1e-3)


def test_a_factor_has_its_own_width_on_either_side():
    factor = Factor("x", 2.0, 1.0, 5.0, "", (0.0, 9.0))
    drawn = factor.sample(np.random.default_rng(0), N)
    np.testing.assert_allclose(np.quantile(drawn, [0.05, 0.5, 0.95]), [1.0, 2.0, 5.0], atol=0.03)
    assert drawn.min() == 0.0 and drawn.max() == 9.0


@settings(max_examples=200, deadline=None)
@given(
    draws=hnp.arrays(
        np.float64,
        st.integers(1, 300),
        elements=st.floats(allow_nan=False, min_value=-1e305, max_value=1e305),
    ),
    at=st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_quantiles_are_those_of_numpy(draws, at):
    scale = np.ptp(draws) or 1.0
    np.testing.assert_allclose(quantiles(draws, at), np.quantile(draws, at), rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.parametrize("shift", [0.0, -1.0, -1e3])
@pytest.mark.parametrize("tail", [1.0, 1e3, 1e130, np.inf])
def test_quantiles_of_ten_thousand_draws(tail, shift):
    """Tails, both signs, many that are the same: each rank is that of a sort."""
    draws = np.exp(np.random.default_rng(1).standard_normal(10_000)) + shift
    draws[:3] *= tail
    draws[5000:6000] = draws[0]
    ranks = [0, 1, 5, 2500, 4999, 5000, 8999, 9998, 9999]
    assert order_statistics(draws, ranks) == [float(x) for x in np.sort(draws)[ranks]]
    draws[1000:2000] = -0.0
    assert order_statistics(draws, ranks) == [float(x) for x in np.sort(draws)[ranks]]
    draws = draws[np.isfinite(draws)]
    at = (0.0, 0.1, 0.5, 0.9, 1.0)
    np.testing.assert_allclose(quantiles(draws, at), np.quantile(draws, at), rtol=1e-12)
