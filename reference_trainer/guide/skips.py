"""Updates that were left out because something was not finite or overflowed."""

from __future__ import annotations

import numpy as np

from reference_trainer.guide.feature import Feature, steps_text
from reference_trainer.training_log import TrainingLog

#: Rows in a row that are no accident of a loss scale being tried.
_MANY = 5


def read_skips(log: TrainingLog) -> list[Feature]:
    """Return how many updates were left out, and where the longest stretch of them is."""
    rows = log.steps
    count = np.zeros(len(rows))
    for name in ("skipped", "nans"):
        if rows.has(name):
            count += np.nan_to_num(rows.columns[name])
    if rows.has("finite"):
        count += rows.columns["finite"] == 0
    at = np.flatnonzero(count > 0)
    if len(at) == 0:
        return []
    pieces = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
    longest = max(pieces, key=len)
    step, first, last = rows.columns["step"], int(longest[0]), int(longest[-1])
    span = steps_text(step[first], step[last])
    what = f"{count.sum():,.0f} updates were left out, in {len(at):,} rows; the longest stretch is {span}"
    if count.sum() == 1:
        what = f"the update of {span} was left out"
    why = "gradients or losses that are not finite: the update was withheld"
    if rows.has("loss_scale"):
        scale = rows.columns["loss_scale"]
        near = scale[max(first - 1, 0) : last + 2]
        near = near[np.isfinite(near)]
        if len(near) and near[-1] < near[0]:
            why = f"fp16: the loss scale was too high and was lowered from {near[0]:g} to {near[-1]:g}"
        elif len(longest) < _MANY:
            why = "fp16: the loss scale was tried higher, which costs an update now and then"
    numbers = {"updates": float(count.sum()), "rows": len(at), "longest": len(longest)}
    where = log.cite(rows.lines[first], rows.lines[last])
    return [
        Feature("skipped updates", float(step[first]), float(step[last]), where, what, why, "medium", numbers)
    ]
