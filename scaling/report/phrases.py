"""Numbers as a person who plans a run reads them."""

from __future__ import annotations

import math

from scaling.estimate import COUNT_UNITS, Estimate
from scaling.isoflop.budgets import flops_text
from scaling.units import format_count

__all__ = [
    "count",
    "decades",
    "ends",
    "factor",
    "flops_text",
    "number",
    "percent",
    "plural",
    "ratio",
    "value",
    "with_interval",
]


def count(x: float, digits: int = 3) -> str:
    """Write a count: 22.7B."""
    return format_count(x, digits)


def number(x: float, digits: int = 4) -> str:
    """Write a number that is no count: 2.514, 1,130 rather than 1.13e+03."""
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞" if x < 0 else "–"
    text = f"{x:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(x) < 1e6 else text


def value(e: Estimate, digits: int = 4) -> str:
    """Write the value of an estimate, without its unit."""
    return _written(e, e.value, digits)


def ends(e: Estimate, digits: int = 4, joint: str = " to ") -> str:
    """Write the interval of an estimate: "19.9B to 27.1B"; an en dash where it has none."""
    if math.isnan(e.low) or math.isnan(e.high):
        return "–"
    return f"{_written(e, e.low, digits)}{joint}{_written(e, e.high, digits)}"


def with_interval(e: Estimate, digits: int = 3) -> str:
    """Write an estimate in a sentence: "0.499 (95%: 0.459 to 0.535)"."""
    interval = ends(e, digits)
    return value(e, digits) if interval == "–" else f"{value(e, digits)} ({percent(e.level, 3)}: {interval})"


def _written(e: Estimate, x: float, digits: int) -> str:
    if e.unit in COUNT_UNITS and math.isfinite(x):
        return count(x, min(digits, 3))
    return number(x, digits)


def factor(x: float) -> str:
    """Write a factor in words that need no logarithms: "a factor of 630,000"."""
    if not math.isfinite(x):
        return "an unlimited factor"
    if x >= 1e9:
        return f"a factor of {flops_text(float(f'{x:.1g}'))}"
    return f"a factor of {float(f'{x:.2g}'):,.0f}" if x >= 9.95 else f"a factor of {x:.3g}"


def ratio(high: float, low: float) -> float:
    """Divide the ends of an interval; infinite where the lower one is zero."""
    return high / low if low > 0 else math.inf


def decades(away: float) -> str:
    """Write a distance in compute: "5.8 decades (a factor of 630,000)"."""
    return f"{away:.1f} decade{'s' * (f'{away:.1f}' != '1.0')} of compute ({factor(10**away)})"


def percent(share: float, digits: int = 2) -> str:
    """Write a share of one."""
    return f"{100 * share:.{digits}g}%"


def plural(n: int, one: str, many: str = "") -> str:
    """Write a number of things: "1 row", "3 rows"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
