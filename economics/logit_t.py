"""A bounded quantity with heavy tails: cap · sigmoid(location + scale · T), T of Student's t.

Standard deviations that were estimated from a dozen groups make a normal distribution too narrow; Student's
t with as many degrees of freedom is its remedy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from economics.quantile_draws import Array, student_t
from economics.student_t import t_cdf, t_quantile


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
        odds = np.exp(student_t(rng, self.df, n) * -self.scale - self.location)  # against
        return np.asarray(self.cap / (1.0 + odds))

    def cdf(self, value: float) -> float:
        """Return the probability not to pass `value`."""
        if value <= 0.0 or value >= self.cap:
            return float(value >= self.cap)
        share = value / self.cap
        return t_cdf((math.log(share / (1.0 - share)) - self.location) / self.scale, self.df)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0
