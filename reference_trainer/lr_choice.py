"""Which of a few tried learning rates is used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def best_of(losses: Mapping[float, float | None]) -> float | None:
    """Return the rate with the lowest loss of a check, None where none has a finite one.

    Parameters
    ----------
    losses : mapping of float to float or None
        Rate -> loss; None for a run that went wrong.
    """
    finite = {lr: loss for lr, loss in losses.items() if loss is not None and math.isfinite(loss)}
    return min(finite, key=lambda lr: (finite[lr], lr), default=None)


def at_edge(lr: float, grid: Sequence[float]) -> bool:
    """Tell whether a chosen rate is the smallest or largest that was tried: the best may lie beyond it."""
    return lr in (min(grid), max(grid))
