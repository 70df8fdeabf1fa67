"""What a spike looks like in a log: level before, peak, when the loss was back, where it ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference_trainer.spike_rows import Floats, Rows, median
from reference_trainer.spike_windows import MEDIAN_SE, Blocks, grain, jitter

#: Rows that a segment needs before its noise is known.
SHORTEST = 48
#: Steps after the first evidence that are looked at.
AFTER = 500
#: Rows that are looked at however far apart they are.
AFTER_ROWS = 64
#: Standard deviations above the level before that make a row a bad one.
BAD = 5.0


@dataclass(frozen=True)
class Shape:
    """Measurements of a spike; losses in nats/token.

    Parameters
    ----------
    before, noise : float
        Median loss of up to 64 rows before the first evidence; noise of a row there.
    tolerance : float
        How far above `before` a median still counts as back.
    peak_row, peak, smooth_peak : int, float, float
        Row and value of the highest loss, and the highest median of 8 rows, while the loss was not back.
    end_row : int or None
        First row from which the loss is back.
    last_row : int
        Row after the last that was looked at: 500 steps later, a step back, or the end of the log.
    end : float
        Median loss of the last quarter of the rows looked at, 32 at most.
    rise : float
        By how much the last quarter is above the quarter before it.
    rise_se : float
        Standard error of `rise` from the noise.
    after_500 : float or None
        Median loss around 500 steps after the first evidence.
    bad_rows : int
        Rows above `before` by more than 5 standard deviations, or not finite, until the loss was back.
    nonfinite, nonfinite_end : int
        Rows whose loss is not finite, or whose update was withheld: all that were looked at, and of the last 16.
    rows_before, rows_after : int
        Rows looked at.
    steps_after : int
        Steps from the first evidence to the last row looked at.
    grad_before, grad_peak : float or None
        Median gradient norm before, highest until the loss was back.
    went_back : bool
        Whether the run went back to an earlier step before the loss was back.
    short : bool
        Whether the log is an excerpt too short to know its noise.
    """

    before: float
    noise: float
    tolerance: float
    peak_row: int
    peak: float
    smooth_peak: float
    end_row: int | None
    last_row: int
    end: float
    rise: float
    rise_se: float
    after_500: float | None
    bad_rows: int
    nonfinite: int
    nonfinite_end: int
    rows_before: int
    rows_after: int
    steps_after: int
    grad_before: float | None
    grad_peak: float | None
    went_back: bool
    short: bool = False


def measure(rows: Rows, row: int, rise: float | None, level: float | None = None) -> Shape:
    """Measure a spike.

    Parameters
    ----------
    rows : Rows
        The log.
    row : int
        Row of the first evidence.
    rise : float, optional
        Smallest rise that raised an alarm, nats/token: one that is small against the noise needs a long median to
        say that it is over.
    level : float, optional
        Level that a shift alarm compared with. The rows before are not taken to be more than a quarter of the rise
        above it: a slow rise is dated late, when it has lifted them already.
    """
    begin, branch = rows.branch_start(row), rows.branch_end(row)
    cadence = rows.cadence(row)
    last = int(np.searchsorted(rows.step[row:branch], rows.step[row] + AFTER, side="right")) + row
    last = min(max(last, row + AFTER_ROWS), branch)
    loss = rows.loss
    past = loss[max(begin, row - 1024) : row]
    past = past[np.isfinite(past)]
    before = median(past[-64:], median(loss[row:last]))
    noise = max(noise_of(past), grain(np.sort(past[-128:]).tolist()), 1e-4 * abs(before), 1e-9)
    if len(past) >= 16:  # where the loss falls fast, 64 rows ago was higher
        before = min(before, median(past[-16:]) + 2 * MEDIAN_SE * noise / 4)
    if level is not None and rise is not None:
        before = min(before, level + 0.25 * rise)
    width, tolerance = back_test(noise, rise)
    after = loss[row:last]
    end_row = first_back(after, before, noise, width, tolerance, rise is not None)
    during = after[: max(end_row, 1)] if end_row is not None else after
    peak_at = int(np.argmax(np.where(np.isfinite(during), during, np.inf)))
    bad = ~(during <= before + BAD * noise)
    broken = ~np.isfinite(after)
    if "finite" in rows.others:
        broken |= rows.others["finite"][row:last] == 0
    quarter = min(max(len(after) // 4, 1), 32)
    end, middle = median(after[-quarter:]), median(after[-2 * quarter : -quarter])
    near = loss[row:branch][np.abs(rows.step[row:branch] - rows.step[row] - AFTER) <= 16 * cadence]
    reached = rows.step[branch - 1] >= rows.step[row] + AFTER
    grads = rows.others.get("grad_norm")
    smooth = running_median(during[np.isfinite(during)], 8)
    return Shape(
        before=before,
        noise=noise,
        tolerance=tolerance,
        peak_row=row + peak_at,
        peak=float(during[peak_at]) if np.isfinite(during[peak_at]) else float("inf"),
        smooth_peak=float(smooth.max()) if len(smooth) else float("inf"),
        end_row=None if end_row is None else row + end_row,
        last_row=last,
        end=end,
        rise=end - middle,
        rise_se=MEDIAN_SE * noise * (2.0 / quarter) ** 0.5,
        after_500=median(near) if reached and len(near) else None,
        bad_rows=int(bad.sum()),
        nonfinite=int(broken.sum()),
        nonfinite_end=int(broken[-16:].sum()),
        rows_before=len(past[-64:]),
        rows_after=last - row,
        steps_after=int(rows.step[last - 1] - rows.step[row]),
        grad_before=None if grads is None else finite_or_none(median(grads[max(begin, row - 64) : row])),
        grad_peak=None if grads is None else highest(grads[row : row + max(len(during), 1)]),
        went_back=branch < len(rows) and end_row is None,
    )


def noise_of(past: Floats) -> float:
    """Return the noise of the last rows, as white noise whose medians of 16 would scatter as these do."""
    whole = past[len(past) % 16 :]
    blocks = Blocks(16)
    for m in np.median(whole.reshape(-1, 16), axis=1).tolist() if len(whole) else ():
        blocks.add(m)
    return max(jitter(past[-256:]), blocks.scatter() * 4 / MEDIAN_SE / 1.1)


def back_test(noise: float, rise: float | None) -> tuple[int, float]:
    """Return the length of the median, and what it may exceed the level by, that say that a loss is back.

    A third of the rise must be three standard errors of the median: an alarm comes when noise adds to the rise, so
    that half of what was seen may be more than is left of it afterwards.
    """
    width = 32
    if rise is not None and rise > 0:
        width = int(min(max((9 * MEDIAN_SE * noise / rise) ** 2, 32), 256))
    tolerance = 3 * MEDIAN_SE * noise / width**0.5
    return width, min(tolerance, rise / 3) if rise is not None and rise > 0 else tolerance


def first_back(
    after: Floats, before: float, noise: float, width: int, tolerance: float, lasting: bool
) -> int | None:
    """Return the first position from which medians of 8 and of `width` rows are near the level before.

    A row that is bad itself is passed over; after a shift (`lasting`) the median of all rows left must be near as well.
    At the end of a log the medians are taken over what there is, 8 rows at
    least.
    """
    clean = np.where(np.isfinite(after), after, np.inf)
    if len(clean) < 8:
        return None
    limit = before + tolerance
    padded = np.concatenate([clean, np.full(width - 1, np.nan)])
    views = np.lib.stride_tricks.sliding_window_view(padded, width)[: len(clean) - 7]
    with np.errstate(invalid="ignore"):
        low = np.nanmedian(views, axis=1) <= limit
        low &= np.median(views[:, :8], axis=1) <= max(before + 3 * MEDIAN_SE * noise / 8**0.5, limit)
        low &= views[:, 0] <= before + BAD * noise
    for i in np.flatnonzero(low):
        if not lasting or np.median(clean[i:]) <= limit:
            return int(i)
    return None


def running_median(values: Floats, width: int) -> Floats:
    """Return the medians of consecutive rows, of all of them where there are fewer than `width`."""
    if len(values) <= width:
        return np.array([np.median(values)]) if len(values) else values
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1))


def highest(values: Floats) -> float | None:
    """Return the highest finite value, or None."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else None


def finite_or_none(x: float) -> float | None:
    """Return a number, or None for NaN."""
    return x if np.isfinite(x) else None
