"""Numbers as logs write them: thousands separated, percent, with a unit, NaN by its many names."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from scaling.cells import is_missing
from scaling.errors import DataError
from scaling.units import parse_count

#: A number inside a line of text; to be put into a larger pattern.
NUMBER = r"[+-]?(?:nan|inf(?:inity)?\b|(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)"
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_UNITS = {
    "%": 0.01, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0, "us": 1e-6, "min": 60.0,
    "tok/s": 1.0, "tokens/s": 1.0, "tokens/sec": 1.0, "t/s": 1.0,
}  # fmt: skip
_WITH_UNIT = re.compile(
    rf"(?P<number>.*?)\s*(?P<unit>{'|'.join(map(re.escape, sorted(_UNITS, key=len)[::-1]))})"
)
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s*(Z|[+-]\d\d:?\d\d)?")


def number(text: str) -> float:
    """Read a number found by `NUMBER`, or such as llm.c's ``150K``; NaN and infinities are numbers.

    Raises
    ------
    DataError
        It is none.

    Examples
    --------
    >>> number("4,194,304"), number("1.0E-06"), number("-inf"), number("150K")
    (4194304.0, 1e-06, -inf, 150000.0)
    """
    try:
        return float(text)
    except ValueError:
        return parse_count(text)


def quantity(cell: object, decimal: str = ".") -> float | None:
    """Read a cell as a number in the base unit of what follows it (share, second, tokens/s); None if it is empty.

    Raises
    ------
    DataError
        It is no number.

    Examples
    --------
    >>> quantity("41%"), quantity("120.5 ms"), quantity("1,234 tok/s"), quantity("NaN"), quantity("")
    (0.41, 0.1205, 1234.0, nan, None)
    """
    if cell is None or isinstance(cell, bool):
        return None if cell is None else float(cell)
    if not isinstance(cell, str):
        return parse_count(cell)
    text = cell.strip()
    bare = text.lower().lstrip("+-")
    if bare in _NOT_FINITE:
        return -_NOT_FINITE[bare] if text.startswith("-") else _NOT_FINITE[bare]
    if is_missing(text):
        return None
    if bare in ("true", "false"):
        return float(bare == "true")
    try:
        return parse_count(text, decimal=decimal)
    except DataError:
        found = _WITH_UNIT.fullmatch(text)
        if found is None:
            raise
        value = parse_count(found["number"], decimal=decimal)
        return value / 100 if found["unit"] == "%" else value * _UNITS[found["unit"]]


def unix_time(text: str) -> float | None:
    """Return the seconds since 1970 of a time stamp in a text, taken as UTC where it names no zone; None if none.

    Examples
    --------
    >>> unix_time("[2024-10-16 04:23:00] iteration 2/ 500000"), unix_time("iteration 2")
    (1729052580.0, None)
    """
    found = _STAMP.search(text)
    if found is None:
        return None
    *parts, fraction, zone = found.groups()
    try:
        when = datetime(*map(int, parts), tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}")  # type: ignore[arg-type,misc]
    except ValueError:
        return None
    if zone in (None, "Z"):
        return when
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return when - (1 if zone[0] == "+" else -1) * (3600 * hours + 60 * minutes)
