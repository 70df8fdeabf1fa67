"""Spikes in excerpts: a few quoted lines of a log, too few to know its noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference_trainer.spike_measure import Shape, finite_or_none, highest
from reference_trainer.spike_rows import Floats, Rows, median

#: Without a noise of its own, a rise counts from this share of the loss,
SHARE = 0.05
#: and from so many nats/token.
NATS = 0.2
#: A gradient norm above this factor times the lowest before it announces the loss.
GRADIENT = 3.0
#: Steps after the peak within which quoted lines still tell how it ended.
REACH = 1000


@dataclass(frozen=True)
class Short:
    """A spike of an excerpt: row of the first evidence, row of the loss's own, and what was measured."""

    row: int
    alarm_row: int
    shape: Shape


def short_spikes(rows: Rows) -> list[Short]:
    """Return one spike for each segment whose loss rises well above the rows before it in the segment."""
    found = []
    for begin in rows.starts.tolist():
        _, end = rows.segment(begin)
        rise = first_rise(rows, begin, end)
        if rise is not None:
            row = first_gradient(rows, begin, rise)
            found.append(Short(row, rise, shape_of(rows, begin, row, rise)))
    return found


def first_rise(rows: Rows, begin: int, end: int) -> int | None:
    """Return the first row that is well above the lowest before it, or not finite."""
    for i in range(begin, end):
        if not np.isfinite(rows.loss[i]):
            return i
        if i > begin:
            lowest = float(rows.loss[begin:i].min())
            if rows.loss[i] - lowest > max(NATS, SHARE * abs(lowest)):
                return i
    return None


def lowest(values: Floats) -> float:
    """Return the least of the numbers that were logged, NaN where none was: every comparison with it is false."""
    logged = values[~np.isnan(values)]
    return float(logged.min()) if len(logged) else float("nan")


def first_gradient(rows: Rows, begin: int, rise: int) -> int:
    """Return the row at which the gradient norm began to stand out, row after row until the loss rose."""
    grads = rows.others.get("grad_norm")
    row = rise
    if grads is None:
        return row
    while row - 1 > begin and grads[row - 1] > GRADIENT * lowest(grads[begin : row - 1]):
        row -= 1
    return row


def shape_of(rows: Rows, begin: int, row: int, rise: int) -> Shape:
    """Measure; lines quoted later on the same branch, up to 1,000 steps on, count as after."""
    loss, step = rows.loss, rows.step
    branch = rows.branch_end(rise)
    last = int(np.searchsorted(step[rise:branch], step[rise] + REACH, side="right")) + rise
    before = median(loss[begin : max(row, begin + 1)])
    after = loss[rise:last]
    peak_at = int(np.argmax(np.where(np.isfinite(after), after, np.inf)))
    peak = float(after[peak_at]) if np.isfinite(after[peak_at]) else float("inf")
    tail = after[peak_at + 1 :][-3:]
    end = median(tail, peak) if np.isfinite(tail).all() else float("inf")
    bar = max(NATS, SHARE * abs(before))
    bad = ~(after <= before + bar)
    # Back where it stays below a tenth of the peak's excess to the end of the quotation.
    tolerance = max(0.1 * (peak - before), 0.0) if np.isfinite(peak) else bar
    low = np.where(np.isfinite(after), after, np.inf) <= before + tolerance
    stays = np.flatnonzero(~low)
    end_row = rise + int(stays[-1]) + 1 if len(stays) and stays[-1] + 1 < len(after) else None
    grads = rows.others.get("grad_norm")
    distance = int(step[last - 1] - step[rise])
    return Shape(
        before=before,
        noise=float("nan"),
        tolerance=tolerance,
        peak_row=rise + peak_at,
        peak=peak,
        smooth_peak=peak,
        end_row=end_row,
        last_row=last,
        end=end,
        rise=float(end - after[peak_at]) if np.isfinite(peak) else 0.0,
        rise_se=float("nan"),
        after_500=end if distance >= 500 else None,
        bad_rows=int(bad.sum()),
        nonfinite=int((~np.isfinite(after)).sum()),
        nonfinite_end=int((~np.isfinite(after[-1:])).sum()),
        rows_before=rise - begin,
        rows_after=last - rise,
        steps_after=int(step[last - 1] - step[rise + peak_at]),
        grad_before=None if grads is None else finite_or_none(lowest(grads[begin : max(row, begin + 1)])),
        grad_peak=None if grads is None else highest(grads[row:last]),
        went_back=branch < len(rows),
        short=True,
    )
