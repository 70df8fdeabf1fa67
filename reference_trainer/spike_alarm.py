"""What the spike detector says, and the thresholds it says it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Kinds of alarm; "shift" and "nonfinite" say that the loss itself is hurt.
Tier = Literal["point", "shift", "norm", "nonfinite"]


@dataclass(frozen=True)
class DetectorSettings:
    """Thresholds, in units of the log's own noise wherever there is one.

    Those of the shift tier were set on one half of the healthy logs of ``experiments/benchmarks/spike_detection.py``,
    near the highest score that a log reached there; its table scores them on the other half.

    Parameters
    ----------
    point_z : float
        A point alarm: standard deviations (1.4826 MAD of the last 128 rows around the 16 before each) above the
        median of the last 16.
    shift_z : tuple of float
        A shift alarm: standard errors of the median over 8, 16, 64 and 256 rows above the lowest level.
    least_rise : float
        A shift alarm needs at least this share of the level: smaller rises are left alone.
    habit : float
        A shift alarm needs this many times what medians of its length rose by before without one.
    norm_z : float
        A norm alarm: standard deviations of the signal's logarithm.
    horizon : int
        Rows over which the lowest level is kept.
    accept_after : int
        Rows after which an open shift is taken for the new level, so that a run can go on being watched.
    least_rows : int
        Rows before anything is judged.
    lead : int
        Rows that are remembered for having stood out, so that they date the alarm they announced.
    """

    point_z: float = 8.0
    shift_z: tuple[float, float, float, float] = (6.5, 5.5, 7.5, 5.0)
    least_rise: float = 0.0075
    habit: float = 1.4
    norm_z: float = 8.0
    horizon: int = 1024
    accept_after: int = 2048
    least_rows: int = 48
    lead: int = 32


@dataclass(frozen=True)
class Alarm:
    """One alarm, raised once when it opens.

    Parameters
    ----------
    tier : {"point", "shift", "norm", "nonfinite"}
        Which test raised it.
    step : int
        Step at which it was raised.
    first_step : int
        Step of the first evidence: norms and single values lead, and a median takes a while to move.
    signal : str
        Signal that left its range.
    value, baseline, score : float
        What was seen, what was expected, and by how many standard deviations they differ.
    evidence : tuple of str
        Short sentences with numbers.
    """

    tier: Tier
    step: int
    first_step: int
    signal: str
    value: float
    baseline: float
    score: float
    evidence: tuple[str, ...]
