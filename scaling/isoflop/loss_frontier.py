"""The least loss for a compute budget, through the minima of IsoFLOP curves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scaling.estimate import Estimate
from scaling.isoflop.budgets import Floats
from scaling.isoflop.curves import CurveFit
from scaling.isoflop.noise import t_quantile
from scaling.isoflop.regression import generalised
from scaling.isoflop.shape import Shape


@dataclass(frozen=True, eq=False)
class LossFrontier:
    """L*(C) = floor + coefficient · C^-gamma with gamma given: least loss for a budget.

    gamma = alpha beta/(alpha + beta) (Hoffmann et al. 2022, eq. 4 put into eq. 2) from the exponents of
    the curves, and its uncertainty is part of the interval: between budgets it hardly matters, beyond
    them it soon dominates. A straight line in ln C would bend the wrong way.
    """

    floor: Estimate
    gamma: float
    gamma_sd: float
    reference: float
    dof: float
    _theta: Floats = field(repr=False)
    _covariance: Floats = field(repr=False)
    _by_gamma: Floats = field(repr=False)  # d theta / d gamma, (2,)

    def at(self, flops: float, *, level: float | None = None) -> Estimate:
        """Return L* at a compute budget with the interval of the curve."""
        level = self.floor.level if level is None else level
        ratio = flops / self.reference
        row = np.array([1.0, ratio**-self.gamma])
        follow = -self._theta[1] * math.log(ratio) * row[1] + row @ self._by_gamma
        scatter = t_quantile(level, self.dof) ** 2 * float(row @ self._covariance @ row)
        half = math.sqrt(scatter + (_normal_quantile(level) * follow * self.gamma_sd) ** 2)
        value = float(row @ self._theta)
        return Estimate(value, value - half, value + half, level, "optimum", "loss")

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain types."""
        numbers = {"gamma": self.gamma, "gamma_sd": self.gamma_sd, "reference": self.reference}
        return {"floor": self.floor.to_dict(), **numbers}


def fit_loss_frontier(flops: Floats, curves: list[CurveFit], shape: Shape, level: float) -> LossFrontier:
    """Regress the losses at the minima, (K,), on C^-gamma, weighted by their intervals."""
    alpha, beta, total = shape.alpha, shape.beta, shape.total
    gamma = alpha * beta / total
    # gamma = (s^2 - delta^2) / (4 s)
    by_exponents = np.array([-shape.skew / (2 * total), (1 + (shape.skew / total) ** 2) / 4])
    gamma_sd = math.sqrt(float(by_exponents @ shape.covariance @ by_exponents))
    reference = float(np.exp(np.mean(np.log(flops))))
    ratio = flops / reference
    design = np.stack([np.ones_like(flops), ratio**-gamma], axis=1)
    # In units of the loss itself: the regression tells noise from rounding by size.
    unit = float(np.mean([c.loss.value for c in curves]))
    values = np.array([c.loss.value for c in curves]) / unit
    t = np.array([t_quantile(level, c.dof) for c in curves])
    width = np.array([c.loss.high - c.loss.low for c in curves])
    se = np.where(np.isfinite(t) & np.isfinite(width), width / (2 * t * unit), 0.0)
    theta, cov, _, _, dof = generalised(design, values, np.diag(se**2), min(c.dof for c in curves))
    theta, cov = theta * unit, cov * unit**2
    root = 1 / se if (se > 0).all() else np.ones_like(se)
    by_gamma = np.linalg.pinv(design * root[:, None]) @ (theta[1] * np.log(ratio) * ratio**-gamma * root)
    scatter = t_quantile(level, dof) ** 2 * float(cov[0, 0])
    half = math.sqrt(scatter + (_normal_quantile(level) * by_gamma[0] * gamma_sd) ** 2)
    value = float(theta[0])
    floor = Estimate(value, value - half, value + half, level, "optimum", "floor")
    return LossFrontier(floor, gamma, gamma_sd, reference, dof, theta, cov, by_gamma)


def _normal_quantile(level: float) -> float:
    return t_quantile(level, math.inf)
