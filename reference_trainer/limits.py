"""When a run has to end: hours, dollars, the cap, a signal. Decided between steps, the same in every process."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from economics.budget import BudgetGuard

#: Steps at the start of a session that say nothing about the pace: compilation, first touches.
_FIRST_STEPS = 3
#: Seconds a first step may take where it compiles.
_COMPILE_S = 600.0


class Limits:
    """The clock and the purse of one run.

    Parameters
    ----------
    folder : pathlib.Path
        The run's folder: the guard's journal is kept there.
    config : Operation
        Its cap, price and billing; and the horizons of the run: ``hours`` of training over all sessions, and
        ``usd``, within which the cooldown ends.
    wall_s : float
        Seconds of training in earlier sessions.
    writes : bool
        This process keeps the account; the others ask it.
    compiles : bool
        The first step compiles, and may take minutes.
    clock : callable, optional
        Seconds since the epoch, for tests. If not given the guard, whose account outlives the machine, has the clock
        of the day, and the run's own time is measured by one that nobody sets back.

    Raises
    ------
    economics.budget.BudgetExceeded
        Not one step, the final save and the shutdown fit under the cap.
    """

    def __init__(
        self,
        folder: Path,
        config: Any,
        *,
        wall_s: float = 0.0,
        writes: bool = True,
        compiles: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.usd_per_hour = float(config.usd_per_hour)
        self.hours, self.usd = float(config.hours), float(config.usd)
        self._clock, self._compiles = clock or time.monotonic, compiles
        self.guard: BudgetGuard | None = None
        if config.cap_usd < math.inf and writes:
            self.guard = BudgetGuard(
                config.cap_usd, config.usd_per_hour, billing_granularity=config.billing_granularity,
                max_step_s=config.max_step_s, instance=config.instance or socket.gethostname(),
                journal=folder / "budget.json", clock=clock or time.time,
                started_at=config.started_at or None, previous_ended_at=config.previous_ended_at or None,
                gone_after_s=None if config.gone_after_s == math.inf else config.gone_after_s,
            )  # fmt: skip
            hours = None if self.hours == math.inf else max(self.hours - wall_s / 3600.0, 0.0)
            self.guard.check(hours, tokens=None if config.tokens == math.inf else config.tokens)
        self._began = self._clock()
        self._wall_before = wall_s
        self._first: int | None = None
        self._steps = 0  # of this session that are over
        self._mark = (0, self._began)  # steps and time from which the pace is measured
        self._reserve_s = 0.0

    @property
    def wall_s(self) -> float:
        """Seconds of training over all sessions."""
        return self._wall_before + self._clock() - self._began

    @property
    def spent_usd(self) -> float:
        """Dollars so far: the guard's, or the price times the hours where there is no cap."""
        return self.guard.spent if self.guard is not None else self.usd_per_hour * self.wall_s / 3600.0

    @property
    def step_s(self) -> float:
        """Seconds a step takes, evaluations and saves included; NaN before the first is over."""
        if self._steps > _FIRST_STEPS:
            return (self._clock() - self._mark[1]) / max(self._steps - self._mark[0], 1)
        return (self._clock() - self._began) / self._steps if self._steps else math.nan

    @contextmanager
    def reserving(self, inner: AbstractContextManager[None]) -> Iterator[None]:
        """Keep as many seconds free at the end as the longest stay in here (an evaluation, a save) took."""
        began = self._clock()
        with inner:
            yield
        self._reserve_s = max(self._reserve_s, self._clock() - began)

    def seconds_left(self) -> float:
        """Seconds until the nearer of the horizons, less what the end takes; inf without one."""
        left = self.hours * 3600.0 - self.wall_s
        if self.usd < math.inf:
            left = min(left, (self.usd - self.spent_usd) / self.usd_per_hour * 3600.0)
        return left - 2 * self._reserve_s

    def pace(self) -> tuple[float, float]:
        """Return the seconds left until the horizon and the seconds a step takes."""
        return self.seconds_left(), self.step_s

    def note(self, reason: str) -> None:
        """Write a line into the guard's ledger: the time itself is on the clock already."""
        if self.guard is not None:
            self.guard.charge(reason, 0.0)

    def refusal(self, step: int) -> str:
        """Return why the next step must not be made ("budget", "time"), or "".

        Parameters
        ----------
        step : int
            Steps of the run that are over.
        """
        self._first = step if self._first is None else self._first
        before, self._steps = self._steps, step - self._first
        if before <= _FIRST_STEPS < self._steps:
            self._mark = (self._steps, self._clock())
        if self.guard is not None:
            bound = _COMPILE_S if self._compiles and self._steps == 0 else None
            if not self.guard.step(bound).fits:
                return "budget"
        return "time" if self.seconds_left() <= 0 else ""
