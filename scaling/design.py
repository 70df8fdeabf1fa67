"""How precisely a set of runs determines a quantity, and which runs to add.

delta = 1e-3 makes the objective close to least absolute deviations, so it is no likelihood and the
usual Fisher bound is about a quarter too small. The standard error here has the sandwich form
(Huber 1967): H^-1 M H^-1 with M the variance of the scores, summed within groups of runs that share
noise, and H the expected curvature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError
from scaling.laws.base import Array
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.resample import labels
from scaling.sandwich import observed, planned, sandwich, scaled_eigen
from scaling.units import parse_count

Target = str | Callable[[ChinchillaLaw], float]

_STEP = 1e-5


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
        from scaling.units import format_count

        added = " and ".join(f"N={format_count(n, 2)}, D={format_count(d, 2)}" for n, d in self.runs)
        if math.isinf(self.se_after):
            return f"Adding runs at {added} would not yet identify {self.target}, but come nearest to it."
        before = "infinite" if math.isinf(self.se_before) else f"{self.se_before:.2g}"
        return (
            f"Adding runs at {added} would take the predicted standard error of {self.target} from "
            f"{before} to {self.se_after:.2g}."
        )


def target_function(target: Target) -> Callable[[ChinchillaLaw], float]:
    """Turn the name of a target into a function of a law.

    Parameters
    ----------
    target : str or callable
        ``"ln_tokens@1B"`` (ln D* at N), ``"ln_params@20B"``, ``"loss@1B,20B"``, a coefficient
        (``"alpha"``), ``"params_exponent"``, or any function of a `ChinchillaLaw`.

    Raises
    ------
    DataError
        For a name that is none of these.
    """
    if callable(target):
        return target
    name, _, at = target.partition("@")
    if not at and name in ("E", "A", "B", "alpha", "beta", "params_exponent", "tokens_exponent"):
        return lambda law: float(getattr(law, name))
    if at and name in ("ln_tokens", "ln_params"):
        where = parse_count(at)
        if name == "ln_tokens":
            return lambda law: float(law.log_tokens_at(where))
        return lambda law: float(law.log_params_at(where))
    if name == "loss" and at.count(",") == 1:
        n, d = (parse_count(part) for part in at.split(","))
        return lambda law: float(law.loss(n, d))
    raise DataError(
        f"target {target!r} is not known: ln_tokens@N, ln_params@D, loss@N,D, a coefficient, "
        "params_exponent or a function of a law",
        column="target",
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
) -> float:
    """Predict the standard error of a quantity from a set of runs, made or only planned.

    Parameters
    ----------
    runs : ChinchillaFit, RunTable or (params, tokens)
        A fit brings its law, weights and residuals; a table its losses; a pair of arrays is a plan.
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

    Returns
    -------
    float
        Standard error; infinite where the runs leave the quantity open.

    Notes
    -----
    H^-1 M H^-1 with H = sum w s^2 E[psi'] J J' and M = sum_g (sum_i in g w s psi_i J_i)(...)'. For
    planned runs with normal noise of sd sigma, E[psi'] = 2 Phi(delta/sigma) - 1, and psi has
    correlation (2/pi) asin(rho) within a group (the sign correlation of a bivariate normal).
    """
    params, tokens, law, residuals, weights, scale = _unpack(runs, law)
    n = len(params)
    cluster = np.arange(n) if groups is None else labels(groups)
    if len(cluster) != n:
        raise DataError(f"groups has {len(cluster)} values for {n} runs", column="groups")
    jacobian, _ = _log_jacobian(law, params, tokens)
    if sigma is not None:
        sd = np.broadcast_to(np.asarray(sigma, dtype=float), (n,))
        if not np.all(sd > 0):
            raise DataError("sigma must be positive", column="sigma")
        curvature, score = planned(sd, rho, cluster, delta)
    elif residuals is not None:
        curvature, score = observed(residuals * scale, cluster, delta)
    else:
        raise DataError("a plan has no residuals: give sigma, the noise of a run's log loss", column="sigma")
    weight = weights * scale
    bread = np.einsum("n,ni,nj->ij", weights * scale**2 * curvature, jacobian, jacobian)
    scored = jacobian * weight[:, None]
    meat = score(scored)
    gradient = _gradient(target_function(target), law)
    return sandwich(bread, meat, gradient)


def suggest_runs(
    runs: Any,
    target: Target,
    *,
    law: ChinchillaLaw | None = None,
    n_runs: int = 2,
    sigma: float = 0.01,
    delta: float = 1e-3,
) -> Suggestion:
    """Choose runs that would most reduce the standard error of a quantity, one after the other.

    Candidates are a grid over sizes and token counts, from the smallest at hand to four times the
    largest, within four times the largest compute spent: runs whoever made these could make.

    Parameters
    ----------
    runs, target, law, delta
        As in `predicted_se`.
    n_runs : int
        Runs to add.
    sigma : float
        Noise of log loss assumed for old and new runs alike.
    """
    params, tokens, law, *_ = _unpack(runs, law)
    cap = 4 * float((params * tokens).max())
    sizes = np.geomspace(params.min(), params.max() * 4, 9)
    counts = np.geomspace(tokens.min(), tokens.max() * 4, 9)
    grid = [(n, d) for n in sizes for d in counts if n * d <= cap]

    def se(extra: Sequence[tuple[float, float]]) -> float:
        more = np.array(extra).reshape(-1, 2)
        plan = (np.concatenate([params, more[:, 0]]), np.concatenate([tokens, more[:, 1]]))
        return predicted_se(plan, target, law=law, sigma=sigma, delta=delta)

    chosen: list[tuple[float, float]] = []
    before = se(chosen)
    after = before
    for _ in range(n_runs):
        # While the target is open no single run may close it: the least-open plan counts, then.
        scores = [_openness([*chosen, g], params, tokens, law) for g in grid]
        values = [se([*chosen, g]) for g in grid]
        best = int(np.argmin(values)) if np.isfinite(values).any() else int(np.argmax(scores))
        chosen.append((float(grid[best][0]), float(grid[best][1])))
        after = values[best]
    name = _written(target)
    return Suggestion(tuple(chosen), before, after, name)


def _written(target: Target) -> str:
    """Write a target as a person would."""
    if not isinstance(target, str):
        return getattr(target, "__name__", "the target")
    name, _, at = target.partition("@")
    return {"ln_tokens": f"ln D*({at})", "ln_params": f"ln N*({at})"}.get(name, target)


def _unpack(
    runs: Any, law: ChinchillaLaw | None
) -> tuple[Array, Array, ChinchillaLaw, Array | None, Array, Array]:
    """Return params, tokens, law, log residuals (or None), weights and scale of whatever was given."""
    if isinstance(runs, tuple):
        params, tokens = (np.asarray(a, dtype=float) for a in runs)
        if law is None:
            raise DataError("a plan has no law of its own: give law=", column="law")
        one = np.ones(len(params))
        return params, tokens, law, None, one, one
    if hasattr(runs, "draws"):
        used = law or runs.law
        table, weights, scale = runs.runs, runs.weights, runs.scale
    else:
        if law is None:
            raise DataError("a table has no law of its own: give law= or a fit", column="law")
        used, table = law, runs
        weights = scale = np.ones(len(table))
    residuals = np.log(table.loss) - np.log(used.loss(table.params, table.tokens))
    return table.params, table.tokens, used, residuals, weights, scale


def _log_jacobian(law: ChinchillaLaw, params: Array, tokens: Array) -> tuple[Array, Array]:
    """Jacobian of log predictions in (log A, alpha, log B, beta, E), and the predictions."""
    total = np.asarray(law.loss(params, tokens))
    x, y = np.log(params), np.log(tokens)
    a, b = law.A * params**-law.alpha / total, law.B * tokens**-law.beta / total
    return np.stack([a, -a * x, b, -b * y, 1.0 / total], axis=1), total


def _gradient(function: Callable[[ChinchillaLaw], float], law: ChinchillaLaw) -> Array:
    """Central differences of a function of a law, in (log A, alpha, log B, beta, E)."""
    base = np.array([math.log(law.A), law.alpha, math.log(law.B), law.beta, law.E])

    def at(v: Array) -> float:
        return function(ChinchillaLaw(float(v[4]), math.exp(v[0]), math.exp(v[2]), float(v[1]), float(v[3])))

    out = np.empty(5)
    for i in range(5):
        step = np.zeros(5)
        step[i] = _STEP * max(abs(base[i]), 0.1)
        out[i] = (at(base + step) - at(base - step)) / (2 * step[i])
    return out


def _openness(
    extra: Sequence[tuple[float, float]], params: Array, tokens: Array, law: ChinchillaLaw
) -> float:
    """Log of the product of the scaled eigenvalues: larger is nearer to identifying everything."""
    more = np.array(extra).reshape(-1, 2)
    jacobian, _ = _log_jacobian(
        law, np.concatenate([params, more[:, 0]]), np.concatenate([tokens, more[:, 1]])
    )
    values, _, _ = scaled_eigen(jacobian.T @ jacobian)
    return float(np.sum(np.log(np.maximum(values, 1e-300))))
