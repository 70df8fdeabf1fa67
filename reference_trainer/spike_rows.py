"""A log as arrays: what every part that looks back at spikes reads it by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference_trainer.errors import DetectorError

#: Signals the detector knows beside the loss.
OTHERS = ("grad_norm", "update_norm", "param_norm", "v_norm", "lr", "finite")
#: A forward jump of more than this many times the usual gap starts another segment.
JUMP = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Checked columns of a log, in the order they were written.

    Parameters
    ----------
    step : numpy.ndarray of int64, shape (n,)
        Steps; they may go back where a run restarted.
    loss : numpy.ndarray, shape (n,)
        Loss in nats/token; NaN and infinities are kept.
    others : dict of numpy.ndarray
        The signals of `OTHERS` that the log has, NaN where a row has none.
    starts : numpy.ndarray of int64
        First row of every segment: where a step goes back or jumps ahead.
    """

    step: NDArray[np.int64]
    loss: Floats
    others: dict[str, Floats]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.step)

    def segment(self, row: int) -> tuple[int, int]:
        """Return the first row and the row after the last of the segment that holds `row`."""
        i = int(np.searchsorted(self.starts, row, side="right"))
        return int(self.starts[i - 1]), int(self.starts[i]) if i < len(self.starts) else len(self)

    def branch_end(self, row: int) -> int:
        """Return the row at which a step first goes back after `row`, or the number of rows."""
        back = np.flatnonzero(np.diff(self.step[row:]) <= 0)
        return row + 1 + int(back[0]) if len(back) else len(self)

    def branch_start(self, row: int) -> int:
        """Return the row after the last step back before `row`: 0 where there was none."""
        back = np.flatnonzero(np.diff(self.step[: row + 1]) <= 0)
        return int(back[-1]) + 1 if len(back) else 0

    def cadence(self, row: int) -> int:
        """Return the usual number of steps between two rows around `row`."""
        begin, end = self.segment(row)
        gaps = np.diff(self.step[max(begin, row - 64) : min(end, row + 64)])
        return max(int(np.median(gaps)), 1) if len(gaps) else 1


def read_rows(history: Mapping[str, object]) -> Rows:
    """Check a log's columns.

    Parameters
    ----------
    history : mapping of str to array
        ``step`` and ``loss``, and any of ``grad_norm``, ``update_norm``, ``param_norm``, ``v_norm``, ``lr``,
        ``finite``, of one length; further columns are left alone.

    Raises
    ------
    DetectorError
        ``step`` or ``loss`` is missing, a column has another length or another shape, or a step is no number.

    Examples
    --------
    >>> rows = read_rows({"step": [1, 2, 3, 90, 2, 3], "loss": [3.0] * 6})
    >>> rows.starts.tolist(), rows.segment(4)
    ([0, 3, 4], (4, 6))
    """
    for name in ("step", "loss"):
        if name not in history:
            raise DetectorError(
                f"a history needs step and loss; there is no {name}, only {', '.join(sorted(history)) or 'nothing'}",
                column=name,
            )
    columns = {name: as_floats(history[name], name) for name in ("step", "loss", *OTHERS) if name in history}
    step = columns.pop("step")
    if not np.isfinite(step).all():
        rows = np.flatnonzero(~np.isfinite(step))
        raise DetectorError(
            f"row {rows[0]} has the step {step[rows[0]]}: leave out rows without a step",
            column="step",
            rows=rows[:10].tolist(),
        )
    for name, column in columns.items():
        if column.shape != step.shape:
            raise DetectorError(
                f"step has {len(step):,} rows and {name} has {len(column):,}: give one value for each row",
                column=name,
            )
    whole = step.astype(np.int64)
    return Rows(whole, columns.pop("loss"), columns, segment_starts(whole))


def as_floats(column: object, name: str) -> Floats:
    """Return one column as float64."""
    try:
        found = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DetectorError(f"{name} does not consist of numbers: {error}", column=name) from error
    if found.ndim != 1:
        raise DetectorError(f"{name} has the shape {found.shape}: give one number for each row", column=name)
    return found


def segment_starts(step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first row of each run of steps that neither go back nor jump ahead."""
    gaps = np.diff(step)
    if not len(gaps):
        return np.zeros(min(len(step), 1), dtype=np.int64)
    usable = np.where(gaps > 0, gaps, np.iinfo(np.int64).max)
    edge = np.array([np.iinfo(np.int64).max])
    beside = np.minimum(np.concatenate([edge, usable[:-1]]), np.concatenate([usable[1:], edge]))
    cut = (gaps <= 0) | (gaps > JUMP * beside.astype(np.float64))
    return np.concatenate([[0], np.flatnonzero(cut) + 1]).astype(np.int64)


def median(values: Floats, default: float = float("nan")) -> float:
    """Return the median of the finite values, or a default where there is none."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else default
