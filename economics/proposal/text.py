"""A proposal as one block for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from economics.proposal.words import headline, machine_statements
from economics.run_estimates import dollars, duration
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.proposal.result import Proposal

_WIDTH = 118
_MARK = {"error": "x", "warning": "!", "info": "-"}


def block(p: Proposal) -> str:
    """Write a proposal: what to do, why, what may go wrong, what is not known, what else."""
    said, state = headline(p), p.verdict if p.usable else "not identified"
    lines = [f"{dollars(p.question.usd)}: {said.headline}", f"  verdict      {state}: {said.chip}"]
    for sentence in said.sentences:
        lines += _wrapped("", sentence)
    parts = [_next_runs(p), _steps(p)] if p.best is not None else [_next_runs(p), _buys(p)]
    if p.best is not None:
        lines += _estimates(p)
    for sentence in machine_statements(p):
        lines += _wrapped("machines", sentence)
    for part in parts:
        lines += part
    lines += _spot(p)
    for other in p.others:
        lines += _wrapped(other.name, other.words or other.why)
    if p.published is not None and p.best is not None:
        found = p.published
        lines += _wrapped(
            "published",
            f"{p.published_name} as such: {format_count(found.params.value)} on {format_count(found.tokens.value)} "
            f"tokens, loss {found.loss.value:.4g}",
        )
    lines += [line for s in p.unknown for line in _wrapped(_MARK[s.severity], f"{s.title}: {s.text}")]
    lines += [
        line
        for f in p.findings
        if f.code == "kept_for_all"
        for line in _wrapped(_MARK[f.severity], f.message)
    ]
    return "\n".join(lines)


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(f"  {label:<12} {text}", _WIDTH, subsequent_indent=" " * 15)


def _estimates(p: Proposal) -> list[str]:
    assert p.best is not None and p.cap is not None
    best = p.best
    rows = {
        "N": best.params,
        "D": best.tokens,
        "law and cost": best.loss,
        "cost": best.usd,
        "hours": best.hours,
    }
    lines = [f"  {name:<12} {e}" for name, e in rows.items() if e is not None]
    if "one_run" in best.more:
        lines.insert(3, f"  {'one run':<12} {best.more['one_run']}")
    if p.target is not None:
        lines.append(f"  {p.target.name:<12} {p.target}")
    return lines


def _steps(p: Proposal) -> list[str]:
    if not p.steps:
        return []
    lines = [f"  {'money':>9} {'N':>7} {'D':>7}  {'loss':>6}  one run            hours  on"]
    for s in p.steps:
        o = s.offer
        one = f"{s.one_run.low:.3f} to {s.one_run.high:.3f}"
        lines.append(
            f"  {dollars(o.budget_usd):>9} {format_count(o.params):>7} {format_count(o.tokens):>7}  "
            f"{s.law.value:>6.3f}  {one:<16} {duration(o.hours.value):>8}  {o.machine}"
        )
    return lines


def _buys(p: Proposal) -> list[str]:
    what = ", ".join(f"{format_count(n)} on {format_count(d)}" for n, d in p.buys)
    return _wrapped("money buys", f"whatever the law, on {p.machine.machine}: {what} tokens") if what else []


def _next_runs(p: Proposal) -> list[str]:
    lines = []
    for s in p.learning.splits:
        if s.runs is None:
            lines += _wrapped("next runs", f"{dollars(s.usd)}: {s.why}")
            continue
        if s.why and s is p.learning.splits[0]:
            lines += _wrapped("next runs", s.why)
        text = (
            f"{len(s.runs.runs)} runs for {dollars(s.runs.usd.value)}: {s.runs.target} from {s.runs.before.text} to "
            f"{s.runs.after.text}"
        )
        if s.final is not None and s.loss_lost is not None:
            text += (
                f"; the rest buys {format_count(s.final.params)} on {format_count(s.final.tokens)}, {s.loss_lost:.3f} "
                "more loss"
            )
        lines += _wrapped("next runs", text)
    return lines


def _spot(p: Proposal) -> list[str]:
    if p.spot is None:
        return []
    s = p.spot
    text = (
        f"on {s.machine}{'' if s.recommended else ' (not recommended)'}: {s.interruptions.value:.2g} interruptions, "
        f"one costs {dollars(s.one_usd)}, all {dollars(s.lost_usd.value)}; none with a probability of {s.untouched:.0%}"
    )
    if s.dearer is not None:
        text += f"; dearer than on demand with {s.dearer:.0%}"
    return _wrapped("taken away", text)
