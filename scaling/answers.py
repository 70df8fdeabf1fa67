"""Answers a fitted law gives that are more than one number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.units import format_count


@dataclass(frozen=True)
class Optimum:
    """The best run of a kind: the answer to a question such as "which run for this compute".

    Every kind of optimum gives this type, so that they can stand beside each other. The interval of each number
    is that of the optimum found anew for every draw of the law (and of the cost, where dollars decide).

    Parameters
    ----------
    flops : Estimate
        Training compute, C = 6 N D. Where it was given, both ends of its interval are the number itself.
    params, tokens, loss, tokens_per_param : Estimate
        N*, D*, the loss there and D*/N*.
    decades_outside : float
        Decades of compute beyond the runs fitted; 0 inside.
    question : str
        What it is the optimum of, in words.
    usd, hours : Estimate or None
        Dollars, and hours from start to end, where a cost was asked for.
    more : mapping of str to Estimate
        Further numbers by name, such as ``"epochs"`` or ``"lifetime_flops"``.
    given : mapping of str to object
        What was asked, as plain types.
    findings : tuple of Finding
        What to know before using it.
    """

    flops: Estimate
    params: Estimate
    tokens: Estimate
    loss: Estimate
    tokens_per_param: Estimate
    decades_outside: float
    question: str = "optimum"
    usd: Estimate | None = None
    hours: Estimate | None = None
    more: Mapping[str, Estimate] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def finding(self, code: str) -> Finding | None:
        """Return the first finding with this code, or None."""
        return next((f for f in self.findings if f.code == code), None)

    def __repr__(self) -> str:
        rows = {"N*": self.params, "D*": self.tokens, "D*/N*": self.tokens_per_param, "loss": self.loss}
        if self.flops.low != self.flops.high:  # else it was given, and the question says it
            rows["FLOP"] = self.flops
        rows |= {"cost": self.usd} if self.usd is not None else {}
        rows |= {"time": self.hours} if self.hours is not None else {}
        rows |= {found.name or name: found for name, found in self.more.items()}
        width = max(map(len, rows))
        lines = [self.question, *(f"  {label:<{width}} {_told(found)}" for label, found in rows.items())]
        if self.decades_outside:
            lines.append(f"  {self.decades_outside:.1f} decades beyond the data")
        return "\n".join([*lines, *(f"  {f}" for f in self.findings)])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain types."""
        one = ("flops", "params", "tokens", "loss", "tokens_per_param", "usd", "hours")
        numbers = {name: getattr(self, name) for name in one}
        return {
            "question": self.question,
            **{name: None if number is None else number.to_dict() for name, number in numbers.items()},
            "decades_outside": self.decades_outside,
            "more": {name: number.to_dict() for name, number in self.more.items()},
            "given": dict(self.given),
            "findings": [f.to_dict() for f in self.findings],
        }


def _told(found: Estimate) -> str:
    """Write an estimate; a number that was given, or follows from what was, without the interval it has not."""
    if not found.low == found.high == found.value:
        return str(found)
    return str(replace(found, low=math.nan, high=math.nan)).removesuffix(" (no interval)")


@dataclass(frozen=True)
class Prediction:
    """The loss of a run that has not been made.

    Parameters
    ----------
    params, tokens : float
        The run.
    mean : Estimate
        The law's loss there; its interval holds the uncertainty of the law alone.
    prediction : Estimate
        Where a single new run would land, the form of the law left open: median and interval of
        `scaling.open_form.calibration`, with the scatter of single runs.
    decades_outside : float
        Decades of compute beyond the runs fitted; 0 inside.
    loss_kind : str
        Split the losses were measured on ("validation", "train" or "unstated").
    basis : str
        What the interval of a single run rests on.
    """

    params: float
    tokens: float
    mean: Estimate
    prediction: Estimate
    decades_outside: float
    loss_kind: str
    basis: str = ""

    def __repr__(self) -> str:
        away = (
            f"\n  {self.decades_outside:.1f} decades of compute beyond the data"
            f"{f': for one run {self.basis}' if self.basis else ''}"
            if self.decades_outside
            else ""
        )
        kind = "" if self.loss_kind == "unstated" else f" ({self.loss_kind} loss)"
        return (
            f"loss at N={format_count(self.params)}, D={format_count(self.tokens)}{kind}\n  law      {self.mean}\n"
            f"  one run  {self.prediction}{away}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain types."""
        return asdict(self)


@dataclass(frozen=True)
class Regime:
    """Where a run stands against the compute-optimal one of its size.

    Parameters
    ----------
    params, tokens : float
        The run.
    factor : Estimate
        D / D*(N): above 1 over-trained, below 1 under-trained.
    loss : Estimate
        The law's loss there.
    excess_loss : Estimate
        Loss above that of the compute-optimal run of the same FLOPs.
    label : str
        ``"over-trained"`` or ``"under-trained"`` only when the interval of the factor excludes 1, else
        ``"compute-optimal within the interval"``; ``"not judged: no interval"`` for a fit without draws.
    """

    params: float
    tokens: float
    factor: Estimate
    loss: Estimate
    excess_loss: Estimate
    label: str

    def __repr__(self) -> str:
        ratio = self.factor.value
        if ratio < 1:
            ratio = 1 / ratio if ratio > 0 else float("inf")
        side = "over" if self.factor.value >= 1 else "under"
        return (
            f"N={format_count(self.params)}, D={format_count(self.tokens)}: {self.label} ({side} by {ratio:.3g}x)\n"
            f"  D/D*(N)      {self.factor}\n  loss         {self.loss}\n"
            f"  above optimal at the same FLOPs  {self.excess_loss}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain types."""
        return asdict(self)


def regime_label(factor: Estimate) -> str:
    """Say what an interval of D / D*(N) allows to be said: see `Regime`."""
    if factor.low != factor.low:
        return "not judged: no interval"
    if factor.low > 1:
        return "over-trained"
    return "under-trained" if factor.high < 1 else "compute-optimal within the interval"
