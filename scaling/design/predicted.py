"""How precisely a set of runs determines a quantity, and which of a grid would help most.

delta = 1e-3 makes the objective close to least absolute deviations, so it is no likelihood and the
usual Fisher bound is about a quarter too small. The standard error here has the sandwich form
(Huber 1967): H^-1 M H^-1 with M the variance of the scores, summed within groups of runs that share
noise, and H the expected curvature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scaling.arguments import check_delta, check_whole
from scaling.cells import checked_numbers
from scaling.errors import DataError
from scaling.jacobian import free_columns, gradient, log_jacobian
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.resample import labels
from scaling.runs import RunTable
from scaling.sandwich import observed, planned, sandwich, scaled_eigen
from scaling.targets import Target, target_function, written
from scaling.units import format_count


@dataclass(frozen=True)
class Suggestion:
    """Runs worth adding.

    Parameters
    ----------
    runs : tuple of (float, float)
        (params, tokens) of each, in the order chosen.
    se_before, se_after : float
        Predicted standard error of the target without and with them; infinite where not identified.
    target : str
        What was to be known better.
    """

    runs: tuple[tuple[float, float], ...]
    se_before: float
    se_after: float
    target: str

    def __str__(self) -> str:
        each = [f"N={format_count(n, 2)}, D={format_count(d, 2)}" for n, d in self.runs]
        added = " and ".join(
            run + (f" ({each.count(run)} times)" if each.count(run) > 1 else "")
            for run in dict.fromkeys(each)
        )
        if math.isinf(self.se_after):
            return f"Adding runs at {added} would not yet identify {self.target}, but come nearest to it."
        before = "infinite" if math.isinf(self.se_before) else f"{self.se_before:.2g}"
        return (
            f"Adding runs at {added} would take the predicted standard error of {self.target} from "
            f"{before} to {self.se_after:.2g}."
        )


def predicted_se(
    runs: Any,
    target: Target,
    *,
    law: ChinchillaLaw | None = None,
    sigma: ArrayLike | None = None,
    rho: float = 0.0,
    groups: ArrayLike | None = None,
    delta: float = 1e-3,
    fixed: Collection[str] = (),
    tied: bool = False,
) -> float:
    """Predict the standard error of a quantity from a set of runs, made or only planned.

    Parameters
    ----------
    runs : ChinchillaFit, RunTable or (params, tokens)
        A fit brings its law, weights, residuals, clusters and what it held; a table its losses; a pair of
        arrays is a plan.
    target : str or callable
        See `target_function`.
    law : ChinchillaLaw, optional
        Law at which the precision is wanted; needed unless `runs` is a fit.
    sigma : float or array, shape (n,), optional
        Standard deviation of the log loss of a run. Needed for a plan; otherwise the residuals speak.
    rho : float
        Correlation of the noise within a group, for planned runs (branches of one trunk share noise).
    groups : array, shape (n,), optional
        Which runs share noise.
    delta : float
        Huber threshold.
    fixed : collection of str, optional
        Coefficients that are to be held, for a table or a plan.
    tied : bool
        Whether alpha = beta is to be imposed, for a table or a plan.

    Returns
    -------
    float
        Standard error; infinite where the runs leave the quantity open.

    Raises
    ------
    DataError
        For an unknown target, or an argument that does not fit the runs.

    Notes
    -----
    H^-1 M H^-1 with H = sum w s^2 E[psi'] J J' and M = sum_g (sum_i in g w s psi_i J_i)(...)'. For
    planned runs with normal noise of sd sigma, E[psi'] = 2 Phi(delta/sigma) - 1, and psi has
    correlation (2/pi) asin(rho) within a group (the sign correlation of a bivariate normal).
    """
    function = target_function(target)
    check_delta(delta)
    if not 0 <= rho <= 1:
        raise DataError(f"rho is a correlation between 0 and 1, got {rho}", column="rho")
    plan = _setting(runs, law, fixed, tied)
    if groups is not None:
        plan = replace(plan, cluster=_groups(groups, len(plan.params)))
    return _predicted(plan, function, sigma, rho, delta)


def _predicted(
    plan: _Setting,
    function: Callable[[ChinchillaLaw], float],
    sigma: ArrayLike | None,
    rho: float,
    delta: float,
) -> float:
    if sigma is not None:
        curvature, score = planned(_noise(sigma, len(plan.params)), rho, plan.cluster, delta)
    elif plan.residuals is not None:
        curvature, score = observed(plan.residuals * plan.scale, plan.cluster, delta, plan.free.shape[1])
    else:
        raise DataError("a plan has no residuals: give sigma, the noise of a run's log loss", column="sigma")
    jacobian, weights, scale = plan.jacobian(), plan.weights, plan.scale
    bread = np.einsum("n,ni,nj->ij", weights * scale**2 * curvature, jacobian, jacobian)
    meat = score(jacobian * (weights * scale)[:, None])
    return sandwich(bread, meat, gradient(function, plan.law) @ plan.free)


def _noise(sigma: ArrayLike, n: int) -> Array:
    try:
        sd = np.broadcast_to(np.asarray(sigma, dtype=float), (n,))
    except (TypeError, ValueError) as error:
        raise DataError(f"sigma must be one number, or one per run: {error}", column="sigma") from error
    if not np.all((sd > 0) & np.isfinite(sd)):
        raise DataError("sigma must be positive and finite", column="sigma")
    return sd


def _groups(groups: ArrayLike, n: int) -> Index:
    if np.shape(groups) != (n,):
        raise DataError(f"groups has shape {np.shape(groups)} for {n} runs", column="groups")
    return labels(groups)


def suggest_runs(
    runs: Any,
    target: Target,
    *,
    law: ChinchillaLaw | None = None,
    n_runs: int = 2,
    sigma: float = 0.01,
    delta: float = 1e-3,
    fixed: Collection[str] = (),
    tied: bool = False,
) -> Suggestion:
    """Choose runs that would most reduce the standard error of a quantity, one after the other.

    Candidates are a grid over sizes and token counts, from the smallest at hand to four times the
    largest, within four times the largest compute spent: runs whoever made these could make.

    Parameters
    ----------
    runs, target, law, delta, fixed, tied
        As in `predicted_se`.
    n_runs : int
        Runs to add.
    sigma : float
        Noise of log loss assumed for old and new runs alike.
    """
    function = target_function(target)
    check_delta(delta)
    check_whole("n_runs", n_runs, least=1)
    base = _setting(runs, law, fixed, tied)
    params, tokens = base.params, base.tokens
    cap = 4 * float((params * tokens).max())
    sizes = np.geomspace(params.min(), params.max() * 4, 9)
    counts = np.geomspace(tokens.min(), tokens.max() * 4, 9)
    grid = [(float(n), float(d)) for n in sizes for d in counts if n * d <= cap]

    def se(extra: Sequence[tuple[float, float]]) -> float:
        return _predicted(base.with_runs(extra), function, sigma, 0.0, delta)

    chosen: list[tuple[float, float]] = []
    before = after = se(chosen)
    for _ in range(n_runs):
        values = [se([*chosen, g]) for g in grid]
        if np.isfinite(values).any():
            best = int(np.argmin(values))
        else:
            # While the target is open no single run may close it: the least-open plan counts, then.
            best = int(np.argmax([_openness(base.with_runs([*chosen, g])) for g in grid]))
        chosen.append(grid[best])
        after = values[best]
    return Suggestion(tuple(chosen), before, after, written(target))


@dataclass(frozen=True)
class _Setting:
    """Runs made or planned, and the law whose precision they give."""

    params: Array
    tokens: Array
    law: ChinchillaLaw
    residuals: Array | None
    weights: Array
    scale: Array
    cluster: Index
    free: Array

    def jacobian(self) -> Array:
        """Jacobian of log predictions in the free directions, shape (n, k)."""
        x, y = np.log(self.params), np.log(self.tokens)
        return log_jacobian(self.law, x, y, self.params, self.tokens) @ self.free

    def with_runs(self, extra: Sequence[tuple[float, float]]) -> _Setting:
        """Return the plan of these runs and more."""
        more = np.array(extra).reshape(-1, 2)
        params, tokens = np.append(self.params, more[:, 0]), np.append(self.tokens, more[:, 1])
        one = np.ones(len(params))
        return _Setting(params, tokens, self.law, None, one, one, np.arange(len(params)), self.free)


def _setting(runs: Any, law: ChinchillaLaw | None, fixed: Collection[str], tied: bool) -> _Setting:
    """Read whatever was given."""
    if hasattr(runs, "draws"):
        free = free_columns(runs.settings.fixed, runs.settings.tied)
        used, table, weights, scale = law or runs.law, runs.runs, runs.weights, runs.scale
        cluster = runs.cluster
    elif isinstance(runs, tuple | list) and len(runs) == 2:
        if law is None:
            raise DataError("a plan has no law of its own: give law=", column="law")
        params, tokens = checked_numbers("params", runs[0]), checked_numbers("tokens", runs[1])
        if len(params) != len(tokens) or not len(params):
            raise DataError(f"a plan has {len(params)} params and {len(tokens)} tokens", column="runs")
        one = np.ones(len(params))
        rows = np.arange(len(params))
        return _Setting(params, tokens, law, None, one, one, rows, free_columns(fixed, tied))
    elif isinstance(runs, RunTable):
        if law is None:
            raise DataError("a table has no law of its own: give law= or a fit", column="law")
        free, used, table = free_columns(fixed, tied), law, runs
        weights = scale = np.ones(len(table))
        cluster = np.arange(len(table))
    else:
        raise DataError(
            f"runs must be a fit, a RunTable or a pair (params, tokens), got {type(runs).__name__}",
            column="runs",
        )
    residuals = np.log(table.loss) - np.log(used.loss(table.params, table.tokens))
    return _Setting(table.params, table.tokens, used, residuals, weights, scale, cluster, free)


def _openness(plan: _Setting) -> float:
    """Log of the product of the scaled eigenvalues: larger is nearer to identifying everything."""
    jacobian = plan.jacobian()
    values, _, _ = scaled_eigen(jacobian.T @ jacobian)
    return float(np.sum(np.log(np.maximum(values, 1e-300))))
