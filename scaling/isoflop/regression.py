"""Regression across budgets, whose errors are known up to a scatter between them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from scaling.isoflop.budgets import Floats


class Regression(NamedTuple):
    """Coefficients (2,), their covariance, chi-square per degree of freedom, scatter sd, and dof."""

    theta: Floats
    covariance: Floats
    dispersion: float
    between_sd: float
    dof: float


def generalised(design: Floats, y: Floats, covariance: Floats, dof: float) -> Regression:
    """Regress (K, 2) columns on y with errors of a known covariance plus a scatter between budgets.

    Parameters
    ----------
    design : ndarray, (K, 2)
    y : ndarray, (K,)
    covariance : ndarray, (K, K)
        Of the errors the budgets know of; zero for data without noise.
    dof : float
        Degrees of freedom behind that covariance, used where K - 2 leaves none.
    """
    import statsmodels.api as sm

    k = len(y)
    size = float(np.trace(covariance)) / k
    if size <= 1e-20:
        result = sm.OLS(y, design).fit()
        free = np.asarray(result.normalized_cov_params) * (float(result.scale) if k > 2 else 0.0)
        return Regression(np.asarray(result.params), free, math.nan, 0.0, float(k - 2) if k > 2 else dof)

    def fitted(scatter: float) -> Any:
        # The relative floor keeps the whitening well-posed where one shared term dominates.
        return sm.GLS(y, design, sigma=covariance + (scatter + 1e-9 * size) * np.eye(k)).fit()

    result = fitted(0.0)
    theta, unscaled = np.asarray(result.params), np.asarray(result.normalized_cov_params)
    if k == 2:
        return Regression(theta, unscaled, math.nan, 0.0, dof)
    dispersion = float(result.scale)
    if dispersion <= 1:
        return Regression(theta, unscaled * dispersion, dispersion, 0.0, float(k - 2))
    from scipy.optimize import brentq

    largest = float(np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2)) + size
    scatter = float(brentq(lambda v: float(fitted(v).scale) - 1, 0.0, 10 * largest, rtol=1e-10))
    result = fitted(scatter)
    theta, unscaled = np.asarray(result.params), np.asarray(result.normalized_cov_params)
    return Regression(theta, unscaled, dispersion, math.sqrt(scatter), float(k - 2))


def weighted_line(design: Floats, y: Floats, covariance: Floats) -> Floats:
    """Return the coefficients alone, weighted by a covariance taken as it is (zero: equal weights)."""
    k = len(y)
    size = float(np.trace(covariance)) / k
    root = np.eye(k)
    if size > 1e-20:
        root = np.linalg.inv(np.linalg.cholesky(covariance + 1e-9 * size * np.eye(k)))
    return np.asarray(np.linalg.lstsq(root @ design, root @ y, rcond=None)[0])
