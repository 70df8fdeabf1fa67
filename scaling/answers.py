"""Answers a fitted law gives that are more than one number."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from scaling.estimate import Estimate
from scaling.units import format_count


@dataclass(frozen=True)
class Optimum:
    """The compute-optimal run for a budget.

    Parameters
    ----------
    flops : float
        The budget, C = 6 N D.
    params, tokens, loss, tokens_per_param : Estimate
        N*, D*, the loss there and D*/N*.
    decades_outside : float
        Decades of compute beyond the runs fitted; 0 inside.
    """

    flops: float
    params: Estimate
    tokens: Estimate
    loss: Estimate
    tokens_per_param: Estimate
    decades_outside: float

    def __repr__(self) -> str:
        away = f"\n  {self.decades_outside:.1f} decades beyond the data" if self.decades_outside else ""
        return (
            f"compute-optimal run for {self.flops:.3g} FLOP\n  N*    {self.params}\n  D*    {self.tokens}\n"
            f"  D*/N* {self.tokens_per_param}\n  loss  {self.loss}{away}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain types."""
        return asdict(self)


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
        Where a single new run would land: the law's uncertainty, the scatter of single runs, and the
        drift that the residuals allow over the distance to the data.
    decades_outside : float
        Decades of compute beyond the runs fitted; 0 inside.
    loss_kind : str
        Split the losses were measured on ("validation", "train" or "unstated").
    """

    params: float
    tokens: float
    mean: Estimate
    prediction: Estimate
    decades_outside: float
    loss_kind: str

    def __repr__(self) -> str:
        away = (
            f"\n  {self.decades_outside:.1f} decades of compute beyond the data: neither interval covers the "
            "law failing there"
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
