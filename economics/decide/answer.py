"""From a found size to an answer: estimates, what it costs, what to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from economics.decide.result import Option, PricedOptimum
from economics.decide.search import Found, Task
from economics.decide.surface import serve
from economics.inference import InferenceCost
from economics.quantile_draws import Array
from economics.run_estimates import estimate_of
from economics.run_result import RunCost
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.optima.subject import RunPoint, Shape, Subject, shape_of
from scaling.optima.target import reach_findings


def priced(
    s: Subject,
    task: Task,
    found: Found,
    run: RunCost,
    *,
    question: str,
    given: Mapping[str, Any],
    serving: InferenceCost | None = None,
    served: float = 0.0,
    more: Mapping[str, Estimate] | None = None,
    findings: tuple[Finding, ...] = (),
    options: tuple[Option, ...] = (),
    failures: tuple[tuple[str, str], ...] = (),
    made: Shape | None = None,
) -> PricedOptimum:
    """Return the answer for a run whose size was found.

    Parameters
    ----------
    s, task, found
        What was asked, and what came out.
    run : RunCost
        The run, at exactly the parameters and tokens of the answer.
    question, given
        In words, and as plain types.
    serving, served
        What a token served costs, and how many there are.
    more, findings, options, failures
        Of the answer.
    made : Shape, optional
        The estimates, where they are not those of `found`.

    Raises
    ------
    NotIdentifiedError
        As `scaling.optima.subject.shape_of`.
    """
    best = RunPoint(run.plan.params, run.plan.tokens)
    if made is None:
        made = shape_of(s, best, found.drawn, (float(task.loss(s.law, *best)), found.losses))
    further: dict[str, Estimate] = dict(one_run(s, best))
    if serving is not None:
        bill = served * serving.token_usd_draws
        further["serving_usd"] = estimate_of(bill, "serving", "$")
        further["lifetime_usd"] = estimate_of(lifetime(run, serving, served), "lifetime", "$")
    known = [*s.findings(*best), *reach_findings(made.decades_outside), *findings]
    known += [f for f in run.findings if f.severity != "info" or f.code == "n_gpus_chosen"]
    nothing = float(np.mean(~np.isfinite(found.losses))) if found.losses.size else 0.0
    if nothing > 0.05:
        words = f"in {nothing:.0%} of the draws nothing is within reach: no run starts, or the law never gets there."
        known.append(Finding("often_out_of_reach", "warning", words, {"share": nothing}))
    if found.at_edge:
        words = "the best size is at the edge of those looked at: a smaller (or larger) one would be better still."
        known.append(Finding("edge_of_search", "error", words, {"params": best.params}))
    if serving is not None:
        known += [f for f in serving.findings if f.severity != "info"]
    unique = {(f.code, f.message): f for f in known}
    return PricedOptimum(
        **vars(made), question=question, usd=run.usd, hours=run.wall_hours, more={**further, **(more or {})},
        given=dict(given), findings=tuple(unique.values()), cost=run, serving=serving, options=options,
        failures=failures,
    )  # fmt: skip


def one_run(s: Subject, best: RunPoint) -> dict[str, Estimate]:
    """Return where a single run would land, luck and drift included; nothing for a law alone."""
    if s.fit is None:
        return {}
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the distance is a finding
        return {"one_run": replace(s.fit.predict(*best, level=s.level).prediction, name="one run")}


def lifetime(run: RunCost, serving: InferenceCost | None, served: float) -> Array:
    """Return draws of the dollars of training and serving."""
    bill = 0.0 if serving is None else served * serving.token_usd_draws
    return np.asarray(run.outcome.total_usd + bill)


def server(
    params: float, settings: Mapping[str, Any], serving: Mapping[str, Any] | None
) -> InferenceCost | None:
    """Return what serving a size costs; None where nothing is served."""
    if serving is None:
        return None
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are findings
        return serve(params, settings, serving)


def option_of(run: RunCost, serving: InferenceCost | None, served: float) -> Option:
    """Return a kind of machine as a line of a comparison."""
    plan = run.plan
    return Option(
        plan.part.name, plan.market, plan.n_gpus, plan.params, plan.tokens, run.usd, run.wall_hours,
        estimate_of(lifetime(run, serving, served), "lifetime", "$"),
    )  # fmt: skip
