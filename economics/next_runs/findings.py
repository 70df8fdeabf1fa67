"""What to know before making the runs that are suggested."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from economics.next_runs.goal import Goal
from economics.next_runs.grid import Pool
from economics.next_runs.known import Knowledge
from economics.next_runs.result import NextRuns
from economics.run_estimates import dollars
from scaling.design import COOLDOWN
from scaling.findings import Finding
from scaling.guard import WARN_DECADES
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN
from scaling.units import format_count

#: A predicted interval wider than this factor either way is no more than an order of magnitude.
_ROUGH = 3.0
#: An interval that narrows by less than this was not worth the money.
_LITTLE = 0.05
#: A budget of which less than this share is spent is larger than what there was to choose from.
_SPENT = 0.75
#: Levels of N and of D below which nothing shows whether the law bends otherwise.
_LEVELS = 4
#: Findings of a cost that speak of one run, not of a ladder.
_OF_ONE_RUN = ("final_run_only", "act_ckpt_assumed", "region_unknown", "n_gpus_chosen")


def findings(result: NextRuns, goal: Goal, known: Knowledge, pool: Pool, spared: int = 0) -> NextRuns:
    """Return the result with its findings: those of the laws and the noise, of the design, of the costs.

    Parameters
    ----------
    result, goal, known, pool
        What came out, of what.
    spared : int
        Runs left out because they hardly tell anything.
    """
    found = [*known.findings, *_design(result, goal, known, pool), *_costs(pool)]
    if spared:
        words = (
            f"{spared} more run{'s' * (spared != 1)} within the money would narrow the interval by 1% at most, all "
            "together: left out."
        )
        found.append(Finding("runs_spared", "info", words, {"runs": spared}))
    order = {"error": 0, "warning": 1, "info": 2}
    return replace(result, findings=tuple(sorted(found, key=lambda f: order[f.severity])))


def _design(result: NextRuns, goal: Goal, known: Knowledge, pool: Pool) -> Iterator[Finding]:
    n = np.concatenate([known.known.params, [r.params for r in result.runs]])
    d = np.concatenate([known.known.tokens, [r.tokens for r in result.runs]])
    if not result.reached and result.wanted is not None:
        limit = "" if result.budget_usd is None else f" within {dollars(result.budget_usd)}"
        words = (
            f"no set of these runs takes {result.target} to {goal.write(result.wanted)}{limit}: the most precise one "
            "that was found is shown. Give more money, larger sizes= and token_counts=, or more trunks=."
        )
        yield Finding("precision_not_reached", "warning", words, {"reached": result.after.value})
    if (
        result.budget_usd is not None
        and result.wanted is None
        and result.usd.value < _SPENT * result.budget_usd
    ):
        words = (
            f"{dollars(result.budget_usd - result.usd.value)} are left: no further run of these sizes, tokens and "
            "seeds helps. Give larger sizes= and token_counts=, or more trunks=."
        )
        yield Finding("money_left", "info", words, {"usd": result.budget_usd - result.usd.value})
    shrink = _shrink(result, goal)
    if shrink is not None and shrink < _LITTLE:
        words = (
            f"the runs at hand have told nearly all there is to tell: {dollars(result.usd.value)} more narrow the "
            f"interval by {max(shrink, 0.0):.1%}."
        )
        yield Finding("little_gain", "warning", words, {"shrink": shrink})
    if not math.isfinite(result.after.value):
        rich = result.budget_usd is not None and result.usd.value < _SPENT * result.budget_usd
        words = (
            f"these runs leave {result.target} open still: give {'' if rich else 'more money, or '}a wider range of "
            "sizes= and token_counts=."
        )
        yield Finding("still_open", "error", words, {})
    elif goal.by_factor and result.after.value > _ROUGH:
        words = (
            f"the prediction is linear: an interval of {goal.write(result.after.value)} says that little will be "
            "known, not how little."
        )
        yield Finding("rough_prediction", "warning", words, {"factor": result.after.value})
    asked = goal.flops(known.law)
    if asked is not None:
        largest = float((FLOPS_PER_PARAM_TOKEN * n * d).max())
        away = math.log10(asked / largest) if 0 < asked < math.inf else math.inf
        if away > WARN_DECADES:
            words = (
                f"{result.target} lies {away:.1f} decades of compute beyond the largest run there will be: the width "
                "is that of the law, if it holds so far out."
            )
            yield Finding("extrapolation", "warning", words, {"decades": away})
    levels = {"sizes": np.unique(n).size, "token counts": np.unique(d).size}
    few = [
        f"{count} {what[:-1] if count == 1 else what}" for what, count in levels.items() if count < _LEVELS
    ]
    if few:
        words = (
            f"{' and '.join(few)} show no bend that the law does not have: a further one would test its form."
        )
        yield Finding("form_untested", "info", words, {k.replace(" ", "_"): v for k, v in levels.items()})
    if known.runs is not None and len(known.known.tokens):
        own = known.known.tokens / known.known.params
        far = [r for r in result.runs if not own.min() * 0.99 < r.tokens / r.params < own.max() * 1.01]
        if far:
            words = (
                f"runs with more or fewer tokens per parameter than any at hand ({own.min():.3g} to {own.max():.3g}): "
                f"{len(far)}. They count on the law holding there."
            )
            yield Finding("new_ratios", "info", words, {"runs": len(far)})
    trunks = None if known.runs is None else known.runs.trunk_id
    if trunks is not None and len(set(trunks)) < len(trunks):
        words = (
            "trunks at hand are not branched further: where a checkpoint before the cooldown is still there, a branch "
            f"of it costs {COOLDOWN:.0%} of its tokens alone, less than any of these."
        )
        yield Finding("own_trunks", "info", words, {"trunks": len(set(trunks))})
    if known.runs is not None and known.runs.params_kind == "unstated":
        words = "the table does not say what its parameters count: all of them, embeddings too, are taken to be meant."
        yield Finding("params_kind_assumed", "info", words, {})
    shares = [1 - s.arch.params_non_embedding / s.arch.params_total for s in pool.sizes]
    used = {r.params for r in result.runs}
    heavy = [s for s, share in zip(pool.sizes, shares, strict=True) if share > 0.5 and s.params in used]
    if heavy:
        words = (
            f"{', '.join(format_count(s.params) for s in heavy)}: more than half of the parameters are embeddings "
            f"(vocabulary {pool.sizes[0].arch.vocab:,}); what counts as N moves the law. A smaller vocab= avoids it."
        )
        yield Finding("embedding_share", "info", words, {"sizes": [s.params for s in heavy]})


def _shrink(result: NextRuns, goal: Goal) -> float | None:
    """Return the share by which an interval narrows; None where it was open."""
    before, after = result.before.value, result.after.value
    if not math.isfinite(before) or not before > (1.0 if goal.by_factor else 0.0):
        return None
    return 1.0 - (math.log(after) / math.log(before) if goal.by_factor else after / before)


def _costs(pool: Pool) -> Iterator[Finding]:
    seen = set()
    for size in pool.sizes:
        for f in size.token.findings:
            if f.code not in seen and f.code not in _OF_ONE_RUN and f.severity != "info":
                seen.add(f.code)
                yield replace(f, message=f"cost at {format_count(size.params)}: {f.message}")
