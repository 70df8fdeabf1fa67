"""The cheapest run, in FLOPs, whose loss is as low as wanted, as surely as wanted."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from scaling.answers import Optimum
from scaling.arguments import positive_count
from scaling.errors import DataError, NotIdentifiedError, shown
from scaling.findings import Finding
from scaling.guard import REFUSE_DECADES, WARN_DECADES, Unidentified
from scaling.laws.base import quiet
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.optima.roots import lowest
from scaling.optima.served import served_at_loss
from scaling.optima.subject import RunPoint, Shape, Subject, reachable, shape_of, subject
from scaling.result import ChinchillaFit

#: Of what the loss must be low enough: one run with its luck, or the law.
OF = ("run", "law")
#: Half the width, in ln N, of the search around the law's own optimum, and its grid.
_REACH, _NODES = 2.4, 9


class LossGoal:
    """A loss to reach with a probability: which tokens a size needs for it.

    Parameters
    ----------
    s : Subject
    loss : float
        Loss to stay at or below.
    probability : float
        With which; 0.5 is the law itself.
    of : {"run", "law"}
        Of one run with its luck (scatter, and drift beyond the runs), or of the law alone.
    """

    def __init__(self, s: Subject, loss: float, probability: float = 0.5, of: str = "run") -> None:
        if not (isinstance(probability, int | float) and 0.0 < probability < 1.0):
            raise DataError(
                f"probability must lie between 0 and 1, got {shown(probability)}", column="probability"
            )
        if not isinstance(of, str) or of not in OF:
            raise DataError(f"of must be one of {', '.join(OF)}, got {shown(of)}", column="of")
        if probability != 0.5 and not s.has_draws:
            raise DataError(
                f"probability={probability:g} needs a fit with draws: a law alone has no interval",
                column="probability",
            )
        self.s, self.loss, self.probability, self.of = s, loss, float(probability), of

    def reached(self, params: float, tokens: float) -> float:
        """Return the loss that the run stays below with the probability asked for."""
        if self.probability == 0.5 or self.s.fit is None:
            return float(self.s.law.loss(params, tokens))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the distance is a finding of the answer
            answer = self.s.fit.predict(params, tokens, level=abs(2.0 * self.probability - 1.0))
        ends = answer.prediction if self.of == "run" else answer.mean
        return ends.high if self.probability > 0.5 else ends.low

    def tokens(self, params: float) -> float:
        """Return the fewest tokens that reach it at this size; infinity where none do."""
        wanted, found = self.loss, math.inf
        for _ in range(60):
            before, found = found, self._tokens(params, wanted)
            if not math.isfinite(found) or self.probability == 0.5 or abs(found / before - 1.0) < 1e-10:
                break
            # How far that quantile lies above the law hardly depends on D: from the law's own answer outwards, this
            # ends at the fewest tokens, or nowhere if the law may drift faster than it falls.
            wanted = self.loss * float(self.s.law.loss(params, found)) / self.reached(params, found)
        return found

    def _tokens(self, params: float, loss: float) -> float:
        """Return the tokens at which the law itself reaches a loss."""
        law = self.s.law
        left = loss - law.E - law.A * params**-law.alpha
        return math.exp((math.log(law.B) - math.log(left)) / law.beta) if left > 0 else math.inf

    def best(self) -> RunPoint:
        """Return the run with the fewest FLOPs.

        Raises
        ------
        NotIdentifiedError
            No run reaches the loss so surely.
        """
        start = served_at_loss(self.s.law, self.loss, 0.0)
        if self.probability == 0.5:
            return start

        def compute(x: Any) -> Any:
            return np.array([math.log(self.tokens(math.exp(v))) + v for v in np.atleast_1d(x)])

        middle = math.log(start.params)
        x = float(lowest(compute, middle - _REACH, middle + _REACH, (1,), _NODES, 14)[0])
        d = self.tokens(math.exp(x))
        if not math.isfinite(d):
            raise NotIdentifiedError(
                f"no run reaches a loss of {self.loss:g} with a probability of {self.probability:g}: what the law "
                "leaves open does not go away with more tokens. Ask for a higher loss or a lower probability; runs "
                "nearer to that loss would narrow it.",
                quantities=("loss",),
            )
        return RunPoint(math.exp(x), d)

    @quiet
    def drawn(self) -> RunPoint:
        """Return the cheapest run of each draw: what it would take if the law were known."""
        return served_at_loss(self.s.draws, np.full(np.shape(self.s.draws.E), self.loss), 0.0)


def cheapest_for_loss(
    fit: ChinchillaFit | ChinchillaLaw,
    loss: float,
    *,
    probability: float = 0.5,
    of: str = "run",
    level: float | None = None,
    unidentified: Unidentified = "raise",
) -> Optimum:
    """Return the run with the fewest FLOPs whose loss is `loss` or lower. For dollars see `economics.decide`.

    Parameters
    ----------
    fit : ChinchillaFit or ChinchillaLaw
    loss : float
        In the unit of the fit.
    probability : float
        How surely: 0.5 asks the law itself, 0.9 a run that stays below with nine chances in ten.
    of : {"run", "law"}
        Whether the luck of a single run counts (its scatter, and the law's drift beyond the runs), or the law's
        own uncertainty alone. Without effect at 0.5.
    level : float, optional
        Coverage of the intervals; the fit's own.
    unidentified : {"raise", "return"}
        What to do when the runs do not determine the answer.

    Returns
    -------
    Optimum
        At a probability other than 0.5 N, D and FLOP are a decision, and have no interval; ``more["needed"]`` is
        what would do if the law were known.

    Raises
    ------
    NotIdentifiedError
        As `ChinchillaFit.optimal`; or no run reaches the loss.
    DataError
        An argument cannot be.

    Examples
    --------
    >>> law = ChinchillaLaw(E=1.82, A=482.0, B=2085.0, alpha=0.348, beta=0.366)
    >>> best = cheapest_for_loss(law, 2.2)
    >>> f"{best.flops.value:.2e} FLOP, {best.params.value:.2e} parameters"
    '3.97e+21 FLOP, 5.64e+09 parameters'
    """
    s = subject(fit, level, unidentified)
    goal = LossGoal(s, positive_count("loss", loss), probability, of)
    reachable(s, goal.loss)
    best, drawn, more = goal.best(), goal.drawn(), {}
    at = s.both(lambda law: law.loss(best.params, best.tokens) if np.size(law.E) else np.zeros(0))
    made = shape_of(s, best, drawn, at)
    surely = ""
    if probability != 0.5:
        surely = f" with a probability of {probability:g}"
        known = served_at_loss(s.law, goal.loss, 0.0)
        more = {
            "needed": s.estimate(
                flops_of(drawn), float(flops_of(known)), "needed if the law is right", "FLOP"
            )
        }
        made = decided(made)
    given = {"loss": goal.loss, "probability": probability, "of": of}
    found = s.findings(best.params, best.tokens) + reach_findings(made.decades_outside)
    question = f"fewest FLOP for a loss of {goal.loss:g}{surely}"
    return Optimum(**vars(made), question=question, more=more, given=given, findings=tuple(found))


def decided(made: Shape) -> Shape:
    """Return N, D and FLOP as numbers without an interval: somebody chose them."""
    names = ("flops", "params", "tokens", "tokens_per_param")
    numbers = {name: getattr(made, name) for name in names}
    return replace(made, **{k: replace(e, low=e.value, high=e.value) for k, e in numbers.items()})


def reach_findings(away: float) -> list[Finding]:
    """Say how far beyond the runs an answer lies, where that is far."""
    if away <= WARN_DECADES:
        return []
    words = f"{away:.1f} decades of compute beyond the runs fitted: the interval holds if the law does."
    severe = away > REFUSE_DECADES
    return [Finding("extrapolation", "error" if severe else "warning", words, {"decades": away})]


def flops_of(run: RunPoint) -> Any:
    """Return 6 N D."""
    return FLOPS_PER_PARAM_TOKEN * np.asarray(run.params) * run.tokens
