"""How log predictions, and functions of a law, respond to its coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np

from scaling.laws.base import Array
from scaling.laws.chinchilla import ChinchillaLaw

#: The order of the columns: log A, alpha, log B, beta, E.
COLUMNS = ("A", "alpha", "B", "beta", "E")

_STEP = 1e-5


def log_jacobian(law: ChinchillaLaw, x: Array, y: Array, params: Array, tokens: Array) -> Array:
    """Return the Jacobian of log predictions in (log A, alpha, log B, beta, E), shape (n, 5).

    Parameters
    ----------
    law : ChinchillaLaw
        Where it is taken.
    x, y : array, shape (n,)
        ln N and ln D from any origin: another origin of ln N mixes the first two columns, no more.
    params, tokens : array, shape (n,)
        The runs.
    """
    total = np.asarray(law.loss(params, tokens))
    a, b = law.A * params**-law.alpha / total, law.B * tokens**-law.beta / total
    return np.stack([a, -a * x, b, -b * y, 1.0 / total], axis=1)


def free_columns(fixed: Collection[str] = (), tied: bool = False) -> Array:
    """Return the directions in which a fit may move, shape (5, k): held coefficients not, tied ones together."""
    out = np.eye(len(COLUMNS))
    if tied:
        alpha, beta = COLUMNS.index("alpha"), COLUMNS.index("beta")
        out[beta, alpha] = 1.0
        fixed = {*fixed, "beta"} | ({"alpha"} if "beta" in fixed else set())
    return out[:, [i for i, name in enumerate(COLUMNS) if name not in fixed]]


def gradient(function: Callable[[ChinchillaLaw], float], law: ChinchillaLaw) -> Array:
    """Return central differences of a function of a law in the same five directions, shape (5,)."""
    base = np.array([math.log(law.A), law.alpha, math.log(law.B), law.beta, law.E])

    def at(v: Array) -> float:
        return function(ChinchillaLaw(float(v[4]), math.exp(v[0]), math.exp(v[2]), float(v[1]), float(v[3])))

    out = np.empty(5)
    for i in range(5):
        step = np.zeros(5)
        step[i] = _STEP * max(abs(base[i]), 0.1)
        out[i] = (at(base + step) - at(base - step)) / (2 * step[i])
    return out


def condition_number(
    law: ChinchillaLaw,
    params: Array,
    tokens: Array,
    weights: Array,
    fixed: Collection[str] = (),
    tied: bool = False,
) -> float:
    """Return the condition number of the weighted, centred and column-scaled Jacobian.

    Parameters
    ----------
    law : ChinchillaLaw
        Where the Jacobian is taken.
    params, tokens, weights : array, shape (n,)
        Runs and their weights.
    fixed : collection of str
        Coefficients held: they need not be told apart from the others.
    tied : bool
        Whether alpha and beta move together.
    """
    # Centring tells an exponent from its coefficient; where that is held there is nothing to tell.
    x, y = np.log(params), np.log(tokens)
    x, y = x - (0.0 if "A" in fixed else x.mean()), y - (0.0 if "B" in fixed else y.mean())
    jacobian = log_jacobian(law, x, y, params, tokens) @ free_columns(fixed, tied)
    jacobian *= np.sqrt(weights)[:, None]
    rows, free = jacobian.shape
    if free == 0:
        return 1.0
    if rows < free:
        return float("inf")
    length = np.linalg.norm(jacobian, axis=0)
    if not (length > 0).all() or not np.isfinite(length).all():
        return float("inf")
    return float(np.linalg.cond(jacobian / length))
