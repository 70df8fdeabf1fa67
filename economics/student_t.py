"""Student's t for whole degrees of freedom: distribution function and quantile, from formulas, without scipy."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Real = TypeVar("Real", float, NDArray[np.float64])


def t_cdf(t: float, df: int) -> float:
    """Distribution function of Student's t, for whole degrees of freedom.

    Examples
    --------
    >>> round(t_cdf(1.812461, 10), 6)
    0.95
    """
    theta = math.atan2(t, math.sqrt(df))
    return 0.5 * (1.0 + area_within(theta, math.sin(theta), math.cos(theta), df))


def area_within(theta: Real, sine: Real, cosine: Real, df: int) -> Real:
    """Probability to lie between -t and t (negative for t < 0), of the angle theta = atan(t/sqrt(df)).

    Takes floats or arrays. Abramowitz & Stegun 1964, 26.7.3 and 26.7.4: a finite sum of powers of cos(theta).
    """
    odd = df % 2
    term, total = sine, sine
    for k in range(2 + odd, df, 2):
        term = term * cosine * cosine * ((k - 1) / k)
        total = total + term
    if not odd:
        return total
    return (theta + total * cosine if df > 1 else theta) * (2.0 / math.pi)


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
