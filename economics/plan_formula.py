"""Formulas as people write them into a plan, read with their units to see what they give.

``550 steps × 500k tokens/s × $1.10/h / (3600 × 500k)`` is read as a product of numbers and units. Times of
every unit are one dimension, so a bare 3600 or 60 that converts them is just a number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from economics.errors import EconomicsError
from scaling.errors import DataError
from scaling.units import parse_count

#: Units -> dimension. Time is one dimension whatever its unit.
_UNITS = {
    "step": "steps", "steps": "steps",
    "token": "tokens", "tokens": "tokens", "tok": "tokens",
    "s": "time", "sec": "time", "second": "time", "seconds": "time", "min": "time", "minute": "time",
    "minutes": "time", "h": "time", "hr": "time", "hour": "time", "hours": "time", "day": "time", "days": "time",
    "$": "$", "usd": "$", "dollars": "$",
    "gpu": "GPUs", "gpus": "GPUs", "byte": "bytes", "bytes": "bytes", "gb": "bytes",
    "param": "params", "params": "params",
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?\s?[kKMBT]?(?![A-Za-z])|\.\d+)|(?P<unit>[A-Za-z]+|\$)"
    r"|(?P<op>[*×·x/÷()]))"
)


class FormulaError(EconomicsError, DataError):
    """A formula cannot be read."""


@dataclass(frozen=True)
class Quantity:
    """A number and the powers of its dimensions."""

    value: float
    dimensions: Mapping[str, int]

    @property
    def unit(self) -> str:
        """The dimensions as text, ``steps·$/time`` for instance."""
        above = [_power(d, n) for d, n in sorted(self.dimensions.items()) if n > 0]
        below = [_power(d, -n) for d, n in sorted(self.dimensions.items()) if n < 0]
        return "·".join(above or ["1"]) + ("/" + "/".join(below) if below else "")


def evaluate(formula: str) -> Quantity:
    """Read a product of numbers with units.

    Parameters
    ----------
    formula : str
        Numbers ("500k"), units (steps, tokens, s, min, h, $, GPUs, GB) and ``× * · x / ÷ ( )``, from left to
        right; a number and its unit ("500k tokens/s") are one factor.

    Raises
    ------
    FormulaError
        A word that is no unit, brackets that do not close, or nothing between two operators.

    Examples
    --------
    >>> evaluate("550 steps × 500k tokens/s × $1.10/h / (3600 × 500k)").unit
    '$·steps·tokens/time^2'
    >>> cost = evaluate("550 steps × 500k tokens/step / (500k tokens/s) / 3600 × $1.10/h")
    >>> cost.unit, round(cost.value, 3)
    ('$', 0.168)
    """
    tokens = _tokens(formula)
    value, powers, rest = _product(tokens, 0, formula)
    if rest != len(tokens):
        raise FormulaError(f"{formula!r}: a closing bracket without an opening one", column="formula")
    return Quantity(value, {d: n for d, n in powers.items() if n})


def _tokens(formula: str) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    at, text = 0, formula.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormulaError(f"{formula!r}: {text[at:].strip()[:12]!r} is not understood", column="formula")
        # A lone x between two factors multiplies; anything else made of letters is a unit.
        kind = "op" if match["unit"] == "x" else str(match.lastgroup)
        out.append((kind, match.group().strip()))
        at = match.end()
    return out


def _product(
    tokens: list[tuple[str, str]], at: int, formula: str, depth: int = 0
) -> tuple[float, Counter[str], int]:
    """Read factors up to the end or the closing bracket; return value, powers, and where it stopped."""
    value, powers = 1.0, Counter[str]()
    sign, waiting = 1, True
    while at < len(tokens):
        kind, text = tokens[at]
        if text == ")" and not waiting:
            return value, powers, at + (depth > 0)
        if kind == "op" and text != "(":
            if waiting:
                break
            sign, waiting, at = (-1 if text in "/÷" else 1), True, at + 1
            continue
        if text == "(":
            inner, dims, at = _product(tokens, at + 1, formula, depth + 1)
        else:
            inner, dims, at = _quantity(tokens, at, formula)
        if sign < 0 and inner == 0:
            raise FormulaError(f"{formula!r} divides by zero", column="formula")
        value *= inner**sign
        for dimension, power in dims.items():
            powers[dimension] += sign * power
        sign, waiting = 1, False
    if waiting or depth:
        raise FormulaError(f"{formula!r} ends too early, or an operand is missing", column="formula")
    return value, powers, at


def _quantity(tokens: list[tuple[str, str]], at: int, formula: str) -> tuple[float, Counter[str], int]:
    """Read a number with its unit: ``500k tokens/s`` is one quantity, also after a division sign."""
    value, powers, sign = 1.0, Counter[str](), 1
    while at < len(tokens):
        kind, text = tokens[at]
        if kind == "number":
            value *= parse_count(text)
        elif kind == "unit":
            if text.casefold() not in _UNITS:
                known = "steps, tokens, s, min, h, $, GPUs, GB"
                raise FormulaError(
                    f"{formula!r}: {text!r} is no unit; units are {known}, and numbers stand as they are",
                    column="formula",
                )
            powers[_UNITS[text.casefold()]] += sign
            sign = 1
        elif (
            text == "/" and at + 1 < len(tokens) and tokens[at + 1][0] == "unit" and tokens[at + 1][1] != "$"
        ):
            sign = -1
        else:
            break
        at += 1
    return value, powers, at


def _power(dimension: str, power: int) -> str:
    return dimension if power == 1 else f"{dimension}^{power}"
