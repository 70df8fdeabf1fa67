"""What a run costs on machines that can be taken away, against the same run on demand.

The time is that of `economics.interruptions`. Of what an interruption costs beside the lost work, the
restart (boot, install, load the checkpoint) is billed and the wait for another machine is not: both delay,
one costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from economics.interruption_draws import draw_hours, gamma_sum
from economics.interruptions import (
    AVAILABILITY,
    FAULTS_PER_GPU_HOUR,
    MEAN_UP_HOURS,
    Array,
    at_least,
    expected_hours,
    expected_interruptions,
    interruption_rate,
    optimal_interval,
    segments,
)
from economics.run_numbers import hours, whole
from economics.spot_findings import spot_findings
from scaling.findings import Finding

#: Spread of ln(mean time up) between zones: 0.7 to 10.5 h taken as a 90% range.
ZONE_SD = math.log(10.5 / 0.7) / (2 * 1.645)


@dataclass(frozen=True)
class SpotRun:
    """Expected time and cost of an interrupted run. Hours and US dollars.

    Parameters
    ----------
    work_hours : float
        Hours without any interruption or save.
    wall_hours, billed_hours : float
        Expected time until it is done, and the part of it that is billed.
    saving_hours, rework_hours, restart_hours, wait_hours : float
        What is added to the work: saves, work done twice, restarts (billed), waits (not billed).
    interruptions : float
        Expected number.
    rate : float
        Interruptions per hour.
    interval : float or None
        Hours of training between saves; None for no checkpoints.
    checkpoint_hours : float
        Hours a save takes.
    restart_each, wait_each : float
        Hours of restart and of waiting per interruption.
    usd, on_demand_usd : float or None
        Expected cost, and that of the run on demand (hardware faults alone), where prices were given.
    findings : tuple of Finding
        ``spot_dearer``, ``no_checkpoints``, ``interval_far_from_optimum``.
    """

    work_hours: float
    wall_hours: float
    billed_hours: float
    saving_hours: float
    rework_hours: float
    restart_hours: float
    wait_hours: float
    interruptions: float
    rate: float
    interval: float | None
    checkpoint_hours: float
    restart_each: float
    wait_each: float
    usd: float | None = None
    on_demand_usd: float | None = None
    findings: tuple[Finding, ...] = field(default=())

    def sample(self, rng: np.random.Generator, n: int, *, rate_sd: float = ZONE_SD) -> tuple[Array, Array]:
        """Draw wall and billed hours.

        Lost work and interruptions as in `economics.interruption_draws.draw_hours`; waits are exponential.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.
        n : int
            Number of draws.
        rate_sd : float
            Spread of ln(rate) from one place and time to another; 0 takes the rate as known.

        Returns
        -------
        wall, billed : array, shape (n,)
            Hours.
        """
        n = whole("n", n, most=1e9)
        rate_sd = abs(at_least("rate_sd", rate_sd))  # minus zero is a negative scale to numpy
        rate = self.rate * np.exp(rng.normal(0.0, rate_sd, n))
        running, count = draw_hours(
            rng, rate, self.work_hours, interval=self.interval, checkpoint=self.checkpoint_hours
        )
        billed = running + count * self.restart_each
        wait = gamma_sum(rng, count, np.full(n, self.wait_each), np.full(n, self.wait_each**2))
        return billed + wait, billed


def spot_run(
    work_hours: float,
    *,
    nodes: int = 1,
    gpus_per_node: int = 1,
    checkpoint_every: float | Literal["optimal"] | None = "optimal",
    checkpoint_hours: float = 1 / 60,
    restart_hours: float = 0.25,
    wait_hours: float | None = None,
    mean_up_hours: float | None = MEAN_UP_HOURS,
    faults_per_gpu_hour: float = FAULTS_PER_GPU_HOUR,
    growth: float = 1.0,
    usd_per_hour: float | None = None,
    on_demand_usd_per_hour: float | None = None,
) -> SpotRun:
    """Return the expected time and cost of a run on spot machines.

    Parameters
    ----------
    work_hours : float
        Hours of training without any interruption.
    nodes, gpus_per_node : int
        Machines, and accelerators in each: every one of them adds to the rate.
    checkpoint_every : float, "optimal" or None
        Hours of training between saves; None for no checkpoints at all.
    checkpoint_hours : float
        Hours training stands still for a save (one minute by default).
    restart_hours : float
        Billed time of a restart: boot, install, load the checkpoint, compile.
    wait_hours : float, optional
        Mean wait for another machine, not billed. By default what makes a machine that lasts
        `mean_up_hours` available 65% of the time, as in the trace the default comes from.
    mean_up_hours : float or None
        Mean time until one machine is taken away; None on demand, where only hardware faults remain.
    faults_per_gpu_hour, growth : float
        As in `interruption_rate`.
    usd_per_hour, on_demand_usd_per_hour : float, optional
        Price of all machines together per hour, and the price on demand to compare with.

    Raises
    ------
    DataError
        A time or price that is none.

    Examples
    --------
    A day on one machine at $1.10 against $1.79 on demand, with checkpoints and without:

    >>> run = spot_run(24, checkpoint_every=0.5, usd_per_hour=1.10, on_demand_usd_per_hour=1.79)
    >>> print(f"${run.usd:.2f} in {run.wall_hours:.1f} h, on demand ${run.on_demand_usd:.2f}")
    $31.86 in 43.4 h, on demand $43.00
    >>> bare = spot_run(24, checkpoint_every=None, usd_per_hour=1.10, on_demand_usd_per_hour=1.79)
    >>> print(bare.findings[0].message)  # doctest: +ELLIPSIS
    spot without checkpoints is expected to cost $6,326 against $43 on demand: ...
    """
    at_least("work_hours", work_hours, positive=True)
    at_least("checkpoint_hours", checkpoint_hours)
    at_least("restart_hours", restart_hours)
    for name, given in (
        ("wait_hours", wait_hours),
        ("usd_per_hour", usd_per_hour),
        ("on_demand_usd_per_hour", on_demand_usd_per_hour),
    ):
        if given is not None:
            at_least(name, given)
    rate = interruption_rate(
        nodes,
        gpus_per_node,
        mean_up_hours=mean_up_hours,
        faults_per_gpu_hour=faults_per_gpu_hour,
        growth=growth,
    )
    if wait_hours is None:
        wait_hours = 0.0 if mean_up_hours is None else mean_up_hours * (1 - AVAILABILITY) / AVAILABILITY
    best = _best_interval(rate, checkpoint_hours, work_hours)
    interval: float | None = None
    if isinstance(checkpoint_every, str) and checkpoint_every == "optimal":
        interval = best
    elif checkpoint_every is not None:
        interval = hours("checkpoint_every", checkpoint_every, positive=True)
    # Without checkpoints nothing is saved on the way; the final save is part of the work.
    save = 0.0 if interval is None else checkpoint_hours
    terms: dict[str, Any] = {"interval": interval, "checkpoint": save}
    failures = float(expected_interruptions(work_hours, rate, **terms))
    running = float(expected_hours(work_hours, rate, **terms))
    whole, rest = segments(work_hours, interval)
    saving = save * float(whole + (rest > 1e-12))
    billed = running + _times(restart_hours, failures)
    faults = interruption_rate(
        nodes, gpus_per_node, mean_up_hours=None, faults_per_gpu_hour=faults_per_gpu_hour
    )
    demand_interval = _best_interval(faults, checkpoint_hours, work_hours)
    demand_hours = float(
        expected_hours(
            work_hours, faults, interval=demand_interval, checkpoint=checkpoint_hours, restart=restart_hours
        )
    )
    run = SpotRun(
        work_hours=work_hours,
        wall_hours=billed + _times(wait_hours, failures),
        billed_hours=billed,
        saving_hours=saving,
        rework_hours=running - work_hours - saving,
        restart_hours=_times(restart_hours, failures),
        wait_hours=_times(wait_hours, failures),
        interruptions=failures,
        rate=rate,
        interval=interval,
        checkpoint_hours=save,
        restart_each=restart_hours,
        wait_each=wait_hours,
        usd=None if usd_per_hour is None else usd_per_hour * billed,
        on_demand_usd=None if on_demand_usd_per_hour is None else on_demand_usd_per_hour * demand_hours,
    )
    with_saves = float(
        expected_hours(work_hours, rate, interval=best, checkpoint=checkpoint_hours, restart=restart_hours)
    )
    return replace(run, findings=spot_findings(run, best, with_saves, usd_per_hour, on_demand_usd_per_hour))


def _best_interval(rate: float, checkpoint: float, work: float) -> float:
    """Return the best interval; a save that costs nothing is best done all the time: once a minute is as good."""
    return optimal_interval(rate, checkpoint, work) or min(1 / 60, work)


def _times(each: float, count: float) -> float:
    return each * count if each else 0.0  # an infinite number of free things costs nothing
