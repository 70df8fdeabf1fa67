"""What is to be known better, how its uncertainty is written, and how precise it shall be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from economics.run_numbers import plain
from scaling.errors import DataError, shown
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.targets import Target, target_function
from scaling.units import format_count, parse_count

_SHORT = {"tokens": "ln_tokens", "params": "ln_params"}
#: A factor that bounds nothing: a larger one is written as more than this.
_ANYTHING = 1e9
_EXPONENTS = {"a": "params_exponent", "b": "tokens_exponent"}
_KNOWN = (
    "tokens@1B (the best tokens for a size), params@20B (the best size for tokens), loss@1B,20B (the loss of a run), "
    "a or params_exponent (of N* ~ C^a), alpha, beta, E, or a function of a law"
)


@dataclass(frozen=True)
class Goal:
    """A quantity to be known better. Made by `read_goal`.

    Parameters
    ----------
    name : str
        As people write it: "D*(1B)".
    target : str or callable
        As `scaling.targets` knows it.
    function : callable
        The quantity as a function of a law; the log of it where `by_factor`.
    by_factor : bool
        Whether it errs by factors (x/÷ 1.3) or by differences (± 0.02).
    at : (str, tuple of float)
        Kind of the target, and the counts in it.
    level : float
        Coverage of the intervals.
    """

    name: str
    target: Target
    function: Callable[[ChinchillaLaw], float]
    by_factor: bool
    at: tuple[str, tuple[float, ...]]
    level: float

    @property
    def z(self) -> float:
        """Standard errors on either side of an interval."""
        return NormalDist().inv_cdf(0.5 + self.level / 2)

    def half_width(self, se: float) -> float:
        """Return the factor, or the difference, on either side of an interval; infinite where open."""
        wide = self.z * se
        if not self.by_factor:
            return wide
        return math.exp(wide) if wide < 700 else math.inf

    def wanted_se(self, precision: Any) -> float:
        """Return the standard error at which an interval has the half-width asked for.

        Raises
        ------
        DataError
            It is no number, not above 1 for a factor, or not above 0 for a difference.
        """
        value = plain(precision)
        least = 1.0 if self.by_factor else 0.0
        if not least < value < math.inf:
            what = (
                "a factor above 1, such as 1.25" if self.by_factor else "a half-width above 0, such as 0.02"
            )
            raise DataError(f"precision of {self.name} is {what}, got {shown(precision)}", column="precision")
        return (math.log(value) if self.by_factor else value) / self.z

    def write(self, half_width: float) -> str:
        """Write a half-width: "x/÷ 1.3" or "± 0.02"."""
        if not self.by_factor:
            return f"± {half_width:.2g}" if math.isfinite(half_width) else "± infinity"
        if half_width >= 1e4:
            more = "+" if _ANYTHING < half_width < math.inf else ""
            return "x/÷ infinity" if math.isinf(half_width) else f"x/÷ {min(half_width, _ANYTHING):.0e}{more}"
        return f"x/÷ {half_width:.3g}" if half_width > 1.2 else f"x/÷ {half_width:.4g}"

    def flops(self, law: ChinchillaLaw) -> float | None:
        """Return the compute of the run that the quantity speaks of; None for a coefficient or a function."""
        kind, counts = self.at
        if kind == "tokens":
            return float(FLOPS_PER_PARAM_TOKEN * counts[0] * law.tokens_at(counts[0]))
        if kind == "params":
            return float(FLOPS_PER_PARAM_TOKEN * counts[0] * law.params_at(counts[0]))
        return FLOPS_PER_PARAM_TOKEN * counts[0] * counts[1] if kind == "loss" else None


def read_goal(target: Target, level: float) -> Goal:
    """Return the goal that a text or a function names.

    Raises
    ------
    DataError
        It is none of the known ones.

    Examples
    --------
    >>> read_goal("tokens@1B", 0.95).name, read_goal("a", 0.95).name
    ('D*(1B)', 'params_exponent')
    """
    if callable(target):
        name = getattr(target, "__name__", "the target")
        return Goal(name, target, _answering(name, target), False, ("function", ()), level)
    kind, sign, rest = str(target).strip().partition("@")
    kind = _EXPONENTS.get(kind, kind) if not sign else kind.removeprefix("ln_")
    name = f"{_SHORT.get(kind, kind)}@{rest}" if sign else kind
    try:
        function = target_function(name)
        counts = tuple(parse_count(part) for part in rest.split(",")) if sign else ()
        if not all(0 < c < math.inf for c in counts):
            raise DataError("counts must be positive", column="target")
    except DataError as error:
        raise DataError(f"target {shown(target)} is not known: give {_KNOWN}", column="target") from error
    written = ", ".join(format_count(c) for c in counts)
    spelled = {"tokens": f"D*({written})", "params": f"N*({written})", "loss": f"the loss at ({written})"}
    return Goal(
        spelled.get(kind, kind), name, function, kind in _SHORT, (kind if sign else "law", counts), level
    )


def _answering(name: str, function: Callable[[ChinchillaLaw], float]) -> Callable[[ChinchillaLaw], float]:
    """Return a function of a law, whose faults are refused as those of the target."""

    def asked(law: ChinchillaLaw) -> float:
        try:
            return float(function(law))
        except Exception as error:
            raise DataError(
                f"target {name} must be a function of a law that gives a number; it fails: "
                f"{type(error).__name__}: {error!s:.200}",
                column="target",
            ) from error

    return asked


@dataclass(frozen=True)
class Precision:
    """Predicted half-width of an interval over the laws held possible.

    Parameters
    ----------
    value, low, high : float
        At the mean log standard error, which is what a search minimises (or at the quantile it was given), and the
        10th and 90th percentile over these laws; a factor or a difference, infinite where left open.
    text : str
        In words.
    """

    value: float
    low: float
    high: float
    text: str

    @classmethod
    def of(cls, goal: Goal, se: Any, quantile: float | None = None) -> Precision:
        """Summarise standard errors, one per law."""
        errors = np.asarray(se, dtype=float)
        # Order statistics, so that an infinite one is not interpolated with.
        ends = np.quantile(errors, (0.1, 0.9, quantile or 0.5), method="inverted_cdf")
        middle = ends[2] if quantile else math.exp(np.log(np.maximum(errors, 1e-300)).mean())
        low, high, value = (goal.half_width(float(x)) for x in (ends[0], ends[1], middle))
        if math.isinf(value):
            return cls(value, low, high, "open: nothing bounds it")
        span = f"{goal.write(low)} to {goal.write(high)} over the laws possible"
        return cls(value, low, high, f"{goal.write(value)} at {100 * goal.level:g}% ({span})")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {"value": self.value, "low": self.low, "high": self.high}
