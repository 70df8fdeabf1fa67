"""Profile of the objective over one coefficient, with a threshold from the bootstrap.

Huber at delta = 1e-3 is no likelihood, so a chi-squared threshold does not apply. Here the threshold
is the quantile, over bootstrap replicates, of how far the objective falls from the best law that has
the coefficient at its estimate to the best law of all: what it falls by chance when that value is true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scaling.arguments import check_whole
from scaling.errors import DataError
from scaling.intervals import check_level
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import COEFFICIENTS, ChinchillaLaw, attach
from scaling.laws.power_sum import EXPONENT_BOX
from scaling.newton import Objective
from scaling.resample import Plan
from scaling.runs import RunTable
from scaling.solver import solve

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

_GRID = 41


@dataclass(frozen=True)
class Profile:
    """Objective, minimised over all other coefficients, against one coefficient.

    Parameters
    ----------
    name : str
        The coefficient.
    values : array, shape (m,)
        Where it was held.
    excess : array, shape (m,)
        Objective there above the minimum.
    estimate : float
        Its value at the optimum.
    threshold : float
        Excess below which a value is compatible with the runs at `level`.
    level : float
        Coverage aimed at.
    low, high : float
        Ends of the compatible range; an infinite end was not reached on the grid, and 0 is the bound
        of E.
    """

    name: str
    values: Array
    excess: Array
    estimate: float
    threshold: float
    level: float
    low: float
    high: float

    def __repr__(self) -> str:
        return (
            f"profile of {self.name}: {self.estimate:.5g}, {100 * self.level:g}% [{self.low:.5g}, {self.high:.5g}] "
            f"(threshold {self.threshold:.3g} from the bootstrap)"
        )


def profile(
    fit: ChinchillaFit,
    name: str,
    *,
    values: Array | None = None,
    n_boot: int = 200,
    level: float | None = None,
) -> Profile:
    """Profile the objective over a coefficient.

    Parameters
    ----------
    fit : ChinchillaFit
        A fit with draws.
    name : {"E", "A", "B", "alpha", "beta"}
        The coefficient; must not be held in the fit.
    values : array, shape (m,), optional
        Where to hold it; by default 41 values over twice the width of its bootstrap interval.
    n_boot : int
        Replicates for the threshold.
    level : float, optional
        Coverage; the fit's own by default.

    Raises
    ------
    DataError
        For an unknown or held coefficient, or a fit without draws.
    """
    if name not in COEFFICIENTS:
        raise DataError(f"{name!r} is none of {', '.join(COEFFICIENTS)}", column=name)
    if name in fit.settings.fixed:
        raise DataError(f"{name} is held at {fit.settings.fixed[name]} in this fit", column=name)
    if np.asarray(fit.draws.E).size == 0:
        raise DataError("this fit has no bootstrap draws: fit with n_boot=1000", column="n_boot")
    check_whole("n_boot", n_boot, least=1)
    chosen = fit.settings.level if level is None else check_level(level)
    centre = float(getattr(fit.law, name))
    grid = _grid(fit, name) if values is None else np.sort(np.asarray(values, dtype=float))
    excess = _excess(fit, name, grid)
    threshold = _threshold(fit, name, centre, n_boot, chosen)
    low, high = compatible(grid, excess, threshold, centre, name)
    return Profile(name, grid, np.maximum(excess, 0.0), centre, threshold, chosen, low, high)


def _grid(fit: ChinchillaFit, name: str) -> Array:
    centre = float(getattr(fit.law, name))
    low, high = np.quantile(getattr(fit.draws, name), [0.01, 0.99])
    if name in ("A", "B"):
        return np.geomspace(centre * (low / centre) ** 2, centre * (high / centre) ** 2, _GRID)
    floor = 0.0 if name == "E" else 2e-3
    top = 0.999 * float(fit.runs.loss.min()) if name == "E" else 3.9
    return np.linspace(max(centre - 2 * (centre - low), floor), min(centre + 2 * (high - centre), top), _GRID)


def _excess(fit: ChinchillaFit, name: str, grid: Array) -> Array:
    """Return the objective above the minimum at every value, walking outwards from the optimum.

    Each value starts from the law of its neighbour: a few steps away, where a cold search would begin
    from sixteen places.
    """
    out = np.empty(len(grid))
    centre = float(getattr(fit.law, name))
    above = np.flatnonzero(grid >= centre)
    below = np.flatnonzero(grid < centre)[::-1]
    for side in (above, below):
        law = fit.law
        for i in side:
            held, law = _held(fit, name, float(grid[i]), fit.weights, law)
            out[i] = held[0] - fit.objective
    return out


def _held(
    fit: ChinchillaFit, name: str, value: float, weights: Array, near: ChinchillaLaw
) -> tuple[Array, ChinchillaLaw]:
    """Return the objectives of the best fits with a coefficient held, and the law of the first.

    One fit per row of `weights`, each starting from the law `near`.
    """
    runs, log_loss = fit.runs, np.log(fit.runs.loss)
    held = {**fit.settings.fixed, name: value}
    attached = attach(runs.params, runs.tokens, log_loss, held, fit.settings.tied)
    mean = float(fit.weights.mean())
    rows = np.atleast_2d(weights)
    problem = Objective(attached.form, log_loss, rows / mean, fit.scale, fit.settings.delta)
    start = attached.plain(_moved(near, name, value, runs))
    ends = solve(problem, np.repeat(start[None], len(rows), axis=0), cold=True)
    return np.asarray(ends.objective * mean), attached.law(ends.plain[0])


def _moved(law: ChinchillaLaw, name: str, value: float, runs: RunTable) -> ChinchillaLaw:
    """Return a law with one coefficient changed and its term, at the centre of the runs, kept."""
    changes = {name: value}
    pairs = {"A": ("alpha", runs.params), "B": ("beta", runs.tokens)}
    for coefficient, (exponent, x) in pairs.items():
        middle = float(np.log(x).mean())
        if name == coefficient:
            moved = getattr(law, exponent) + np.log(value / getattr(law, coefficient)) / middle
            changes[exponent] = float(np.clip(moved, *EXPONENT_BOX))
        elif name == exponent:
            shift = (value - getattr(law, exponent)) * middle
            changes[coefficient] = float(getattr(law, coefficient) * np.exp(shift))
    return replace(law, **changes)


def _threshold(fit: ChinchillaFit, name: str, centre: float, n_boot: int, level: float) -> float:
    """Return the quantile over replicates of the fall from the held optimum to the free one."""
    # Signs of residuals make no weights: under the wild bootstrap its units are drawn instead.
    plan = Plan("cluster", fit.cluster, fit.settings.cluster_key)
    falls = []
    runs, log_loss = fit.runs, np.log(fit.runs.loss)
    free = attach(runs.params, runs.tokens, log_loss, fit.settings.fixed, fit.settings.tied)
    mean = float(fit.weights.mean())
    best = free.plain(fit.law)[None]
    for units in plan.blocks(n_boot, fit.settings.seed):
        weights = units * fit.weights
        held, _ = _held(fit, name, centre, weights, fit.law)
        problem = Objective(free.form, log_loss, weights / mean, fit.scale, fit.settings.delta)
        ends = solve(problem, np.repeat(best, len(weights), axis=0), cold=False)
        falls.append(held - ends.objective * mean)
    return float(np.quantile(np.maximum(np.concatenate(falls), 0.0), level))


def compatible(grid: Array, excess: Array, threshold: float, centre: float, name: str) -> tuple[float, float]:
    """Return the ends of the values below the threshold around the estimate, by linear interpolation."""
    inside = excess <= threshold
    low_side, high_side = grid < centre, grid > centre

    def end(indices: Index, step: int, edge: float) -> float:
        previous = (centre, 0.0)
        for i in indices[::step]:
            if not inside[i]:
                x0, y0 = previous
                x1, y1 = float(grid[i]), float(excess[i])
                return x0 + (threshold - y0) / (y1 - y0) * (x1 - x0)
            previous = (float(grid[i]), float(excess[i]))
        return edge

    at_zero = name == "E" and grid[0] <= 0
    low = end(np.flatnonzero(low_side), -1, 0.0 if at_zero else -np.inf)
    high = end(np.flatnonzero(high_side), 1, np.inf)
    return low, high
