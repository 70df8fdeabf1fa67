"""A spending cap that holds: checked before launch, before every step, and across restarts.

The guard counts what the provider bills, not what the training loop sees: from the start of the instance
(install, data, compile), rounded up to the billing granularity, with the final save, the shutdown and the
money the clock does not show (egress, storage). Standard library alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from economics.bill import Bill
from economics.billing import (
    BudgetExceeded as BudgetExceeded,
    BudgetStatus as BudgetStatus,
    Charge,
    Session,
    amount,
    boot_time as boot_time,
    granularity_s,
    quantile_of,
)

_STEPS_HELD = 2  # steps the reserve holds: one to do, and one for a loop that waits for the error
_STEP_MARGIN = 1.25  # the next step lasts at most this times the longest seen, where above `max_step_s`


class BudgetGuard:
    """Keep the bill of a run within a cap.

    Call `check` before launch, `step` before every step, and stop (save, shut down, `close`) when it says
    no. The promise: the bill, with the save, the shutdown and the rounding, never passes the cap, as long
    as no step takes longer than `max_step_s` (or ``step(seconds=)``, or 1.25 times the longest seen).

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
    planned_hours : float, sequence of float or Estimate, optional
        Hours the run is expected to take, for `check`.
    quantile : float
        Which quantile of the plan must fit, where it is draws or an estimate.
    minimum_s : float
        Shortest time the provider bills.
    started_at : float, optional
        When the instance started, in seconds since the epoch (see `boot_time`); now, if not given.
    instance : str
        Name of the instance: a restart with the same name goes on with the same bill.
    spent_usd : float
        Spent before this guard existed.
    clock : callable
        Returns seconds since the epoch. Tests inject one.

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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.cap = amount("cap_usd", cap_usd, positive=True)
        self.shutdown_usd = amount("shutdown_usd", shutdown_usd)
        self.final_save_s = amount("final_save_s", final_save_s)
        self.shutdown_s = amount("shutdown_s", shutdown_s)
        self.max_step_s = amount("max_step_s", max_step_s)
        self.planned_hours = planned_hours
        self.quantile = quantile
        session = Session(
            instance=instance,
            started_at=clock() if started_at is None else float(started_at),
            ended_at=None,
            usd_per_hour=amount("usd_per_hour", usd_per_hour),
            billing_granularity=granularity_s(billing_granularity),
            minimum_s=amount("minimum_s", minimum_s),
        )
        self._bill = Bill(session, clock)
        if spent_usd:
            self._bill.book("spent before", amount("spent_usd", spent_usd))
        self._longest_s = 0.0
        self._step_began: float | None = None
        self._refused = False
        self._closed = False

    @property
    def spent(self) -> float:
        """Billed up to now, US dollars."""
        return self._bill.usd(self._bill.now())

    @property
    def ledger(self) -> tuple[Charge, ...]:
        """The single charges, in the order they were booked."""
        return tuple(self._bill.ledger)

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
            The chosen quantile of the plan, the final save and the shutdown do not fit. `needed` has what
            they cost and `fits` has what would: hours, dollars, fraction of the plan, tokens.
        """
        plan = self.planned_hours if hours is None else hours
        held = _STEPS_HELD * self._step_bound()
        planned_s = held if plan is None else max(3600.0 * quantile_of(plan, self.quantile), held)
        now = self._bill.now()
        needed = self._bill.usd(now + startup_s + planned_s + self._tail_s()) + self._due()
        if self._within(needed):
            return self.status()
        hours_fit = max(self._hours_left(now) - startup_s / 3600.0, 0.0)
        fits = {"hours": hours_fit, "usd": max(self.cap - self._bill.usd(now) - self._due(), 0.0)}
        what, part = "the next step", ""
        if plan is not None:
            fits["fraction"] = hours_fit * 3600.0 / planned_s
            what = f"{planned_s / 3600.0:.2f} h (the {self.quantile:.0%} quantile of the plan)"
            part = f", {fits['fraction']:.0%} of the plan"
            if tokens is not None:
                fits["tokens"] = fits["fraction"] * tokens
                part += f", {fits['tokens']:.3g} tokens"
        raise BudgetExceeded(
            f"{what} with the final save and the shutdown comes to ${needed:.2f}, above the cap of "
            f"${self.cap:.2f} (${self._bill.usd(now):.2f} spent already). What fits: {hours_fit:.2f} h of "
            f"running{part}.",
            spent=self._bill.usd(now),
            cap=self.cap,
            needed=needed,
            fits=fits,
        )

    def step(self, seconds: float | None = None) -> BudgetStatus:
        """Say whether one more step, the final save and the shutdown fit; call it before the step.

        Parameters
        ----------
        seconds : float, optional
            Upper bound on the coming step, where it is longer than usual (evaluation, a checkpoint).

        Raises
        ------
        BudgetExceeded
            The answer was no and the loop went on. The reserve holds this second step, so a loop that only
            catches the error stays within the cap too.
        """
        now = self._bill.now()
        if self._step_began is not None:
            self._longest_s = max(self._longest_s, now - self._step_began)
        self._step_began = now
        status = self._status(now, max(self._step_bound(), seconds or 0.0))
        if status.fits:
            self._refused = False  # the cap was raised, or a shorter step is asked for
            return status
        if self._refused or self._closed:
            raise BudgetExceeded(
                f"stop: {status}", spent=status.spent, cap=self.cap, needed=status.committed,
                fits={"hours": status.hours_left, "usd": max(status.remaining, 0.0)},
            )  # fmt: skip
        self._refused = True
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

    def status(self) -> BudgetStatus:
        """Where the money stands now."""
        return self._status(self._bill.now(), self._step_bound())

    def close(self) -> BudgetStatus:
        """Book the end: the instance is billed until the shutdown is over, and `shutdown_usd` falls due."""
        if not self._closed:
            self._bill.end(self._bill.now() + self.shutdown_s)
            if self.shutdown_usd:
                self._bill.book("shutdown", self.shutdown_usd)
            self._closed = True
        return self.status()

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types; save it with every checkpoint."""
        return {"bill": self._bill.state(), "longest_step_s": self._longest_s, "refused": self._refused}

    def load_state_dict(self, state: Mapping[str, Any], *, previous_ended_at: float | None = None) -> None:
        """Go on with the bill of an earlier guard. Cap, bounds and price are those of this one.

        With the same `instance` name the machine never stopped: it is billed from its first start, at the
        dearer of the two prices, idle hours included. With another name the earlier instance ended at
        `previous_ended_at`. To ask before a new instance is started whether that still fits, load the state
        where the launcher runs and call ``check(startup_s=...)``.

        Parameters
        ----------
        state : mapping
            From `state_dict`.
        previous_ended_at : float, optional
            When the earlier instance stopped being billed, seconds since the epoch. If it is not given, the
            worst is assumed (it was billed until now), and the ledger says so.

        Raises
        ------
        DataError
            The state is of another version, or the earlier instance ended before it started.
        """
        self._bill.resume(state["bill"], previous_ended_at)
        self._longest_s = max(self._longest_s, float(state["longest_step_s"]))
        self._refused = bool(state["refused"])
        self._step_began = None

    def _status(self, now: float, bound: float) -> BudgetStatus:
        spent, charges = self._bill.usd(now), self._bill.charges
        ahead = 0.0 if self._closed else _STEPS_HELD * bound + self._tail_s()
        committed = self._bill.usd(now + ahead) + self._due()
        return BudgetStatus(
            fits=self._within(committed) and not self._closed, spent=spent, compute=spent - charges,
            charges=charges, committed=committed, cap=self.cap, closed=self._closed,
            hours_left=0.0 if self._closed else self._hours_left(now),
        )  # fmt: skip

    def _due(self) -> float:  # money of the end that is not booked yet
        return 0.0 if self._closed else self.shutdown_usd

    def _tail_s(self) -> float:
        return self.final_save_s + self.shutdown_s

    def _step_bound(self) -> float:
        return max(self.max_step_s, _STEP_MARGIN * self._longest_s)

    def _within(self, usd: float) -> bool:
        return usd <= self.cap + 1e-9  # a billionth of a dollar for the rounding of sums

    def _hours_left(self, now: float) -> float:  # until the final save must begin
        return max(self._bill.room_s(self.cap - self._due(), now) - self._tail_s(), 0.0) / 3600.0
