"""What preemptions are expected to cost a plan, and whether its budget has a place for that."""

from __future__ import annotations

import math
from collections.abc import Iterator

from economics.interruptions import (
    MEAN_UP_HOURS,
    expected_hours,
    expected_interruptions,
    interruption_rate,
)
from economics.plan_facts import Facts
from economics.plan_schema import BudgetLine
from economics.plan_sections import CheckpointSection
from economics.run_estimates import dollars
from scaling.findings import Finding, Severity

#: What no checkpoint at all on machines that are taken away leads to is not a number worth printing.
_HOPELESS = 1e4


def check_preemptions(facts: Facts) -> Iterator[Finding]:
    """Check that what preemptions are expected to cost has its place in the budget."""
    if facts.get("run.market") != "spot" or facts.n_gpus is None:
        return
    lines = facts.plan.budget.lines if facts.plan.budget else []
    hours = math.fsum(line.hours for line in lines if line.hours) or facts.get("run.hours")
    if hours is None:
        return
    every = facts.get("run.hours_between_preemptions")
    assumed = "" if every else " (assumed: give hours_between_preemptions)"
    per_node = facts.get("run.gpus_per_node") or min(facts.n_gpus, 8)
    rate = interruption_rate(
        math.ceil(facts.n_gpus / per_node), per_node, mean_up_hours=every or MEAN_UP_HOURS
    )
    checkpoint = facts.plan.checkpoint
    interval = checkpoint_interval(facts, checkpoint)
    if checkpoint is None or interval is None:
        bare = float(expected_hours(hours, rate)) / hours
        much = f"{bare:.3g} times the hours" if bare < _HOPELESS else "practically for ever"
        words = (
            f"a spot machine is taken away every {1 / rate:.3g} h{assumed} and the plan has no interval between "
            f"checkpoints: {hours:g} h in one piece would take {much}. Give [checkpoint] minutes."
        )
        yield Finding("no_checkpoints", "error" if bare > 1.5 else "warning", words, {"times": bare})
        return
    save = checkpoint.save_minutes / 60
    lost = float(expected_hours(hours, rate, interval=interval, checkpoint=save))
    lost -= hours + save * math.ceil(hours / interval - 1e-9)
    count = float(expected_interruptions(hours, rate, interval=interval, checkpoint=save))
    low, high = (lost + count * minutes / 60 for minutes in checkpoint.restart_minutes)
    price = facts.usd_per_hour
    quick, slow = checkpoint.restart_minutes
    words = (
        f"{hours:g} h with {1 / rate:.3g} h between preemptions{assumed} and a checkpoint every {60 * interval:.3g} "
        f"min are interrupted {count:.3g} times: {lost:.2g} h done again and {count:.3g} restarts of {quick:g} to "
        f"{slow:g} min, {low:.2g} to {high:.2g} h"
    )
    evidence: dict[str, object] = {"interruptions": count, "rework_hours": lost, "hours": (low, high)}
    if price is None:
        yield Finding("preemptions", "info", f"{words}.", evidence)
        return
    usd = (low * price, high * price)
    words += f" or {dollars(usd[0])} to {dollars(usd[1])}"
    evidence["usd"] = usd
    yield from _against_lines(lines, usd, words, evidence, stated=bool(every))


def checkpoint_interval(facts: Facts, checkpoint: CheckpointSection | None) -> float | None:
    """Return the hours between checkpoints, as stated or by their steps."""
    if checkpoint is None:
        return None
    if checkpoint.span_s is not None:
        return checkpoint.span_s / 3600
    rate = facts.steps_per_s
    return None if rate is None or checkpoint.steps is None else checkpoint.steps / rate / 3600


def _against_lines(
    lines: list[BudgetLine],
    usd: tuple[float, float],
    words: str,
    evidence: dict[str, object],
    *,
    stated: bool,
) -> Iterator[Finding]:
    """Compare what preemptions cost with the lines that can pay for it; a rate not stated contradicts nothing."""
    if not lines:
        yield Finding("preemptions", "info", f"{words}.", evidence)
        return
    paying = [line for line in lines if {"rework", "buffer"} & set(line.covers)]
    if not paying:
        yield Finding(
            "rework_has_no_line", "warning", f"{words}; no line of the budget pays for it.", evidence
        )
        return
    there = math.fsum(line.usd for line in paying)
    names = " and ".join(repr(line.name) for line in paying)
    shared = sorted({cost for line in paying for cost in line.covers} - {"rework", "buffer"})
    also = f", which is also there for {', '.join(shared)}" if shared else ""
    share = f"{usd[0] / there:.0%} to {usd[1] / there:.0%}" if there else "all and more"
    words += f", {share} of the {dollars(there)} in {names}{also}."
    needed = usd[1] if shared else sum(usd) / 2
    severity: Severity = "info"
    if needed > there:
        severity = "error" if stated else "warning"
    elif usd[1] > 0.5 * there and shared:
        severity = "warning"
    code = "preemptions" if severity == "info" else "rework_uses_up_buffer"
    yield Finding(code, severity, words, {**evidence, "there": there})
