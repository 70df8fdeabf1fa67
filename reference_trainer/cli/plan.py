"""``reference_trainer plan``: what a ladder would train, and what that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reference_trainer.cli.arguments import Jobs, Ladder, Out, Overrides
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Json
from scaling.cli.output import say, say_json, warnings_told
from scaling.units import format_count

if TYPE_CHECKING:
    from reference_trainer.ladder import Plan
    from reference_trainer.ladder_cost import LadderCost


def plan(
    ladder: Ladder, overrides: Overrides = None, jobs: Jobs = 1, out: Out = None,
    here: Annotated[
        bool, typer.Option("--here", help="Time a few real steps on this machine even where [cost] names a GPU.")
    ] = False,
    as_json: Json = False,
) -> int:  # fmt: skip
    r"""Say what a ladder trains, what branches save, and the hours and dollars it takes; exit code 1 if over the cap.

    Costs are those of the GPU that \[cost] names, else those of this machine, from a few real steps of every size.
    """
    from reference_trainer.ladder import read_ladder
    from reference_trainer.ladder_cost import measured, priced

    with warnings_told():
        found = read_ladder(ladder, *(overrides or []), out=out)
        cost = measured(found, jobs) if here or found.file.cost is None else priced(found)
    budget = found.file.budget
    over = budget is not None and cost.usd is not None and cost.usd.value > budget.cap_usd
    if as_json:
        cap = budget.cap_usd if budget else None
        say_json({**found.to_dict(), "cost": cost.to_dict(), "cap_usd": cap, "fits": not over})
    else:
        say(_text(found, cost, over))
    return NEGATIVE if over else FINE


def _text(plan: Plan, cost: LadderCost, over: bool) -> str:
    from economics.run_estimates import duration

    lines = [
        f"{len(plan.sizes)} sizes, {len(plan.runs)} points from {sum(r.kind == 'trunk' for r in plan.runs)} trunks, "
        f"steps of {plan.step_tokens:,} tokens, into {plan.out}"
    ]
    for size in plan.sizes:
        arch = size.arch
        seed = plan.file.seeds[0]
        mine = [run for run in plan.runs if run.size == size.name and run.seed == seed]
        budgets = ", ".join(
            f"{format_count(r.tokens)} ({r.steps:,} steps{f', leaves at {r.began:,}' if r.began else ''})"
            for r in mine
        )
        total, inner = format_count(arch.params_total), format_count(arch.params_non_embedding)
        lines.append(
            f"  {size.name:<12} {total} parameters ({inner} non-embedding), "
            f"lr {size.lr_rule if size.lr is None else f'{size.lr:g} ({size.lr_rule})'}"
        )
        lines.append(f"  {'':<12} {budgets}")
    lines.append(
        f"tokens     {format_count(plan.tokens_paid)} paid for {format_count(plan.tokens_separate)} of separate runs "
        f"({plan.tokens_paid / plan.tokens_separate:.1%})"
        + (f", and {format_count(plan.tokens_checks)} to try learning rates" if plan.checks else "")
    )
    lines.append(f"FLOPs      {plan.flops_paid:.4g} of {plan.flops_separate:.4g} (6·N·D)")
    value, low, high = (duration(h) for h in (cost.hours.value, cost.hours.low, cost.hours.high))
    lines.append(f"time       {value}, {cost.hours.level:.0%} [{low}, {high}] ({cost.basis})")
    for name, rate in cost.tokens_per_s.items():
        lines.append(f"  {name:<12} {rate.value:,.0f} tokens/s, 80% [{rate.low:,.0f}, {rate.high:,.0f}]")
    if cost.usd is not None:
        lines.append(f"cost       {cost.usd.format()}")
    budget = plan.file.budget
    if budget is not None:
        lines.append(f"cap        ${budget.cap_usd:,.2f}: {'does NOT fit' if over else 'fits'}")
    lines += [str(finding) for finding in (*plan.findings, *cost.findings)]
    return "\n".join(lines)
