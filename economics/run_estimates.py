"""From draws to estimates: median, 10th and 90th percentile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from economics.quantile_draws import Array
from scaling.estimate import Estimate
from scaling.units import format_count

#: Level of every interval of a cost: 10th to 90th percentile.
LEVEL = 0.8
#: More than this is not a number anybody reads.
_NEVER = 1e15
_YEARS = 10  # from so many on, time is written in years
#: Of `order_statistics`: so many draws are sorted at once, more are divided into 2 to the power of this buckets.
_FEW, _BUCKET_BITS = 500, 12
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, repr=False)
class CostEstimate(Estimate):
    """An estimate that writes its unit as people do: $1,234, 6.3 days."""

    def times(self, factor: float) -> CostEstimate:
        """Return the estimate of so many times the quantity."""
        value, low, high = (factor * x for x in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)

    def format(self, number: Callable[[float], str] | None = None) -> str:
        """Write the estimate as one phrase, e.g. ``$422,480, 80% [$220,189, $1.02M]``."""
        if number is not None or self.unit not in ("$", "h", "kWh", "kg"):
            return super().format(number)
        write = dollars if self.unit == "$" else plain_number
        unit = "" if self.unit == "$" else f" {self.unit}"
        return f"{write(self.value)}{unit}, {100 * self.level:g}% [{write(self.low)}, {write(self.high)}]"


def quantiles(draws: Array, at: Sequence[float]) -> list[float]:
    """Quantiles of draws, linear between order statistics, as `numpy.quantile` has them."""
    place = [q * (draws.size - 1) for q in at]
    below = [int(p) for p in place]
    found = order_statistics(draws, [i for b in below for i in (b, min(b + 1, draws.size - 1))])
    ends = zip(found[::2], found[1::2], strict=True)
    return [low + (p - b) * (high - low) for (low, high), p, b in zip(ends, place, below, strict=True)]


def order_statistics(draws: Array, ranks: Sequence[int]) -> list[float]:
    """Values that stand at these places of the sorted draws.

    The draws are counted into buckets, and only what shares a bucket with a place is looked at further: a third of
    the time of a selection by halves, and a fifth of a sort. Numbers of one sign are ordered as their bits are, read
    as integers; these divide a range as its logarithm does, so a long tail does not leave all else in one bucket.
    """
    if draws.size <= _FEW:
        ordered = np.sort(draws)
        return [float(ordered[rank]) for rank in ranks]
    bits = np.ascontiguousarray(draws, dtype=np.float64).view(np.uint64)
    if bits.max() >= _SIGN:  # negative ones have the highest bit, and are in reverse order
        bits = np.where(bits >= _SIGN, ~bits, bits | _SIGN)
    lowest = bits.min()
    span = int(bits.max()) - int(lowest)
    if span == 0:
        return [float(draws[0]) for _ in ranks]
    bucket = ((bits - lowest) >> np.uint64(max(span.bit_length() - _BUCKET_BITS, 0))).astype(np.uint16)
    counts = np.bincount(bucket)
    ends = np.cumsum(counts)
    wanted: dict[int, list[int]] = {}
    for rank in ranks:
        wanted.setdefault(int(ends.searchsorted(rank, side="right")), []).append(rank)
    found: dict[int, float] = {}
    for b, mine in wanted.items():
        before = int(ends[b] - counts[b])
        members = order_statistics(draws[bucket == b], [rank - before for rank in mine])
        found.update(zip(mine, members, strict=True))
    return [found[rank] for rank in ranks]


def estimate_of(draws: Array, name: str, unit: str) -> CostEstimate:
    """Median with the 10th and 90th percentile of draws."""
    low, value, high = quantiles(draws, ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    return CostEstimate(value, low, high, LEVEL, "median", name, unit)


def dollars(x: float) -> str:
    """Write dollars: $19.42, $1,234, $5.33M, $0.0004."""
    if abs(x) >= _NEVER:
        return "never"
    sign, x = ("-" if x < 0 else ""), abs(x)
    if x >= 1e6:
        return f"{sign}${format_count(x)}"
    if 0 < x < 0.005:
        return f"{sign}${x:.1g}"
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
    if 0 < abs(hours) < 1 / 60:
        return f"{3600 * hours:.2g} s"
    if abs(hours) < 1:
        return f"{60 * hours:.3g} min"
    if abs(hours) < 96:
        return f"{hours:.3g} h"
    if abs(hours) < _YEARS * 8766:
        return f"{hours / 24:.3g} days" if abs(hours) < 2400 else f"{hours / 24:,.0f} days"
    return f"{hours / 8766:,.0f} years"
