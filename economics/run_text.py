"""A cost in words: the block a REPL shows, its HTML, tables of several, and plain types."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from economics.run_draws import grid_factor
from economics.run_estimates import dollars, duration, plain_number as number
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.power import Factor
    from economics.run_compare import RunComparison, WhatIf
    from economics.run_result import RunCost
    from economics.run_sensitivity import Sensitivity

#: Lines are broken here.
_WIDTH = 118
_MARK = {"error": "x", "warning": "!", "info": "-"}

_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("GPU-hours", "gpu_hours", number),
    ("wall time", "wall_hours", duration),
    ("cost", "usd", dollars),
    ("energy, kWh", "energy_kwh", number),
    ("CO2, kg", "co2_kg", number),
)


_PLAIN = ("gpu_hours", "training_gpu_hours", "wall_hours", "usd", "co2_kg")


def headline(run: RunCost) -> str:
    """One line: what is trained on what."""
    plan = run.plan
    active = f" ({format_count(plan.active)} active)" if plan.active != plan.params else ""
    return (
        f"{format_count(plan.params)} parameters{active}, {format_count(plan.tokens)} tokens on {plan.n_gpus} x "
        f"{plan.part.name}, {plan.market}"
    )


def factors(run: RunCost) -> dict[str, str]:
    """Every factor behind the numbers, in words."""
    plan, mfu, extra = run.plan, run.plan.mfu, run.plan.overheads
    low, middle, high = (mfu.quantile(q) for q in (0.1, 0.5, 0.9))
    spread = f", 80% [{low:.1%}, {high:.1%}]" if low != high else ""
    quote = plan.price
    names = ", ".join(p.provider for p in quote.providers[:4]) + ("..." if len(quote.providers) > 4 else "")
    around = f", 80% [${quote.low:.2f}, ${quote.high:.2f}]" if quote.low != quote.high else ""
    out = {
        "FLOPs": plan.flops_text,
        "peak": f"{plan.peak / 1e12:g} TFLOP/s {plan.dtype}, dense",
        "MFU": f"{middle:.1%}{spread} ({mfu.text})",
        "price": f"${quote.median:.2f} per GPU-hour{around} ({names}; {quote.as_of}, {quote.age_days} days old)",
        "interruptions": _interruptions(run),
        "start-up": _factor(extra.start_hours, duration),
        "evaluation": _factor(extra.evaluation, lambda x: f"{x:.2g}" if x > 1 else f"{x:.1%}")
        + (", within the whole-run MFU" if mfu.whole_run else " of the training time"),
        "storage": f"{number(extra.stored_gb(plan.params, plan.tokens))} GB at ${extra.storage_usd_gb_month:g} per "
        f"GB-month ({extra.listed.get('storage', 'given')}), {_months(extra.months_kept)} after the run",
        "egress": f"{number(extra.traffic_gb(plan.params))} GB at ${extra.egress_usd_gb:g} per GB "
        f"({extra.listed.get('egress', 'given')})",
    }
    if extra.ablations:
        out["ablations"] = f"{extra.ablations:.0%} of the training"
    if extra.people_usd:
        out["people"] = f"{extra.people_hours:g} h at ${extra.people_usd_per_hour:g}"
    energy = plan.energy
    if energy.watts is None:
        return out | {"power": "not published: energy and CO2 are not known"}
    out["power"] = f"{energy.watts:g} W a GPU, of which {_factor(energy.drawn, '{:.0%}'.format)} are drawn"
    out["server"] = f"x {_factor(energy.server, number)}"
    out["PUE"] = _factor(energy.pue, number)
    out["grid"] = _factor(grid_factor(energy.grid), lambda x: f"{x:.4g} g CO2/kWh")
    return out


def _factor(factor: Factor, write: Callable[[float], str]) -> str:
    """Write a factor: its value, its 5th to 95th percentile if it has a range, and its source."""
    spread = f", {write(factor.low)} to {write(factor.high)}" if factor.low != factor.high else ""
    return f"{write(factor.value)}{spread} ({factor.source})"


def _months(n: float) -> str:
    return f"{n:g} month{'s' * (n != 1)}"


def _interruptions(run: RunCost) -> str:
    plan = run.plan
    if not plan.interrupted:
        inside = plan.mfu.whole_run
        return (
            f"no preemptions; hardware faults {'are within the whole-run MFU' if inside else 'are excluded'}"
        )
    every = duration(1 / (plan.preempted + plan.faults))
    count = run.interruptions
    saves = "no saves" if plan.interval is None else f"a save every {duration(plan.interval)}"
    return (
        f"one in {every} on {plan.nodes} machines, {number(count.value)} [{number(count.low)}, {number(count.high)}] "
        f"in all; {saves} of {duration(plan.checkpoint_hours)}, restart {duration(plan.restart_hours)}, wait "
        f"{duration(plan.wait_hours)}"
    )


def text(run: RunCost) -> str:
    """Return a cost as one readable block."""
    lines = [headline(run), f"  {'':12}{'P50':>12}{'P10':>12}{'P90':>12}"]
    for label, name, write in _ROWS:
        lines.append(_row(label, getattr(run, name), write))
    energy = run.energy_kwh
    if energy is not None:
        servers, boards = number(energy.server.value), number(energy.gpu.value)
        lines.append(f"  energy is the facility's; servers {servers}, boards {boards} kWh")
    parts = sorted(((s, k) for k, s in run.shares.items() if s >= 5e-4), reverse=True)
    lines.append("  money: " + ", ".join(f"{name} {share:.1%}" for share, name in parts))
    for name, words in factors(run).items():
        lines += wrap(f"  {name:<14}{words}", 16)
    return "\n".join([*lines, *finding_lines(run.findings)])


def wrap(line: str, indent: int) -> list[str]:
    """Break a line where it is too long for a screen."""
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def finding_lines(findings: tuple[Finding, ...]) -> list[str]:
    """Write findings, one a line, with a mark for how serious they are."""
    return [line for f in findings for line in wrap(f"  {_MARK[f.severity]} {f.message}", 4)]


def _cells(e: Estimate | None, write: Callable[[float], str]) -> tuple[str, str, str]:
    """Value and ends of an answer; one that is not known is said to be so."""
    return ("unknown", "", "") if e is None else (write(e.value), write(e.low), write(e.high))


def _row(label: str, e: Estimate | None, write: Callable[[float], str]) -> str:
    return f"  {label:12}{''.join(f' {cell:>11}' for cell in _cells(e, write))}".rstrip()


def side_by_side(run: WhatIf) -> str:
    """Return a change beside what it changes."""
    before, difference = run.before, run.difference
    changed = ", ".join(f"{k}={plain_value(v)!r}" for k, v in run.changes.items()) or "nothing"
    lines = [f"what if {changed}", f"  before: {headline(before)}", f"  after:  {headline(run)}"]
    lines.append(f"  {'P50':12}{'before':>12}{'after':>12}{'difference':>12}  80% of the difference")
    for label, name, write in _ROWS:
        a, b = (_cells(getattr(r, name), write)[0] for r in (before, run))
        d, low, high = _cells(difference[name], write)
        lines.append(f"  {label:12} {a:>11} {b:>11} {d:>11}" + (f"  [{low}, {high}]" if low else ""))
    lines.append("  a difference is the median over draws that both share, not the difference of two medians")
    old, new = factors(before), factors(run)
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            lines += wrap(f"  {name + ':':<14}{old.get(name, 'none')}", 16)
            lines += wrap(f"  {'':<12}> {new.get(name, 'none')}", 16)
    seen = {f.message for f in before.findings}
    return "\n".join([*lines, *finding_lines(tuple(f for f in run.findings if f.message not in seen))])


def table(comparison: RunComparison) -> str:
    """Return several costs as a table: * none beats it in both money and time, ! it does not fit into memory."""
    front = {id(run) for run in comparison.pareto}
    lines = [
        f"    {'GPU':<18}{'n':>6}{'cost':>10}  {'P10 to P90':<20}{'wall time':>12} {'GPU-hours':>12} {'MWh':>9}"
    ]
    for run in comparison.runs:
        usd, mark = run.usd, "*" if id(run) in front else " "
        mark = "!" if any(f.code == "does_not_fit" for f in run.findings) else mark
        energy = run.energy_kwh
        lines.append(
            f"  {mark} {run.plan.part.name:<18}{run.plan.n_gpus:>6}{dollars(usd.value):>10}  "
            f"{f'{dollars(usd.low)} to {dollars(usd.high)}':<20}{duration(run.wall_hours.value):>12} "
            f"{number(run.gpu_hours.value):>12} {number(energy.value / 1e3) if energy else 'unknown':>9}"
        )
    lines += [f"    {name:<18} no answer: {why}" for name, why in comparison.failures]
    return "\n".join([*lines, *finding_lines(comparison.findings)])


def tornado(found: Sensitivity) -> str:
    """Return the swings as a table with bars."""
    write = dollars if found.of == "usd" else number
    lines = [f"{found.of} = {write(found.middle)} with every factor at its median; at its P10 and P90:"]
    widest = max((s.size for s in found.swings), default=1.0)
    for s in found.swings:
        bar = "#" * max(round(20 * s.size / widest), 1)
        lines.append(
            f"  {s.factor:<40}{write(s.low):>12}{write(s.high):>12}  {bar} ({s.at_low:.3g} to {s.at_high:.3g})"
        )
    return "\n".join(lines if found.swings else [*lines, "  nothing is uncertain"])


def html(run: RunCost) -> str:
    """Return a cost as HTML for a notebook."""
    cells = "".join(
        f"<tr><th>{escape(label)}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(e, write))
        + "</tr>"
        for label, e, write in ((label, getattr(run, name), write) for label, name, write in _ROWS)
    )
    shares = ", ".join(
        f"{k} {s:.1%}" for k, s in sorted(run.shares.items(), key=lambda i: -i[1]) if s >= 5e-4
    )
    why = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in factors(run).items())
    notes = "".join(f"<li>{escape(f.severity)}: {escape(f.message)}</li>" for f in run.findings)
    return (
        f"<p><b>{escape(headline(run))}</b></p><table><tr><th></th><th>P50</th><th>P10</th><th>P90</th></tr>{cells}"
        f"</table><p>{escape(shares)}</p><table>{why}</table><ul>{notes}</ul>"
    )


def preformatted(words: str) -> str:
    """Return text as HTML that keeps its columns."""
    return f"<pre>{escape(words)}</pre>"


def plain_value(value: Any) -> Any:
    """Return an argument as a plain type, by its words where it is none."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain_value(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain_value(v) for v in value]
    return str(getattr(value, "name", value))


def plain(run: RunCost) -> dict[str, Any]:
    """Return a cost as plain types."""
    plan, energy = run.plan, run.energy_kwh
    return {
        "asked": {k: plain_value(v) for k, v in run.asked.items()},
        "params": plan.params,
        "params_active": plan.active,
        "tokens": plan.tokens,
        "flops": plan.flops,
        "gpu": plan.part.name,
        "n_gpus": plan.n_gpus,
        **{name: e.to_dict() if (e := getattr(run, name)) else None for name in _PLAIN},
        "energy_kwh": energy
        and {
            "gpu": energy.gpu.to_dict(),
            "server": energy.server.to_dict(),
            "facility": energy.facility.to_dict(),
        },
        "breakdown_usd": {k: e.to_dict() for k, e in run.breakdown.items()},
        "shares": run.shares,
        "factors": factors(run),
        "price": plan.price.to_dict(),
        "overheads": plan.overheads.to_dict(),
        "energy_factors": plan.energy.to_dict(),
        "findings": [f.to_dict() for f in run.findings],
    }  # fmt: skip
