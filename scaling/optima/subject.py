"""What an optimum is asked of: a fit with its draws, or a law alone; intervals and refusals for both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scaling.diagnose import extrapolation
from scaling.errors import DataError, NotIdentifiedError
from scaling.estimate import Estimate
from scaling.findings import Finding, Severity
from scaling.guard import Unidentified, check_unidentified
from scaling.intervals import check_level
from scaling.laws.base import Array
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.result import ChinchillaFit
from scaling.units import format_count


class RunPoint(NamedTuple):
    """Parameters and tokens of a run: numbers, or one for each draw."""

    params: Any
    tokens: Any


@dataclass(frozen=True)
class Subject:
    """A law, its draws, and how answers about it are given.

    Parameters
    ----------
    law : ChinchillaLaw
        The law itself.
    draws : ChinchillaLaw
        Its draws, arrays of shape (R,); of length 0 for a law without a fit.
    fit : ChinchillaFit or None
        Where it comes from.
    level : float
        Coverage of the intervals.
    unidentified : {"raise", "return"}
        What to do where the runs do not determine an answer.
    """

    law: ChinchillaLaw
    draws: ChinchillaLaw
    fit: ChinchillaFit | None
    level: float
    unidentified: Unidentified

    @property
    def loss_unit(self) -> str:
        """Unit of the losses; empty for a law alone."""
        return "" if self.fit is None else self.fit.runs.loss_unit

    @property
    def has_draws(self) -> bool:
        """Whether there are intervals."""
        return bool(np.size(self.draws.E))

    def both(self, question: Callable[[ChinchillaLaw], Any]) -> tuple[Any, Any]:
        """Return the answer of the law and those of its draws."""
        return question(self.law), question(self.draws)

    def estimate(self, draws: Any, value: float, name: str, unit: str = "") -> Estimate:
        """Return a number with the interval of its draws, as the fit gives its own."""
        if self.fit is None:
            return Estimate(float(value), math.nan, math.nan, self.level, "optimum", name, unit)
        return self.fit._estimate(np.asarray(draws), float(value), name, unit, self.level)

    def guard(self, answer: Estimate, flops: float) -> None:
        """Refuse an answer that the runs do not determine, warn of one far away.

        Raises
        ------
        NotIdentifiedError
            As `ChinchillaFit.tokens_at`, unless `unidentified` is ``"return"``.
        """
        if self.fit is not None:
            self.fit._guard(answer, flops, self.unidentified)

    def away(self, flops: float) -> float:
        """Decades of compute beyond the runs; 0 inside, and for a law without runs."""
        return 0.0 if self.fit is None else extrapolation(self.fit.runs, flops)

    def findings(self, params: float, tokens: float) -> list[Finding]:
        """Return what speaks against a law's loss at one run: its verdict, its reach in D/N."""
        if self.fit is None:
            words = "a law without its runs: the answer has no interval, and its reach is not known."
            return [Finding("no_interval", "info", words, {})]
        found = []
        if self.fit.verdict != "identified":
            weak = self.fit.verdict == "weak"
            words = f"the law behind this is {'weakly' if weak else 'not'} identified by its runs."
            code = "law_weak" if weak else "law_not_identified"
            severity: Severity = "warning" if weak else "error"
            found.append(Finding(code, severity, words, {"verdict": self.fit.verdict}))
        low, high = self.fit.diagnostics.tokens_per_param
        ratio = tokens / params if params > 0 else math.inf
        if not low / 2 <= ratio <= high * 2:
            words = (
                f"{format_count(ratio)} tokens per parameter; the runs fitted have {format_count(low)} to "
                f"{format_count(high)}: the interval holds if the law does there."
            )
            found.append(Finding("ratio_outside", "warning", words, {"ratio": ratio, "runs": [low, high]}))
        return found


def subject(
    source: ChinchillaFit | ChinchillaLaw, level: float | None = None, unidentified: Unidentified = "raise"
) -> Subject:
    """Return what an optimum is asked of.

    Raises
    ------
    DataError
        It is neither a fit nor one law, or `level` or `unidentified` cannot be.
    """
    check_unidentified(unidentified)
    if isinstance(source, ChinchillaFit):
        chosen = source.settings.level if level is None else check_level(level)
        return Subject(source.law, source.draws, source, chosen, unidentified)
    if not isinstance(source, ChinchillaLaw) or any(np.ndim(v) for v in vars(source).values()):
        raise DataError(
            f"fit must be what fit_chinchilla returns, or one ChinchillaLaw; got {type(source).__name__}"
            + (" of arrays" if isinstance(source, ChinchillaLaw) else ""),
            column="fit",
        )
    none = ChinchillaLaw(*(np.zeros(0) for _ in range(5)))
    return Subject(source, none, None, 0.95 if level is None else check_level(level), unidentified)


@dataclass(frozen=True)
class Shape:
    """The numbers every optimum has, as estimates; see `scaling.answers.Optimum`."""

    flops: Estimate
    params: Estimate
    tokens: Estimate
    loss: Estimate
    tokens_per_param: Estimate
    decades_outside: float


def shape_of(
    s: Subject, best: RunPoint, drawn: RunPoint, loss: tuple[float, Array], *, guarded: bool = True
) -> Shape:
    """Return the estimates of a run and of its draws, refused where the runs do not determine it.

    Parameters
    ----------
    s : Subject
    best, drawn : RunPoint
        The optimum of the law, and of each draw.
    loss : (float, array)
        Loss there, of the law and of each draw.
    guarded : bool
        False where the caller refuses by rules of its own.

    Raises
    ------
    NotIdentifiedError
        As `Subject.guard`.
    """
    n, d = float(best.params), float(best.tokens)
    flops = FLOPS_PER_PARAM_TOKEN * n * d
    params = s.estimate(drawn.params, n, "N*", "params")
    tokens = s.estimate(drawn.tokens, d, "D*", "tokens")
    with np.errstate(all="ignore"):  # a draw in which the loss cannot be reached has neither
        ratios = np.where(np.isfinite(drawn.tokens), np.divide(drawn.tokens, drawn.params), np.inf)
        ratios = np.where(np.isnan(ratios), 0.0, ratios)  # no run at all
        compute = FLOPS_PER_PARAM_TOKEN * np.asarray(drawn.params) * drawn.tokens
        ratio = s.estimate(ratios, d / n, "D*/N*", "tokens/param")
        cost = s.estimate(compute, flops, "C", "FLOP")
    if guarded:
        s.guard(ratio, flops)
        s.guard(cost, flops)
    return Shape(
        cost, params, tokens, s.estimate(loss[1], loss[0], "loss", s.loss_unit), ratio, s.away(flops)
    )


def reachable(s: Subject, loss: float) -> None:
    """Refuse a loss that no run reaches under the law.

    Raises
    ------
    NotIdentifiedError
        It is not above E, the law's floor.
    """
    floor = float(s.law.E)
    if loss > floor:
        return
    interval = "" if s.fit is None else f" ({s.fit.ci('E', s.level)})"
    raise NotIdentifiedError(
        f"no run reaches a loss of {loss:g}: the law has its floor at E = {floor:.4g}{interval}. Ask for a higher "
        "loss; runs nearer to the floor would determine it better.",
        quantities=("loss",),
    )
