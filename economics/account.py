"""Where the money of a guarded run stands: spent, held in reserve, left. Standard library alone."""

from __future__ import annotations

from economics.bill import Bill
from economics.billing import BudgetStatus, Charge

STEPS_HELD = 2  # steps the reserve holds: one to do, and one for a loop that waits for the error
_STEP_MARGIN = 1.25  # the next step lasts at most this times the longest seen, where above `max_step_s`


class Account:
    """The sums behind `economics.budget.BudgetGuard`, which sets what is declared here and decides."""

    cap: float
    shutdown_usd: float
    final_save_s: float
    shutdown_s: float
    max_step_s: float
    _bill: Bill
    _longest_s: float
    _closed: bool

    @property
    def spent(self) -> float:
        """Billed up to now, US dollars."""
        return self._bill.usd(self._bill.now())

    @property
    def ledger(self) -> tuple[Charge, ...]:
        """The single charges, in the order they were booked."""
        return tuple(self._bill.ledger)

    def status(self) -> BudgetStatus:
        """Where the money stands now."""
        return self._status(self._bill.now(), self._step_bound())

    def _status(self, now: float, bound: float) -> BudgetStatus:
        spent, charges = self._bill.usd(now), self._bill.charges
        ahead = 0.0 if self._closed else STEPS_HELD * bound + self._tail_s()
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
