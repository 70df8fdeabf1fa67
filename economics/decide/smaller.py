"""A smaller model trained for longer, in dollars: what it takes, and from how much serving on it pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.decide.answer import server
from economics.decide.endless import refuse_unsaved
from economics.decide.machines import quiet_cost, read_settings, recompute_findings, settled
from economics.decide.serving import serving_of
from economics.quantile_draws import Array
from economics.run_estimates import estimate_of
from economics.run_result import RunCost
from scaling.errors import NotIdentifiedError
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.guard import Unidentified
from scaling.optima.overtrained import Overtraining, break_even, overtraining, tokens_for
from scaling.optima.subject import Subject, subject
from scaling.units import format_count

if TYPE_CHECKING:
    from scaling.laws.chinchilla import ChinchillaLaw
    from scaling.result import ChinchillaFit


@dataclass(frozen=True, eq=False, repr=False)
class SmallerModel:
    """A model of another size beside a reference run, in dollars. Made by `smaller_model`.

    Parameters
    ----------
    flops : Overtraining
        The same in FLOPs and tokens.
    reference, cost : RunCost
        The reference, and the model trained to its loss.
    usd_extra : Estimate
        Dollars that the model takes more, over draws of law and cost.
    same_usd_tokens : float
        Tokens that the dollars of the reference buy it, at the medians.
    loss_lost : Estimate
        By how much its loss there lies above the reference.
    usd_saved_per_million : Estimate
        Dollars saved with every million tokens served.
    break_even : Estimate
        Tokens served from which on a smaller model is cheaper over its life at the loss of the reference; for a larger
        one, up to which.
    findings : tuple of Finding
        What to know before using it.
    """

    flops: Overtraining
    reference: RunCost
    cost: RunCost
    usd_extra: Estimate
    same_usd_tokens: float
    loss_lost: Estimate
    usd_saved_per_million: Estimate
    break_even: Estimate
    findings: tuple[Finding, ...] = field(default=())

    def __repr__(self) -> str:
        f, plan = self.flops, self.reference.plan
        n, d = map(format_count, f.reference)
        side = "from " if f.served_flops_saved > 0 else "up to"
        lines = [
            f"{format_count(f.params)} parameters instead of {n} on {d} tokens, {plan.n_gpus} x {plan.part.name}, "
            f"{plan.market}",
            f"  for the same dollars  {format_count(self.same_usd_tokens)} tokens",
            f"    lost                {self.loss_lost}",
            f"  for the same loss     {f.tokens}",
            f"    cost                {self.cost.usd}",
            f"    more than before    {self.usd_extra}",
            f"  saved while serving   {_cents(self.usd_saved_per_million)} per million tokens",
            f"  pays {side}            {self.break_even} served",
        ]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain types."""
        numbers = ("usd_extra", "loss_lost", "usd_saved_per_million", "break_even")
        return {
            "flops": self.flops.to_dict(),
            "reference": self.reference.to_dict(),
            "cost": self.cost.to_dict(),
            "same_usd_tokens": self.same_usd_tokens,
            **{name: getattr(self, name).to_dict() for name in numbers},
            "findings": [f.to_dict() for f in self.findings],
        }


def smaller_model(
    fit: ChinchillaFit | ChinchillaLaw,
    params: float | str,
    *,
    flops: float | str | None = None,
    like: tuple[float | str, float | str] | None = None,
    serving: Mapping[str, Any] | None = None,
    level: float | None = None,
    unidentified: Unidentified = "raise",
    **settings: Any,
) -> SmallerModel:
    """Hold a model of another size against a reference run, in dollars.

    Parameters
    ----------
    fit, params, flops, like, level, unidentified
        As in `scaling.optima.overtraining`.
    serving : mapping, optional
        Arguments of `inference_cost`; by default on the GPU of the training.
    **settings
        Arguments of `cost`: gpu, n_gpus, market, price, mfu ...

    Returns
    -------
    SmallerModel

    Raises
    ------
    NotIdentifiedError, DataError
        As `overtraining`; an argument of `cost` or `inference_cost` cannot be; or runs among interruptions save too
        seldom.
    """
    s, given, about = subject(fit, level, unidentified), read_settings(settings), serving_of(serving)
    base = overtraining(fit, params, flops=flops, like=like, level=level, unidentified=unidentified)
    n, (n0, d0) = base.params, base.reference
    if not np.isfinite(base.tokens.value):
        raise NotIdentifiedError(
            f"{format_count(n)} parameters never reach the loss of the reference: there is nothing to cost.",
            quantities=("tokens",),
        )
    machines = settled(given, n0, d0)
    before, after, start = (
        quiet_cost(machines, *run) for run in ((n0, d0), (n, base.tokens.value), (n, 1.0))
    )
    for run in (before, after):
        refuse_unsaved(run, float(np.median(run.outcome.work)))
    prices = [server(size, machines, about) for size in (n0, n)]
    assert prices[0] is not None and prices[1] is not None
    was, fixed, spent = (np.atleast_1d(r.outcome.total_usd) for r in (before, start, after))
    each = (spent - fixed) / (base.tokens.value - 1.0)
    saved = np.atleast_1d(prices[0].token_usd_draws - prices[1].token_usd_draws)
    law, pick = _paired(s, max(was.size, each.size, saved.size))
    needed = tokens_for(law, n, law.loss(n0, d0)) if s.has_draws else base.tokens.value
    extra = pick(fixed) + pick(each) * needed - pick(was)
    bought = np.maximum(was - fixed, 1.0 * each) / each
    tokens = float(np.median(bought))
    lost = [
        np.asarray(one.loss(n, d)) - one.loss(n0, d0)
        for one, d in ((s.law, tokens), *(((law, pick(bought)),) if s.has_draws else ()))
    ]
    even = np.atleast_1d(break_even(extra, pick(saved)))
    point = float(break_even(np.median(spent - was), np.median(saved)))
    found = [*base.findings, *recompute_findings(given, after)]
    found += [f for run in (before, after) for f in run.findings if f.severity != "info"]
    found += [f for price in prices for f in price.findings if f.severity != "info"]  # type: ignore[union-attr]
    return SmallerModel(
        flops=base,
        reference=before,
        cost=after,
        usd_extra=estimate_of(np.atleast_1d(extra), "more", "$"),
        same_usd_tokens=tokens,
        loss_lost=s.estimate(lost[-1], float(lost[0]), "loss lost", s.loss_unit),
        usd_saved_per_million=estimate_of(saved * 1e6, "saved per million tokens", "$"),
        break_even=_level(even, point, s),
        findings=tuple({(f.code, f.message): f for f in found}.values()),
    )


def _paired(s: Subject, costs: int) -> tuple[ChinchillaLaw, Any]:
    """Return draws of the law, and how draws of the cost are put beside them."""
    from scaling.laws.chinchilla import ChinchillaLaw

    if not s.has_draws:
        return s.law, lambda draws: draws
    laws = int(np.size(s.draws.E))
    count = max(laws, costs)
    j = np.arange(count) % laws
    k = np.random.default_rng([0, 31]).permutation(np.arange(count) % costs)

    def pick(draws: Array) -> Array:
        return draws if draws.size == 1 else draws[k % draws.size]

    return ChinchillaLaw(*(np.asarray(v)[j] for v in vars(s.draws).values())), pick


def _level(even: Array, point: float, s: Subject) -> Estimate:
    """Return the break-even with the interval of its draws, at the level of the law's answers."""
    ends = np.quantile(even, [(1 - s.level) / 2, (1 + s.level) / 2], method="closest_observation")
    return Estimate(point, float(ends[0]), float(ends[1]), s.level, "median", "break-even", "tokens")


def _cents(e: Estimate) -> str:
    return f"${e.value:.4f}, {100 * e.level:g}% [${e.low:.4f}, ${e.high:.4f}]"
