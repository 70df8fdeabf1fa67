"""From bootstrap draws to intervals."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from scaling.errors import DataError
from scaling.estimate import Estimate, Kind
from scaling.laws.base import Array

IntervalMethod = Literal["percentile", "bias-corrected"]

_NORMAL = NormalDist()


def check_level(level: float) -> float:
    """Return `level` if it is a coverage strictly between 0 and 1, else raise `DataError`."""
    if not (isinstance(level, int | float) and 0 < level < 1):
        hint = f"; {level}% is level={level / 100:g}" if 1 < float(level) < 100 else ""
        raise DataError(f"level must lie between 0 and 1, got {level}{hint}", column="level")
    return float(level)


def check_method(method: str) -> None:
    """Raise `DataError` unless `method` names an interval."""
    if method not in get_args(IntervalMethod):
        raise DataError(
            f"interval must be one of {', '.join(get_args(IntervalMethod))}, got {method!r}",
            column="interval",
        )


def interval(
    draws: Array, value: float, level: float, method: IntervalMethod = "percentile"
) -> tuple[float, float]:
    """Return the ends of a bootstrap interval; nan where there are no draws.

    Parameters
    ----------
    draws : array, shape (R,)
        Bootstrap draws; infinite ones are legitimate and make the interval open.
    value : float
        The estimate itself (used by the bias-corrected interval alone).
    level : float
        Nominal coverage.
    method : {"percentile", "bias-corrected"}
        Efron & Tibshirani 1993, sections 13.3 and 14.3 (with acceleration zero). The "basic"
        interval is not offered: on this problem it covers too little.

    Returns
    -------
    low, high : float
    """
    if draws.size == 0:
        return (math.nan, math.nan)
    tails = [(1 - level) / 2, (1 + level) / 2]
    if method == "bias-corrected":
        below = (np.sum(draws < value) + 0.5 * np.sum(draws == value)) / draws.size
        # With every draw on one side the correction is infinite: half a draw keeps it finite.
        below = min(max(float(below), 0.5 / draws.size), 1 - 0.5 / draws.size)
        shift = 2 * _NORMAL.inv_cdf(below)
        tails = [_NORMAL.cdf(shift + _NORMAL.inv_cdf(t)) for t in tails]
    # An interpolated quantile between two infinities is nan; an observed one is not.
    how: Literal["linear", "closest_observation"] = (
        "linear" if np.isfinite(draws).all() else "closest_observation"
    )
    low, high = np.quantile(draws, tails, method=how)
    return (float(low), float(high))


def estimate(
    draws: Array,
    value: float,
    level: float,
    method: IntervalMethod = "percentile",
    *,
    kind: Kind = "optimum",
    name: str = "",
    unit: str = "",
) -> Estimate:
    """Return a value with the interval of its draws."""
    low, high = interval(np.asarray(draws, dtype=float), value, level, method)
    return Estimate(float(value), low, high, level, kind, name, unit)
