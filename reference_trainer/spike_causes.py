"""Plausible causes of a spike, each with what in the log speaks for it.

The order of one training step decides between data and weights: loss and gradient of step i come from the weights
after update i - 1 and the batch of step i. A loss that leaps although the update before it was ordinary is the
batch's; a loss that follows an extraordinary update is the weights'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from reference_trainer.spike_measure import Shape
from reference_trainer.spike_norms import impossible
from reference_trainer.spike_rows import Rows, median

Confidence = Literal["low", "medium", "high"]
CauseName = Literal[
    "rare-token gradient",
    "stale Adam second moment",
    "learning rate too high",
    "corrupted data",
    "numerical",
]
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)


@dataclass(frozen=True)
class Cause:
    """A plausible cause.

    Parameters
    ----------
    cause : str
        One of `CauseName`.
    evidence : str
        What was seen, with numbers and steps.
    confidence : {"low", "medium", "high"}
        How far the evidence reaches without a replay of the batches.
    """

    cause: CauseName
    evidence: str
    confidence: Confidence


@dataclass(frozen=True)
class View:
    """The rows around a spike: where it began, and medians of what came before."""

    rows: Rows
    row: int
    shape: Shape
    begin: int

    def usual(self, name: str) -> float | None:
        """Return the median of a signal in the 64 rows before; None where the log has none."""
        column = self.rows.others.get(name)
        if column is None:
            return None
        x = median(column[max(self.begin, self.row - 64) : self.row])
        return x if np.isfinite(x) else None

    def at(self, name: str, row: int) -> float:
        """Return a signal at a row, NaN where there is none."""
        column = self.rows.others.get(name)
        return float(column[row]) if column is not None and self.begin <= row < len(column) else float("nan")

    def rise_row(self) -> int:
        """Return the row at which the loss itself began to stand out."""
        bar = self.shape.before + (
            max(0.2, 0.05 * abs(self.shape.before)) if self.shape.short else 5 * self.shape.noise
        )
        above = np.flatnonzero(~(self.rows.loss[self.row : self.shape.last_row] <= bar))
        return self.row + int(above[0]) if len(above) else self.row


def find_causes(rows: Rows, row: int, shape: Shape) -> tuple[Cause, ...]:
    """Return the causes that something in the log speaks for, the surest first; none where nothing does."""
    view = View(rows, row, shape, rows.branch_start(row))
    tests: tuple[Callable[[View], Cause | None], ...] = (
        numerical, learning_rate, corrupted, stale_moment, rare_token,
    )  # fmt: skip
    found = [cause for test in tests if (cause := test(view))]
    return tuple(sorted(found, key=lambda cause: -CONFIDENCES.index(cause.confidence)))


def numerical(view: View) -> Cause | None:
    """Look for values that are not finite, and for weights that moved without an update."""
    rows, shape = view.rows, view.shape
    stop = shape.end_row if shape.end_row is not None else shape.last_row
    for i in range(max(view.row, view.begin + 1), min(max(stop, view.row + 1), len(rows))):
        if rows.step[i] == rows.step[i - 1] + 1:
            last, now = (
                {n: x for n in ("param_norm", "update_norm") if np.isfinite(x := view.at(n, j))}
                for j in (i - 1, i)
            )
            if moved := impossible(last, now):
                return Cause("numerical", f"step {rows.step[i]}: {moved[0].says}", "high")
    if not shape.nonfinite:
        return None
    bad = ~np.isfinite(rows.loss[view.row : shape.last_row])
    if bad.any():
        step = rows.step[view.row + int(np.argmax(bad))]
        says = (
            f"{shape.nonfinite} of {shape.rows_after} rows are not finite, the loss of step {step} the first"
        )
    else:
        says = f"{shape.nonfinite} updates were withheld because something in them was not finite"
    # Once the loss has blown up, what is not finite is the end of it and not the start.
    start = view.rise_row()
    blown = np.isfinite(rows.loss[start]) and bad.any() and start < view.row + int(np.argmax(bad))
    return Cause("numerical", says, "low" if blown else "medium")


def learning_rate(view: View) -> Cause | None:
    """Look for a learning rate that jumped, or that had just reached its highest value."""
    rate = view.rows.others.get("lr")
    usual = view.usual("lr")
    if rate is None or not usual:
        return None
    rise = view.rise_row()
    until = max(rise, view.row) + 1
    window = rate[view.row : until]
    top = float(np.nanmax(window)) if np.isfinite(window).any() else 0.0
    if top > 2 * usual:
        step = view.rows.step[view.row + int(np.nanargmax(window))]
        update, was = view.at("update_norm", int(np.nanargmax(window)) + view.row), view.usual("update_norm")
        says = f"the learning rate went from {usual:.3g} to {top:.3g} at step {step}, {top / usual:.3g}x"
        if was and np.isfinite(update) and update > 2 * was:
            return Cause(
                "learning rate too high", f"{says}; the update grew with it, {update / was:.3g}x", "high"
            )
        return Cause("learning rate too high", says, "medium")
    seen = rate[view.begin : until]
    best = float(np.nanmax(seen))
    first = int(np.nanargmax(seen >= 0.98 * best))
    climbing = len(seen) > 64 and first > 0.5 * (len(seen) - 1) and rate[view.begin] < 0.5 * best
    lasting = view.shape.end_row is None and view.shape.bad_rows > 8
    if climbing and lasting and window[-1] >= 0.9 * best:
        return Cause(
            "learning rate too high",
            f"the loss rose while the warm-up was reaching its highest rate so far, {best:.3g}, and did not return",
            "low",
        )
    return None


def corrupted(view: View) -> Cause | None:
    """Look for batches whose loss no ordinary text gives: too high for these weights, or too low."""
    rows, shape, row = view.rows, view.shape, view.rise_row()
    loss = rows.loss
    if shape.short or not np.isfinite(loss[row]):
        return None
    leap = float(loss[row]) - shape.before
    started = view.begin == 0 and rows.step[0] <= 10 and rows.starts[0] == 0
    untrained = median(loss[:3]) if started else float("nan")
    calm = update_was_ordinary(view, row)
    brief = shape.end_row is not None and shape.bad_rows <= 3
    if leap > BAD_LEAP * shape.noise and (calm or (calm is None and brief)):
        why = (
            ", though the update before it was ordinary: the batch did it"
            if calm
            else ", and was back at once"
        )
        if loss[row] > 1.05 * untrained:
            says = (
                f"loss {loss[row]:.4g} at step {rows.step[row]} is above the {untrained:.4g} of the untrained model"
                f"{why}; targets and inputs do not belong together"
            )
            return Cause("corrupted data", says, "high" if calm else "medium")
        if leap > max(1.0, 0.25 * abs(shape.before)):
            says = f"loss leapt by {leap:.3g} nat in one row at step {rows.step[row]}{why}"
            # One strange document leaps as well; several batches of them are a source gone wrong.
            return Cause("corrupted data", says, "low" if brief else "medium")
    stop = min(view.row + 64, shape.last_row)
    low = np.flatnonzero(loss[view.row : stop] < shape.before - 8 * shape.noise)
    if len(low) >= 2:
        i = view.row + int(low[np.argmin(loss[view.row + low])])
        says = (
            f"{len(low)} losses from step {rows.step[view.row + low[0]]} on fell to {loss[i]:.3g}, far below "
            f"{shape.before:.3g}, and came back: repeated or trivial text"
        )
        return Cause("corrupted data", says, "medium")
    return None


#: A leap of so many standard deviations of the noise in one row is none of the noise's.
BAD_LEAP = 8.0


def update_was_ordinary(view: View, row: int) -> bool | None:
    """Whether the update before a row was like those before it; None where the log cannot tell."""
    usual, last = view.usual("update_norm"), view.at("update_norm", row - 1)
    if row == 0 or view.rows.step[row] != view.rows.step[row - 1] + 1 or not usual or not np.isfinite(last):
        return None
    return last <= 2 * usual


def stale_moment(view: View) -> Cause | None:
    """Look for updates that grew before the loss did at the same rate, and for a second moment that was lost."""
    rows, rise = view.rows, view.rise_row()
    for i in range(max(view.row - 4, view.begin + 1), min(rise + 2, len(rows))):
        old, new = view.at("v_norm", i - 1), view.at("v_norm", i)
        if rows.step[i] == rows.step[i - 1] + 1 and old > 0 and new < 0.5 * old:
            says = (
                f"Adam's second moment fell from {old:.3g} to {new:.3g} in one step, at {rows.step[i]}: it was reset, "
                "and the updates after it are too large"
            )
            return Cause("stale Adam second moment", says, "high")
    update, rate = rows.others.get("update_norm"), rows.others.get("lr")
    if update is None or rate is None or rise <= view.row:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(rate > 0, update / rate, np.nan)
    usual = median(ratio[max(view.begin, view.row - 64) : view.row])
    ahead = ratio[view.row : rise]
    if not np.isfinite(usual) or not np.isfinite(ahead).any() or np.nanmax(ahead) < 2 * usual:
        return None
    i = view.row + int(np.nanargmax(ahead))
    says = (
        f"the update over the learning rate was {ratio[i] / usual:.3g}x its median at step {rows.step[i]}, before the "
        f"loss rose at step {rows.step[rise]}"
    )
    moment, was = view.at("v_norm", i), view.usual("v_norm")
    if was and np.isfinite(moment) and moment < 1.5 * was:
        return Cause(
            "stale Adam second moment", f"{says}, while the second moment had not followed", "medium"
        )
    return Cause("stale Adam second moment", says, "low")


def rare_token(view: View) -> Cause | None:
    """Look for a gradient far out of range in a batch or two, at a loss that is hardly so."""
    grads, usual = view.rows.others.get("grad_norm"), view.usual("grad_norm")
    if grads is None or not usual or view.shape.short:
        return None
    stop = min(view.row + 8, view.shape.last_row)
    high = np.flatnonzero(grads[view.row : stop] > 4 * usual)
    if not 1 <= len(high) <= 2 or not np.isfinite(view.rows.loss[view.row + high]).all():
        return None
    i = view.row + int(high[np.argmax(grads[view.row + high])])
    excess = float(view.rows.loss[i]) - view.shape.before
    if excess > max(1.0, 0.25 * abs(view.shape.before)) or update_was_ordinary(view, i) is False:
        return None
    says = (
        f"the gradient norm of step {view.rows.step[i]} was {grads[i] / usual:.3g}x its median and back after "
        f"{len(high)} {'row' if len(high) == 1 else 'rows'}, at a loss {excess:+.2g} from the level: few tokens made it"
    )
    return Cause("rare-token gradient", says, "low")
