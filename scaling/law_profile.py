"""Profile of the objective over a coefficient of any law, with a threshold from the bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.arguments import check_whole
from scaling.bootstrap import search
from scaling.errors import DataError
from scaling.law_findings import EXPONENTS
from scaling.laws.base import Array
from scaling.newton import Objective
from scaling.profile import Profile, compatible
from scaling.resample import Plan

if TYPE_CHECKING:
    from scaling.law_fit import LawFit

_GRID = 33
#: Factor between neighbouring values tried by default, and minima that every value is searched from.
_RATIO, _STARTS = 1.6, 6


def profile_law(fit: LawFit, name: str, *, values: Array | None = None, n_boot: int = 200) -> Profile:
    """Profile the objective over a coefficient: see `scaling.profile`.

    Parameters
    ----------
    fit : LawFit
        A fit of a law with coefficients that can be held.
    name : str
        The coefficient; must not be held in the fit.
    values : array, shape (m,), optional
        Where to hold it; by default 33 values, each 1.6 times the one before, around the estimate.
    n_boot : int
        Replicates for the threshold.

    Returns
    -------
    Profile

    Raises
    ------
    DataError
        For an unknown or held coefficient, values that are no numbers or outside of what is searched, or a law
        whose coefficients cannot be held.
    """
    if name not in fit.law.COEFFICIENTS:
        raise DataError(f"{name!r} is none of {', '.join(fit.law.COEFFICIENTS)}", column=name)
    if name in fit.fixed:
        raise DataError(f"{name} is held at {fit.fixed[name]} in this fit", column=name)
    check_whole("n_boot", n_boot, least=1)
    centre = float(getattr(fit.law, name))
    if values is None:
        grid = centre * _RATIO ** np.arange(-(_GRID // 2), _GRID // 2 + 1, dtype=float)
        low, high = _searched(fit, name)
        grid = np.unique(np.clip(grid, low, high))
    else:
        grid = _checked(values)
    one = np.ones((1, len(fit.runs)))
    excess = np.array([_held(fit, name, float(v), one)[0] for v in grid]) - fit.objective
    plan = Plan("cluster", fit.cluster, "row")
    falls = [
        _held(fit, name, centre, units) - _best(fit, fit.fixed, units)
        for units in plan.blocks(n_boot, fit.seed)
    ]
    threshold = float(np.quantile(np.maximum(np.concatenate(falls), 0.0), fit.level))
    low, high = compatible(grid, excess, threshold, centre, name)
    return Profile(name, grid, np.maximum(excess, 0.0), centre, threshold, fit.level, low, high)


def _searched(fit: LawFit, name: str) -> tuple[float, float]:
    """Return where a coefficient is searched, and E no higher than the losses allow."""
    if name == "E":
        return 0.0, 0.999 * float(fit.runs.loss.min())
    if name in EXPONENTS:
        return EXPONENTS[name]
    extra = next((e for e in getattr(fit.law, "EXTRAS", ()) if e.name == name and not e.moved), None)
    return (0.0, float("inf")) if extra is None else (extra.low, extra.high)


def _checked(values: Any) -> Array:
    """Return values to hold a coefficient at, ascending."""
    try:
        grid = np.sort(np.asarray(values, dtype=float).ravel())
    except (TypeError, ValueError) as error:
        raise DataError(f"values must be numbers: {error}", column="values") from error
    if not grid.size or not np.isfinite(grid).all():
        raise DataError(f"values must be finite numbers, one or more, got {values!r}", column="values")
    return grid


def _held(fit: LawFit, name: str, value: float, weights: Array) -> Array:
    """Return the objectives of the best fits with a coefficient held, one per row of weights."""
    return _best(fit, {**fit.fixed, name: value}, weights)


def _best(fit: LawFit, held: dict[str, float], weights: Array) -> Array:
    """Return the lowest objectives found from the law's own starts, warm and cold."""
    from scaling.law_names import named_law

    attach = named_law(fit.name).attach
    if attach is None:
        raise DataError(f"coefficients of the law {fit.name!r} cannot be held", column="name")
    log_loss = np.log(fit.runs.loss)
    form = attach(fit.runs, fit.variables, held, fit.tied).form
    problem = Objective(form, log_loss, weights, np.ones(len(log_loss)), fit.delta)
    starts = form.starts(log_loss, weights[0])[:_STARTS]
    if hasattr(form, "free") and not form.free:
        z = problem.residuals(form.tape(np.empty((len(weights), 0))))
        return problem.value(z)[0]
    ends = [search(problem, starts, cold=cold).objective for cold in (True, False)]
    return np.asarray(np.minimum(*ends))
