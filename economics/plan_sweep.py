"""Checks of a plan's sweep: its sizes exist, one thing is fixed, its runs determine the law."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from economics.plan_facts import REFERENCE_LAW, Facts
from economics.plan_schema import SweepSection
from scaling.design import predicted_se
from scaling.errors import DataError
from scaling.findings import Finding, Severity
from scaling.flops import flops_per_token
from scaling.jacobian import COLUMNS, log_jacobian
from scaling.shapes import ShapeError, solve_shape
from scaling.units import format_count

#: Token counts that differ by less are one token count.
_SAME = 1.1
#: An interval of D* wider than this factor either way answers little.
_WIDE = 2.0
_NORMAL = 1.96
#: Token counts of the grid that is proposed, as shares of the tokens of the run.
_GRID = (1 / 50, 1 / 2, 5)


def check_sizes(facts: Facts) -> Iterator[Finding]:
    """Check that every size of the sweep exists with the vocabulary of the plan."""
    sweep, vocab = facts.plan.sweep, facts.get("model.vocab")
    if sweep is None or vocab is None:
        return
    for size in sweep.params:
        try:
            _shape(facts, size)
        except ShapeError as error:
            # The solver also shows the arithmetic of every width around; the bound says it all.
            sentences = re.split(r"(?<=\.) (?=[A-Zd])", str(error))
            words = f"sweep: {' '.join(s for s in sentences if not s.startswith('d_model ='))}"
            if sweep.params_kind == "total":
                words += " Or count N without embeddings: params_kind = 'non_embedding'."
            evidence = {"params": size, "vocab": vocab, "nearest": [a.params_total for a in error.nearest]}
            yield Finding("size_impossible", "error", words, evidence)


def _shape(facts: Facts, size: float) -> Any:
    """Return a shape of a size of the sweep in the style of the model; very small ones with narrow heads."""
    sweep, vocab = facts.plan.sweep, facts.get("model.vocab")
    assert sweep is not None
    style = {k: v for k in ("tied", "gated", "norm", "bias") if (v := facts.get(f"model.{k}")) is not None}
    options: dict[str, Any] = {"count": sweep.params_kind, "tolerance": 0.1, **style}
    if sweep.params_kind != "total":
        options["max_embedding_share"] = 0.95  # said openly: the sizes leave embeddings out
    try:
        return solve_shape(size, vocab, **options).arch
    except ShapeError as first:
        try:
            # Narrow heads and mostly embeddings: unusual, but they exist.
            options["max_embedding_share"] = max(0.85, options.get("max_embedding_share", 0.0))
            return solve_shape(size, vocab, multiple=16, head_dim=32, **options).arch
        except DataError:
            raise first from None


def check_fixed(facts: Facts) -> Iterator[Finding]:
    """Check that one quantity is the same for all sizes, and that it is the one said to be."""
    sweep = facts.plan.sweep
    if sweep is None:
        return
    kinds = list(dict.fromkeys(sweep.fixed))
    if len(kinds) > 1:
        words = (
            f"the sweep is at fixed {' and at fixed '.join(kinds)}: sizes from "
            f"{format_count(min(sweep.params))} to {format_count(max(sweep.params))} cannot share more than one, as "
            f"compute is 6 x N x D."
        )
        yield Finding("sweep_fixed_twice", "error", words, {"fixed": kinds})
    speeds = _speeds(facts, sweep)
    if sweep.hours_each is None or speeds is None:
        return
    seen = [sweep.hours_each * 3600 * speed for speed in speeds]
    if max(seen) <= _SAME * min(seen):
        return
    counts = "/".join(format_count(d) for d in seen)
    sizes = "/".join(format_count(n) for n in sweep.params)
    words = f"{sweep.hours_each:g} h each are not one token count: {counts} for {sizes}{_how_fast(sweep)}."
    severity: Severity = "error" if "tokens" in kinds else "info"
    yield Finding("hours_are_not_tokens", severity, words, {"tokens": seen, "hours": sweep.hours_each})


def _speeds(facts: Facts, sweep: SweepSection) -> list[float] | None:
    """Tokens per second of each size: as given, else predicted from measured throughputs."""
    if sweep.tokens_per_s is not None:
        return list(sweep.tokens_per_s)
    out = []
    for size in sweep.params:
        usual, work = facts.predicted(size), _flops(facts, size)
        if usual is None:
            return None
        out.append(usual.tokens_per_s(work).value)
    return out


def _how_fast(sweep: SweepSection) -> str:
    return "" if sweep.tokens_per_s else " at speeds predicted from measured throughputs"


def _flops(facts: Facts, size: float) -> float:
    """FLOPs per token of a size of the sweep, palm convention."""
    from economics.mfu_rows import attention_guess

    length = facts.get("run.seq_len") or 2048.0
    if facts.get("model.vocab") is not None:
        try:
            return flops_per_token(_shape(facts, size), "palm", seq_len=length)
        except DataError:
            pass
    return 6.0 * size + attention_guess(size, length)


def check_identified(facts: Facts) -> Iterator[Finding]:
    """Check that the runs of the sweep determine the law and what it is for."""
    sweep = facts.plan.sweep
    if sweep is None:
        return
    speeds = _speeds(facts, sweep)
    anyhow = facts.tokens or 20 * max(sweep.params)
    if sweep.runs:
        plans = {"": sweep.runs}
    else:
        plans = {"at one token count": [(n, anyhow) for n in sweep.params]} if "tokens" in sweep.fixed else {}
        if "compute" in sweep.fixed:
            middle = math.sqrt(min(sweep.params) * max(sweep.params))
            plans["at one compute"] = [(n, anyhow * middle / n) for n in sweep.params]
        if sweep.hours_each is not None and speeds is not None:
            cut = sweep.hours_each * 3600
            plans[f"of {sweep.hours_each:g} h each"] = [
                (n, cut * s) for n, s in zip(sweep.params, speeds, strict=True)
            ]
    if not plans:
        return
    judged = {name: _judge(facts, sweep, runs) for name, runs in plans.items()}
    best = min(judged, key=lambda name: (judged[name]["se"], -judged[name]["rank"]))
    rank, n, se = judged[best]["rank"], len(plans[best]), judged[best]["se"]
    what = "the law" if sweep.target is None else f"D*({format_count(sweep.target)})"
    evidence = {"runs": n, "rank": rank, "coefficients": len(COLUMNS), "se_ln": se}
    if math.isinf(se):
        each = "; ".join(f"{n} runs {name}: rank {judged[name]['rank']} of {len(COLUMNS)}" for name in plans)
        spare = "" if n > len(COLUMNS) else ", no degrees of freedom"
        words = (
            f"the sweep does not determine {what}: {each.replace(' : ', ': ')}{spare}. "
            f"{_proposal(facts, sweep, speeds)}"
        )
        yield Finding("sweep_not_identified", "error", words.strip(), evidence)
        return
    factor = math.exp(_NORMAL * se)
    evidence["factor"] = factor
    words = (
        f"{n} runs determine {what} within x/÷ {factor:.3g} at 95%, if a loss has noise of {sweep.noise_nats:g} nats "
        f"with correlation {sweep.noise_correlation:g} within a size ({REFERENCE_LAW})."
    )
    if n <= len(COLUMNS):
        words += f" {n} runs for {len(COLUMNS)} coefficients leave nothing to judge the fit by."
    poor = factor > _WIDE or n <= len(COLUMNS)
    yield Finding("sweep_imprecise" if poor else "sweep", "warning" if poor else "info", words, evidence)


def _judge(facts: Facts, sweep: SweepSection, runs: list[tuple[float, float]]) -> dict[str, Any]:
    """Rank of the runs for the five coefficients, and the standard error of ln D* at the target."""
    params, tokens = (np.array(column, dtype=float) for column in zip(*runs, strict=True))
    law = facts.law
    jacobian = log_jacobian(law, np.log(params), np.log(tokens), params, tokens)
    rank = int(np.linalg.matrix_rank(jacobian / np.linalg.norm(jacobian, axis=0), tol=1e-8))
    target = sweep.target or 10 * max(sweep.params)
    se = predicted_se(
        (params, tokens), f"ln_tokens@{target!r}", law=law, sigma=sweep.noise_nats / law.loss(params, tokens),
        rho=sweep.noise_correlation, groups=params,
    )  # fmt: skip
    return {"rank": rank, "se": se if rank == len(COLUMNS) else math.inf}


def _proposal(facts: Facts, sweep: SweepSection, speeds: list[float] | None) -> str:
    """Say which grid would determine it, what it costs, and how well."""
    tokens = facts.tokens
    if len(sweep.params) < 3 or tokens is None:
        return "It takes at least 3 sizes at 3 or more token counts each."
    counts = np.geomspace(tokens * _GRID[0], tokens * _GRID[1], _GRID[2])
    runs = list(product(sweep.params, map(float, counts)))
    factor = math.exp(_NORMAL * _judge(facts, sweep, runs)["se"])
    words = (
        f"{len(sweep.params)} sizes x {len(counts)} token counts from {format_count(counts[0])} to "
        f"{format_count(counts[-1])} would, within x/÷ {factor:.3g} at 95% for noise of {sweep.noise_nats:g} nats"
    )
    price = facts.usd_per_hour
    if speeds is not None and price is not None:
        hours = sum(counts.sum() / speed for speed in speeds) / 3600
        words += f", for {hours:.3g} h or ${hours * price:.2f}{_how_fast(sweep)}"
    return f"{words}."


def check_sweep_cost(facts: Facts) -> Iterator[Finding]:
    """Check that the line of the sweep pays for its runs."""
    sweep, price = facts.plan.sweep, facts.usd_per_hour
    if sweep is None or price is None:
        return
    speeds = _speeds(facts, sweep)
    runs = sweep.runs
    if runs and speeds is not None:
        speed_of = dict(zip(sweep.params, speeds, strict=True))
        hours = sum(d / speed_of[n] for n, d in runs) / 3600
    elif sweep.hours_each is not None:
        hours = sweep.hours_each * len(sweep.params)
    else:
        return
    usd = hours * price
    words = f"the {len(runs) or len(sweep.params)} runs of the sweep take {hours:.3g} h{_how_fast(sweep)}, ${usd:,.2f}"
    evidence = {"hours": hours, "usd": usd}
    lines = [
        line for line in (facts.plan.budget.lines if facts.plan.budget else []) if "sweep" in line.covers
    ]
    there = math.fsum(line.usd for line in lines)
    if lines and usd > 1.1 * there + 0.5:
        # Speeds that are predicted can doubt a line, not contradict it.
        severity: Severity = "warning" if runs and sweep.tokens_per_s is None else "error"
        yield Finding("sweep_over_line", severity, f"{words}; its line has ${there:,.2f}.", evidence)
    else:
        yield Finding("sweep_cost", "info", f"{words}.", evidence)
