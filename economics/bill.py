"""What a run has been billed so far, over every instance it lived on; standard library alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from economics.billing import Charge, Session
from scaling.errors import DataError

_STATE_VERSION = 1


class Bill:
    """Sessions of instances and single charges, against a clock.

    Parameters
    ----------
    session : Session
        The instance this process runs on.
    clock : callable
        Returns seconds since the epoch. One that runs backwards is held still.

    Examples
    --------
    >>> bill = Bill(Session("a", 0.0, None, usd_per_hour=2.0, billing_granularity=60.0, minimum_s=0.0),
    ...             clock=lambda: 1800.0)
    >>> bill.book("egress", 0.5)
    >>> bill.usd(bill.now())
    1.5
    """

    def __init__(self, session: Session, clock: Callable[[], float]) -> None:
        self.sessions = [session]
        self.ledger: list[Charge] = []
        self._clock = clock
        self._latest = float(clock())
        if session.started_at > self._latest + 1.0:
            raise DataError(
                f"started_at={session.started_at:.0f} lies in the future of the clock ({self._latest:.0f}): "
                f"give seconds since the epoch (milliseconds?).",
                column="started_at",
            )

    @property
    def charges(self) -> float:
        """Sum of the single charges, US dollars."""
        return sum(c.usd for c in self.ledger)

    def now(self) -> float:
        """Seconds since the epoch, never less than before."""
        self._latest = max(self._latest, float(self._clock()))
        return self._latest

    def usd(self, until: float) -> float:
        """US dollars billed in all if the open session ends at `until`."""
        return sum(s.usd(until) for s in self.sessions) + self.charges

    def book(self, reason: str, usd: float) -> None:
        """Add a charge."""
        self.ledger.append(Charge(reason, usd))

    def room_s(self, usd: float, now: float) -> float:
        """Seconds from now that the open session can still be up for a total of `usd`; may be negative."""
        current = self.sessions[-1]
        others = self.usd(now) - current.usd(now)
        return current.seconds_for(usd - others) - (now - current.started_at)

    def end(self, at: float) -> None:
        """End the open session."""
        self.sessions[-1] = replace(self.sessions[-1], ended_at=at)

    def state(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types."""
        return {
            "version": _STATE_VERSION,
            "latest": self.now(),
            "sessions": [asdict(s) for s in self.sessions],
            "ledger": [asdict(c) for c in self.ledger],
        }

    def resume(self, state: Mapping[str, Any], previous_ended_at: float | None) -> None:
        """Go on with an earlier bill; see `economics.budget.BudgetGuard.load_state_dict`."""
        if state.get("version") != _STATE_VERSION:
            raise DataError(
                f"state of version {state.get('version')!r}; this code reads {_STATE_VERSION}", column="state"
            )
        self._latest = max(self._latest, float(state["latest"]))
        self.ledger = [Charge(**c) for c in state["ledger"]]
        *closed, last = [Session(**s) for s in state["sessions"]]
        mine = self.sessions[-1]
        if last.ended_at is None and last.instance == mine.instance:
            # The process restarted, the machine did not: billed without a break, idle time included.
            start, price = min(last.started_at, mine.started_at), max(last.usd_per_hour, mine.usd_per_hour)
            self.sessions = [*closed, replace(mine, started_at=start, usd_per_hour=price)]
            return
        if last.ended_at is None:
            end = self.now() if previous_ended_at is None else float(previous_ended_at)
            if end < last.started_at:
                raise DataError(
                    f"previous_ended_at={end:.0f} lies before the start of {last.instance!r} "
                    f"({last.started_at:.0f})",
                    column="previous_ended_at",
                )
            if previous_ended_at is None:
                self.book(f"{last.instance} taken as billed until now: its end was not given", 0.0)
            last = replace(last, ended_at=end)
        self.sessions = [*closed, last, mine]
