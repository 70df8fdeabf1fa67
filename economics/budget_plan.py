"""What a budget buys, in numbers and words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from economics.run_estimates import dollars
from economics.run_result import RunCost
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.units import format_count


@dataclass(frozen=True, eq=False, repr=False)
class BudgetPlan:
    """What a budget buys. Made by `solve_budget`.

    Parameters
    ----------
    budget_usd, quantile : float
        The budget, and which quantile of the cost equals it.
    params, tokens : float
        The run: of all that cost this much, the one with the lowest predicted loss.
    affordable : Estimate
        Tokens for the same parameters and money, 10th to 90th percentile over what the cost may turn out to be.
    loss : Estimate or None
        Predicted loss: the law's, with the interval of its draws; without a law there is none.
    one_run : Estimate or None
        Where a single run would land, of a fit.
    range_params : (float, float) or None
        Sizes for the same money whose loss is within 0.5% of the best: the optimum is flat.
    cost : RunCost
        Its cost, factor by factor.
    findings : tuple of Finding
        What to know.
    """

    budget_usd: float
    quantile: float
    params: float
    tokens: float
    affordable: Estimate
    loss: Estimate | None
    one_run: Estimate | None
    range_params: tuple[float, float] | None
    cost: RunCost
    findings: tuple[Finding, ...] = field(default=())

    @property
    def tokens_per_param(self) -> float:
        """D / N."""
        return self.tokens / self.params

    @property
    def usd(self) -> Estimate:
        """What it may cost; the budget is its `quantile`."""
        return self.cost.usd

    def __repr__(self) -> str:
        plan, usd = self.cost.plan, self.usd
        lines = [
            f"{dollars(self.budget_usd)} on {plan.n_gpus} x {plan.part.name}, {plan.market}",
            f"  parameters {format_count(self.params)}" + self._flat(),
            f"  tokens     {format_count(self.tokens)} ({self.tokens_per_param:.3g} a parameter); the money may buy "
            f"{format_count(self.affordable.low)} to {format_count(self.affordable.high)}",
            f"  cost       P50 {dollars(usd.value)}, 80% [{dollars(usd.low)}, {dollars(usd.high)}]; the budget is its "
            f"P{100 * self.quantile:g}",
        ]
        if self.loss is not None:
            lines.append(f"  loss       {self.loss}")
        if self.one_run is not None:
            lines.append(f"  one run    {self.one_run}")
        return "\n".join([*lines, *(f"  {f}" for f in self.findings)])

    def _flat(self) -> str:
        if self.range_params is None:
            return ""
        low, high = map(format_count, self.range_params)
        return f"; {low} to {high} cost no more than 0.5% of loss"

    def _repr_html_(self) -> str:
        from economics.run_text import preformatted

        return preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "budget_usd": self.budget_usd,
            "quantile": self.quantile,
            "params": self.params,
            "tokens": self.tokens,
            "affordable_tokens": self.affordable.to_dict(),
            "loss": self.loss.to_dict() if self.loss else None,
            "one_run": self.one_run.to_dict() if self.one_run else None,
            "range_params": self.range_params,
            "cost": self.cost.to_dict(),
            "findings": [f.to_dict() for f in self.findings],
        }
