"""Intervals that reach the edge of what was searched have no end there."""

from __future__ import annotations

import numpy as np

from scaling.laws.base import Array
from scaling.laws.extended import Extra


def open_ends(extra: Extra, value: float, draws: Array, level: float) -> tuple[bool, bool]:
    """Tell whether the interval of a further coefficient reaches the lower and the upper edge of the search.

    Parameters
    ----------
    extra : Extra
        The coefficient, with its edges.
    value : float
        Its estimate.
    draws : array, shape (R,)
        Its draws, of which more than the tail of the interval must lie at an edge.
    level : float
        Coverage of the interval.
    """
    if extra.moved:
        return False, False
    at = (draws <= extra.low * 1.01, draws >= extra.high / 1.01)
    tail = (1 - level) / 2
    low, high = (bool(draws.size) and float(np.mean(a)) > tail for a in at)
    return low or value <= extra.low * 1.01, high or value >= extra.high / 1.01
