"""The shape of an IsoFLOP curve that L = E + A/N^alpha + B/D^beta implies, shared by all budgets.

At fixed C = 6ND the law is ``E + a N^-alpha + b N^beta`` along the curve. Written around the optimum,
with u = ln(N/N*), it is ``E' + K (exp(-alpha u)/alpha + exp(beta u)/beta)``: steeper on one side than on
the other as soon as alpha differs from beta, which is what a parabola cannot follow. Each budget keeps
its own level, depth and optimum (three linear coefficients), so nothing is assumed about how they
move with C; only the two exponents are shared.

Of the two, the skew ``delta = beta - alpha`` is what 5 to 15 points per budget can tell: it is the
third-order term of the curve and the whole first-order error of a parabola. The sum ``s = alpha + beta``
enters at fourth order; fitted to eight public experiments it ran anywhere from 0.2 to 3 at no cost in
fit. So delta is estimated from all budgets together by variable projection and s is held, by default
at 0.7 (`EXPONENT_SUM`), with its uncertainty (`EXPONENT_SUM_SD`) carried into every interval.

Why not something else: simulated on four budgets of 7 to 15 runs with noise 0.002 to 0.01 and three laws
with s from 0.62 to 0.81, the optimum of this curve scattered at most 1.5 times as much as a parabola's
and was off by at most 0.012 in ln N*, where the parabola was off by up to 0.2. A free cubic per budget
was as unbiased but scattered two to four times as much; both exponents free gained nothing and ran to
their bounds. Holding s at 0.5 or 0.9 instead moved the optimum by at most 0.03.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scaling.isoflop.budgets import Floats, Slice
from scaling.isoflop.noise import moderated_variances

#: alpha + beta where nothing else is known. Fits of L(N, D) to language models give 0.62 (Hoffmann et
#: al. 2022), 0.71 (Besiroglu et al. 2024), 0.71 (Muennighoff et al. 2023), 0.62 (Llama 3, digitised),
#: 0.49 to 0.55 (Gadre et al. 2024), 0.81 (Open-Athena's ml-scalefit table).
EXPONENT_SUM = 0.70
#: Spread of those published sums, as a standard deviation.
EXPONENT_SUM_SD = 0.15

_SKEW_LIMIT = 0.98  # |delta| < s, so that both exponents stay positive


@dataclass(frozen=True, eq=False)
class Shape:
    """Exponents of the curve, with the covariance of (delta, s)."""

    alpha: float
    beta: float
    covariance: NDArray[np.float64]  # (2, 2) of (delta, s)
    noise: Floats  # (K,) moderated residual variance of each budget under this shape
    dof: Floats  # (K,)
    source: str
    at_bound: bool = False

    @property
    def skew(self) -> float:
        """Delta = beta - alpha."""
        return self.beta - self.alpha

    @property
    def total(self) -> float:
        """Sum s = alpha + beta."""
        return self.alpha + self.beta


def basis(z: Floats, alpha: float, beta: float) -> Floats:
    """Return columns 1, exp(-alpha z), exp(beta z), (n, 3), for z = ln N minus the budget's mean."""
    return np.stack([np.ones_like(z), np.exp(-alpha * z), np.exp(beta * z)], axis=1)


def basis_slope(z: Floats, alpha: float, beta: float) -> Floats:
    """Return d basis / d z, (n, 3)."""
    return np.stack([np.zeros_like(z), -alpha * np.exp(-alpha * z), beta * np.exp(beta * z)], axis=1)


def tangent(z: Floats, theta: Floats, alpha: float, beta: float) -> Floats:
    """Return the derivatives of the curve by (delta, s), (n, 2), at coefficients `theta`."""
    by_alpha = -theta[1] * z * np.exp(-alpha * z)
    by_beta = theta[2] * z * np.exp(beta * z)
    return np.stack([(by_beta - by_alpha) / 2, (by_beta + by_alpha) / 2], axis=1)


def tangent_slope(z: Floats, theta: Floats, alpha: float, beta: float) -> Floats:
    """Return d tangent / d z, (n, 2)."""
    by_alpha = -theta[1] * (1 - alpha * z) * np.exp(-alpha * z)
    by_beta = theta[2] * (1 + beta * z) * np.exp(beta * z)
    return np.stack([(by_beta - by_alpha) / 2, (by_beta + by_alpha) / 2], axis=1)


def fit_shape(slices: list[Slice], *, total: float, total_sd: float, source: str) -> Shape:
    """Estimate the skew shared by all budgets, with the sum of the exponents held.

    Parameters
    ----------
    slices : list of Slice
        Budgets that passed the checks; each needs three distinct sizes.
    total, total_sd : float
        alpha + beta and the standard deviation it is known to.
    source : str
        Where they come from, for the report.

    Returns
    -------
    Shape

    Notes
    -----
    Variable projection: for each delta the three coefficients of every budget are linear, so the sum of
    squares is a function of delta alone, minimised on a grid of 65 and polished. Budgets are
    weighted by the inverse of their residual variance, moderated, in three passes.
    """
    from scipy.optimize import minimize_scalar

    weights = np.ones(len(slices))
    limit = _SKEW_LIMIT * total
    delta = 0.0
    for _ in range(3):

        def objective(d: float, w: Floats = weights) -> float:
            d_ = np.array([d])
            return float((w @ _residual_squares(slices, (total - d_) / 2, (total + d_) / 2))[0])

        grid = np.linspace(-limit, limit, 65)
        best = int(np.argmin(weights @ _residual_squares(slices, (total - grid) / 2, (total + grid) / 2)))
        bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
        delta = float(minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x)
        noise, dof = _noise(slices, (total - delta) / 2, (total + delta) / 2, shared=1)
        if not (noise > 0).all():
            break
        weights = np.exp(np.mean(np.log(noise))) / noise
    alpha, beta = (total - delta) / 2, (total + delta) / 2
    covariance = _shape_covariance(slices, alpha, beta, noise, total_sd)
    at_bound = limit - abs(delta) < 1e-3 * limit
    return Shape(alpha, beta, covariance, noise, dof, source, at_bound)


def pinned_shape(slices: list[Slice], alpha: float, beta: float, source: str) -> Shape:
    """Return the shape with both exponents given, as if exactly known."""
    noise, dof = _noise(slices, alpha, beta, shared=0)
    return Shape(alpha, beta, np.zeros((2, 2)), noise, dof, source)


def project(s: Slice, alpha: float, beta: float) -> tuple[Floats, Floats, Floats]:
    """Return coefficients (3,), weighted residuals (n,) and the unscaled covariance (3, 3) of a budget."""
    root = np.sqrt(s.weights)
    design = basis(s.x - s.x.mean(), alpha, beta) * root[:, None]
    theta, *_ = np.linalg.lstsq(design, s.loss * root, rcond=None)
    inverse = np.linalg.pinv(design)
    return np.asarray(theta), np.asarray(s.loss * root - design @ theta), np.asarray(inverse @ inverse.T)


def shape_response(s: Slice, theta: Floats, alpha: float, beta: float) -> Floats:
    """Return d theta / d (delta, s), (3, 2): how the linear coefficients follow the exponents."""
    root = np.sqrt(s.weights)[:, None]
    z = s.x - s.x.mean()
    design = basis(z, alpha, beta) * root
    return np.asarray(-np.linalg.pinv(design) @ (tangent(z, theta, alpha, beta) * root))


def _residual_squares(slices: list[Slice], alpha: Floats, beta: Floats) -> Floats:
    """Return the weighted sum of squares of each budget, (K, m), at m pairs of exponents."""
    out = np.empty((len(slices), len(alpha)))
    for k, s in enumerate(slices):
        root, z = np.sqrt(s.weights), s.x - s.x.mean()
        columns = [np.ones((len(alpha), len(z))), np.exp(np.outer(-alpha, z)), np.exp(np.outer(beta, z))]
        q, _ = np.linalg.qr(np.stack(columns, axis=2) * root[:, None])
        y = s.loss * root
        rest = y - (q @ (y @ q)[:, :, None])[:, :, 0]
        out[k] = np.sum(rest**2, axis=1)
    return out


def _noise(slices: list[Slice], alpha: float, beta: float, shared: int) -> tuple[Floats, Floats]:
    dof = np.array([len(s) - 3 - shared / len(slices) for s in slices])
    dof = np.maximum(dof, 0.0)
    squares = _residual_squares(slices, np.array([alpha]), np.array([beta]))[:, 0]
    scale = np.array([float(np.ptp(s.loss)) ** 2 for s in slices])
    squares = np.where(squares < 1e-22 * scale, 0.0, squares)  # rounding, not noise
    variance = np.divide(squares, dof, out=np.zeros_like(squares), where=dof > 0)
    return moderated_variances(variance, dof)


def _shape_covariance(
    slices: list[Slice], alpha: float, beta: float, noise: Floats, total_sd: float
) -> NDArray[np.float64]:
    """Return the covariance of (delta, s): noise moves delta, and delta follows whatever s truly is."""
    information = np.zeros((2, 2))
    positive = noise > 0
    for s, v in zip(slices, noise, strict=True):
        theta, _, _ = project(s, alpha, beta)
        root = np.sqrt(s.weights)[:, None]
        z = s.x - s.x.mean()
        q, _ = np.linalg.qr(basis(z, alpha, beta) * root)
        free = tangent(z, theta, alpha, beta) * root
        free = free - q @ (q.T @ free)
        information += free.T @ free / (v if positive.all() else 1.0)
    if information[0, 0] <= 0:
        return np.array([[np.inf, 0.0], [0.0, total_sd**2]])
    follow = -information[0, 1] / information[0, 0]  # d delta-hat / d s
    from_noise = 1 / information[0, 0] if positive.all() else 0.0
    return np.array(
        [
            [from_noise + (follow * total_sd) ** 2, follow * total_sd**2],
            [follow * total_sd**2, total_sd**2],
        ]
    )
