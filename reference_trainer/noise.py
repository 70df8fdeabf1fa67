"""The run-to-run standard deviation of a point, from the seeds that were trained at it and at the others."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Fewest points with seeds from which it can be told whether their noise differs.
_LEAST_POINTS = 8


def run_to_run(losses: Mapping[Key, Sequence[float]]) -> dict[Key, float]:
    """Return the standard deviation between seeds at each point, in the unit of the losses.

    Two or three seeds tell a variance to a factor of several, which is no weight for a fit. So the variances of the
    log loss are drawn together: with fewer than 8 points they are pooled; with more, each is moderated towards the
    common one by as much as their scatter says is chance (Smyth 2004, doi 10.2202/1544-6115.1027, section 6.2, by
    moments). A point with one seed gets the common one.

    Parameters
    ----------
    losses : mapping of point to sequence of float
        Final losses of the seeds at each point (a size and a token budget).

    Returns
    -------
    dict of point to float
        Empty where no point has two seeds.

    Examples
    --------
    >>> run_to_run({"a": [2.0, 2.02], "b": [4.0]})["b"]
    0.0281...
    """
    spread = {
        point: (_variance([math.log(x) for x in values]), len(values) - 1)
        for point, values in losses.items()
        if len(values) > 1
    }
    freedom = sum(d for _, d in spread.values())
    if not freedom:
        return {}
    pooled = sum(s * d for s, d in spread.values()) / freedom
    common, prior = pooled, math.inf
    if len(spread) >= _LEAST_POINTS and all(s > 0 for s, _ in spread.values()):
        common, prior = _prior(list(spread.values()), pooled)
    out = {}
    for point, values in losses.items():
        if not values:
            continue
        s, d = spread.get(point, (0.0, 0))
        variance = common if prior == math.inf else (prior * common + d * s) / (prior + d)
        out[point] = math.sqrt(variance) * sum(values) / len(values)
    return out


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((x - mean) ** 2 for x in values) / (len(values) - 1)


def _prior(spread: Sequence[tuple[float, int]], pooled: float) -> tuple[float, float]:
    """Return the common variance and its degrees of freedom; infinite where all scatter is chance."""
    from scipy.special import polygamma, psi

    e = [math.log(s) - float(psi(d / 2)) + math.log(d / 2) for s, d in spread]
    mean, n = sum(e) / len(e), len(e)
    extra = sum((x - mean) ** 2 for x in e) / (n - 1) - sum(float(polygamma(1, d / 2)) for _, d in spread) / n
    if extra <= 0:
        return pooled, math.inf
    half = _inverse_trigamma(extra)
    return math.exp(mean + float(psi(half)) - math.log(half)), 2 * half


def _inverse_trigamma(x: float) -> float:
    """Return y with trigamma(y) = x, by Newton's method on 1/trigamma (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    y = 0.5 + 1 / x
    for _ in range(50):
        value = float(polygamma(1, y))
        step = value * (1 - value / x) / float(polygamma(2, y))
        y += step
        if abs(step) < 1e-10 * y:
            break
    return y
