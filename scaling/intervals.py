"""From bootstrap draws to intervals."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from scaling.errors import DataError, shown
from scaling.estimate import Estimate, Kind
from scaling.laws.base import Array

IntervalMethod = Literal["percentile", "bias-corrected"]


def check_level(level: float) -> float:
    """Return `level` if it is a coverage strictly between 0 and 1, else raise `DataError`."""
    try:
        number = float(level)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < 1:
        hint = f"; {number:g}% is level={number / 100:g}" if 1 < number < 100 else ""
        raise DataError(f"level must be a number between 0 and 1, got {shown(level)}{hint}", column="level")
    return number


def check_method(method: Any) -> IntervalMethod:
    """Return `method` if it names an interval, else raise `DataError`."""
    if method not in get_args(IntervalMethod):
        raise DataError(
            f"interval must be one of {', '.join(get_args(IntervalMethod))}, got {shown(method)}",
            column="interval",
        )
    return method  # type: ignore[no-any-return]


def interval(
    draws: Array,
    value: float,
    level: float,
    method: IntervalMethod = "percentile",
    *,
    n_units: int | None = None,
    log_scale: bool = False,
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
    n_units : int, optional
        Independent units resampled. Their bootstrap distribution is too narrow by sqrt((G-1)/G) and
        has normal instead of t tails: the ends are moved away from the estimate by the factor
        sqrt(G/(G-1)) t_{G-1}/z. For normal draws this is the expanded percentile interval of Hesterberg
        2015 (Am. Stat. 69, 371-386; arXiv 1411.5279), which reads quantiles further out instead: with few
        units those are read from too few draws. The factor at 95% is 1.007 for 240 runs and 1.17 for 12.
    log_scale : bool
        Whether "away" is meant in logs (for positive quantities whose errors are factors).

    Returns
    -------
    low, high : float
    """
    if draws.size == 0:
        return (math.nan, math.nan)
    tails = [(1 - level) / 2, (1 + level) / 2]
    if method == "bias-corrected":
        from scipy.special import ndtr, ndtri

        below = (np.sum(draws < value) + 0.5 * np.sum(draws == value)) / draws.size
        # With every draw on one side the correction is infinite: half a draw keeps it finite.
        below = min(max(float(below), 0.5 / draws.size), 1 - 0.5 / draws.size)
        tails = [float(ndtr(2 * ndtri(below) + ndtri(t))) for t in tails]
    # An interpolated quantile between two infinities is nan; an observed one is not.
    how: Literal["linear", "closest_observation"] = (
        "linear" if np.isfinite(draws).all() else "closest_observation"
    )
    low, high = (float(v) for v in np.quantile(draws, tails, method=how))
    if n_units is None or n_units < 2:
        return (low, high)
    return _stretched(low, high, value, stretch(n_units, level) - 1.0, log_scale)


def stretch(n_units: int, level: float) -> float:
    """Return the small-sample factor sqrt(G/(G-1)) t_{G-1}/z of `interval`; 1 for fewer than 2 units."""
    if n_units < 2:
        return 1.0
    from scipy.special import ndtri, stdtrit

    tail = (1 + level) / 2
    return math.sqrt(n_units / (n_units - 1)) * float(stdtrit(n_units - 1, tail) / ndtri(tail))


def _stretched(low: float, high: float, value: float, by: float, log_scale: bool) -> tuple[float, float]:
    """Move ends away from the value; an end on the wrong side of it, or an infinite one, stays."""
    if not math.isfinite(value):
        return (low, high)
    if log_scale:
        if not (value > 0 and low > 0):
            return (low, high)
        ends = _stretched(math.log(low), math.log(high), math.log(value), by, False)
        with np.errstate(over="ignore"):  # an end too large to be written is an open one
            return (float(np.exp(ends[0])), float(np.exp(ends[1])))
    down, up = max(value - low, 0.0) * by, max(high - value, 0.0) * by
    return (low - down, high + up)


def estimate(
    draws: Array,
    value: float,
    level: float,
    method: IntervalMethod = "percentile",
    *,
    n_units: int | None = None,
    log_scale: bool = False,
    kind: Kind = "optimum",
    name: str = "",
    unit: str = "",
) -> Estimate:
    """Return a value with the interval of its draws; see `interval`."""
    low, high = interval(
        np.asarray(draws, dtype=float), value, level, method, n_units=n_units, log_scale=log_scale
    )
    return Estimate(float(value), low, high, level, kind, name, unit)
