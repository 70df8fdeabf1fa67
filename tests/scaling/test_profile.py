"""Profiles of the objective agree with the bootstrap where both hold, and show bounds where it cannot."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from scaling import ChinchillaFit, DataError, datasets, fit_chinchilla
from scaling.profile import profile
from tests.scaling.fit_worlds import T, table


@cache
def hoffmann() -> ChinchillaFit:
    return fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=1000)


@cache
def sweep() -> ChinchillaFit:
    return fit_chinchilla(table(8, 6, noise=0.003, params=(3e7, 5e9)), n_boot=400)


@pytest.mark.parametrize("name", ["E", "A", "B", "alpha", "beta"])
def test_profile_and_bootstrap_agree_on_the_published_points(name: str) -> None:
    """Two roads to an interval: the objective's rise against a bootstrapped threshold, and the draws."""
    found, drawn = profile(hoffmann(), name), hoffmann().ci(name)
    assert found.estimate == drawn.value
    log = name in ("A", "B")
    low, high, a, b = (math.log(v) if log else v for v in (found.low, found.high, drawn.low, drawn.high))
    assert (high - low) / (b - a) == pytest.approx(1.1, abs=0.2)
    overlap = min(high, b) - max(low, a)
    assert overlap > 0.85 * (b - a)


def test_profile_touches_the_optimum_and_rises_to_both_sides() -> None:
    fit = sweep()
    found = profile(fit, "alpha", values=np.linspace(0.9, 1.1, 41) * fit.law.alpha, n_boot=60)
    lowest = int(np.argmin(found.excess))
    assert found.values[lowest] == pytest.approx(fit.law.alpha, rel=1e-9)
    assert found.excess[lowest] == pytest.approx(0, abs=1e-9 * fit.objective)
    assert (np.diff(found.excess[: lowest + 1]) <= 1e-12).all()
    assert (np.diff(found.excess[lowest:]) >= -1e-12).all()
    assert found.low < fit.law.alpha < found.high
    assert 0 < found.threshold < found.excess.max()
    assert "profile of alpha" in repr(found) and "from the bootstrap" in repr(found)


def test_excess_is_what_a_fit_with_the_value_held_gives() -> None:
    fit = sweep()
    found = profile(fit, "E", values=[1.80], n_boot=40)
    held = fit_chinchilla(fit.runs, fixed={"E": 1.80}, n_boot=0)
    assert found.excess[0] == pytest.approx(held.objective - fit.objective, rel=1e-6)


def test_a_grid_too_short_leaves_ends_open() -> None:
    fit = sweep()
    found = profile(fit, "beta", values=fit.law.beta * np.array([0.999, 1.001]), n_boot=40)
    assert found.low == -math.inf and found.high == math.inf


def test_levels_nest() -> None:
    narrow, wide = (profile(sweep(), "alpha", n_boot=100, level=level) for level in (0.5, 0.95))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert wide.threshold > narrow.threshold


def test_held_tied_and_clustered_fits_have_profiles() -> None:
    runs = table(8, 6, noise=0.003, params=(3e7, 5e9))
    held = fit_chinchilla(runs, fixed={"E": T.E}, n_boot=60)
    free = profile(sweep(), "alpha", n_boot=60)
    pinned = profile(held, "alpha", n_boot=60)
    assert pinned.high - pinned.low < free.high - free.low
    tied = fit_chinchilla(runs, tied=True, n_boot=60, groups="model_size")
    one, other = (profile(tied, name, n_boot=60) for name in ("alpha", "beta"))
    assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "gamma"}, "none of E, A, B, alpha, beta"),
        ({"name": "alpha", "level": 95}, "level=0.95"),
        ({"name": "alpha", "n_boot": 0}, "whole number from 1 up"),
        ({"name": "alpha", "values": [-0.1, 0.3]}, "must be positive"),
        ({"name": "E", "values": [1.0, 50.0]}, "not below the smallest loss"),
    ],
)
def test_profiles_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        profile(sweep(), **options)  # type: ignore[arg-type]


def test_a_profile_needs_draws_and_a_free_coefficient() -> None:
    runs = table(noise=0.003)
    with pytest.raises(DataError, match="no bootstrap draws"):
        profile(fit_chinchilla(runs, n_boot=0), "alpha")
    with pytest.raises(DataError, match=r"E is held at 1\.82"):
        profile(fit_chinchilla(runs, n_boot=40, fixed={"E": 1.82}), "E")
