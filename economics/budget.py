"""A spending cap that holds: checked before launch, before every step, and across restarts.

The guard counts what the provider bills, not what the training loop sees: from the start of the instance
(install, data, compile), rounded up to the billing granularity, with the final save, the shutdown and the
money the clock does not show (egress, storage). Standard library alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from economics.account import STEPS_HELD, Account
from economics.bill import AHEAD_S as AHEAD_S, Bill
from economics.billing import (
    BudgetExceeded as BudgetExceeded,
    BudgetStatus as BudgetStatus,
    Session,
    amount,
    boot_time as boot_time,
    fraction_between,
    granularity_s,
    quantile_of,
    refusal,
)
from economics.journal import Journal
from economics.run_numbers import count, flag, name_of
from scaling.errors import DataError, shown


class BudgetGuard(Account):
    """Keep the bill of a run within a cap.

    Call `check` before launch, `step` before every step, and stop (save, shut down, `close`) when it says no. The
    promise: the bill, with the save, the shutdown and the rounding, never passes the cap, as long as no step takes
    longer than `max_step_s` (or ``step(seconds=)``, or 1.25 times the longest seen), and every instance of the run is
    known: a state saved with a checkpoint knows nothing of machines that died before their next save. Where that may
    happen, give a `journal` on a disk that outlives the machine.

    Parameters
    ----------
    cap_usd : float
        The cap on everything, US dollars.
    usd_per_hour : float
        Price of the whole instance (all its GPUs, all nodes) per hour.
    billing_granularity : float or {"second", "minute", "hour"}
        Seconds the provider rounds up to.
    shutdown_usd : float
        Money that falls due at the end: egress, a month of storage for the checkpoint.
    final_save_s, shutdown_s : float
        Upper bounds on the last checkpoint and on the time from there to the end of billing.
    max_step_s : float
        Upper bound on one step. What else happens between two calls of `step` (evaluation, a checkpoint,
        compilation) counts as part of it: raise the bound there with ``step(seconds=...)``.
    planned_hours : float, str, sequence of float or Estimate, optional
        Hours the run is expected to take, for `check`; text such as "24" or "30 min" is read.
    quantile : float
        Which quantile of the plan must fit, where it is draws or an estimate.
    minimum_s : float
        Shortest time the provider bills.
    started_at : float, optional
        When the instance started, in seconds since the epoch (see `boot_time`); now, if not given.
    instance : str
        Name of the instance: a restart with the same name goes on with the same bill.
    spent_usd : float
        Spent before, beside what a loaded state knows. The same sum again, as from a script started again, counts once.
    journal : path, optional
        File kept up to date (written whole, flushed to the disk, renamed): at the start, at every charge, at the end,
        and at the first step after the `AHEAD_S` seconds that each writing covers. A state in it already is loaded as
        by `load_state_dict`. A lock, ``NAME.lock``, keeps other processes out until the guard or its process ends.
    previous_ended_at : float, optional
        When the instance in the journal stopped being billed, as in `load_state_dict`.
    gone_after_s : float, optional
        Longest time that an instance of another name may have been billed after its last sign of life in a loaded
        state, where its end is not given: waiting for a new machine is then not counted. None: billed until now.
    clock, monotonic : callable
        Seconds since the epoch, and seconds that never run back (`economics.bill.Bill`). Tests inject them.

    Examples
    --------
    >>> now = [0.0]
    >>> guard = BudgetGuard(1.00, 3.60, billing_granularity="minute", max_step_s=10, clock=lambda: now[0])
    >>> while guard.step():
    ...     now[0] += 10          # train
    >>> now[0] += 60              # the last checkpoint
    >>> print(guard.close())
    $0.96 of $1.00 spent, closed
    """

    def __init__(
        self,
        cap_usd: float,
        usd_per_hour: float,
        *,
        billing_granularity: float | str = 1.0,
        shutdown_usd: float = 0.0,
        final_save_s: float = 60.0,
        shutdown_s: float = 60.0,
        max_step_s: float = 60.0,
        planned_hours: object = None,
        quantile: float = 0.9,
        minimum_s: float = 0.0,
        started_at: float | None = None,
        instance: str = "instance-1",
        spent_usd: float = 0.0,
        journal: str | PathLike[str] | None = None,
        previous_ended_at: float | None = None,
        gone_after_s: float | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self.cap = amount("cap_usd", cap_usd, positive=True)
        self.shutdown_usd = amount("shutdown_usd", shutdown_usd)
        self.final_save_s = amount("final_save_s", final_save_s)
        self.shutdown_s = amount("shutdown_s", shutdown_s)
        self.max_step_s = amount("max_step_s", max_step_s)
        self.quantile = fraction_between("quantile", quantile)
        self.planned_hours = planned_hours
        if planned_hours is not None:
            quantile_of(planned_hours, self.quantile)
        session = Session(
            instance=name_of("instance", instance),
            started_at=amount("started_at", clock() if started_at is None else started_at),
            ended_at=None,
            usd_per_hour=amount("usd_per_hour", usd_per_hour),
            billing_granularity=granularity_s(billing_granularity),
            minimum_s=amount("minimum_s", minimum_s),
        )
        gone = None if gone_after_s is None else amount("gone_after_s", gone_after_s)
        self._bill = Bill(session, clock, monotonic, gone)
        before = amount("spent_usd", spent_usd)
        if before:
            self._bill.book("spent before", before, f"spent before: {before!r}")
        self._longest_s = 0.0
        self._step_began: float | None = None
        self._refused = self._closed = False
        self._written: tuple[float, bool] | None = None  # what the journal says of steps
        self._ahead = -math.inf  # and the moment it covers
        self._journal = None if journal is None else Journal(journal)
        earlier = None if self._journal is None else self._journal.read()
        if earlier is None:
            amount("previous_ended_at", 0.0 if previous_ended_at is None else previous_ended_at)
            self._write()
        else:
            self.load_state_dict(earlier, previous_ended_at=previous_ended_at)

    def check(
        self, hours: object = None, *, tokens: float | None = None, startup_s: float = 0.0
    ) -> BudgetStatus:
        """Refuse a run that does not fit, before it is launched (or launched again after a preemption).

        Parameters
        ----------
        hours : float, sequence of float or Estimate, optional
            Hours the run will take; `planned_hours` if not given; one step if there is no plan.
        tokens : float, optional
            Tokens of the plan, to say how many would fit.
        startup_s : float
            Seconds the instance will be up before the run goes on: boot, install, data, compile.

        Raises
        ------
        BudgetExceeded
            The chosen quantile of the plan, the final save and the shutdown do not fit. `needed` has what they cost
            and `fits` has what would: hours, dollars, fraction of the plan, tokens.
        """
        plan = self.planned_hours if hours is None else hours
        wanted = None if tokens is None else amount("tokens", count("tokens", tokens))
        held = STEPS_HELD * self._step_bound()
        planned_s = held if plan is None else max(3600.0 * quantile_of(plan, self.quantile), held)
        startup = amount("startup_s", startup_s)
        now = self._bill.now()
        needed = self._bill.usd(now + startup + planned_s + self._tail_s()) + self._due()
        if self._within(needed):
            return self.status()
        raise refusal(
            planned_s=None if plan is None else planned_s, quantile=self.quantile, tokens=wanted,
            hours_fit=max(self._hours_left(now) - startup / 3600.0, 0.0), spent=self._bill.usd(now),
            needed=needed, cap=self.cap, usd_fit=max(self.cap - self._bill.usd(now) - self._due(), 0.0),
        )  # fmt: skip

    def step(self, seconds: float | None = None) -> BudgetStatus:
        """Say whether one more step, the final save and the shutdown fit; call it before the step.

        Parameters
        ----------
        seconds : float, optional
            Upper bound on the coming step, where it is longer than usual (evaluation, a checkpoint).

        Raises
        ------
        BudgetExceeded
            The answer was no and the loop went on. The reserve holds this second step: who catches it stays in the cap.
        """
        bound = max(self._step_bound(), 0.0 if seconds is None else amount("seconds", seconds))
        now = self._bill.now()
        if self._step_began is not None:
            self._longest_s = max(self._longest_s, now - self._step_began)
        self._step_began = now
        status = self._status(now, max(bound, self._step_bound()))
        refused_before, self._refused = self._refused, not status.fits
        if now > self._ahead or self._written != (self._step_bound(), self._refused):
            self._write()
        if status.fits:  # after a no: the cap was raised, or a shorter step is asked for
            return status
        if refused_before or self._closed:
            raise BudgetExceeded(
                f"stop: {status}", spent=status.spent, cap=self.cap, needed=status.committed,
                fits={"hours": status.hours_left, "usd": max(status.remaining, 0.0)},
            )  # fmt: skip
        return status

    def charge(self, reason: str, usd: float, *, incurred: bool = False) -> None:
        """Book money that the clock does not show: storage, egress, another machine.

        Parameters
        ----------
        reason : str
            What for; kept in `ledger`.
        usd : float
            US dollars, not negative. 0 makes a note in the ledger.
        incurred : bool
            The money is gone already: book it even when it does not fit.

        Raises
        ------
        BudgetExceeded
            It does not fit beside the step under way, the final save and the shutdown; nothing was booked.
        """
        extra = amount("usd", usd)
        status = self.status()
        if extra and not incurred and not self._within(status.committed + extra):
            free = max(self.cap - status.committed, 0.0)
            raise BudgetExceeded(
                f"{reason} for ${extra:.2f} does not fit: with the step under way, the save and the shutdown "
                f"the bill comes to ${status.committed + extra:.2f} of ${self.cap:.2f}. ${free:.2f} would.",
                spent=status.spent, cap=self.cap, needed=status.committed + extra, fits={"usd": free},
            )  # fmt: skip
        self._bill.book(str(reason), extra)
        self._write()

    def close(self) -> BudgetStatus:
        """Book the end: the instance is billed until the shutdown is over, and `shutdown_usd` falls due."""
        if not self._closed:
            self._bill.end(self._bill.now() + self.shutdown_s)
            if self.shutdown_usd:
                self._bill.book("shutdown", self.shutdown_usd)
            self._closed = True
            self._write()
        return self.status()

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types; save it with every checkpoint."""
        return {"bill": self._bill.state(), "longest_step_s": self._longest_s, "refused": self._refused}

    def load_state_dict(self, state: Mapping[str, Any], *, previous_ended_at: float | None = None) -> None:
        """Go on with the bill of an earlier guard. Cap, bounds and price are those of this one.

        With the same `instance` name the machine never stopped: it is billed from its first start, at the dearer of
        the two tariffs, idle hours included. With another name the earlier instance ended at `previous_ended_at`. What
        this guard has booked already stays, and loading a state twice counts it once. To ask before a new instance is
        started whether that still fits, load the state (a journal is one, as JSON) where the launcher runs and call
        ``check(startup_s=...)``.

        Parameters
        ----------
        state : mapping
            From `state_dict`.
        previous_ended_at : float, optional
            When the earlier instance stopped being billed, seconds since the epoch. If it is not given, the worst
            is assumed (it was billed until now, or for `gone_after_s` more), and the ledger says so.

        Raises
        ------
        DataError
            The state is none or of another version, or the earlier instance ended before it was last seen.
        """
        missing = {"bill", "longest_step_s", "refused"} - set(state if isinstance(state, Mapping) else ())
        if missing:
            words = ", ".join(sorted(missing))
            raise DataError(f"a guard's state has {words}: {shown(state)}", column="state")
        longest = amount("longest_step_s", state["longest_step_s"])
        self._bill.resume(state["bill"], previous_ended_at)
        self._longest_s = max(self._longest_s, longest)
        self._refused = flag("refused", state["refused"])
        self._step_began = None
        self._write()

    def _write(self) -> None:
        if self._journal is not None:
            bill = self._bill.state(0.0 if self._closed else AHEAD_S)
            self._journal.write(self.state_dict() | {"bill": bill})
            self._ahead, self._written = bill["until"], (self._step_bound(), self._refused)
            if self._closed:
                self._journal.release()
