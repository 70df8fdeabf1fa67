"""What to know before using the numbers of a cost: memory, spot against on demand, prices, what is not in them."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from economics.errors import PriceError
from economics.memory import MemoryFit, memory_fit
from economics.memory_layout import state_bytes
from economics.power import unknown_power
from economics.price_search import STALE_DAYS, prices
from economics.run_plan import CHOSEN_DAYS, RunPlan
from economics.spot import spot_run
from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.run_result import RunCost

#: Vocabulary of the shape that is solved for where none is given: that of Llama 2.
VOCAB = 32000
#: Longer than this is no plan any more, hours.
_YEAR = 8766.0


def findings(run: RunCost) -> tuple[Finding, ...]:
    """Return everything to know about a run, errors first."""
    plan = run.plan
    found = [
        *_memory(run),
        *_spot(run),
        *plan.price.findings,
        *plan.mfu.findings,
        *_scope(run),
    ]
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(found, key=lambda f: order[f.severity]))


def solved_arch(plan: RunPlan) -> Arch | None:
    """Return the shape of the run: the given one, or a usual dense one of its size."""
    if plan.arch is not None:
        return plan.arch
    if plan.active != plan.params:
        return None
    return usual_shape(plan.params)


@lru_cache(maxsize=64)
def usual_shape(params: float) -> Arch | None:
    """Return a usual dense shape with as many parameters; None where there is none."""
    from scaling.shapes import solve_shape

    try:
        return solve_shape(params, VOCAB, tied=params < 2e9).arch
    except DataError:
        return None


def lightest_layout(plan: RunPlan) -> MemoryFit | None:
    """Return the memory of the lightest layout that is still sensible, against what the GPU has."""
    shape = solved_arch(plan)
    if shape is None:
        return None
    # Tensor parallelism within a node halves what is left per GPU where it divides the heads.
    fits = [
        memory_fit(
            shape, plan.part, micro_batch=1, seq_len=max(int(plan.seq_len), 1), n_gpus=plan.n_gpus,
            zero=3 if plan.n_gpus > 1 else 0, checkpointing="full", tp=tp, sequence_parallel=tp > 1,
        )
        for tp in (1, 8)
        if plan.n_gpus % tp == 0 and shape.heads % tp == 0 and shape.kv_heads % tp == 0
    ]  # fmt: skip
    return min(fits, key=lambda f: f.total_gb)


def _memory(run: RunCost) -> list[Finding]:
    plan, fit = run.plan, run.memory
    if fit is None:
        needed = plan.params * state_bytes().total / plan.n_gpus / 1e9
        if needed <= plan.part.memory_gb:
            return []
        least = math.ceil(plan.params * state_bytes().total / (plan.part.memory_gb * 1e9))
        words = (
            f"weights, gradients and optimizer alone take {needed:,.0f} GB on each of {plan.n_gpus} GPUs with "
            f"{plan.part.memory_gb:g} GB: at least {least} of them are needed, with activations more."
        )
        return [Finding("does_not_fit", "warning", words, {"needed_gb": needed, "gpus": least})]
    if fit.fits:
        return []
    remedies = "; ".join(map(str, fit.remedies)) or "a larger GPU"
    words = (
        f"{format_count(plan.params)} parameters do not fit into {plan.n_gpus} x {plan.part.name}, even with ZeRO 3, "
        f"full checkpointing and one sequence at a time: {fit.total_gb:.0f} of {fit.capacity_gb:g} GB. "
        f"What would fit: {remedies}."
    )
    return [Finding("does_not_fit", "warning", words, fit.to_dict())]


def _spot(run: RunCost) -> list[Finding]:
    """Return the verdicts of `spot_run` at the central values, with the price on demand where the book has one."""
    plan, spot = run.plan, run.plan.spot
    if not plan.preempted:
        return []
    work = run.training_gpu_hours.value / plan.n_gpus
    every: float | Literal["optimal"] | None = plan.interval
    if isinstance(run.asked["checkpoint_every"], str) and run.asked["checkpoint_every"] == "optimal":
        every = "optimal"  # of the whole run: its interval divides the work
    central = spot_run(
        work, nodes=plan.nodes, gpus_per_node=int(spot["gpus_per_node"]), checkpoint_every=every,
        checkpoint_hours=plan.checkpoint_hours, restart_hours=plan.restart_hours, wait_hours=plan.wait_hours,
        mean_up_hours=spot["mean_up_hours"], faults_per_gpu_hour=spot["faults_per_gpu_hour"],
        growth=spot["growth"], usd_per_hour=plan.price.median * plan.n_gpus,
        on_demand_usd_per_hour=_on_demand(run),
    )  # fmt: skip
    # The answers beside them are medians of draws, which lie above what comes of the medians of the factors.
    found = [replace(f, message=f"{f.message} (Every factor at its median.)") for f in central.findings]
    apart = 60.0 / plan.preempted
    if (
        plan.nodes > 1
        and spot["growth"] == 1.0
        and plan.preempted * (plan.restart_hours + plan.wait_hours) > 1
    ):
        words = (
            f"{plan.nodes} machines that are taken away one by one interrupt the run every {apart:.2g} min, which is "
            f"less than a restart takes. If they go together, say spot={{'growth': 0.5}} (0: all at once); if they "
            f"last longer than {spot['mean_up_hours']:g} h, spot={{'mean_up_hours': ...}}."
        )
        found.append(Finding("spot_too_often", "warning", words, {"minutes": apart, "nodes": plan.nodes}))
    return found


def _on_demand(run: RunCost) -> float | None:
    plan = run.plan
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quote = prices(plan.part, "on-demand", as_of=plan.price.as_of, book=run.asked["book"])
    except PriceError:
        return None
    return quote.median * plan.n_gpus


def _scope(run: RunCost) -> list[Finding]:
    """Say what was chosen for the user, and what the figure does not hold."""
    plan, found = run.plan, []
    old = {what: (plan.price.as_of - listed.date).days for what, listed in plan.overheads.listed.items()}
    if old and max(old.values()) > STALE_DAYS:
        days = f"list prices of {max(old.values())} days before"
        words = (
            f"storage and egress have {days}: overheads={{'storage_usd_gb_month': ...}} and {{'egress_usd_gb': ...}} "
            "take those of today."
        )
        found.append(Finding("storage_price_age", "info", words, {"age_days": old}))
    if plan.n_gpus_chosen:
        words = f"{plan.n_gpus} GPUs were chosen, so that the run ends in about {CHOSEN_DAYS:g} days: give n_gpus."
        found.append(Finding("n_gpus_chosen", "info", words, {"n_gpus": plan.n_gpus}))
    if run.wall_hours.value > _YEAR:
        n = run.wall_hours.value / _YEAR
        long = f"{n:,.1f}" if n < 1e6 else "more than a million"
        years = f"the run takes {long} years on {plan.n_gpus} GPU{'s' * (plan.n_gpus > 1)}"
        words = f"{years}: {'fewer interruptions' if plan.preempted else 'more of them'} would shorten it."
        found.append(Finding("takes_years", "warning", words, {"hours": run.wall_hours.value}))
    if not plan.overheads.ablations:
        words = (
            "this is the final run alone: ablations, tuning and failed runs are not in it (of OLMo's footprint they "
            "were half, arXiv 2503.05804); overheads={'ablations': 1.0} adds as much again."
        )
        found.append(Finding("final_run_only", "info", words, {}))
    if plan.energy.watts is None:
        words = unknown_power(plan.part.name, "energy={'watts': ...}")
        found.append(Finding("power_unknown", "warning", words, {"gpu": plan.part.name}))
    elif run.asked["region"] is None:
        words = "no region is given: CO2 spans all countries; region='FRA' or 'gcp:us-central1' narrows it."
        found.append(Finding("region_unknown", "info", words, {}))
    # A run that can be taken away is held against the book's price on demand, even where its own is given.
    idle = [name for name in ("provider", "book") if run.asked[name] is not None]
    idle = [name for name in idle if name == "provider" or not plan.preempted]
    if isinstance(run.asked["price"], int | float | str) and idle:
        words = f"price is given, so {' and '.join(idle)} {'are' if len(idle) > 1 else 'is'} not looked up."
        found.append(Finding("provider_unused", "info", words, {"arguments": idle}))
    return found
