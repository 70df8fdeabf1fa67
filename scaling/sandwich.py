"""Standard errors of a Huber fit in the sandwich form H^-1 M H^-1 (Huber 1967)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from scaling.laws.base import Array, Index

#: Rounding decides below this reciprocal condition: a direction the runs do not see at all.
_SINGULAR = 1e-10


def planned(sd: Array, rho: float, cluster: Index, delta: float) -> tuple[Array, Callable[[Array], Array]]:
    """Return expected curvature and score variance under normal noise."""
    from scipy.special import ndtr

    t = delta / sd
    inside = np.asarray(2 * ndtr(t) - 1)
    density = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    # E[psi^2]: sd^2 (inside - 2 t phi(t)) from within, delta^2 from outside.
    variance = sd**2 * (inside - 2 * t * density) + delta**2 * (1 - inside)
    shared = score_correlation(rho)

    def meat(scored: Array) -> Array:
        s = scored * np.sqrt(variance)[:, None]
        own: Array = s.T @ s
        if shared == 0.0:
            return own
        together = _group_sums(s, cluster)
        return (1 - shared) * own + shared * (together.T @ together)

    return inside, meat


def score_correlation(rho: float) -> float:
    """Return the correlation of the signs of two normal variables with correlation rho."""
    return (2 / math.pi) * math.asin(rho)


def observed(z: Array, cluster: Index, delta: float, n_free: int) -> tuple[Array, Callable[[Array], Array]]:
    """Return curvature and score variance as the residuals show them."""
    # E[psi'] is the share of residuals within delta; a window of the inner 40% counts enough of them.
    # The fit passes through about as many runs as it has coefficients: their zeros are no evidence.
    size = np.sort(np.abs(z))[min(n_free, len(z) - 1) :]
    window = max(delta, float(np.quantile(size, 0.4)))
    inside = np.full(len(z), float(np.mean(size <= window)) * delta / window)
    freedom = len(z) / max(len(z) - n_free, 1)
    psi = np.clip(z, -delta, delta)

    def meat(scored: Array) -> Array:
        together = _group_sums(scored * psi[:, None], cluster)
        groups = len(together)
        return (together.T @ together) * freedom * groups / max(groups - 1, 1)

    return inside, meat


def _group_sums(rows: Array, cluster: Index) -> Array:
    out = np.zeros((int(cluster.max()) + 1, rows.shape[1]))
    np.add.at(out, cluster, rows)
    return out


def scaled_eigen(bread: Array) -> tuple[Array, Array, Array]:
    """Eigen-decomposition of the curvature with columns brought to one length."""
    length = np.sqrt(np.diag(bread))
    length = np.where(length > 0, length, 1.0)  # nothing was seen of a direction: it stays open
    values, vectors = np.linalg.eigh(bread / np.outer(length, length))
    return values, vectors, length


def sandwich(bread: Array, meat: Array, gradient: Array) -> float:
    """Return the standard error of a quantity with this gradient; infinite where it is left open."""
    if not gradient.size:
        return 0.0  # nothing was left to be fitted
    values, vectors, length = scaled_eigen(bread)
    g = vectors.T @ (gradient / length)
    open_ = values < _SINGULAR * values.max()
    if np.any(np.abs(g[open_]) > 1e-6 * np.linalg.norm(g)):
        return math.inf
    inverse = np.where(open_, 0.0, 1.0 / np.where(open_, 1.0, values))
    direction = vectors @ (inverse * g) / length
    return math.sqrt(max(float(direction @ meat @ direction), 0.0))
