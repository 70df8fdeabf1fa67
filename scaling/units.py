"""Counts such as "1.3B" and how they are read and written."""

from __future__ import annotations

import math
import re
import unicodedata

from scaling.errors import DataError, UnitError, shown

_SUFFIXES = ((1e15, "Q"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))

#: Powers of ten behind the magnitude words people write after a number. ``m`` is a million, never milli.
_EXPONENTS = {
    "": 0,
    "k": 3, "thousand": 3,
    "m": 6, "mn": 6, "million": 6, "millions": 6,
    "b": 9, "bn": 9, "g": 9, "billion": 9, "billions": 9,
    "t": 12, "tn": 12, "trillion": 12, "trillions": 12,
    "q": 15, "quadrillion": 15,
}  # fmt: skip

_NUMBER = re.compile(
    r"""(?P<sign>[+-]?)
        (?P<whole>\d{1,3}(?:(?P<group>[,' ])\d{3})(?:(?P=group)\d{3})*|\d+(?:_\d+)*)?
        (?:\.(?P<fraction>\d*))?
        (?:[eE](?P<exp>[+-]?\d{1,4}))?
        \s?(?P<suffix>[a-z]*)""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_TIMES_TEN = re.compile(r"(?:(\d+(?:\.\d+)?)\s*[x*×]\s*)?10\s*(?:\^|\*\*)\s*([+-]?\d{1,3})", re.ASCII)


def format_count(value: float, digits: int = 3) -> str:
    """Write a count with a magnitude suffix.

    Parameters
    ----------
    value : float
        A count (parameters, tokens); any finite number.
    digits : int
        Significant digits.

    Returns
    -------
    str

    Examples
    --------
    >>> format_count(22.61e9), format_count(124_439_808), format_count(25.4), format_count(9.996e17)
    ('22.6B', '124M', '25.4', '1.00e+18')
    """
    if not math.isfinite(value):
        return str(value)
    # The suffix is chosen after rounding, so that 999.9996e6 reads 1B and not 1e+03M.
    rounded = float(f"{value:.{digits - 1}e}")
    if abs(rounded) >= 1e18:
        return f"{value:.{digits - 1}e}"
    for scale, suffix in _SUFFIXES:
        if abs(rounded) >= scale:
            return f"{rounded / scale:.{max(digits, 3)}g}{suffix}"
    return f"{rounded:.{digits}g}"


def parse_count(value: object, *, decimal: str = ".", suffixes: bool = True) -> float:
    """Read one number as people write counts.

    Parameters
    ----------
    value : object
        A number, or text such as ``"1.3B"``, ``"125m"``, ``"7e9"``, ``"1_300_000"``, ``"1,300,000"``,
        ``"1.3 billion"`` or ``"2 x 10^9"``. ``K, M, B (or G), T, Q`` are 1e3, 1e6, 1e9, 1e12, 1e15 in
        either case: ``m`` is a million, never milli.
    decimal : {".", ","}
        The decimal mark; the other one may then separate groups of three digits.
    suffixes : bool
        False for quantities that are no counts (a loss): magnitude suffixes are then refused.

    Returns
    -------
    float
        May be ``inf`` or ``nan`` where the number given was.

    Raises
    ------
    DataError
        The value is no number, or something follows it that is no magnitude suffix.

    Examples
    --------
    >>> [parse_count(x) for x in ("1.3B", "125m", "1_300_000", "1,300,000", "7e9")]
    [1300000000.0, 125000000.0, 1300000.0, 1300000.0, 7000000000.0]
    >>> parse_count("1,3 B", decimal=",")
    1300000000.0
    """
    if isinstance(value, bool):
        raise DataError(f"{shown(value)} is not a number")
    if not isinstance(value, str):
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{shown(value)} is not a number") from error
    # NFKC turns full-width digits and the many kinds of space into plain ones.
    text = unicodedata.normalize("NFKC", value).strip().replace("\u2212", "-").replace("\u2019", "'")
    if decimal == "." or "." not in text:
        try:
            return float(text)
        except ValueError:
            pass
    if decimal == ",":
        text = text.translate(str.maketrans(",.", ".,"))
    power = _TIMES_TEN.fullmatch(text)
    if power is not None:
        return float(f"{power[1] or 1}e{power[2]}")
    return _parse_plain(text, value, suffixes)


def _parse_plain(text: str, value: str, suffixes: bool) -> float:
    """Read a number with separators and suffix; `value` is the cell as written, for the message."""
    match = _NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["fraction"]):
        raise DataError(f"{shown(value)} is not a number{_hint(text)}")
    suffix = match["suffix"].lower()
    if suffix not in _EXPONENTS or (suffix and not suffixes):
        expected = "K, M, B or T" if suffixes else "a plain number"
        raise DataError(
            f"{value!r}: {match['suffix']!r} after the number is not understood (expected {expected})"
        )
    if match["exp"] and (suffix or match["group"]):
        what = "a suffix" if suffix else "separators of thousands"
        raise DataError(f"{value!r} has an exponent and {what}: write one of them")
    whole = re.sub(r"[,' _]", "", match["whole"] or "0")
    exponent = int(match["exp"] or 0) + _EXPONENTS[suffix]
    # Through the decimal text and not by multiplication: 2.3e9 exactly, not 2299999999.9999995.
    return float(f"{match['sign']}{whole}.{match['fraction'] or '0'}e{exponent}")


def _hint(text: str) -> str:
    if re.fullmatch(r"\d+\s*x\s*\d+(\.\d+)?\s*[bm]", text, re.IGNORECASE):
        return ": a mixture of experts has a total and an active count, give both"
    if re.fullmatch(r"[+-]?\d+,\d+\s?[a-z]?", text, re.IGNORECASE):
        return ": a decimal comma? pass decimal=','"
    return ""


#: Units in which a loss can be given.
LOSS_UNITS = ("nats/token", "bits/token", "nats/byte", "bits/byte", "perplexity", "unstated")

_UNIT_WORDS = {
    "nats/token": ("nats", "nat", "nats/token", "nats per token", "nat/token", "nats/tok"),
    "bits/token": ("bits", "bit", "bits/token", "bits per token", "bit/token", "bits/tok", "bpt"),
    "nats/byte": ("nats/byte", "nats per byte", "nat/byte"),
    "bits/byte": ("bits/byte", "bits per byte", "bit/byte", "bpb"),
    "perplexity": ("perplexity", "ppl", "ppl/token", "perplexity per token"),
    "unstated": ("unstated",),
}
_UNIT_OF = {word: unit for unit, words in _UNIT_WORDS.items() for word in words}


def is_loss_unit(text: str) -> bool:
    """Tell whether `parse_loss_unit` knows a text."""
    return _unit_key(text) in _UNIT_OF


def _unit_key(text: str) -> str:
    return re.sub(r"[\s_\-]+", " ", str(text)).strip().lower().replace(" / ", "/")


def parse_loss_unit(text: str) -> str:
    """Return one of `LOSS_UNITS` for a unit as people write it.

    Raises
    ------
    UnitError
        The unit is not known; lists those that are.

    Examples
    --------
    >>> parse_loss_unit("bpb"), parse_loss_unit("Bits_per_token"), parse_loss_unit("ppl")
    ('bits/byte', 'bits/token', 'perplexity')
    """
    if not is_loss_unit(text):
        raise UnitError(f"loss unit {text!r} is not known: give one of {', '.join(LOSS_UNITS)}")
    return _UNIT_OF[_unit_key(text)]
