"""Arguments of a cost, read as people write them: hours, whole numbers, counts."""

from __future__ import annotations

import math
from collections.abc import Collection
from decimal import Decimal
from numbers import Real
from typing import Any

from scaling.errors import DataError, shown
from scaling.units import parse_count


def plain(value: object) -> float:
    """Return a number, or text that is one, as a float; NaN for everything else (truth values, arrays ...).

    Examples
    --------
    >>> plain("0.5"), plain(True), plain([1.0]), plain(10**400)
    (0.5, nan, nan, inf)
    """
    if isinstance(value, bool) or not isinstance(value, str | Real | Decimal):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def numeric(value: object) -> float:
    """Return a number as a float; NaN for everything else, text of a number included."""
    return math.nan if isinstance(value, str) else plain(value)


def flag(name: str, value: object) -> bool:
    """Return a truth value; what is only true or false by the way is none."""
    if not isinstance(value, bool):
        raise DataError(f"{name} must be True or False, got {shown(value)}", column=name)
    return value


def name_of(name: str, value: object) -> str:
    """Return text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{name} must be a name, got {shown(value)}", column=name)
    return value


def one_of(name: str, value: Any, options: Collection[str]) -> str:
    """Return one of several words.

    Raises
    ------
    DataError
        Another word, or none.
    """
    if not isinstance(value, str) or value not in options:
        raise DataError(f"{name} must be one of {', '.join(options)}, got {shown(value)}", column=name)
    return value


def count(name: str, value: Any) -> float:
    """Read a count as people write it ("7B"); the error names the argument."""
    try:
        if isinstance(value, bytes | bytearray):
            raise DataError(f"{value!r} is not a number")
        return parse_count(value)
    except DataError as error:
        words = str(error).replace("a decimal comma? pass decimal=','", "write the decimal point as a point")
        raise DataError(f"{name}: {words:.300}", column=name) from error


def hours(name: str, value: Any, *, positive: bool = False) -> float:
    """Read hours: a number, or text such as "30 min", "2h", "1.5 d"."""
    factor, text = 1.0, value
    if isinstance(value, str):
        text = value.strip().lower()
        for unit, in_hours in (("min", 1 / 60), ("h", 1.0), ("d", 24.0), ("s", 1 / 3600)):
            if text.endswith(unit):
                text, factor = text.removesuffix(unit).strip(), in_hours
                break
    number = plain(text) * factor
    if not 0.0 <= number < math.inf or (positive and number == 0):
        what = "0.5 or '30 min' or '3 d'" + (", or optimal" if name == "checkpoint_every" else "")
        raise DataError(
            f"{name} must be hours{' above 0' if positive else ''} ({what}), got {shown(value)}", column=name
        )
    return number


def whole(name: str, value: Any, least: int = 1, most: float = math.inf) -> int:
    """Read a whole number from `least` to `most`."""
    number = count(name, value)
    if not (math.isfinite(number) and number == int(number) and least <= number <= most):
        end = "on" if most == math.inf else f"to {most:,.0f}"
        raise DataError(f"{name} must be a whole number from {least} {end}, got {shown(value)}", column=name)
    return int(number)


def required(name: str, value: Any, what: str) -> Any:
    """Return a value that must be given; `what` says what it is."""
    if value is None:
        raise DataError(f"give {name}: {what}", column=name)
    return value


def positive(name: str, value: Any, what: str) -> float:
    """Read a positive count or number; `what` says what it is."""
    number = count(name, required(name, value, what))
    if not (math.isfinite(number) and number > 0):
        raise DataError(f"{name} must be positive: {what}; got {shown(value)}", column=name)
    return number


#: More dollars than the world makes in a year: nobody has them.
_ALL_MONEY = 1e14


def money(name: str, value: Any) -> float:
    """Read a sum of dollars as people write it: 50, "$50", "$1.5k"."""
    number = positive(
        name, value.strip().lstrip("$") if isinstance(value, str) else value, "dollars, such as '$1.5k'"
    )
    if number > _ALL_MONEY:
        raise DataError(f"{name} is more money than there is: give dollars; got {shown(value)}", column=name)
    return number


def share(name: str, value: Any) -> float:
    """Read a share from 0 to 1: a number, or text such as "90%"."""
    divisor, text = 1.0, value
    if isinstance(value, str) and value.strip().endswith("%"):
        divisor, text = 100.0, value.strip().removesuffix("%")
    number = plain(text) / divisor
    if not 0.0 <= number <= 1.0:
        raise DataError(
            f"{name} must lie between 0 and 1, such as 0.9 or '90%'; got {shown(value)}", column=name
        )
    return number
