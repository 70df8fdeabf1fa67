"""Expected time of a run that is interrupted at random and goes on from its last checkpoint.

Interruptions come as a Poisson process of rate r per hour. A run of `work` hours saves every `interval`
hours, which takes `checkpoint` hours; an interruption throws it back to the last save and costs `restart`
hours, during which no further one is counted. One segment of interval + checkpoint hours then takes
(1/r + restart)·(exp(r·(interval + checkpoint)) - 1) on average (Daly 2006, section 2; the number of
interruptions of a segment is geometric with mean exp(r·s) - 1). All times are hours.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from economics.run_numbers import numeric
from scaling.errors import DataError, shown

Array = NDArray[np.float64]

#: Mean time a single spot machine lasts, hours: pooled over the zones of a public trace of single-V100
#: machines of 2022-23; by zone it lies between 0.7 and 10.5.
MEAN_UP_HOURS = 3.24
#: Share of the time such a machine could be had, in the same trace.
AVAILABILITY = 0.65
#: Hardware and host faults per GPU-hour that stop a run: 419 in 54 days of 16,384 H100 (Llama 3, Grattafiori
#: et al. 2024, arXiv 2407.21783, section 3.3.4).
FAULTS_PER_GPU_HOUR = 419 / (54 * 24 * 16384)
#: Interruptions per hour that are an error of the input: one a second.
MOST_PER_HOUR = 3600.0


def interruption_rate(
    nodes: int = 1,
    gpus_per_node: int = 1,
    *,
    mean_up_hours: float | None = MEAN_UP_HOURS,
    faults_per_gpu_hour: float = FAULTS_PER_GPU_HOUR,
    growth: float = 1.0,
) -> float:
    """Interruptions per hour of a run on several machines: any machine lost stops all of it.

    Parameters
    ----------
    nodes, gpus_per_node : int
        Machines, and accelerators in each.
    mean_up_hours : float or None
        Mean time until the provider takes one machine away; None on demand.
    faults_per_gpu_hour : float
        Faults of hardware that stop the run, added to the preemptions.
    growth : float
        Preemptions grow as nodes^growth: 1 if machines go independently, 0 if all go at once.

    Raises
    ------
    DataError
        An argument out of its range, or more than `MOST_PER_HOUR`.

    Examples
    --------
    >>> round(1 / interruption_rate(), 2), round(1 / interruption_rate(8, 8), 2)
    (3.24, 0.4)
    >>> round(1 / interruption_rate(2048, 8, mean_up_hours=None), 1)  # on demand: faults alone
    3.1
    """
    for name, value in (("nodes", nodes), ("gpus_per_node", gpus_per_node)):
        if at_least(name, value) < 1:
            raise DataError(f"{name} must be at least 1, got {shown(value)}", column=name)
    if at_least("growth", growth) > 1.0:
        raise DataError(
            f"growth must lie between 0 (all machines go at once) and 1 (each by itself), got {shown(growth)}",
            column="growth",
        )
    preempted = 0.0
    if mean_up_hours is not None:
        preempted = float(nodes) ** growth / at_least("mean_up_hours", mean_up_hours, positive=True)
    rate = preempted + nodes * gpus_per_node * at_least("faults_per_gpu_hour", faults_per_gpu_hour)
    if rate > MOST_PER_HOUR:
        raise DataError(
            f"{rate:.3g} interruptions per hour (mean_up_hours={mean_up_hours!r}, "
            f"faults_per_gpu_hour={faults_per_gpu_hour!r}): no run gets anywhere with more than one a second.",
            column="faults_per_gpu_hour"
            if mean_up_hours is None or rate > 2 * preempted
            else "mean_up_hours",
        )
    return rate


def segments(work: Any, interval: Any) -> tuple[Array, Array]:
    """Whole segments of a run and what is left over; no interval is one segment of all the work."""
    hours = _array("work", work)
    step = hours if interval is None else np.minimum(_array("interval", interval, positive=True), hours)
    step = np.where(step > 0, step, 1.0)
    whole = np.floor(hours / step + 1e-9)
    return whole, np.maximum(hours - whole * step, 0.0)


def expected_interruptions(work: Any, rate: Any, *, interval: Any = None, checkpoint: Any = 0.0) -> Array:
    """Mean number of interruptions of a run.

    Parameters
    ----------
    work, rate, interval, checkpoint
        As in `expected_hours`.
    """
    whole, rest = segments(work, interval)
    r, save = _array("rate", rate), _array("checkpoint", checkpoint)
    hours = _array("work", work)
    step = hours if interval is None else np.minimum(_array("interval", interval), hours)
    with np.errstate(over="ignore"):  # exp of a hopeless run is inf, and that is the answer
        full = whole * np.expm1(r * (step + save))
        last = np.where(rest > 1e-12, np.expm1(r * (rest + save)), 0.0)
    return np.asarray(full + last)


def expected_hours(
    work: Any, rate: Any, *, interval: Any = None, checkpoint: Any = 0.0, restart: Any = 0.0
) -> Array:
    """Mean time of an interrupted run; arrays broadcast.

    Parameters
    ----------
    work : float or array
        Hours of training without any interruption.
    rate : float or array
        Interruptions per hour; 0 gives the plain time with its saves.
    interval : float or array, optional
        Hours of training between saves; None saves at the end alone.
    checkpoint : float or array
        Hours a save takes.
    restart : float or array
        Hours an interruption costs beside the lost work: the wait for a machine, boot, install, load. Pass
        the billed part alone to get billed hours.

    Returns
    -------
    array
        Hours, at least `work`; ``inf`` where the run practically never ends.

    Examples
    --------
    >>> float(expected_hours(24, 1 / 3.24, interval=0.5, checkpoint=1 / 60, restart=0.25).round(2))
    28.96
    >>> float(expected_hours(24, 1 / 3.24, restart=0.25).round(0))  # without checkpoints
    5749.0
    """
    r, again = _array("rate", rate), _array("restart", restart)
    whole, rest = segments(work, interval)
    save = _array("checkpoint", checkpoint)
    undisturbed = _array("work", work) + save * (whole + (rest > 1e-12))
    failures = expected_interruptions(work, rate, interval=interval, checkpoint=checkpoint)
    # An infinite number of free restarts costs nothing; what is too large for a number is inf, as promised.
    with np.errstate(invalid="ignore", over="ignore"):
        # Below 1e-200 an hour nothing happens, and a quotient of such numbers has no digits left.
        running = np.where(r > 1e-200, failures / np.where(r > 1e-200, r, 1.0), undisturbed)
        restarts = np.where(again > 0, again * failures, 0.0)
    return np.asarray(np.maximum(running, undisturbed) + restarts)


def optimal_interval(rate: float, checkpoint: float, work: float | None = None) -> float:
    """Interval between saves that minimises the expected time.

    The exact minimum of (exp(r·(interval + checkpoint)) - 1)/interval: r·interval = 1 + W(-exp(-1 -
    r·checkpoint)), with W the principal branch of Lambert's function. It depends neither on the length of
    the run nor on the cost of a restart.

    Parameters
    ----------
    rate, checkpoint : float
        Interruptions per hour; hours a save takes.
    work : float, optional
        Length of the run: the interval is then the one that divides it into a whole number of segments.

    Returns
    -------
    float
        Hours; ``inf`` (or `work`) where nothing interrupts, 0 where a save costs nothing.

    Examples
    --------
    >>> round(optimal_interval(1 / 3.24, 1 / 60), 4), round(young_interval(1 / 3.24, 1 / 60), 4)
    (0.3176, 0.3286)
    """
    r, save = at_least("rate", rate), at_least("checkpoint", checkpoint)
    best = math.inf if r == 0 else (1.0 + _lambert_near_branch_point(r * save)) / r
    if work is None or best == 0:
        return best
    hours = at_least("work", work, positive=True)
    if best >= hours:
        return hours
    few = math.floor(hours / best)
    with np.errstate(over="ignore"):  # saves too long to ever succeed: any interval is as bad
        costs = {n: n * float(np.expm1(r * (hours / n + save))) for n in (few, few + 1)}
    return hours / min(costs, key=costs.__getitem__)


def young_interval(rate: float, checkpoint: float) -> float:
    """First-order optimum sqrt(2·checkpoint/rate) (Young 1974)."""
    return math.sqrt(2.0 * checkpoint / rate)


def daly_interval(rate: float, checkpoint: float) -> float:
    """Higher-order optimum of Daly 2006, equation 37; 1/rate where a save costs more than 2/rate."""
    if checkpoint >= 2.0 / rate:
        return 1.0 / rate
    x = math.sqrt(checkpoint * rate / 2.0)
    return young_interval(rate, checkpoint) * (1.0 + x / 3.0 + x * x / 9.0) - checkpoint


def _lambert_near_branch_point(x: float) -> float:
    """W(-exp(-1 - x)) on the principal branch, for x >= 0, by Newton on w·exp(w)."""
    if x == 0:
        return -1.0
    target = -math.exp(-1.0 - x)
    p = math.sqrt(2.0 * -math.expm1(-x))  # distance from the branch point; series of Corless et al. 1996
    w = -1.0 + p - p * p / 3.0 + 11.0 * p**3 / 72.0
    for _ in range(50):
        step = (w * math.exp(w) - target) / (math.exp(w) * (w + 1.0))
        w -= step
        if abs(step) <= 1e-15 * abs(w):
            break
    return max(w, -1.0)


def at_least(name: str, value: Any, *, positive: bool = False) -> float:
    """Return a finite number that is not negative (or not zero either); text and truth values are none."""
    number = numeric(value)
    if not (math.isfinite(number) and number >= 0) or (positive and number == 0):
        raise DataError(
            f"{name} must be {'above' if positive else 'at least'} 0, got {shown(value)}", column=name
        )
    return number


def _array(name: str, value: Any, *, positive: bool = False) -> Array:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name} must be hours or an array of them, got {shown(value)}", column=name
        ) from error
    if not np.all(numbers >= 0) or (positive and not np.all(numbers > 0)):
        raise DataError(
            f"{name} must be {'above' if positive else 'at least'} 0, got {shown(value)}", column=name
        )
    return numbers
