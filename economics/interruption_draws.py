"""Draws of an interrupted run: played out step by step, and fast.

The process is that of `economics.interruptions`. `simulate` plays every interruption, and is the check of
the closed form; `draw_hours` draws only what is needed, for thousands of draws of a cost.
"""

from __future__ import annotations

import numpy as np

from economics.interruptions import Array, segments

#: A segment that gets through less often than this is hopeless: numpy cannot count its failures.
_HOPELESS = 1e-9


def simulate(
    rng: np.random.Generator,
    n: int,
    work: float,
    rate: float,
    *,
    interval: float | None = None,
    checkpoint: float = 0.0,
    restart: float = 0.0,
) -> Array:
    """Play the process out, interruption by interruption: the check of the closed form.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    n : int
        Runs to play.
    work, rate, interval, checkpoint, restart : float
        As in `expected_hours`.

    Returns
    -------
    array, shape (n,)
        Hours of each run.
    """
    whole, rest = segments(work, interval)
    step = work if interval is None else min(interval, work)
    lengths = [step + checkpoint] * int(whole) + ([float(rest) + checkpoint] if rest > 1e-12 else [])
    hours = np.zeros(n)
    for length in lengths:
        left = np.arange(n)  # runs that have not got through this segment yet
        while left.size:
            until = rng.exponential(1.0 / rate, left.size)
            through = until >= length
            hours[left] += np.where(through, length, until + restart)
            left = left[~through]
    return hours


def draw_hours(
    rng: np.random.Generator,
    rate: Array,
    work: float,
    *,
    interval: float | None = None,
    checkpoint: float = 0.0,
) -> tuple[Array, Array]:
    """Draw running hours (work, saves, lost work) and the number of interruptions.

    Given the rate, the interruptions of equal segments are negative binomial, and each loses a time that
    follows the exponential distribution cut at the segment. The sum of those is drawn from the gamma
    distribution with its exact mean and variance.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    rate : array, shape (n,)
        Interruptions per hour, one for each draw; all 0 or all above.
    work, interval, checkpoint : float
        As in `economics.interruptions.expected_hours`.

    Returns
    -------
    running, count : array, shape (n,)
        Hours; interruptions.
    """
    whole, rest = (float(x) for x in segments(work, interval))
    step = (work - rest) / whole if whole else 0.0
    running, count = np.zeros(rate.shape), np.zeros(rate.shape)
    for number, hours in ((whole, step), (float(rest > 1e-12), rest)):
        if number == 0:
            continue
        length = hours + checkpoint
        running += number * length
        if np.any(rate > 0):
            through = np.maximum(np.exp(-rate * length), _HOPELESS)
            failed = rng.negative_binomial(number, through).astype(np.float64)
            running += gamma_sum(rng, failed, *_cut_exponential(rate, length))
            count += failed
    return running, count


def gamma_sum(rng: np.random.Generator, count: Array, mean: Array, var: Array) -> Array:
    """Draw the sum of `count` independent times from the gamma distribution with its mean and variance."""
    some = (count > 0) & (mean > 0) & (var > 0)
    shape = np.where(some, count * mean**2 / np.where(some, var, 1.0), 1.0)
    scale = np.where(some, var / np.where(mean > 0, mean, 1.0), 0.0)
    return np.where(some, rng.gamma(shape, scale), count * mean)


def _cut_exponential(rate: Array, length: float) -> tuple[Array, Array]:
    """Mean and variance of the time to an interruption that falls within `length`."""
    x = rate * length
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        gone = np.expm1(x)
        mean = 1 / rate - length / gone
        var = 1 / rate**2 - length**2 * (gone + 1) / gone**2
    small = x < 1e-3  # uniform there, where the exact form cancels
    var = np.where(np.isfinite(var), var, 1 / np.maximum(rate, 1e-300) ** 2)
    return np.where(small, length / 2, mean), np.where(small, length**2 / 12, np.maximum(var, 0.0))
