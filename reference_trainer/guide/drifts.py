"""Slow changes for the worse: a loss that rises over many rows, gradient norms that grow."""

from __future__ import annotations

import numpy as np

from reference_trainer.guide.feature import UNEXPLAINED, Confidence, Feature, cite, timeline
from reference_trainer.guide.signals import MEDIAN_SE, noise
from reference_trainer.training_log import Series, TrainingLog

#: Rows of a block, at least; blocks of a drift, at least; and its size over its standard error and over the level.
_BLOCK, _BLOCKS, _Z, _SHARE = 16, 4, 8.0, 0.005
#: A gradient norm has grown when the median of blocks is this many times what it was.
_GROWN = 2.0


def read_drifts(log: TrainingLog) -> list[Feature]:
    """Return stretches in which the loss rises slowly, and growth of the gradient norm."""
    out = []
    loss = timeline(log.series("loss"))
    if loss is not None and len(loss) >= 8 * _BLOCK:
        out += _rises(log, loss, 0, len(loss))
    norm = timeline(log.series("grad_norm"))
    if norm is not None and len(norm) >= 8 * _BLOCK:
        out += _growth(log, norm)
    return out


def _blocks(value: np.ndarray, width: int) -> np.ndarray:
    count = len(value) // width
    return np.asarray(np.median(value[: count * width].reshape(count, width), axis=1))


def _rises(log: TrainingLog, loss: Series, begin: int, end: int, depth: int = 0) -> list[Feature]:
    """Return the largest slow rise of a stretch, and those before and after it."""
    value = loss.value[begin:end]
    width = max(_BLOCK, len(loss) // 150)
    if len(value) < 2 * _BLOCKS * width or depth > 3:
        return []
    level = _blocks(value, width)
    lowest = np.minimum.accumulate(level)
    top = int(np.argmax(level - lowest))
    low = int(np.flatnonzero(level[: top + 1] == lowest[top])[-1])
    rise = float(level[top] - level[low])
    error = MEDIAN_SE * noise(value) * np.sqrt(2.0 / width)
    first, last = begin + low * width, min(begin + (top + 1) * width, end) - 1
    if rise < _Z * error or rise < _SHARE * abs(float(level[low])):
        return []
    out = _rises(log, loss, begin, first, depth + 1)
    if top - low >= _BLOCKS and _slow(level[low : top + 1]):
        rate = 1000.0 * rise / max(float(loss.step[last] - loss.step[first]), 1.0)
        what = (
            f"the loss rises slowly from {level[low]:.3f} to {level[top]:.3f}, {rate:.3g} nats in 1,000 steps"
        )
        sure: Confidence = "high" if rise > 2 * _Z * error else "medium"
        numbers = {"rise": rise, "per_1000_steps": rate}
        where = cite(log, loss, first, last)
        out.append(
            Feature(
                "drift",
                float(loss.step[first]),
                float(loss.step[last]),
                where,
                what,
                UNEXPLAINED,
                sure,
                numbers,
            )
        )
    return out + _rises(log, loss, last + 1, end, depth + 1)


def _slow(level: np.ndarray) -> bool:
    """Tell a rise that is spread over its blocks from one that happens at once: a jump is no drift."""
    change = np.diff(level)
    return bool(np.max(change) < 0.6 * (level[-1] - level[0]))


def _growth(log: TrainingLog, norm: Series) -> list[Feature]:
    value = norm.value
    width = max(_BLOCK, len(value) // 50)
    level = _blocks(value, width)
    low = int(np.argmin(level))
    now = float(np.median(level[-3:]))
    if len(level) - low < 6 or level[low] <= 0 or now < _GROWN * level[low]:
        return []
    what = f"the gradient norm grows from {level[low]:.3g} to {now:.3g} by the end of the log"
    why = "usual while a learning rate decays or a batch shrinks; else an early sign of instability"
    where = cite(log, norm, low * width, len(value) - 1)
    first, last = float(norm.step[low * width]), float(norm.step[-1])
    return [Feature("drift", first, last, where, what, why, "low", {"from": float(level[low]), "to": now})]
