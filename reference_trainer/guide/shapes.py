"""Shapes of a learning rate after its warm-up: linear, cosine, 1 - sqrt, 1/sqrt, exponential, steps, fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Most of the peak by which a shape may miss a row: logs print three digits and more.
TOLERANCE = 0.01
#: Rows that a fit looks at.
_MOST = 800
#: Ends that are tried for a shape whose end the log may not reach, as multiples of its length.
_ENDS = np.concatenate(([1.0], np.geomspace(1.0005, 1.3, 120), np.geomspace(1.31, 12.0, 160)))


@dataclass(frozen=True)
class Shape:
    """A shape that was fitted.

    Parameters
    ----------
    name : str
        ``"constant"``, ``"linear"``, ``"cosine"``, ``"1 - sqrt"``, ``"inverse square root"``, ``"exponential"`` or
        ``"steps"``.
    start, end : float
        Step at which it leaves the peak, and at which it reaches its floor (infinite where it has none).
    floor : float
        Share of the peak that it reaches at its end.
    miss : float
        Largest distance from a row, as a share of the peak (of 99% of the rows).
    levels : tuple of (step, rate)
        Of steps: where each level begins.
    """

    name: str
    start: float
    end: float
    floor: float
    miss: float
    levels: tuple[tuple[float, float], ...] = ()


def decay(step: Floats, rate: Floats) -> Shape | None:
    """Return the shape of a rate that leaves its peak at the first row, None if none of the known ones fits.

    Parameters
    ----------
    step : ndarray, (n,)
        Steps (or tokens), rising.
    rate : ndarray, (n,)
        Learning rate as a share of its peak.
    """
    if len(step) < 6:
        return None
    if len(step) > _MOST:
        some = np.linspace(0, len(step) - 1, _MOST).astype(int)
        step, rate = step[some], rate[some]
    found = [fit(step, rate) for fit in (_linear, _cosine, _one_minus_sqrt, _inverse_sqrt, _exponential)]
    good = [shape for shape in found if shape is not None and shape.miss <= TOLERANCE]
    if not good:
        return None
    best = min(shape.miss for shape in good)
    # The first of those that fit about as well: a cosine that has hardly begun is also many other things.
    return next(shape for shape in good if shape.miss <= max(1.5 * best, 0.002))


def constant_then(step: Floats, rate: Floats) -> Shape | None:
    """Return the decay that follows a stretch at the peak (WSD), with the step at which it begins."""
    low = np.flatnonzero(rate < 0.99)
    if len(low) < 4 or low[0] < 3:
        return None
    tail = slice(int(low[0]), None)
    best: Shape | None = None
    flat = int(np.flatnonzero(rate[: low[0]] >= 0.9995)[-1])  # a cosine takes its time to leave the peak
    for begin in np.linspace(step[max(flat - 3, 0)], step[low[0]], 41):
        x, y = np.append(begin, step[tail]), np.append(1.0, rate[tail])
        if x[1] <= x[0]:
            continue
        shape = decay(x, y)
        if shape is not None and (best is None or shape.miss < 0.8 * best.miss):
            best = shape
    return best


def steps(step: Floats, rate: Floats) -> Shape | None:
    """Return levels that the rate steps between, None if it does not."""
    change = np.flatnonzero(np.abs(np.diff(rate)) > 0.005 * np.maximum(rate[:-1], 0.01)) + 1
    begins = np.concatenate(([0], change))
    lengths = np.diff(np.append(begins, len(step)))
    if not 1 <= len(change) <= 12 or lengths.min() < 3:
        return None
    if max(float(np.ptp(level)) for level in np.split(rate, change)) > 0.005:
        return None  # it moves between the jumps: something else that was scaled
    levels = tuple((float(step[b]), float(rate[b])) for b in begins)
    return Shape("steps", float(step[change[0]]), float(step[change[-1]]), float(rate[-1]), 0.0, levels)


def _miss(rate: Floats, fitted: Floats) -> float:
    return float(np.quantile(np.abs(rate - fitted), 0.99))


def _linear(step: Floats, rate: Floats) -> Shape | None:
    slope, offset = np.polyfit(step - step[0], rate, 1)
    if slope >= 0:
        return None
    end = float(step[-1])
    floor = max(float(offset + slope * (end - step[0])), 0.0)
    return Shape("linear", float(step[0]), end, floor, _miss(rate, offset + slope * (step - step[0])))


def _to_an_end(
    name: str, form: Callable[[Floats], Floats], ends: Floats
) -> Callable[[Floats, Floats], Shape | None]:
    def fit(step: Floats, rate: Floats) -> Shape | None:
        x = (step - step[0]) / max(float(step[-1] - step[0]), 1.0)
        best: Shape | None = None
        for end in ends.tolist():
            f = form(x / end)
            # rate = floor + (1 - floor) f, which begins at the peak by itself
            away = 1.0 - f
            floor = 1.0 - float(np.dot(away, 1.0 - rate) / max(float(np.dot(away, away)), 1e-30))
            if not -0.02 <= floor < 1.0:
                continue
            miss = _miss(rate, floor + (1.0 - floor) * f)
            if best is None or miss < best.miss:
                best = Shape(
                    name, float(step[0]), float(step[0] + end * (step[-1] - step[0])), max(floor, 0.0), miss
                )
        return best

    return fit


_cosine = _to_an_end("cosine", lambda x: 0.5 * (1.0 + np.cos(np.pi * x)), _ENDS)
_one_minus_sqrt = _to_an_end("1 - sqrt", lambda x: 1.0 - np.sqrt(x), _ENDS[:60])


def _inverse_sqrt(step: Floats, rate: Floats) -> Shape | None:
    if rate.min() <= 0:
        return None
    slope, offset = np.polyfit(step, rate**-2.0, 1)
    fitted = slope * step + offset
    if slope <= 0 or fitted.min() <= 0:
        return None
    return Shape("inverse square root", float(step[0]), np.inf, float(rate[-1]), _miss(rate, fitted**-0.5))


def _exponential(step: Floats, rate: Floats) -> Shape | None:
    if rate.min() <= 0:
        return None
    slope, offset = np.polyfit(step - step[0], np.log(rate), 1)
    if slope >= 0:
        return None
    fitted = np.exp(offset + slope * (step - step[0]))
    return Shape("exponential", float(step[0]), np.inf, float(rate[-1]), _miss(rate, fitted))
