"""A smaller model trained for longer: what is lost, what it takes, and from how much serving on it pays."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from scaling.arguments import positive_count
from scaling.errors import DataError, NotIdentifiedError
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.guard import Unidentified
from scaling.laws.base import quiet
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.optima.served import FLOPS_PER_PARAM_SERVED, read_run
from scaling.optima.subject import RunPoint, Subject, subject
from scaling.result import ChinchillaFit
from scaling.units import format_count


@dataclass(frozen=True)
class Overtraining:
    """A model of another size beside a reference run. Made by `overtraining`.

    Parameters
    ----------
    params : float
        Size of the model.
    reference : (float, float)
        Parameters and tokens of the run it is held against.
    same_flops_tokens : float
        Tokens that the compute of the reference buys it.
    same_flops_loss, loss_lost : Estimate
        Its loss there, and by how much that lies above the reference.
    tokens : Estimate
        Tokens with which it reaches the loss of the reference; infinite where none do.
    flops : Estimate
        Compute of that.
    flops_ratio : Estimate
        The same over the compute of the reference: 1.2 is a fifth more.
    served_flops_saved : float
        FLOPs saved with every token served.
    break_even : Estimate
        Tokens served from which on a smaller model is cheaper over its life at the loss of the reference; for a
        larger one, up to which.
    decades_outside : float
        Decades of compute beyond the runs fitted.
    findings : tuple of Finding
        What to know before using it.
    """

    params: float
    reference: tuple[float, float]
    same_flops_tokens: float
    same_flops_loss: Estimate
    loss_lost: Estimate
    tokens: Estimate
    flops: Estimate
    flops_ratio: Estimate
    served_flops_saved: float
    break_even: Estimate
    decades_outside: float
    findings: tuple[Finding, ...] = field(default=())

    def __repr__(self) -> str:
        n, d = map(format_count, self.reference)
        size = format_count(self.params)
        lines = [
            f"{size} parameters instead of {n} on {d} tokens",
            f"  for the same compute  {format_count(self.same_flops_tokens)} tokens",
            f"    loss                {self.same_flops_loss}",
            f"    lost                {self.loss_lost}",
            f"  for the same loss     {self.tokens}",
            f"    compute             {self.flops_ratio.value:.3g} times as much, "
            f"{100 * self.flops_ratio.level:g}% [{self.flops_ratio.low:.3g}, {self.flops_ratio.high:.3g}]",
            f"  pays {'from ' if self.served_flops_saved > 0 else 'up to'}            {self.break_even} served",
        ]
        if self.decades_outside:
            lines.append(f"  {self.decades_outside:.1f} decades beyond the data")
        return "\n".join([*lines, *(f"  {f}" for f in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain types."""
        return {**asdict(self), "findings": [f.to_dict() for f in self.findings]}


@quiet
def tokens_for(law: ChinchillaLaw, params: Any, loss: Any) -> Any:
    """Return the tokens with which a size reaches a loss; infinity where none do. Of one law, or of draws."""
    left = np.asarray(loss - np.asarray(law.E) - law.A * params ** -np.asarray(law.alpha))
    reached = np.exp((np.log(law.B) - np.log(np.where(left > 0, left, np.nan))) / law.beta)
    out = np.where(left > 0, reached, np.inf)
    return float(out) if out.ndim == 0 else out


def overtraining(
    fit: ChinchillaFit | ChinchillaLaw,
    params: float | str,
    *,
    flops: float | str | None = None,
    like: tuple[float | str, float | str] | None = None,
    level: float | None = None,
    unidentified: Unidentified = "raise",
) -> Overtraining:
    """Hold a model of another size, usually a smaller one that is trained for longer, against a reference run.

    Parameters
    ----------
    fit : ChinchillaFit or ChinchillaLaw
    params : float or str
        Its size.
    flops : float or str, optional
        Compute whose optimal run is the reference.
    like : (params, tokens), optional
        The reference itself, instead.
    level : float, optional
        Coverage of the intervals; the fit's own.
    unidentified : {"raise", "return"}
        What to do when the runs do not determine the answer.

    Returns
    -------
    Overtraining

    Raises
    ------
    NotIdentifiedError
        The tokens for the same loss are not determined, or the size does not reach it.
    DataError
        Not exactly one of flops and like, or an argument cannot be.

    Examples
    --------
    >>> law = ChinchillaLaw(E=1.82, A=482.0, B=2085.0, alpha=0.348, beta=0.366)
    >>> found = overtraining(law, "500M", like=("1B", "22.65B"))
    >>> f"{found.flops_ratio.value:.2f} times the compute, {found.break_even.value:.2g} tokens to break even"
    '1.26 times the compute, 3.5e+10 tokens to break even'
    """
    s = subject(fit, level, unidentified)
    n = positive_count("params", params)
    n0, d0 = reference_run(s, flops, like)
    if n == n0:
        raise DataError(f"params = {n:g} is the size of the reference: give another", column="params")
    c = FLOPS_PER_PARAM_TOKEN * n0 * d0
    goal = s.both(lambda law: law.loss(n0, d0) if np.size(law.E) else np.zeros(0))
    needed, drawn = tokens_for(s.law, n, goal[0]), tokens_for(s.draws, n, goal[1])
    tokens = s.estimate(drawn, needed, f"D({format_count(n)}) for the same loss", "tokens")
    spent = FLOPS_PER_PARAM_TOKEN * n * needed
    if not math.isfinite(needed) and unidentified == "raise":
        floor = float(s.law.E + s.law.A * n**-s.law.alpha)
        raise NotIdentifiedError(
            f"{format_count(n)} parameters never reach the loss of the reference, {goal[0]:.4g}: with tokens without "
            f"end the law puts them at {floor:.4g}. Give a larger size. (unidentified='return' gives the rest.)",
            quantities=("tokens",),
        )
    s.guard(tokens, spent)
    saved = FLOPS_PER_PARAM_SERVED * (n0 - n)
    same = c / (FLOPS_PER_PARAM_TOKEN * n)
    here = s.both(lambda law: law.loss(n, same) if np.size(law.E) else np.zeros(0))
    even = [break_even(FLOPS_PER_PARAM_TOKEN * n * np.asarray(d) - c, saved) for d in (needed, drawn)]
    found = s.findings(n, needed) if math.isfinite(needed) else []
    return Overtraining(
        params=n,
        reference=(n0, d0),
        same_flops_tokens=same,
        same_flops_loss=s.estimate(here[1], here[0], "loss", s.loss_unit),
        loss_lost=s.estimate(here[1] - goal[1], here[0] - goal[0], "loss lost", s.loss_unit),
        tokens=tokens,
        flops=s.estimate(FLOPS_PER_PARAM_TOKEN * n * drawn, spent, "C", "FLOP"),
        flops_ratio=s.estimate(
            FLOPS_PER_PARAM_TOKEN * n * drawn / c, spent / c, "C over that of the reference"
        ),
        served_flops_saved=saved,
        break_even=s.estimate(even[1], float(even[0]), "break-even", "tokens"),
        decades_outside=s.away(spent) if math.isfinite(spent) else math.inf,
        findings=tuple(found),
    )


def break_even(extra: Any, saved: Any) -> Any:
    """Return the tokens served at which an extra cost and what each token saves come out even.

    From there on a smaller model (`saved` > 0) is the cheaper one, up to there a larger one (`saved` < 0); 0 where
    the smaller one always is, or the larger one never.
    """
    with np.errstate(all="ignore"):
        return np.maximum(np.divide(extra, saved), 0.0)


def reference_run(s: Subject, flops: Any, like: Any) -> RunPoint:
    """Return the run given, or the law's compute-optimal one for `flops`.

    Raises
    ------
    DataError
        Not exactly one of them.
    """
    if (flops is None) == (like is None):
        raise DataError(
            "give flops, whose optimal run is the reference, or like=(params, tokens)", column="flops"
        )
    if like is not None:
        return RunPoint(*read_run(like))
    if s.fit is not None:
        best = s.fit.optimal(positive_count("flops", flops), unidentified=s.unidentified)
        return RunPoint(best.params.value, best.tokens.value)
    point = s.law.optimal(positive_count("flops", flops))
    return RunPoint(point.params, point.tokens)
