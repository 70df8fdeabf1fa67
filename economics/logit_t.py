"""A bounded quantity with heavy tails: cap · sigmoid(location + scale · T), T of Student's t.

Standard deviations that were estimated from a dozen groups make a normal distribution too narrow; Student's
t with as many degrees of freedom is its remedy. numpy alone: the quantile is computed here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LogitT:
    """The distribution.

    Parameters
    ----------
    location, scale : float
        Of the logit of the share of `cap`.
    df : int
        Degrees of freedom.
    cap : float
        Upper bound.

    Examples
    --------
    >>> LogitT(0.0, 0.5, 10, 0.8).quantile(0.5)
    0.4
    """

    location: float
    scale: float
    df: int
    cap: float

    def quantile(self, q: float) -> float:
        """Return the value that is not passed with probability `q`."""
        return self.cap * _sigmoid(self.location + self.scale * t_quantile(q, self.df))

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Return `n` draws."""
        logit = self.location + self.scale * rng.standard_t(self.df, n)
        return np.asarray(self.cap / (1.0 + np.exp(-logit)))

    def cdf(self, value: float) -> float:
        """Return the probability not to pass `value`."""
        if value <= 0.0 or value >= self.cap:
            return float(value >= self.cap)
        share = value / self.cap
        return t_cdf((math.log(share / (1.0 - share)) - self.location) / self.scale, self.df)


def t_cdf(t: float, df: int) -> float:
    """Distribution function of Student's t, for whole degrees of freedom.

    Abramowitz & Stegun 1964, 26.7.3 and 26.7.4: a finite sum of powers of cos(theta), theta = atan(t/sqrt(df)).

    Examples
    --------
    >>> round(t_cdf(1.812461, 10), 6)
    0.95
    """
    theta = math.atan2(t, math.sqrt(df))
    cos2 = math.cos(theta) ** 2
    odd = df % 2
    term, total = 1.0, 1.0
    for k in range(2 + odd, df, 2):
        term *= cos2 * (k - 1) / k
        total += term
    if odd:
        area = (theta + (math.sin(theta) * math.cos(theta) * total if df > 1 else 0.0)) * 2.0 / math.pi
    else:
        area = math.sin(theta) * total
    return 0.5 * (1.0 + area)


def t_quantile(q: float, df: int) -> float:
    """Quantile of Student's t, for whole degrees of freedom; by bisection around the normal one.

    Examples
    --------
    >>> round(t_quantile(0.9, 12), 6), round(t_quantile(0.1, 12), 6)
    (1.356217, -1.356217)
    """
    if q == 0.5:
        return 0.0
    if q < 0.5:
        return -t_quantile(1.0 - q, df)
    low = high = NormalDist().inv_cdf(q)
    while t_cdf(high, df) < q:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if t_cdf(middle, df) < q else (low, middle)
    return high


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0
