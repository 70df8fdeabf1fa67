"""What to know before a run goes on machines that can be taken away."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from economics.interruptions import expected_hours
from economics.run_estimates import duration, plain_number
from scaling.findings import Finding

if TYPE_CHECKING:
    from economics.spot import SpotRun

_NOTICEABLE = 0.02  # a smaller share of lost time is no cause for a warning


def spot_findings(
    run: SpotRun, best: float, best_hours: float, price: float | None, on_demand: float | None
) -> tuple[Finding, ...]:
    """Return what to know before choosing spot; `best` and `best_hours` are those with checkpoints."""
    found = []
    every = math.inf if run.rate == 0 else 1 / run.rate
    remedy = f"save every {best:.2g} h"
    if run.usd is not None and run.on_demand_usd is not None and run.usd > run.on_demand_usd:
        what = (
            "spot without checkpoints"
            if run.interval is None
            else f"spot with a save every {run.interval:.2g} h"
        )
        pays = _breakeven(run, price or 0.0, on_demand or 0.0)
        advice = f"It pays up to {pays:.2g} h; " if run.interval is None else ""
        with_saves = (price or 0.0) * best_hours
        advice += (
            f"{remedy} and it costs ${with_saves:,.2f}." if with_saves < run.usd else "Take it on demand."
        )
        found.append(
            Finding(
                "spot_dearer",
                "error",
                f"{what} is expected to cost {_dollars(run.usd)} against {_dollars(run.on_demand_usd)} on demand: "
                f"{duration(run.work_hours)} are {plain_number(run.work_hours / every)} times the {duration(every)} "
                f"between interruptions. {advice}",
                {
                    "usd": run.usd,
                    "on_demand_usd": run.on_demand_usd,
                    "breakeven_hours": pays,
                    "interval": best,
                },
            )
        )
    elif run.interval is None and run.rework_hours > _NOTICEABLE * run.work_hours:
        found.append(
            Finding(
                "no_checkpoints",
                "warning",
                f"without checkpoints {run.rework_hours:.3g} h of {run.work_hours:.3g} h are expected to be done "
                f"twice: {remedy}.",
                {"rework_hours": run.rework_hours, "interval": best},
            )
        )
    if run.interval is not None and run.billed_hours > 1.05 * best_hours and run.interval < run.work_hours:
        found.append(
            Finding(
                "interval_far_from_optimum",
                "warning",
                f"a save every {run.interval:.3g} h costs {run.billed_hours / best_hours - 1:.0%} more billed time "
                f"than the best interval, {best:.2g} h.",
                {"interval": run.interval, "best": best},
            )
        )
    return tuple(found)


def _breakeven(run: SpotRun, price: float, on_demand: float) -> float:
    """Longest work, hours, that spot machines without checkpoints do for less than on demand; 0 if none."""
    if price >= on_demand or run.rate == 0:
        return 0.0
    low, high = 0.0, 50.0 / run.rate
    for _ in range(60):
        middle = 0.5 * (low + high)
        spot = price * float(expected_hours(middle, run.rate, restart=run.restart_each))
        low, high = (middle, high) if spot <= on_demand * middle else (low, middle)
    return low


def _dollars(usd: float) -> str:
    return f"${usd:,.0f}" if math.isfinite(usd) else "more money than there is"
