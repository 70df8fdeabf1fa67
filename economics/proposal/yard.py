"""What every kind of machine makes of a sum of money under a law; the costs are computed once for all sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from economics.budget_solver import too_dear
from economics.decide.costs import surface
from economics.decide.endless import flops_within, refuse_endless, unsaved
from economics.decide.machines import holds, quiet_cost, settled
from economics.decide.search import LARGEST, MOST_TOKENS, SMALLEST, vertex
from economics.decide.surface import Surface
from economics.decide.tasks import Within
from economics.proposal.offer import Offer
from economics.run_estimates import duration, quantiles
from economics.run_result import RunCost
from economics.run_search import BudgetError, RunSearch
from scaling.errors import ScalingError
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.units import format_count

#: Half the width of the sizes looked at around the best, in ln N, and the step there; sizes whose memory is looked at
#: are rounded up to a coarser step, for a shape has to be found for each.
_REACH, _FINE, _SHAPES = 1.8, 0.02, 0.1
#: The most GPUs a deadline may take.
_MOST = 4096


class Yard:
    """Kinds of machine and the costs of runs on them, computed once for all sums of money.

    Parameters
    ----------
    machines : sequence of dict
        Arguments of `cost` of each kind.
    law : ChinchillaLaw or None
        None where only `plain` and `middle` will be asked.
    hours : float or None
        Deadline.
    """

    def __init__(
        self, machines: Sequence[dict[str, Any]], law: ChinchillaLaw | None, hours: float | None = None
    ) -> None:
        self.machines, self._law, self.hours = machines, law, hours
        self._surfaces: dict[tuple[Any, ...], Surface] = {}
        self._rates: dict[tuple[str, str], float] = {}

    def offers(
        self, usd: float, quantile: float, among: Sequence[dict[str, Any]] | None = None
    ) -> tuple[list[Offer], list[tuple[str, str]]]:
        """Return the best run of each kind for the money, best first, and the kinds without one, with why."""
        found: list[Offer] = []
        failures: list[tuple[str, str]] = []
        for machine in self.machines if among is None else among:
            try:
                found.append(self.offer(machine, usd, quantile))
            except ScalingError as error:
                failures.append((_name(machine), str(error)))
        return sorted(found, key=lambda o: o.loss), failures

    def offer(self, machine: dict[str, Any], usd: float, quantile: float) -> Offer:
        """Return the best run of one kind for the money.

        Raises
        ------
        BudgetError
            The money is gone before the first token, the model does not fit, or the deadline cannot be held.
        DataError
            Nothing prices the kind.
        """
        flops = self._flops(machine, usd)
        guess = self.law.optimal(flops)
        counted = _counted(machine, float(guess.params), float(guess.tokens))
        n, d, costs = self._best(counted, usd, quantile, flops)
        again = _counted(machine, n, d)
        if (again["n_gpus"], again.get("act_ckpt")) != (counted["n_gpus"], counted.get("act_ckpt")):
            counted = again
            n, d, costs = self._best(counted, usd, quantile, flops)
        if self.hours is not None:
            counted, n, d, costs = self._in_time(machine, counted, (n, d, costs), usd, quantile, flops)
        floor = float(np.quantile(costs.at(np.array([math.log(n)])).usd_fixed, quantile))
        run = self._spent(counted, floor, (n, d), usd, quantile)
        if not _holds(counted, n, d):
            raise _too_large(n, run)
        plan = run.plan
        return Offer(
            plan.part.name, plan.market, plan.n_gpus, usd, n, plan.tokens,
            float(self.law.loss(n, plan.tokens)), run, counted,
        )  # fmt: skip

    def plain(self, machine: dict[str, Any], usd: float, quantile: float, params: float) -> Offer:
        """Return the run of a given size for the money: for what can be said without a law. Its loss is nan.

        Raises
        ------
        BudgetError, DataError
            As `offer`.
        """
        d = min(max(self._flops(machine, usd) / (6.0 * params), 1.0), MOST_TOKENS)
        counted = _counted(machine, params, d)
        start = quiet_cost(counted, params, 1.0)
        floor = start.usd_quantile(quantile)
        if floor >= usd:
            raise too_dear(start, floor, usd)
        run = self._spent(counted, floor, (params, d), usd, quantile)
        while (
            self.hours is not None
            and (took := quantiles(run.outcome.wall_hours, (quantile,))[0]) > self.hours
        ):
            if machine.get("n_gpus") is not None or counted["n_gpus"] >= _MOST:
                raise _late(took, counted["n_gpus"], self.hours)
            counted = {**counted, "n_gpus": 2 * counted["n_gpus"]}
            run = self._spent(counted, floor, (params, d), usd, quantile)
        if not _holds(counted, params, run.plan.tokens):
            raise _too_large(params, run)
        plan = run.plan
        return Offer(
            plan.part.name, plan.market, plan.n_gpus, usd, params, plan.tokens, math.nan, run, counted
        )

    @property
    def law(self) -> ChinchillaLaw:
        """The law.

        Raises
        ------
        ValueError
            There is none.
        """
        if self._law is None:
            raise ValueError("no law: ask for plain offers alone")
        return self._law

    def middle(self, usd: float) -> float:
        """Return a size, of one digit, that the money would train on some 20 tokens a parameter: a middle to look at.

        Raises
        ------
        DataError
            Nothing prices any kind.
        """
        bought: list[float] = []
        for machine in self.machines:
            try:
                bought.append(self._flops(machine, usd))
            except ScalingError as error:
                refused = error
        if not bought:
            raise refused
        return float(f"{min(max(math.sqrt(max(bought) / 120.0), SMALLEST), LARGEST):.0e}")

    def costs_of(self, offer: Offer) -> Surface:
        """Return the costs of all sizes on the machines of an offer."""
        return self._surfaces[_key(offer.settings)]

    def _flops(self, machine: dict[str, Any], usd: float) -> float:
        """Return about what compute the money buys: in proportion to it, but where a run may never end."""
        key = (_name(machine), str(machine["market"]))
        if key not in self._rates:
            found = flops_within(usd, machine, lambda run: run.usd.value)
            if unsaved(quiet_cost({**machine, "n_gpus": machine.get("n_gpus") or 8}, 1e9, 1e12)):
                return found
            self._rates[key] = found / usd
        return usd * self._rates[key]

    def _best(
        self, counted: dict[str, Any], usd: float, quantile: float, flops: float
    ) -> tuple[float, float, Surface]:
        """Return size and tokens of the lowest loss on given machines, searched further where it is at an edge."""
        key = _key(counted)
        task = Within(self.law, usd, "usd", quantile)
        guess = float(np.asarray(self.law.optimal(flops).params))
        middle = math.log(min(max(guess, 2 * SMALLEST), LARGEST / 2))
        for _ in range(8):
            costs = self._surfaces.get(key)
            if costs is None or not costs.x[0] + 0.3 < middle < costs.x[-1] - 0.3:
                low, high = math.exp(middle - _REACH), math.exp(middle + _REACH)
                costs = surface(
                    counted,
                    max(low, SMALLEST),
                    min(high, LARGEST),
                    lambda n: min(max(flops / (6.0 * n), 1e3), MOST_TOKENS),
                )
                self._surfaces[key] = costs
            x = np.arange(costs.x[0], costs.x[-1], _FINE)
            # Tokens for the money vary smoothly with the size: at the nodes, and between them in the logarithm.
            known = np.log(np.maximum(task.point(costs, costs.x)[0], 1e-300))
            tokens = np.exp(np.interp(x, costs.x, known))
            losses = np.where(tokens >= 1.0, self.law._loss(np.exp(x), np.maximum(tokens, 1.0)), np.inf)
            place = int(np.argmin(np.where(np.isnan(losses), np.inf, losses)))
            if not math.isfinite(losses[place]):
                first = quiet_cost(counted, float(np.exp(middle)), 1.0)
                raise too_dear(first, first.usd_quantile(quantile), usd)
            at_edge = min(place, x.size - 1 - place) < 5
            if not at_edge or x[place] <= math.log(SMALLEST) + 0.5 or x[place] >= math.log(LARGEST) - 0.5:
                break
            middle = float(x[place])
        assert costs is not None
        best, _ = vertex(x, losses[None, :])
        n = float(np.exp(best[0]))
        return n, float(np.exp(np.interp(best[0], x, np.log(np.maximum(tokens, 1e-300))))), costs

    def _spent(
        self, counted: dict[str, Any], floor: float, near: tuple[float, float], usd: float, quantile: float
    ) -> RunCost:
        """Return the run of a size whose cost is the money: steps of the secant from `near`, starts at `floor`."""
        n, d = near
        run = quiet_cost(counted, n, d)
        if unsaved(run):
            search = RunSearch(
                usd, lambda r: r.usd_quantile(quantile), counted, lambda r, spent: too_dear(r, spent, usd)
            )
            run = search.run(n)
            refuse_endless(run, quantile, usd, "usd")
            return run
        for _ in range(8):
            spent = run.usd_quantile(quantile)
            if abs(spent / usd - 1.0) < 1e-7:
                break
            d *= (usd - floor) / max(spent - floor, 1e-9 * usd)
            run = quiet_cost(counted, n, d)
        return run

    def _in_time(
        self,
        machine: dict[str, Any],
        counted: dict[str, Any],
        found: tuple[float, float, Surface],
        usd: float,
        quantile: float,
        flops: float,
    ) -> tuple[dict[str, Any], float, float, Surface]:
        """Return the fewest GPUs (1, 2, 4, 8 ...) whose best run ends in time, and that run."""
        assert self.hours is not None
        n, d, costs = found
        fixed = machine.get("n_gpus") is not None
        count = counted["n_gpus"] if fixed else 1
        while True:
            if count != counted["n_gpus"]:
                counted = {**counted, "n_gpus": count}
                n, d, costs = self._best(counted, usd, quantile, flops)
            run = quiet_cost(counted, n, d)
            took = quantiles(run.outcome.wall_hours, (quantile,))[0]
            if took <= self.hours and (fixed or _holds(counted, n, d)):
                return counted, n, d, costs
            if fixed or count >= _MOST:
                raise _late(took, count, self.hours)
            more = max(2.0 * count, count * 0.7 * took / self.hours)
            count = min(2 ** math.ceil(math.log2(more) - 1e-9), _MOST)


def _late(took: float, n_gpus: int, hours: float) -> BudgetError:
    return BudgetError(
        f"takes {duration(took)} on {n_gpus} of them, longer than {duration(hours)}.", column="hours"
    )


def _too_large(params: float, run: RunCost) -> BudgetError:
    return BudgetError(f"{format_count(params)} parameters do not fit into {run.plan.n_gpus} of them.")


def _rounded(n: float, d: float) -> tuple[float, float]:
    """Return a size rounded up, and tokens of the same compute."""
    up = math.exp(_SHAPES * math.ceil(math.log(n) / _SHAPES - 1e-9))
    return up, d * n / up


def _counted(machine: Mapping[str, Any], n: float, d: float) -> dict[str, Any]:
    """Return the settings with what was left open decided for a run of about this size."""
    size, tokens = _rounded(min(max(n, SMALLEST), LARGEST), d)
    return settled(machine, size, min(max(tokens, 1.0), MOST_TOKENS))


def _holds(counted: Mapping[str, Any], n: float, d: float) -> bool:
    """Whether the GPUs hold a model of about this size, rather a little larger."""
    return holds(quiet_cost(counted, *_rounded(n, d)))


def _name(machine: Mapping[str, Any]) -> str:
    return f"{getattr(machine['gpu'], 'name', machine['gpu'])}, {machine['market']}"


def _key(counted: Mapping[str, Any]) -> tuple[Any, ...]:
    return (_name(counted), counted["n_gpus"], counted.get("act_ckpt"))
