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
    pulled_at : int or None
        Step at which that was set: the cooldown begins there.
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
    pulled_at: int | None = None
    evaluated: int = -1
    interventions: list[dict[str, Any]] = field(default_factory=list)
    began: int = 0
    vetoed: int = 0
    cools_at: float = math.inf
    wall_s: float = 0.0
    unobserved: list[dict[str, float]] = field(default_factory=list)

    def end_at(self, step: int | None) -> None:
        """Set the last step, where a horizon in hours or dollars has come near."""
        if step is not None and self.ends_at is None:
            self.pulled_at = self.step
        self.ends_at = step

    def cooled(self, cooldown: float) -> float:
        """Return the share of the run over which its rate fell, of the `cooldown` that was asked for."""
        if self.pulled_at is None or not self.step:
            return round(cooldown * self.step) / self.step if self.step else 0.0
        return min(cooldown, (self.step - self.pulled_at) / self.step)
