"""An optimum with a price: the type that the dollar questions are answered with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from economics.inference import InferenceCost
from economics.run_estimates import duration
from economics.run_result import RunCost
from scaling.answers import Optimum
from scaling.estimate import Estimate
from scaling.units import format_count


@dataclass(frozen=True)
class Option:
    """One kind of machine that was compared.

    Parameters
    ----------
    gpu, market : str
    n_gpus : int
    params, tokens : float
        The best run there.
    usd, hours : Estimate
        What it costs to train, and how long it takes.
    lifetime_usd : Estimate
        The same with serving, where something is served.
    """

    gpu: str
    market: str
    n_gpus: int
    params: float
    tokens: float
    usd: Estimate
    hours: Estimate
    lifetime_usd: Estimate

    def __str__(self) -> str:
        return (
            f"{self.n_gpus} x {self.gpu}, {self.market}: {self.lifetime_usd}, {duration(self.hours.value)}, "
            f"{format_count(self.params)} on {format_count(self.tokens)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        named = {k: v.to_dict() if isinstance(v, Estimate) else v for k, v in vars(self).items()}
        return named


@dataclass(frozen=True, repr=False)
class PricedOptimum(Optimum):
    """An optimum in dollars or hours: an `Optimum` with what the run costs and what else was compared.

    Parameters
    ----------
    cost : RunCost
        The run, factor by factor.
    serving : InferenceCost or None
        What a token served costs, where something is served.
    options : tuple of Option
        Kinds of machine compared, best first.
    failures : tuple of (str, str)
        Kinds without an answer, and why.
    """

    cost: RunCost | None = None
    serving: InferenceCost | None = None
    options: tuple[Option, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()

    @property
    def machine(self) -> str:
        """What the run is on."""
        if self.cost is None:
            return ""
        plan = self.cost.plan
        return f"{plan.n_gpus} x {plan.part.name}, {plan.market}"

    def __repr__(self) -> str:
        lines = super().__repr__().split("\n")
        lines[0] = f"{lines[0]} on {self.machine}"
        if len(self.options) > 1:
            lines.append(f"  of {len(self.options)} kinds of machine:")
            lines += [f"    {option}" for option in self.options[:5]]
        if self.failures:
            whys: dict[str, list[str]] = {}
            for name, why in self.failures:
                whys.setdefault(why.replace(name.partition(",")[0], "it"), []).append(name)
            lines.append("  no answer on")
            lines += [f"    {'; '.join(names)}: {why}" for why, names in whys.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain types."""
        return {
            **super().to_dict(),
            "cost": None if self.cost is None else self.cost.to_dict(),
            "serving": None if self.serving is None else self.serving.to_dict(),
            "options": [option.to_dict() for option in self.options],
            "failures": [{"machine": name, "why": why} for name, why in self.failures],
        }
