"""How noisy each budget is, when each has only a handful of runs to tell; and small numeric helpers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def moderated_variances(variances: ArrayLike, dof: ArrayLike) -> tuple[Floats, Floats]:
    """Pull the residual variances of many small regressions towards each other, as far as they agree.

    A budget with 5 runs has 2 degrees of freedom left after a three-parameter curve: its own variance
    is worth little. Budgets differ too (in one digitised IsoFLOP table the residual sd falls by a
    factor 7 over two decades of compute), so one pooled variance is wrong as well. Empirical Bayes
    settles it: variances are taken as scaled inverse-chi-square around s0^2 with d0 degrees of
    freedom, both estimated from the spread of their logarithms, and each becomes
    ``(d0 s0^2 + d s^2) / (d0 + d)`` with d0 + d degrees of freedom. Equal variances give d0 = infinity
    (full pooling), very unequal ones d0 = 0.

    Parameters
    ----------
    variances : array_like, (K,)
        Residual variance of each regression.
    dof : array_like, (K,)
        Its degrees of freedom; 0 where it has none of its own.

    Returns
    -------
    variances : ndarray, (K,)
    dof : ndarray, (K,)
        At most the sum of all degrees of freedom; 0 only where none exist anywhere.

    Notes
    -----
    Source: Smyth 2004, "Linear models and empirical Bayes methods for assessing differential
    expression", Stat. Appl. Genet. Mol. Biol. 3(1), sections 3 and 6.2.

    Examples
    --------
    >>> v, d = moderated_variances([1.0, 1.1, 0.9], [4, 4, 4])
    >>> v.round(3).tolist(), d.tolist()
    ([1.0, 1.0, 1.0], [12.0, 12.0, 12.0])
    """
    s2 = np.array(variances, dtype=float)
    d = np.array(dof, dtype=float)
    own = d > 0
    total = float(d[own].sum())
    if total == 0:
        return np.zeros_like(s2), np.zeros_like(d)
    pooled = float(np.sum(d[own] * s2[own]) / total)
    # Without noise (or with one regression) there is nothing to learn about the spread of variances.
    if own.sum() < 2 or (s2[own] <= 1e-12 * pooled).any() or pooled == 0:
        return np.where(own, s2, pooled), np.where(own, d, total)
    from scipy.special import digamma, polygamma

    half = d[own] / 2
    e = np.log(s2[own]) - digamma(half) + np.log(half)
    excess = float(np.var(e, ddof=1) - np.mean(polygamma(1, half)))
    if excess <= 0:
        return np.full_like(s2, pooled), np.full_like(d, total)
    d0 = 2 * _inverse_trigamma(excess)
    prior = float(np.exp(np.mean(e) + digamma(d0 / 2) - np.log(d0 / 2)))
    moderated = (d0 * prior + d * np.where(own, s2, 0.0)) / (d0 + d)
    return moderated, np.minimum(d0 + d, total)


def _inverse_trigamma(y: float) -> float:
    """Solve trigamma(x) = y > 0 by Newton's method on 1/trigamma (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1.0 / y
    for _ in range(50):
        value = float(polygamma(1, x))
        step = value * (1 - value / y) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def t_quantile(level: float, dof: float) -> float:
    """Return the half-width of a two-sided interval in standard errors; nan without degrees of freedom."""
    from scipy.stats import t as student

    return float(student.ppf((1 + level) / 2, dof)) if dof > 0 else float("nan")


def exp(x: float) -> float:
    """Return e^x, infinite instead of an error where it overflows."""
    return math.exp(x) if x < 700 else (math.inf if x == x else math.nan)
