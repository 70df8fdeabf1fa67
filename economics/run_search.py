"""Runs of one cost or one duration: the tokens that exhaust a limit, and the size with the lowest loss for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from economics.errors import EconomicsError
from economics.run_cost import cost
from economics.run_result import RunCost
from scaling.errors import DataError

#: How close a run comes to the limit, relative.
_TOLERANCE = 1e-9
#: Bounds of the search over parameters.
_SMALLEST, _LARGEST = 1e5, 1e14
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class BudgetError(EconomicsError, DataError):
    """The money (or time) does not buy such a run; `needed_usd` is what the smallest one takes, where there is one."""

    def __init__(self, message: str, *, needed_usd: float | None = None, column: str = "usd") -> None:
        super().__init__(message, column=column)
        self.needed_usd = needed_usd


class RunSearch:
    """Runs that exhaust one limit.

    Parameters
    ----------
    limit : float
        Of what `measure` says.
    measure : callable
        What a run takes of it, such as a quantile of its dollars; grows with its tokens.
    settings : dict
        Arguments of `cost`.
    refuse : callable
        ``refuse(run, floor)`` gives the error where a run on one token takes `floor`, all of the limit.
    """

    def __init__(
        self,
        limit: float,
        measure: Callable[[RunCost], float],
        settings: dict[str, Any],
        refuse: Callable[[RunCost, float], BudgetError],
    ) -> None:
        self.limit, self.measure, self.settings, self.refuse = limit, measure, settings, refuse
        self._tokens = 1e9  # where the next search begins

    def run(self, params: float | None) -> RunCost:
        """Return the run of this size that exhausts the limit: secant steps on ln cost against ln D."""
        x = math.log(self._tokens)
        fixed = self._cost(params, 1.0)
        floor = self.measure(fixed)
        if floor >= self.limit:
            raise self.refuse(fixed, floor)
        count = self.settings.get("n_gpus")
        found, low, high = fixed, -math.inf, math.inf
        before: tuple[float, float] | None = None
        for step in range(80):
            found = self._cost(params, math.exp(x), count)
            spent = self.measure(found)
            miss = math.log(spent / self.limit)
            if abs(miss) <= _TOLERANCE:
                break
            low, high = (x, high) if miss < 0 else (low, x)
            if step == 12 and count is None:  # the number of GPUs flips between two: hold it
                count, low, high, before = found.plan.n_gpus, -math.inf, math.inf, None
            # A limit less what is fixed is nearly proportional to tokens; then secant steps, kept in the bracket.
            guess = x + math.log((self.limit - floor) / max(spent - floor, 1e-300))
            if before is not None and miss != before[1]:
                guess = x - miss * (x - before[0]) / (miss - before[1])
            before = (x, miss)
            x = guess if low < guess < high else 0.5 * (max(low, x - 5.0) + min(high, x + 5.0))
        self._tokens = found.plan.tokens
        return found

    def start_of(self, run: RunCost) -> RunCost:
        """Return the same run on one token: what is paid before anything is learned."""
        return self._cost(run.asked["N"], 1.0, run.plan.n_gpus)

    def _cost(self, params: float | None, tokens: float, n_gpus: Any = None) -> RunCost:
        asked = {**self.settings, "N": params, "D": tokens}
        if n_gpus is not None:
            asked["n_gpus"] = n_gpus
        return cost(**asked)

    def best(self, loss: Callable[[RunCost], float]) -> RunCost:
        """Return the run with the lowest loss: a coarse search over ln N, then golden sections."""
        coarse = {x: self._loss(x, loss) for x in np.log(np.geomspace(1e7, 1e13, 13))}
        middle = min(coarse, key=coarse.__getitem__)
        if not math.isfinite(coarse[middle]):
            raise BudgetError("no run of any size is within reach with these settings.")
        low, high = max(middle - 1.2, math.log(_SMALLEST)), min(middle + 1.2, math.log(_LARGEST))
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        fa, fb = self._loss(a, loss), self._loss(b, loss)
        while high - low > 2e-3:
            if fa <= fb:
                high, b, fb = b, a, fa
                a = high - _GOLDEN * (high - low)
                fa = self._loss(a, loss)
            else:
                low, a, fa = a, b, fb
                b = low + _GOLDEN * (high - low)
                fb = self._loss(b, loss)
        return self.run(math.exp(a if fa <= fb else b))

    def span(self, loss: Callable[[RunCost], float], best: RunCost) -> tuple[float, float]:
        """Return the sizes below and above the best one at which the loss is 0.5% higher."""
        wanted = 1.005 * loss(best)
        ends = []
        for sign in (-1.0, 1.0):
            near, far = math.log(best.plan.params), math.log(best.plan.params) + sign * 3.0
            for _ in range(7):
                middle = 0.5 * (near + far)
                near, far = (middle, far) if self._loss(middle, loss) <= wanted else (near, middle)
            ends.append(math.exp(near))
        return ends[0], ends[1]

    def _loss(self, log_params: float, loss: Callable[[RunCost], float]) -> float:
        try:
            return loss(self.run(math.exp(log_params)))
        except BudgetError:
            return math.inf
