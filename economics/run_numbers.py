"""Arguments of a cost, read as people write them: hours, whole numbers, counts."""

from __future__ import annotations

import math
from typing import Any

from scaling.errors import DataError
from scaling.units import parse_count


def hours(name: str, value: Any, *, positive: bool = False) -> float:
    """Read hours: a number, or text such as "30 min", "2h", "1.5 d"."""
    factor, text = 1.0, value
    if isinstance(value, str):
        text = value.strip().lower()
        for unit, in_hours in (("min", 1 / 60), ("h", 1.0), ("d", 24.0), ("s", 1 / 3600)):
            if text.endswith(unit):
                text, factor = text.removesuffix(unit).strip(), in_hours
                break
    try:
        number = math.nan if isinstance(value, bool) else float(text) * factor
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number < math.inf or (positive and number == 0):
        raise DataError(
            f"{name} must be hours (0.5, '30 min'{', or optimal' if positive else ''}), got {value!r}",
            column=name,
        )
    return number


def whole(name: str, value: Any, least: int = 1, most: float = math.inf) -> int:
    """Read a whole number from `least` to `most`."""
    number = parse_count(value)
    if not (math.isfinite(number) and number == int(number) and least <= number <= most):
        end = "on" if most == math.inf else f"to {most:,.0f}"
        raise DataError(f"{name} must be a whole number from {least} {end}, got {value!r}", column=name)
    return int(number)


def required(name: str, value: Any, what: str) -> Any:
    """Return a value that must be given; `what` says what it is."""
    if value is None:
        raise DataError(f"give {name}: {what}", column=name)
    return value


def positive(name: str, value: Any, what: str) -> float:
    """Read a positive count or number; `what` says what it is."""
    number = parse_count(required(name, value, what))
    if not (math.isfinite(number) and number > 0):
        raise DataError(f"{name} must be positive: {what}; got {value!r}", column=name)
    return number


def share(name: str, value: Any) -> float:
    """Read a share from 0 to 1: a number, or text such as "90%"."""
    divisor, text = 1.0, value
    if isinstance(value, str) and value.strip().endswith("%"):
        divisor, text = 100.0, value.strip().removesuffix("%")
    try:
        number = math.nan if isinstance(value, bool) else float(text) / divisor
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise DataError(f"{name} must lie between 0 and 1, such as 0.9 or '90%'; got {value!r}", column=name)
    return number
