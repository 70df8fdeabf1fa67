"""An estimate with its interval: the type of every headline number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from scaling.units import format_count

Kind = Literal["optimum", "median"]

#: Units written as counts with a magnitude suffix (22.6B) rather than as plain numbers.
COUNT_UNITS = frozenset({"tokens", "params", "tokens/param", "FLOP"})


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it.

    Parameters
    ----------
    value : float
        Point estimate.
    low, high : float
        Ends of the interval at `level`; ``nan`` where no interval exists.
    level : float
        Nominal coverage of the interval, between 0 and 1.
    kind : {"optimum", "median"}
        ``"optimum"``: the value computed from the fitted law itself; ``"median"``: the median of the
        draws.
    name, unit : str
        What it is, and in what unit ("tokens", "params", "nats/token", "" for a pure number).
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    kind: Kind = "optimum"
    name: str = ""
    unit: str = ""

    def __float__(self) -> float:
        return self.value

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends, (low, high)."""
        return (self.low, self.high)

    def format(self, number: Callable[[float], str] | None = None) -> str:
        """Write the estimate as one phrase, e.g. ``22.6B tokens, 95% [19.3B, 26.9B]``."""
        write = number or (format_count if self.unit in COUNT_UNITS else _plain)
        unit = f" {self.unit}" if self.unit else ""
        if self.low != self.low or self.high != self.high:
            return f"{write(self.value)}{unit} (no interval)"
        return f"{write(self.value)}{unit}, {100 * self.level:g}% [{write(self.low)}, {write(self.high)}]"

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        return f"{self.name + ': ' if self.name else ''}{self.format()}"

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain types."""
        return asdict(self)


def _plain(x: float) -> str:
    return f"{x:.4g}"
