"""Checks of a plan's limits: active parameters, positions, sequences of a step, checkpoints, work, date."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date as Date

from economics.plan_facts import Facts
from economics.plan_preemptions import checkpoint_interval
from scaling.findings import Finding, Severity
from scaling.units import format_count

#: How far a count as people write it may be from the shape, and from where it is another model.
_ROUNDED, _WRONG = 0.06, 0.2
#: A part of a model of more parameters than this is shared among GPUs anyway.
_SHARED_PARAMS = 2e9
#: Saving may take this share of the time between two saves before it is looked at.
_SAVING = 0.25
#: Years in which no accelerator could be rented; days that a plan may lie ahead.
_FIRST_YEAR, _AHEAD = 2010, 366


def check_active(facts: Facts) -> Iterator[Finding]:
    """Check that a token does not use more parameters than there are, and as many as the shape says."""
    model, arch = facts.plan.model, facts.arch
    if model is None or model.active_params is None:
        return
    active, total = model.active_params, facts.params
    # A claim is compared as it is written, a shape as people round it; one without embeddings is no total.
    claimed = model.params if model.params_kind == "total" else None
    above = claimed is not None and active > claimed
    if arch is not None:
        above = active > (1 + _ROUNDED) * arch.params_total and (claimed is None or above)
    if total is not None and above:
        words = (
            f"active_params = {format_count(active, 4)} of {format_count(total, 4)} parameters: a token cannot use "
            f"more than there are."
        )
        yield Finding("active_above_params", "error", words, {"active": active, "params": total})
        return
    if arch is None:
        return
    outside = arch.params_total - arch.params_non_embedding
    counts = (arch.params_active, arch.params_active - outside)
    off = min(abs(active / count - 1) for count in counts)
    if off > _ROUNDED:
        mixture = (
            f"{arch.experts_per_token} of {arch.experts} experts"
            if arch.experts
            else "a dense model, all of it"
        )
        words = (
            f"active_params = {format_count(active, 4)}, but a token uses {format_count(arch.params_active, 4)} of the "
            f"{format_count(arch.params_total, 4)} of the shape ({mixture})."
        )
        evidence = {"claimed": active, "active": arch.params_active, "total": arch.params_total}
        yield Finding("active_disagrees", "error" if off > _WRONG else "warning", words, evidence)


def check_positions(facts: Facts) -> Iterator[Finding]:
    """Check that a model with learned positions has one for every token of a sequence."""
    length, rows = facts.get("run.seq_len"), facts.get("model.learned_positions")
    if length is None or not rows or length <= rows:
        return
    words = (
        f"sequences of {length:,.0f} tokens, but the model has {rows:,} learned positions: the rest has none."
    )
    yield Finding("positions_too_few", "error", words, {"seq_len": length, "learned_positions": rows})


def check_batch(facts: Facts) -> Iterator[Finding]:
    """Check that a step is at least a sequence, no more than the run, and can be shared among the GPUs."""
    batch, length, tokens = facts.get("run.batch_tokens"), facts.get("run.seq_len"), facts.tokens
    if batch is None:
        return
    if tokens is not None and batch > 1.05 * tokens:
        words = f"a step of {format_count(batch)} tokens is more than the {format_count(tokens)} of the run."
        yield Finding("batch_above_tokens", "error", words, {"batch_tokens": batch, "tokens": tokens})
    if length is None:
        return
    sequences, n = batch / length, facts.n_gpus
    evidence = {"batch_tokens": batch, "seq_len": length, "sequences": sequences, "n_gpus": n}
    if sequences < 0.9:  # 64k for 65,536 is rounded
        words = f"a step of {batch:,.0f} tokens is not one sequence of {length:,.0f}."
        yield Finding("batch_below_sequence", "error", words, evidence)
        return
    if n is None or sequences >= 0.9 * n:
        return
    together = n / sequences
    if facts.params is not None and facts.params / together > _SHARED_PARAMS:
        return
    words = (
        f"a step of {format_count(batch)} tokens is {sequences:,.0f} sequences of {length:,.0f} for {n} GPUs: "
        f"{together:.3g} GPUs have to work on one sequence together (tensor, pipeline or context parallel), or the "
        f"rest has none. A sequence for each takes {format_count(n * length)} tokens."
    )
    yield Finding("batch_below_gpus", "warning", words, evidence)


def check_checkpoints(facts: Facts) -> Iterator[Finding]:
    """Check that checkpoints are written before the run ends, and take less time than lies between them."""
    checkpoint = facts.plan.checkpoint
    interval = checkpoint_interval(facts, checkpoint)
    if checkpoint is None or interval is None:
        return
    hours = _hours(facts)
    if hours is not None and interval > 1.01 * hours:
        words = (
            f"a checkpoint every {_plain(interval)} h, but the run takes {_plain(hours)} h: none is written before "
            f"its end."
        )
        # A run of minutes may do without.
        severity: Severity = "error" if interval > 1 else "warning"
        yield Finding("checkpoint_after_end", severity, words, {"interval_hours": interval, "hours": hours})
    save = checkpoint.save_minutes / 60
    if save > _SAVING * interval:
        words = (
            f"saving takes {checkpoint.save_minutes:g} min and there is a checkpoint every {60 * interval:.3g} "
            f"min: "
        )
        evidence = {"save_minutes": checkpoint.save_minutes, "interval_minutes": 60 * interval}
        if save >= interval:
            words += "there is no time left to train."
            yield Finding("save_above_interval", "error", words, evidence)
        else:
            words += f"{save / interval:.0%} of the time is spent on it."
            yield Finding("save_takes_long", "warning", words, evidence)


def _plain(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _hours(facts: Facts) -> float | None:
    """Hours of the run: as stated, or of its tokens at its speed."""
    stated: float | None = facts.get("run.hours")
    tokens, speed = facts.tokens, facts.tokens_per_s
    if stated is not None or tokens is None or speed is None:
        return stated
    return tokens / speed / 3600


def check_work(facts: Facts) -> Iterator[Finding]:
    """Check that the stated FLOPs can be done in the hours, whatever the model."""
    flops, hours, peak, part = facts.get("run.flops"), facts.get("run.hours"), facts.peak, facts.part
    if flops is None or hours is None or peak is None or part is None or flops <= peak * hours * 3600:
        return
    words = (
        f"run.flops = {flops:.3g} in {hours:g} h are {flops / hours / 3600 / 1e12:,.4g} TFLOP/s, "
        f"{flops / (peak * hours * 3600):.3g} times the dense {facts.dtype} peak of {facts.n_gpus} x {part.name} "
        f"({peak / 1e12:,.4g}): impossible."
    )
    yield Finding("flops_impossible", "error", words, {"flops": flops, "most": peak * hours * 3600})


def check_date(facts: Facts) -> Iterator[Finding]:
    """Check that the date is one for which there can be prices."""
    date = facts.plan.date
    if date is None:
        return
    ahead = (date - Date.today()).days
    if ahead > _AHEAD:
        words = f"the date {date} lies {ahead / 365.25:,.3g} years ahead: nobody knows its prices."
        yield Finding("date_ahead", "error", words, {"date": str(date), "days_ahead": ahead})
    elif date.year < _FIRST_YEAR:
        words = f"on the date {date} no accelerator could be rented: there are no prices for it."
        yield Finding("date_too_early", "error", words, {"date": str(date)})
