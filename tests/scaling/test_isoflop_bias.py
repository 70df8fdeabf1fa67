"""Bias of the parabola without noise: case U10, and the reasons behind its numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from scaling import ChinchillaLaw, DataError
from scaling.isoflop import parabola_bias

BUDGETS = (1e18, 1e19, 1e20, 1e21)


def surface(alpha: float, beta: float) -> ChinchillaLaw:
    return ChinchillaLaw(E=1.69, A=400.0, B=400.0, alpha=alpha, beta=beta)


# Open-Athena, "Problems with Chinchilla Approach 2" (arXiv 2603.22339): noise-free N*(1e24), in percent.
@pytest.mark.parametrize(
    ("alpha", "beta", "width", "percent"),
    [
        (0.31, 0.50, 1.0, -10.7),
        (0.465, 0.155, 1.0, 20.1),
        (0.31, 0.31, 1.0, 0.0),
        (0.31, 0.50, 0.3, -1.0),
        (0.465, 0.155, 0.3, 1.7),
        (0.31, 0.31, 0.3, 0.0),
    ],
)
def test_noise_free_parabola_is_off_by_the_published_factor(
    alpha: float, beta: float, width: float, percent: float
) -> None:
    bias = parabola_bias(surface(alpha, beta), BUDGETS, width, 15, extrapolate_to=1e24)
    assert 100 * bias.relative_extrapolated == pytest.approx(percent, abs=0.05)
    # Grids that lie alike around their optima err by one factor: the exponent stays exact.
    assert bias.exponent == pytest.approx(0.0, abs=1e-10)
    assert np.ptp(bias.relative) < 1e-9
    # C = 6 N* D* holds for the parabola as well, so D* errs by the inverse factor.
    assert (1 + bias.relative_extrapolated) * (1 + bias.tokens_relative_extrapolated) == pytest.approx(1)


@given(
    E=st.floats(0.0, 5.0),
    log_a=st.floats(1.0, 14.0),
    log_b=st.floats(1.0, 14.0),
    alpha=st.floats(0.1, 0.8),
    beta=st.floats(0.1, 0.8),
)
def test_level_and_coefficients_do_not_move_the_bias(
    E: float, log_a: float, log_b: float, alpha: float, beta: float
) -> None:
    """E, A, B and C only scale the curve around its optimum: the bias is a matter of exponents and grid."""
    law = ChinchillaLaw(E=E, A=np.exp(log_a), B=np.exp(log_b), alpha=alpha, beta=beta)
    bias = parabola_bias(law, [1e18, 1e21], 0.7, 9)
    plain = parabola_bias(surface(alpha, beta), [3e19, 1e20], 0.7, 9)
    assert bias.relative[0] == pytest.approx(plain.relative[0], rel=1e-5, abs=1e-7)


def test_leading_order_of_the_bias() -> None:
    """ln N* is off by (alpha - beta) w^2 / 10 on a fine grid of half-width w, plus higher orders."""
    w = 0.2
    bias = parabola_bias(surface(0.31, 0.50), BUDGETS, w, 4001)
    assert np.log1p(bias.relative[0]) == pytest.approx((0.31 - 0.50) * (w * np.log(10)) ** 2 / 10, rel=0.02)


def test_a_grid_that_drifts_with_compute_biases_the_exponent() -> None:
    law = surface(0.34, 0.28)
    steady = parabola_bias(law, BUDGETS, 0.7, 11, centre_offset=0.2)
    drifting = parabola_bias(law, BUDGETS, 0.7, 11, centre_offset=[-0.3, -0.1, 0.1, 0.3])
    assert steady.exponent == pytest.approx(0.0, abs=1e-10)
    assert abs(drifting.exponent) > 1e-3


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"budgets": [1e18]}, "budgets"),
        ({"budgets": [1e18, -1e19]}, "budgets"),
        ({"width_decades": 0.0}, "width_decades"),
        ({"n_points": 2}, "n_points"),
        ({"centre_offset": [0.1, 0.2]}, "centre_offset"),
        ({"law": object()}, "surface"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, object], word: str) -> None:
    good: dict[str, object] = {
        "law": surface(0.3, 0.3),
        "budgets": BUDGETS,
        "width_decades": 1.0,
        "n_points": 9,
    }
    with pytest.raises(DataError, match=word):
        parabola_bias(**(good | change))  # type: ignore[arg-type]
