"""From draws to estimates: median, 10th and 90th percentile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from economics.logit_t import Array
from scaling.estimate import Estimate
from scaling.units import format_count

#: Level of every interval of a cost: 10th to 90th percentile.
LEVEL = 0.8
#: More than this is not a number anybody reads.
_NEVER = 1e15


@dataclass(frozen=True, repr=False)
class CostEstimate(Estimate):
    """An estimate that writes its unit as people do: $1,234, 6.3 days."""

    def format(self, number: Callable[[float], str] | None = None) -> str:
        """Write the estimate as one phrase, e.g. ``$422,480, 80% [$220,189, $1.02M]``."""
        if number is not None or self.unit not in ("$", "h", "kWh", "kg"):
            return super().format(number)
        write = dollars if self.unit == "$" else plain_number
        unit = "" if self.unit == "$" else f" {self.unit}"
        return f"{write(self.value)}{unit}, {100 * self.level:g}% [{write(self.low)}, {write(self.high)}]"


def quantiles(draws: Array, at: Sequence[float]) -> list[float]:
    """Quantiles of draws, linear between order statistics; sorting is faster than `numpy.quantile`."""
    ordered = np.sort(draws)
    place = np.asarray(at) * (ordered.size - 1)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, ordered.size - 1)
    return [float(x) for x in ordered[below] + (place - below) * (ordered[above] - ordered[below])]


def estimate_of(draws: Array, name: str, unit: str) -> CostEstimate:
    """Median with the 10th and 90th percentile of draws."""
    low, value, high = quantiles(draws, ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    return CostEstimate(value, low, high, LEVEL, "median", name, unit)


def dollars(x: float) -> str:
    """Write dollars: $19.42, $1,234, $5.33M."""
    if abs(x) >= _NEVER:
        return "never"
    sign, x = ("-" if x < 0 else ""), abs(x)
    if x >= 1e6:
        return f"{sign}${format_count(x)}"
    return f"{sign}${x:,.0f}" if x >= 1000 else f"{sign}${x:,.2f}"


def plain_number(x: float) -> str:
    """Write a plain number with three digits or all of its whole ones."""
    if abs(x) >= _NEVER:
        return "never"
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def duration(hours: float) -> str:
    """Write hours so that they can be pictured."""
    if abs(hours) >= _NEVER:
        return "never"
    if abs(hours) < 1:
        return f"{60 * hours:.3g} min"
    if abs(hours) < 96:
        return f"{hours:.3g} h"
    return f"{hours / 24:.3g} days" if abs(hours) < 2400 else f"{hours / 24:,.0f} days"
