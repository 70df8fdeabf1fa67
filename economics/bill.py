"""What a run has been billed so far, over every instance it lived on; standard library alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from economics.billing import Charge, Session, amount
from economics.run_numbers import plain
from scaling.errors import DataError, shown

_STATE_VERSION = 1
AHEAD_S = 5.0  # a journal is written so far ahead: an instance that died may count so much too long, never too short


class Bill:
    """Sessions of instances and single charges, against a clock.

    Parameters
    ----------
    session : Session
        The instance this process runs on.
    clock : callable
        Returns seconds since the epoch.
    monotonic : callable, optional
        Returns seconds that only ever grow, from any origin: time goes on by them where `clock` is set back.
        ``time.monotonic`` if `clock` is ``time.time``; another clock alone is held still while it lags.
    gone_after_s : float, optional
        Seconds after its last sign of life by which an instance that is gone was no longer billed; None: not known.

    Examples
    --------
    >>> bill = Bill(Session("a", 0.0, None, usd_per_hour=2.0, billing_granularity=60.0, minimum_s=0.0),
    ...             clock=lambda: 1800.0)
    >>> bill.book("egress", 0.5)
    >>> bill.usd(bill.now())
    1.5
    """

    def __init__(
        self, session: Session, clock: Callable[[], float], monotonic: Callable[[], float] | None = None,
        gone_after_s: float | None = None,
    ) -> None:  # fmt: skip
        self.sessions = [session]
        self.ledger: list[Charge] = []
        self.charges = 0.0  # sum of the ledger, US dollars: asked for several times at every step
        self._clock, self._gone_after_s = clock, gone_after_s
        if monotonic is None:
            monotonic = time.monotonic if clock is time.time else (lambda: 0.0)
        self._monotonic = monotonic
        self._tick = float(monotonic())
        self._latest = amount("clock", clock())
        if session.started_at > self._latest + 1.0:
            raise DataError(
                f"started_at={session.started_at:.0f} lies in the future of the clock ({self._latest:.0f}): "
                f"give seconds since the epoch (milliseconds?).",
                column="started_at",
            )

    def now(self) -> float:
        """Seconds since the epoch; as much later than before as either clock says, whichever says more."""
        # A wall clock can be set back, and a monotonic one may stand still while a machine sleeps.
        tick = float(self._monotonic())
        self._latest = max(self._latest + max(tick - self._tick, 0.0), amount("clock", self._clock()))
        self._tick = tick
        return self._latest

    def usd(self, until: float) -> float:
        """US dollars billed in all if the open session ends at `until`."""
        return sum(s.usd(until) for s in self.sessions) + self.charges

    def book(self, reason: str, usd: float, key: str | None = None) -> None:
        """Add a charge; `key` where it is to be known again, else it is one of its own."""
        self.ledger.append(Charge(reason, usd) if key is None else Charge(reason, usd, key))
        self.charges += usd

    def room_s(self, usd: float, now: float) -> float:
        """Seconds from now that the open session can still be up for a total of `usd`; may be negative."""
        current = self.sessions[-1]
        others = self.usd(now) - current.usd(now)
        return current.seconds_for(usd - others) - (now - current.started_at)

    def end(self, at: float) -> None:
        """End the open session."""
        self.sessions[-1] = replace(self.sessions[-1], ended_at=at)

    def state(self, ahead_s: float = 0.0) -> dict[str, Any]:
        """Return what a restart needs, as plain types.

        Parameters
        ----------
        ahead_s : float
            Seconds for which the state is to hold: ``until`` lies so much after ``latest``, which is now. An
            instance whose last state this is was up at least to the one and is billed at least to the other.
        """
        now = self.now()
        return {
            "version": _STATE_VERSION,
            "latest": now,
            "until": now + ahead_s,
            "sessions": [vars(s).copy() for s in self.sessions],
            "ledger": [vars(c).copy() for c in self.ledger],
        }

    def resume(self, state: Mapping[str, Any], previous_ended_at: float | None) -> None:
        """Go on with an earlier bill; see `economics.budget.BudgetGuard.load_state_dict`.

        What both bills know counts once, what one of them knows is never lost: sessions are the same by
        instance and start, charges by key.
        """
        latest, until, sessions, ledger = _read(state)
        if previous_ended_at is not None:
            amount("previous_ended_at", previous_ended_at)
        now = self.now()
        if now < latest:  # the clock was set back, by nobody knows how much: as late as the state can be
            now = until
        merged = {(s.instance, s.started_at): s for s in sessions}
        *closed, mine = self.sessions
        for session in closed:
            known = merged.setdefault((session.instance, session.started_at), session)
            merged[session.instance, session.started_at] = _same(known, session)
        gone: list[Session] = []
        for session in merged.values():
            no_end = session.ended_at is None or session.seen_at is not None
            if session.instance == mine.instance and (no_end or session.started_at == mine.started_at):
                # The process restarted, the machine did not: billed without a break, idle time included.
                mine = _same(replace(session, ended_at=mine.ended_at, seen_at=None), mine)
            else:
                gone.append(session)
        open_ones = [s for s in gone if s.ended_at is None]
        assumed = [s for s in gone if s.seen_at is not None]
        meant = open_ones or assumed[-1:]  # whose end is given, if one is
        others: list[Session] = []
        notes: list[str] = []
        for session in gone:
            end = previous_ended_at if session in meant else None
            seen = latest if session.ended_at is None else session.seen_at
            if seen is not None:
                least = until if session.ended_at is None else seen + AHEAD_S
                settled = _settled(session, seen, least, end, self._gone_after_s, now)
                if settled.seen_at is not None and settled.ended_at != session.ended_at:
                    notes.append(_assumption(settled, now))
                session = settled
            others.append(session)
        self._latest = now
        self.sessions = [*others, mine]
        known_keys = {c.key for c in ledger}
        self.ledger = [*ledger, *(c for c in self.ledger if c.key not in known_keys)]
        self.charges = sum(c.usd for c in self.ledger)
        for note in notes:
            self.book(note, 0.0)


def _same(one: Session, other: Session) -> Session:
    """One session of two that are the same instance: the longer time, the dearer tariff."""
    ends = [s.ended_at for s in (one, other) if s.ended_at is not None]
    seen = [s.seen_at for s in (one, other) if s.seen_at is not None]
    return Session(
        instance=one.instance,
        started_at=min(one.started_at, other.started_at),
        ended_at=max(ends) if ends else None,
        usd_per_hour=max(one.usd_per_hour, other.usd_per_hour),
        billing_granularity=max(one.billing_granularity, other.billing_granularity),
        minimum_s=max(one.minimum_s, other.minimum_s),
        seen_at=max(seen) if seen and len(seen) == len(ends) else None,
    )


def _settled(
    session: Session, seen: float, least: float, given: float | None, gone_after_s: float | None, now: float
) -> Session:
    """Return an instance that is gone with its end; where nobody said it, with the latest that it can be.

    What was assumed once is only ever taken back: the instance that came after it had begun by then.
    """
    if given is not None:
        return replace(session, ended_at=max(_end(session, given, seen, now), least), seen_at=None)
    end = max(now if gone_after_s is None else min(seen + gone_after_s, now), least)
    return replace(
        session, ended_at=end if session.ended_at is None else min(end, session.ended_at), seen_at=seen
    )


def _assumption(session: Session, now: float) -> str:
    """Say until when an instance is taken as billed."""
    end, seen = session.ended_at or 0.0, session.seen_at or 0.0
    when = "now" if end >= now else f"{end - seen:,.0f} s after its last sign of life"
    return f"{session.instance} taken as billed until {when}: its end was not given"


def _end(session: Session, given: float, latest: float, now: float) -> float:
    """Return when an instance stopped being billed as somebody says, if that can be."""
    end = amount("previous_ended_at", given)
    name = repr(session.instance)
    for before, what in ((session.started_at, f"the start of {name}"), (latest, f"the last sign of {name}")):
        if end < before - 1.0:  # providers print whole seconds
            raise DataError(
                f"previous_ended_at={end:.0f} lies before {what} ({before:.0f})", column="previous_ended_at"
            )
    if end > now + 1.0:
        raise DataError(
            f"previous_ended_at={end:.0f} lies in the future of the clock ({now:.0f}): give seconds since the "
            f"epoch (milliseconds?).",
            column="previous_ended_at",
        )
    return end


def _read(state: Mapping[str, Any]) -> tuple[float, float, list[Session], list[Charge]]:
    """Read and check what `Bill.state` wrote."""
    if not isinstance(state, Mapping) or "version" not in state:
        raise DataError(f"this is no state of a budget guard: {shown(state)}", column="state")
    if plain(state["version"]) != _STATE_VERSION:
        raise DataError(
            f"state of version {shown(state['version'])}; this code reads {_STATE_VERSION}", column="state"
        )
    try:
        latest = amount("latest", state["latest"])
        if not (
            isinstance(state["sessions"], list) and state["sessions"] and isinstance(state["ledger"], list)
        ):
            raise TypeError("sessions and ledger are lists, and there is a session")
        until = max(amount("until", state.get("until", latest)), latest)
        sessions = [_session(**s) for s in state["sessions"]]
        ledger = [Charge(**c) for c in state["ledger"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the state of a budget guard is damaged: {error}", column="state") from error
    for charge in ledger:
        amount("usd", charge.usd)
    return latest, until, sessions, ledger


def _session(
    instance: object, ended_at: object, billing_granularity: object, seen_at: object = None, **rest: object
) -> Session:
    """Check one instance of a state."""
    if not isinstance(instance, str):
        raise DataError(f"instance must be a name, got {shown(instance)}", column="instance")
    granularity = amount("billing_granularity", billing_granularity, positive=True)
    end = None if ended_at is None else amount("ended_at", ended_at)
    seen = None if seen_at is None else amount("seen_at", seen_at)
    if seen is not None and end is None:
        raise DataError(f"{instance} has seen_at and no ended_at", column="seen_at")
    numbers = {name: amount(name, value) for name, value in rest.items()}
    return Session(instance=instance, ended_at=end, billing_granularity=granularity, seen_at=seen, **numbers)
