"""A cooldown seen in the loss alone, where the learning rate is not in the log."""

from __future__ import annotations

import numpy as np

from reference_trainer.guide.feature import Feature, cite, timeline
from reference_trainer.training_log import TrainingLog

#: Rows below which nothing is said; blocks that the rows are reduced to; share of the run before which none begins.
_ROWS, _BLOCKS, _EARLIEST = 400, 120, 0.4
#: A fall must steepen by this share of what it was, and by so many standard errors.
_STEEPER, _Z = 0.5, 6.0


def suspect_cooldown(log: TrainingLog) -> list[Feature]:
    """Return the step from which the loss falls faster again, if there is one.

    At a constant rate the loss falls ever more slowly: about as a straight line in the logarithm of the step, flatter
    rather than steeper with time. A line with one bend is fitted to medians of blocks; a bend downwards is the mark of
    a learning rate that goes down.
    """
    loss = timeline(log.series("loss"))
    if loss is None or len(loss) < _ROWS or loss.step[0] > 0.1 * loss.step[-1]:
        return []
    width = max(len(loss) // _BLOCKS, 4)
    count = len(loss) // width
    y = np.median(loss.value[: count * width].reshape(count, width), axis=1)
    x = np.median(loss.step[: count * width].reshape(count, width), axis=1)
    late = x > 0.2 * x[-1]
    x, y = x[late], y[late]
    best: tuple[float, float, float, float] | None = None
    for begin in x[(x > _EARLIEST * x[-1]) & (x < 0.95 * x[-1])].tolist():
        design = np.column_stack((np.ones_like(x), np.log(x), np.maximum(np.log(x / begin), 0.0)))
        fitted, *_ = np.linalg.lstsq(design, y, rcond=None)
        left = y - design @ fitted
        variance = float(left @ left) / (len(x) - 4)
        error = float(np.sqrt(variance * np.linalg.inv(design.T @ design)[2, 2]))
        if best is None or variance < best[0]:
            best = variance, begin, float(fitted[1]), float(fitted[2])
            z = best[3] / max(error, 1e-12)
    if best is None or best[2] >= 0 or z > -_Z or best[3] > _STEEPER * best[2]:
        return []
    _, begin, slope, bend = best
    first = int(np.searchsorted(loss.step, begin))
    share = 1.0 - begin / float(loss.step[-1])
    what = (
        f"from about step {begin:,.0f} on the loss falls faster again: {slope + bend:.2f} nats for each factor e "
        f"of steps, {slope:.2f} before"
    )
    why = f"a cooldown of the learning rate over the last {share:.0%} (the rate itself is not in the log)"
    numbers = {"shape": "cooldown", "cooldown_start": begin, "z": z}
    where = cite(log, loss, first, len(loss) - 1)
    return [Feature("schedule", begin, float(loss.step[-1]), where, what, why, "low", numbers)]
