"""What may go wrong with a run: breaking the cap, ending too late, a spot machine that is taken away."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from economics.quantile_draws import Array
from economics.run_cost import cost
from economics.run_estimates import estimate_of, quantiles
from economics.run_result import RunCost
from scaling.errors import ScalingError
from scaling.estimate import Estimate

#: Bars of the picture of a cost.
_BARS = 48
#: How closely a search meets the money, relative.
_MEETS = 1e-6


@dataclass(frozen=True)
class Cap:
    """A run against the cap.

    Parameters
    ----------
    over : float
        Probability that it costs more.
    overrun_usd : float
        What it costs then, mean, beyond the cap; 0 where it never does.
    at : mapping of str to float
        Dollars that it stays below with a probability: ``"p10"`` ... ``"p95"``.
    late : float or None
        Probability that it ends after the deadline; None without one.
    moves : str or None
        The factor that moves the cost most, and the dollars at its 10th and 90th percentile.
    moves_low, moves_high : float
        See `moves`.
    """

    over: float
    overrun_usd: float
    at: dict[str, float]
    late: float | None
    moves: str | None
    moves_low: float
    moves_high: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return dict(vars(self))


def breaks(run: RunCost, usd: float) -> NDArray[np.bool_]:
    """Return which draws of a cost break the cap: a cost that is known and meets it does not."""
    return np.atleast_1d(run.outcome.total_usd) > usd * (1.0 + _MEETS)


def cap_of(run: RunCost, usd: float, hours: float | None) -> Cap:
    """Return how a run stands against money and time."""
    spent = np.atleast_1d(run.outcome.total_usd)
    above = spent[breaks(run, usd)]
    at = {f"p{100 * p:g}": quantiles(spent, (p,))[0] for p in (0.1, 0.5, 0.9, 0.95)}
    swings = run.sensitivity().swings
    top = swings[0] if swings else None
    late = None if hours is None else float(np.mean(np.atleast_1d(run.outcome.wall_hours) > hours))
    return Cap(
        float(np.mean(breaks(run, usd))), float(np.mean(above - usd)) if above.size else 0.0, at, late,
        None if top is None else top.factor, *((math.nan,) * 2 if top is None else (top.low, top.high)),
    )  # fmt: skip


def bars(runs: dict[str, RunCost], usd: float) -> dict[str, Any]:
    """Return the distribution of costs as shares between edges that grow by one factor.

    Parameters
    ----------
    runs : mapping of str to RunCost
        By name.
    usd : float
        The cap: an edge, so that the shares on either side of it are the probabilities.
    """
    drawn = {name: np.atleast_1d(run.outcome.total_usd) for name, run in runs.items()}
    low = min(float(np.quantile(d, 0.002)) for d in drawn.values())
    high = max(float(np.quantile(d, 0.998)) for d in drawn.values())
    low, high = min(low, 0.9 * usd), max(high, 1.1 * usd)
    step = math.log(high / low) / _BARS
    first, last = math.floor(math.log(low / usd) / step), math.ceil(math.log(high / usd) / step)
    edges: Array = usd * np.exp(step * np.arange(first, last + 1))
    edges[-first] = usd
    open_ends = np.concatenate([[0.0], edges[1:-1], [np.inf]])
    return {
        "edges_usd": edges.tolist(),
        "shares": {name: (np.histogram(_below(d, usd), open_ends)[0] / d.size).tolist() for name, d in drawn.items()},
    }  # fmt: skip


def _below(draws: Array, usd: float) -> Array:
    """Return the draws, those that just meet the cap moved below it, as `breaks` counts them."""
    meets = (draws >= usd) & (draws <= usd * (1.0 + _MEETS))
    return np.where(meets, np.nextafter(usd, 0.0), draws)


@dataclass(frozen=True, eq=False)
class Spot:
    """What it means that a machine may be taken away.

    Parameters
    ----------
    machine : str
        On what.
    recommended : bool
        Whether the recommended run is on it.
    untouched : float
        Probability that no machine is taken away before the end.
    interruptions : Estimate
        How many there are.
    lost_usd, lost_hours : Estimate
        Paid for work done twice, restarts and saves; and hours until the end that are lost, waits included.
    every_hours : float or None
        Between saves; None without any.
    one_hours, one_usd : float
        Billed hours, and dollars, that a single one costs: half an interval done again, and a restart.
    worst_usd : float
        The same where it comes just before a save.
    wait_hours : float
        Mean wait for another machine, not billed.
    on_demand_usd : Estimate or None
        The same run where nothing is taken away; None where the book has no such price.
    dearer : float or None
        Probability that spot ends up dearer than that.
    """

    machine: str
    recommended: bool
    untouched: float
    interruptions: Estimate
    lost_usd: Estimate
    lost_hours: Estimate
    every_hours: float | None
    one_hours: float
    one_usd: float
    worst_usd: float
    wait_hours: float
    usd: Estimate
    on_demand_usd: Estimate | None
    dearer: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {k: v.to_dict() if isinstance(v, Estimate) else v for k, v in vars(self).items()}


def spot_of(run: RunCost, *, recommended: bool) -> Spot | None:
    """Return what being taken away does to a run; None where it cannot be."""
    plan, out = run.plan, run.outcome
    if not plan.preempted:
        return None
    rate = plan.preempted * np.atleast_1d(run.variates.rate)
    hours = np.atleast_1d(out.work + out.saving)
    hourly = plan.n_gpus * plan.price.median
    work = float(np.median(np.atleast_1d(out.work)))
    again = work if plan.interval is None else min(plan.interval, work)
    lost = sum(np.atleast_1d(out.usd[part]) for part in ("saving", "rework", "restarts"))
    waits = np.atleast_1d(out.saving + out.rework + out.restarts + out.waits)
    steady = _on_demand(run)
    spent = np.atleast_1d(out.total_usd)
    return Spot(
        f"{plan.n_gpus} x {plan.part.name}, {plan.market}", recommended, float(np.mean(np.exp(-rate * hours))),
        run.interruptions, estimate_of(np.asarray(lost), "lost", "$"), estimate_of(waits, "lost", "h"),
        plan.interval, again / 2 + plan.restart_hours, hourly * (again / 2 + plan.restart_hours),
        hourly * (again + plan.restart_hours), plan.wait_hours, run.usd, None if steady is None else steady.usd,
        None if steady is None else float(np.mean(spent > np.atleast_1d(steady.outcome.total_usd))),
    )  # fmt: skip


def _on_demand(run: RunCost) -> RunCost | None:
    """Return the same run on demand; None where nothing prices it, or the price is the user's own."""
    if run.asked["price"] is not None or run.plan.market != "spot":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return cost(**{**run.asked, "market": "on-demand", "provider": None, "spot": None})
        except ScalingError:
            return None
