"""Roots and minima of many one-dimensional problems at once: one for each draw of a law."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from scaling.laws.base import Array

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def rising_root(f: Callable[[Array], Array], low: Array, high: Array, steps: int = 100) -> Array:
    """Return where increasing functions pass zero, by halving; an end where one does not.

    Parameters
    ----------
    f : callable
        Values of all functions at one argument each, shape (R,) to (R,).
    low, high : array, shape (R,)
        Brackets.
    steps : int
        Halvings: 100 exhaust a float.
    """
    low, high = (np.array(end, dtype=float) for end in np.broadcast_arrays(low, high))
    for _ in range(steps):
        middle = 0.5 * (low + high)
        above = f(middle) > 0
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    return np.asarray(0.5 * (low + high))


def lowest(
    f: Callable[[Array], Array],
    low: float,
    high: float,
    shape: tuple[int, ...],
    nodes: int,
    sections: int = 50,
) -> Array:
    """Return where functions are least: the best of a grid, then golden sections between its neighbours.

    Parameters
    ----------
    f : callable
        Values of all functions at one argument each, `shape` to `shape`.
    low, high : float
        Ends of the grid.
    shape : tuple of int
        Of the answer.
    nodes : int
        Of the grid: a function with several minima is searched as finely as that.
    sections : int
        Golden sections: each leaves 0.618 of the bracket, and a minimum is known to about 1e-8 at best.
    """
    grid = np.linspace(low, high, nodes)
    values = np.stack([np.broadcast_to(f(np.full(shape, x)), shape) for x in grid])
    best = np.argmin(np.where(np.isnan(values), np.inf, values), axis=0)
    left, right = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, nodes - 1)]
    a, b = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    fa, fb = f(a), f(b)
    for _ in range(sections):
        down = fa <= fb
        left, right = np.where(down, left, a), np.where(down, b, right)
        fresh = np.where(down, right - _GOLDEN * (right - left), left + _GOLDEN * (right - left))
        value = f(fresh)
        a, b = np.where(down, fresh, b), np.where(down, a, fresh)
        fa, fb = np.where(down, value, fb), np.where(down, fa, value)
    return np.asarray(0.5 * (left + right))
