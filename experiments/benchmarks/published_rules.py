"""Spike rules that trainers and papers publish, re-implemented from their descriptions: alarms by loss alone.

Each takes the losses of a log and returns the rows at which it alarms. As published, every alarm is acted on: the
update is skipped, or the run goes back and leaves out data.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def six_sigma(loss: Floats, limit: float = 6.0, window: int = 128) -> Rows:
    """Alarm above mean + 6 sd of the last 128 losses; one NaN among them makes both NaN and the rule deaf."""
    past = sliding_window_view(loss, window)[:-1]
    high = past.mean(axis=1) + limit * past.std(axis=1, ddof=1)
    return np.flatnonzero(loss[window:] > high) + window


def z_including(loss: Floats, limit: float = 7.0, window: int = 128) -> Rows:
    """Alarm at z > 7 over 128 losses, the present one included: z cannot exceed 127/sqrt(128) = 11.2."""
    views = sliding_window_view(loss, window)
    return np.flatnonzero((views[:, -1] - views.mean(axis=1)) > limit * views.std(axis=1)) + window - 1


def ema_times(loss: Floats, limit: float = 3.0, decay: float = 0.99) -> Rows:
    """Alarm above 3x the exponential moving average; after one NaN the average is NaN for ever."""
    found, average = [], float(loss[0])
    for i, x in enumerate(loss.tolist()):
        if x > limit * average:
            found.append(i)
        average = decay * average + (1 - decay) * x
    return np.array(found, dtype=np.int64)


def ten_times_max(loss: Floats, limit: float = 10.0, window: int = 128) -> Rows:
    """Alarm above 10x the highest of the last 128 losses."""
    return np.flatnonzero(loss[window:] > limit * sliding_window_view(loss, window)[:-1].max(axis=1)) + window


RULES = {
    "6 sigma of 128": six_sigma,
    "z > 7, itself included": z_including,
    "3x EMA": ema_times,
    "10x max of 128": ten_times_max,
}


def episodes(rows: Rows, apart: int = 50) -> Rows:
    """Return the first alarm of each group less than `apart` rows apart: one action answers them all."""
    if not len(rows):
        return rows
    first: Rows = rows[np.concatenate([[True], np.diff(rows) >= apart])]
    return first


def silenced(rule: str, logs: list[Floats]) -> float:
    """Return the threshold from which a rule is silent on some healthy logs, searched upwards from the published."""
    names = {"6 sigma of 128": 6.0, "z > 7, itself included": 7.0, "3x EMA": 3.0, "10x max of 128": 10.0}
    limit = names[rule]
    while limit < 1e6 and any(len(RULES[rule](loss, limit)) for loss in logs):
        limit *= 1.1
    return limit
