"""What a checkpoint holds beside weights and optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class State:
    """Where a run is.

    Attributes
    ----------
    step : int
        Updates made.
    ends_at : int or None
        Last step, once a horizon in hours or dollars has set it.
    evaluated : int
        Step of the last evaluation.
    interventions : list of dict
        What recoveries have changed (`reference_trainer.interventions`).
    began : int
        Step of the trunk's checkpoint that a branch began with.
    vetoed : int
        Updates withheld in a row because something was not finite.
    cools_at : float
        Step at which the cooldown begins, as far as was known when this was saved.
    wall_s : float
        Seconds of training over all sessions.
    unobserved : list of dict
        Steps that the observer has not seen yet: it sees them when it would have without a stop.
    """

    step: int = 0
    ends_at: int | None = None
    evaluated: int = -1
    interventions: list[dict[str, Any]] = field(default_factory=list)
    began: int = 0
    vetoed: int = 0
    cools_at: float = math.inf
    wall_s: float = 0.0
    unobserved: list[dict[str, float]] = field(default_factory=list)
