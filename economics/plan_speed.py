"""Checks of a plan's speed: time, utilisation, FLOPs, step rates, memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from economics.memory_layout import Layout
from economics.memory_remedies import total_gb
from economics.plan_facts import Facts
from economics.plan_size import similar_shape
from economics.utilisation import likely_causes
from scaling.findings import Finding, Severity
from scaling.flops import flops_per_token
from scaling.units import format_count

#: A run may take a little less than tokens / speed (rounded figures), and more for what is not training.
_TOO_SHORT, _SLACK, _TOO_LONG = 0.92, 1.25, 2.0
#: Rates of steps that differ by no more than this are one rate, rounded.
_SAME_RATE = 1.25
_OFF = 0.15


def check_time(facts: Facts) -> Iterator[Finding]:
    """Check that tokens, speed and hours belong together."""
    tokens, speed, hours = facts.tokens, facts.tokens_per_s, facts.get("run.hours")
    if tokens is None or speed is None or hours is None:
        return
    needed = tokens / speed / 3600
    implied = tokens / (hours * 3600)
    ratio = hours / needed
    # 0.2 h may be 0.24 h.
    if ratio < _TOO_SHORT and (hours + _half_digit(hours)) / needed >= _TOO_SHORT:
        return
    if _TOO_SHORT <= ratio <= _SLACK:
        return
    words = (
        f"{format_count(tokens)} tokens at {format_count(speed)} tokens/s take {needed:.3g} h, not {hours:g} h; "
        f"in {hours:g} h they are {implied:,.0f} tokens/s, {max(ratio, 1 / ratio):.3g} times "
        f"{'slower' if speed > implied else 'faster'}."
    )
    evidence = {
        "hours": hours,
        "needed_hours": needed,
        "tokens_per_s": speed,
        "implied_tokens_per_s": implied,
    }
    severity: Severity = "warning" if _SLACK < ratio <= _TOO_LONG else "error"
    yield Finding("time_disagrees", severity, words, evidence)


def _half_digit(figure: float) -> float:
    """Half a unit of the last decimal of a figure; nothing for one without decimals."""
    decimals = f"{figure:.10g}".partition(".")[2]
    return 0.5 * 10.0 ** -len(decimals) if decimals.isdigit() else 0.0


def check_speed(facts: Facts) -> Iterator[Finding]:
    """Check that the speed is one that the accelerators can reach."""
    tokens, hours, stated = facts.tokens, facts.get("run.hours"), facts.get("run.tokens_per_s")
    if stated is not None:
        yield from _utilisation(facts, stated, f"{format_count(stated)} tokens/s")
        yield from _stated_mfu(facts, stated)
    elif facts.get("run.mfu") is None and tokens is not None and hours is not None:
        speed = tokens / (hours * 3600)
        origin = f"{format_count(tokens)} tokens in {hours:g} h, {format_count(speed)} tokens/s,"
        yield from _utilisation(facts, speed, origin)
    elif facts.tokens_per_s is not None and facts.get("run.mfu") is not None:
        yield from _utilisation(facts, facts.tokens_per_s, f"a utilisation of {facts.get('run.mfu'):.1%}")


def _utilisation(facts: Facts, speed: float, origin: str) -> Iterator[Finding]:
    part, peak, work = facts.part, facts.peak, facts.flops_per_token()
    plain = facts.flops_per_token("6N")
    if part is None or peak is None or work is None or plain is None or facts.dtype is None:
        return
    n, size = facts.n_gpus or 1, facts.active_params or 0.0
    mfu, mfu_6n = speed * work / peak, speed * plain / peak
    evidence = {"tokens_per_s": speed, "flops_per_token": work, "mfu": mfu, "mfu_6n": mfu_6n, "n_gpus": n}
    by_6n = f"; {mfu_6n:.1%} counting 6N" if mfu_6n != mfu else ""
    what = (
        f"{origin} x {work / 1e9:.3g} GFLOP per token of {format_count(size, 4)} parameters"
        f" = {speed * work / 1e12:,.4g} TFLOP/s, {mfu:.1%} of the dense {facts.dtype} peak of {n} x {part.name} "
        f"({peak / 1e12:,.4g}{by_6n})"
    )
    if mfu > 1:
        causes = "; or ".join(likely_causes(mfu, part, facts.dtype, n)[:2])
        words = f"{what}: impossible. {causes[0].upper()}{causes[1:]}?{_of_claimed(facts, speed, peak)}"
        yield Finding("mfu_impossible", "error", words, evidence)
        return
    ceiling = part.ceiling(facts.dtype)
    if ceiling is not None and mfu > n * ceiling / peak:
        words = f"{what}: more than the best matrix product measured on it, {n * ceiling / peak:.1%}."
        yield Finding("mfu_above_ceiling", "warning", words, evidence)
        return
    usual = facts.predicted(size)
    if usual is None:
        return
    evidence |= {"low": usual.quantile(0.1), "median": usual.median, "high": usual.quantile(0.9)}
    span = f"{usual.quantile(0.1):.0%} to {usual.quantile(0.9):.0%}"
    if mfu < usual.low or mfu > usual.high:
        unusual = "slower" if mfu < usual.low else "faster"
        words = f"{what}: {unusual} than set-ups like it, which reach {span} (80%)."
        yield Finding("speed_unusual", "warning", words, evidence)
    else:
        yield Finding("speed", "info", f"{what}; set-ups like it reach {span} (80%).", evidence)


def _of_claimed(facts: Facts, speed: float, peak: float) -> str:
    """Say what the speed would amount to for a model of the size claimed, if the shape has another."""
    claimed, length = facts.get("model.params"), facts.get("run.seq_len")
    if facts.arch is None or claimed is None or claimed > 0.8 * facts.arch.params_total:
        return ""
    near = similar_shape(facts.arch, claimed)
    if near is None:
        return ""
    mfu = speed * flops_per_token(near, "palm" if length else "6N", seq_len=length) / peak
    return f" For the {format_count(claimed)} claimed ({near.layers} x {near.d_model}) it is {mfu:.1%}."


def _stated_mfu(facts: Facts, speed: float) -> Iterator[Finding]:
    stated, peak, work = facts.get("run.mfu"), facts.peak, facts.flops_per_token()
    if stated is None or peak is None or work is None:
        return
    mfu = speed * work / peak
    if abs(mfu / stated - 1) > _OFF:
        words = (
            f"mfu = {stated:.1%} and tokens_per_s = {format_count(speed)} contradict each other: that speed is "
            f"{mfu:.1%} of {peak / 1e12:,.4g} TFLOP/s, that utilisation {format_count(stated * peak / work)} tokens/s."
        )
        yield Finding("mfu_disagrees", "error", words, {"stated": stated, "computed": mfu})


def check_flops(facts: Facts) -> Iterator[Finding]:
    """Check that FLOPs as stated are 6·N·D."""
    stated, size, tokens = facts.get("run.flops"), facts.active_params, facts.tokens
    if stated is None or size is None or tokens is None:
        return
    flops = 6.0 * size * tokens
    with_attention = (facts.flops_per_token() or 0.0) * tokens
    if min(abs(stated / flops - 1), abs(stated / with_attention - 1)) <= _OFF:
        return
    passes = ", which counts the forward pass alone" if math.isclose(stated, flops / 3, rel_tol=0.05) else ""
    words = (
        f"run.flops = {stated:.3g}, but 6 x {format_count(size, 4)} x {format_count(tokens)} = {flops:.3g} "
        f"({stated / flops:.2g} times{passes})."
    )
    yield Finding("flops_disagree", "error", words, {"stated": stated, "computed": flops})


def check_steps(facts: Facts) -> Iterator[Finding]:
    """Check that all places say the same number of steps for a time, and no more steps than there are."""
    rates = [(r.where or f"step_rates[{i}]", r.steps, r.span_s) for i, r in enumerate(facts.plan.step_rates)]
    checkpoint = facts.plan.checkpoint
    if checkpoint is not None and checkpoint.steps is not None:
        rates.append(("checkpoint", checkpoint.steps, checkpoint.span_s))
    own, batch, tokens = facts.steps_per_s, facts.get("run.batch_tokens"), facts.tokens
    timed = [(where, steps, span) for where, steps, span in rates if span is not None]
    speeds = [steps / span for _, steps, span in timed]
    both = [*speeds, own] if own is not None else speeds
    if speeds and max(both) > _SAME_RATE * min(both):
        listed = "; ".join(
            f"{where}, {steps:,.0f} in {span / 60:g} min: {steps / span:.3g} steps/s"
            for where, steps, span in timed
        )
        words = f"{_many(_distinct(speeds))} ({listed})."
        if own is not None and batch is not None:
            right = ", ".join(
                f"{span / 60:g} min are {span * own:,.0f}" for span in dict.fromkeys(t[2] for t in timed)
            )
            words += (
                f" {format_count(facts.tokens_per_s or 0)} tokens/s / {format_count(batch)} tokens per step are "
                f"{own:.3g} steps/s: {right}."
            )
        evidence = {"steps_per_s": speeds, "by_tokens_per_s": own}
        yield Finding("step_rates_disagree", "error", words, evidence)
    for where, steps, _ in rates:
        if batch is not None and tokens is not None and steps * batch > 1.05 * tokens:
            words = (
                f"{where}: {steps:,.0f} steps of {format_count(batch)} tokens are {format_count(steps * batch)} "
                f"tokens, {steps * batch / tokens:.3g} times the {format_count(tokens)} of the run, which has "
                f"{tokens / batch:,.0f} steps."
            )
            evidence = {"steps": steps, "tokens": steps * batch, "run_tokens": tokens}
            yield Finding("more_steps_than_run", "error", words, evidence)


def _many(rates: list[float]) -> str:
    return (
        f"the plan has {len(rates)} step rates" if len(rates) > 1 else "the plan's step rate is not its speed"
    )


def _distinct(rates: list[float]) -> list[float]:
    """Return the rates that are not one another, rounded."""
    kept: list[float] = []
    for rate in sorted(rates):
        if not kept or rate > _SAME_RATE * kept[-1]:
            kept.append(rate)
    return kept


def check_memory(facts: Facts) -> Iterator[Finding]:
    """Check that the model fits into memory in the leanest layout: one sequence at a time, all sharded."""
    if facts.arch is None or facts.part is None or facts.n_gpus is None:
        return
    n, sharded = facts.n_gpus, 3 if facts.n_gpus > 1 else 0
    length = int(facts.get("run.seq_len") or 1024)
    splits = [t for t in (1, 8) if n % t == 0 and facts.arch.heads % t == 0 and facts.arch.kv_heads % t == 0]
    lean = min(
        total_gb(
            facts.arch,
            Layout(seq_len=length, n_gpus=n, tp=t, zero=sharded, checkpointing="full", loss_chunks=8),
        )
        for t in splits
    )
    if lean > facts.part.memory_gb:
        words = (
            f"{format_count(facts.arch.params_total)} parameters need at least {lean:,.0f} GB on each of "
            f"{facts.n_gpus} x {facts.part.name} ({facts.part.memory_gb:g} GB), one sequence at a time, sharded and "
            f"with every activation recomputed."
        )
        yield Finding("memory", "error", words, {"needed_gb": lean, "has_gb": facts.part.memory_gb})
