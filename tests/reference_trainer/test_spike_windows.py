"""The windows of the detector against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from reference_trainer.spike_windows import Blocks, Lowest, Window, centre_and_sd, jitter


def test_windows_agree_with_numpy_at_every_step():
    x = np.random.default_rng(1).integers(0, 40, 700) / 8.0  # many ties
    window, lowest = Window(64), Lowest(100)
    for i, value in enumerate(x):
        window.push(value)
        assert window.median() == np.median(x[max(0, i - 63) : i + 1])
        assert lowest.push(value) == x[max(0, i - 99) : i + 1].min()


def test_noise_is_measured_without_outliers_and_without_the_trend():
    rng = np.random.default_rng(2)
    x = 0.1 * rng.standard_normal(4000)
    x[::50] += 5.0
    assert jitter(x - 0.01 * np.arange(4000)) == pytest.approx(0.1, rel=0.08)
    assert centre_and_sd(x)[1] == pytest.approx(0.1, rel=0.08)


def test_slow_waves_make_long_medians_scatter_more_than_white_noise():
    rng, blocks = np.random.default_rng(3), Blocks(64)
    wave = 0.1 * np.sin(np.arange(60) / 3.0)
    for m in wave + 0.01 * rng.standard_normal(60):
        blocks.add(m, m + 0.1)
    assert blocks.scatter() > 0.05
    assert blocks.highest() == pytest.approx(0.2, abs=0.03)
