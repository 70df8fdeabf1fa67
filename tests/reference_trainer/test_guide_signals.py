"""The parts that the reader's guide is made of: noise, levels, lags, and spikes of a like shape."""

from __future__ import annotations

import numpy as np
import pytest

from reference_trainer.guide.signals import lagged, level_change, noise, residual
from tests.reference_trainer.log_samples import curve


def test_noise_and_levels_are_robust():
    rng = np.random.default_rng(0)
    value = rng.normal(size=4000)
    assert noise(value + np.arange(4000)) == pytest.approx(1.0, rel=0.05)
    value[::50] += 30
    assert noise(value) == pytest.approx(1.0, rel=0.1)
    change, score = level_change(
        np.r_[np.zeros(100), np.full(100, 2.0)] + 0.1 * rng.normal(size=200), 100, 64
    )
    assert change == pytest.approx(2.0, abs=0.1) and score > 20
    assert abs(level_change(np.arange(200.0) + 0.1 * rng.normal(size=200), 100, 64)[1]) < 4
    assert level_change(np.zeros(5), 2, 64) == (0.0, 0.0)


def test_lag_is_found_and_not_invented():
    rng = np.random.default_rng(0)
    a = residual(np.cumsum(rng.normal(size=3000)) * 0.001 + rng.normal(size=3000))
    offset, r, overlap, z = lagged(a[2000:2400], a[:2000], 48)
    assert z < 6
    offset, r, overlap, z = lagged(a[700:1100], a[:2000], 48)
    assert offset == 700 and r > 0.999 and overlap == 400


def test_spikes_of_a_like_shape_are_no_data_that_come_back():
    """Cut at 5 standard deviations they still agreed at their distance: z was 9 in half of such logs."""
    rng = np.random.default_rng(7)
    bump = np.zeros(5000)
    for at in (1500, 2600, 4000):
        bump[at : at + 60] = 3 * np.exp(-np.arange(60) / 15)
    smooth = curve(5000, noise=0) + bump
    left = residual(smooth + 0.03 * rng.normal(size=5000))
    assert lagged(left, left, 48)[3] < 6
    batches = 0.03 * rng.normal(size=2500)
    left = residual(smooth + np.r_[batches, batches] + 0.02 * rng.normal(size=5000))
    lag, _, _, z = lagged(left, left, 48)
    assert lag == 2500 and z > 20  # the same batches are still found beside the spikes
