"""Formulas as people write them into a plan, read with their units to see what they give.

``550 steps × 500k tokens/step / (500k tokens/s) / 3600 × $1.10/h`` is read as numbers with units. Two ways to
mix units are right: to leave the conversion to the units (``30 min × $1.10/h`` is $0.55), and to do it by hand
(``/ 3600``). So a bare 60, 3600 or 24 counts as a conversion where it is the one the units ask for, and as a
plain number everywhere else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from economics.errors import EconomicsError
from economics.plan_units import CONVERSIONS, UNITS
from scaling.errors import DataError
from scaling.units import parse_count

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d[\d,_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:\s?[kKMBT](?![A-Za-z]))?(?:\s?%)?)"
    r"|(?P<join>(?<=[A-Za-z])-(?=[A-Za-z]))|(?P<op>[*×·/÷()+−@-]|[xX](?![A-Za-z]))"
    r"|(?P<unit>[A-Za-z]+(?![A-Za-z0-9])|\$))",
    re.ASCII,
)
#: More than this is no formula that a person wrote.
_LONGEST, _DEEPEST = 1000, 20
_TIMES, _OVER, _PLUS, _MINUS = ("*", "×", "·"), ("/", "÷"), ("+",), ("-", "−")
#: Operators that are words; anything else made of letters is a unit.
_WORDS = {"x": "*", "X": "*", "@": "*", "at": "*", "of": "*", "per": "/"}
#: A month has 720 or 730 hours: a conversion by hand may be off by as much.
_SAME = 0.02


class FormulaError(EconomicsError, DataError):
    """A formula cannot be read."""


@dataclass(frozen=True)
class Quantity:
    """A number, the powers of its dimensions, and what its units are worth.

    Parameters
    ----------
    value : float
        The numbers alone, as a pocket calculator gives them.
    dimensions : mapping of str to int
        Powers of "time", "$", "tokens", ...
    scale : float
        One of the units that `value` is in, in base units (s, $, bytes): 3600 for hours.
    conversions : tuple of float
        Bare numbers such as 1/3600 that may have been meant to convert units.
    units : bool
        A unit was written somewhere.
    """

    value: float
    dimensions: Mapping[str, int]
    scale: float = 1.0
    conversions: tuple[float, ...] = ()
    units: bool = False

    @property
    def unit(self) -> str:
        """The dimensions as text, ``steps·$/time`` for instance."""
        above = [_power(d, n) for d, n in sorted(self.dimensions.items()) if n > 0]
        below = [_power(d, -n) for d, n in sorted(self.dimensions.items()) if n < 0]
        return "·".join(above or ["1"]) + ("/" + "/".join(below) if below else "")

    def measured(self, unit: float = 1.0) -> float:
        """Return the value in a unit worth `unit` base units (3600 for hours), converted unless it is already.

        Examples
        --------
        >>> round(evaluate("30 min × $1.10/h").measured(), 6)
        0.55
        >>> round(evaluate("5B tokens / (500k tokens/s)").measured(3600), 3)
        2.778
        """
        return self.value if self.converted(unit) else self.value * self.scale / unit

    def converted(self, unit: float) -> bool:
        """Tell whether the value is in that unit as it stands: by its units, or by hand."""
        factor = self.scale / unit
        return any(math.isclose(p, factor, rel_tol=_SAME) for p in _products(self.conversions))


def evaluate(formula: str) -> Quantity:
    """Read products and sums of numbers with units.

    Parameters
    ----------
    formula : str
        Numbers ("500k", "10%"), units (`economics.plan_units`) and ``× * · / ÷ + - ( )`` with their usual
        precedence; a number and its unit ("500k tokens/s", "$2/GPU-h") are one factor.

    Raises
    ------
    FormulaError
        A word that is no unit, brackets that do not close, nothing between two operators, a sum of different
        units, or a number beyond the range of floats.

    Examples
    --------
    >>> evaluate("550 steps × 500k tokens/s × $1.10/h / (3600 × 500k)").unit
    '$·steps·tokens/time^2'
    >>> cost = evaluate("550 steps × 500k tokens/step / (500k tokens/s) / 3600 × $1.10/h + $3")
    >>> cost.unit, round(cost.measured(), 3)
    ('$', 3.168)
    """
    if len(formula) > _LONGEST:
        raise FormulaError(
            f"{formula[:40]!r}... has {len(formula):,} characters: a formula has up to {_LONGEST:,}",
            column="formula",
        )
    reader = _Reader(formula)
    result = reader.sum()
    if reader.at != len(reader.tokens):
        raise reader.error("a closing bracket without an opening one")
    if not (math.isfinite(result.value) and math.isfinite(result.value * result.scale)):
        raise reader.error("its value is beyond the range of numbers")
    return result


class _Reader:
    """Reads the tokens of one formula from left to right."""

    def __init__(self, formula: str) -> None:
        self.formula, self.at, self.depth = formula, 0, 0
        self.tokens = self._tokens(formula.replace("\u00a0", " "))

    def error(self, words: str) -> FormulaError:
        return FormulaError(f"{self.formula!r}: {words}", column="formula")

    def _tokens(self, formula: str) -> list[tuple[str, str]]:
        out: list[tuple[str, str]] = []
        at, text = 0, formula.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error(f"{text[at:].strip()[:12]!r} is not understood")
            kind, word = str(match.lastgroup), match.group().strip()
            if word in _WORDS:
                kind, word = "op", _WORDS[word]
            out.append((kind, word))
            at = match.end()
        return out

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ("end", "")

    def sum(self) -> Quantity:
        terms, sign = [self.product()], 1
        while self.peek()[1] in (*_PLUS, *_MINUS) and self.peek()[0] == "op":
            sign = 1 if self.peek()[1] in _PLUS else -1
            self.at += 1
            term = self.product()
            terms.append(replace(term, value=sign * term.value))
        return terms[0] if len(terms) == 1 else self._added(terms)

    def _added(self, terms: Sequence[Quantity]) -> Quantity:
        """Add terms in a unit that all of them are in already, or else in base units."""
        if any(t.dimensions != terms[0].dimensions for t in terms):
            units = " + ".join(dict.fromkeys(t.unit for t in terms))
            raise self.error(f"adds different things, {units}")
        unit = next((t.scale for t in terms if all(u.converted(t.scale) for u in terms)), 1.0)
        shared = [Counter(t.conversions) for t in terms if t.scale == unit]
        kept = shared[0] if len(shared) == len(terms) else Counter[float]()
        for other in shared:
            kept &= other
        total = math.fsum(t.measured(unit) for t in terms)
        return Quantity(total, terms[0].dimensions, unit, tuple(kept.elements()), any(t.units for t in terms))

    def product(self) -> Quantity:
        value, scale, powers = 1.0, 1.0, Counter[str]()
        conversions: list[float] = []
        sign, waiting, units = 1, True, False
        while True:
            kind, text = self.peek()
            if kind == "op" and text in (*_TIMES, *_OVER) and not waiting:
                sign, waiting = (-1 if text in _OVER else 1), True
                self.at += 1
                continue
            if text == "(":
                factor = self.bracket()
            elif kind in ("number", "unit"):
                factor = self.quantity()
            else:
                break
            if sign < 0 and factor.value == 0:
                raise self.error("divides by zero")
            value = value / factor.value if sign < 0 else value * factor.value
            scale = scale / factor.scale if sign < 0 else scale * factor.scale
            units |= factor.units
            conversions += [c**sign for c in factor.conversions]
            for dimension, power in factor.dimensions.items():
                powers[dimension] += sign * power
            sign, waiting = 1, False
        if waiting:
            raise self.error("ends too early, or an operand is missing")
        if not 0 < scale < math.inf:
            raise self.error("its units are beyond the range of numbers")
        return Quantity(value, {d: n for d, n in powers.items() if n}, scale, tuple(conversions), units)

    def bracket(self) -> Quantity:
        self.at, self.depth = self.at + 1, self.depth + 1
        if self.depth > _DEEPEST:
            raise self.error(f"has more than {_DEEPEST} brackets in one another")
        inside = self.sum()
        if self.peek()[1] != ")":
            raise self.error("a bracket does not close")
        self.at, self.depth = self.at + 1, self.depth - 1
        return inside

    def quantity(self) -> Quantity:
        """Read a number with its unit: ``500k tokens/s`` is one quantity, also after a division sign."""
        value: float | None = None
        scale, powers, sign, units = 1.0, Counter[str](), 1, 0
        percent = False
        while True:
            kind, text = self.peek()
            if kind == "number":
                if value is not None:
                    raise self.error(f"nothing between two numbers before {text!r}: write × or + there")
                if units and powers != {"$": 1}:
                    raise self.error(f"{text!r} follows a unit: write × or + before it")
                value, percent = self.number(text), text.endswith("%")
            elif kind == "unit":
                worth, dimensions = self.unit(text)
                scale *= worth**sign
                for dimension, power in dimensions.items():
                    powers[dimension] += sign * power
                # "/GPU-h" is per GPU and hour; otherwise a division sign holds for one unit.
                joined = self.peek(1)[0] == "join" or ("GPUs" in dimensions and self._time_follows())
                sign, units = (sign if joined else 1), units + 1
            elif text == "/" and self.peek(1)[0] == "unit" and self.peek(1)[1] != "$":
                sign = -1
            elif kind != "join":
                break
            self.at += 1
        number = 1.0 if value is None else value
        bare = not units and not percent and number in CONVERSIONS
        return Quantity(number, powers, scale, (number,) if bare else (), units > 0 or percent)

    def _time_follows(self) -> bool:
        kind, text = self.peek(1)
        return kind == "unit" and "time" in UNITS.get(text.casefold(), (1.0, {}))[1]

    def number(self, text: str) -> float:
        plain = text.removesuffix("%").rstrip()
        try:
            value = parse_count(plain) / (100 if plain != text else 1)
        except DataError as error:
            raise self.error(str(error)) from error
        if not math.isfinite(value):
            raise self.error(f"{text} is beyond the range of numbers")
        return value

    def unit(self, text: str) -> tuple[float, Mapping[str, int]]:
        known = UNITS.get(text.casefold())
        if known is None:
            raise self.error(
                f"{text!r} is no unit; units are steps, tokens, s, min, h, days, $, GPUs, GB, FLOPs, kWh, and numbers "
                f"stand as they are"
            )
        worth, dimensions = known
        # TFLOPS with a capital S is a rate, unless what it is divided by follows.
        if text.endswith("FLOPS") and self.peek(1)[1] != "/":
            return worth, {"FLOPs": 1, "time": -1}
        return worth, dimensions


def _products(numbers: Sequence[float]) -> set[float]:
    """Products of every choice of some numbers, the empty one included."""
    found = {1.0}
    for number in numbers[:12]:
        found |= {float(f"{p * number:.9g}") for p in found}
    return found


def _power(dimension: str, power: int) -> str:
    return dimension if power == 1 else f"{dimension}^{power}"
