"""Costs beside each other: one change, several accelerators."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.hardware import GPU
from economics.mfu import MfuModel
from economics.price_quote import PriceQuote
from economics.price_rows import market_kind
from economics.run_cost import cost
from economics.run_estimates import estimate_of
from economics.run_result import RunCost
from economics.run_sensitivity import ANSWERS
from scaling.errors import DataError, ScalingError, shown
from scaling.estimate import Estimate
from scaling.findings import Finding

if TYPE_CHECKING:
    from economics.quantile_draws import Array


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf(RunCost):
    """A cost after a change; it has everything a `RunCost` has, and the one `before`.

    Parameters
    ----------
    plan, asked
        As in `RunCost`.
    before : RunCost
        The cost without the changes.
    changes : mapping
        What was changed.
    """

    before: RunCost
    changes: Mapping[str, Any]

    @cached_property
    def difference(self) -> dict[str, Estimate | None]:
        """Return this less the one before, draw by draw: usd, gpu_hours, wall_hours, energy_kwh, co2_kg.

        Energy and CO2 are None where one of the two does not know them.
        """
        self._same_draws()
        found: dict[str, Estimate | None] = {}
        for name, unit in ANSWERS.items():
            after, before = draws_of(self, name), draws_of(self.before, name)
            if after is None or before is None:
                found[name] = None
            else:
                found[name] = estimate_of(after - before, f"difference of {name}", unit)
        return found

    def _same_draws(self) -> None:
        draws, before = self.plan.draws, self.before.plan.draws
        if draws != before:
            raise DataError(
                f"draws={draws}: two costs are compared draw by draw, and the first has {before}.",
                column="draws",
            )

    @property
    def ratio(self) -> Estimate:
        """Return this over the one before, in dollars."""
        self._same_draws()
        ratio = self.outcome.total_usd / self.before.outcome.total_usd
        return estimate_of(ratio, "cost after / before", "")

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to know of the cost after the change, and what was kept that belongs to the one before."""
        return (*kept(self.before, self.changes, (self.plan.part,)), *super().findings)

    def __repr__(self) -> str:
        from economics.run_text import side_by_side

        return side_by_side(self)

    def _repr_html_(self) -> str:
        from economics.run_text import preformatted

        return preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Return both costs and their difference as plain types."""
        from economics.run_text import plain, plain_value

        return {
            "changes": {k: plain_value(v) for k, v in self.changes.items()},
            "before": self.before.to_dict(),
            "after": plain(self),
            "difference": {k: e.to_dict() if e else None for k, e in self.difference.items()},
        }


def draws_of(run: RunCost, name: str) -> Array | None:
    """Return the draws behind an answer; None where it is not known."""
    if name == "energy_kwh":
        return None if run.energy_draws is None else run.energy_draws[2]
    if name == "co2_kg":
        return run.co2_draws
    out = run.outcome
    return {"usd": out.total_usd, "gpu_hours": out.total_gpu_hours, "wall_hours": out.wall_hours}[name]


def what_if(run: RunCost, changes: Mapping[str, Any]) -> WhatIf:
    """Return a cost with changed arguments; see `RunCost.what_if`."""
    unknown = sorted(set(changes) - set(run.asked))
    if unknown:
        raise DataError(
            f"cost has no argument {', '.join(unknown)}: it has {', '.join(run.asked)}", column=unknown[0]
        )
    given = run.asked["price"]
    stays = isinstance(given, PriceQuote) and "price" not in changes and "market" in changes
    if stays and market_kind(changes["market"]) != given.market:
        raise DataError(
            f"market={changes['market']!r} and the price that was given, a quote of the {given.market} market, "
            "contradict each other: give the price too (None takes that of the book).",
            column="market",
        )
    after = cost(**{**run.asked, **changes})
    return WhatIf(after.plan, after.asked, run, dict(changes))


def kept(run: RunCost, changes: Mapping[str, Any], parts: Sequence[GPU]) -> list[Finding]:
    """Say which figures were given for another accelerator or market, and are used all the same."""
    others = sorted({part.name for part in parts} - {run.plan.part.name})
    found = []
    for name, moved in (("price", others or {"market", "provider"} & set(changes)), ("mfu", others)):
        if not moved or name in changes or run.asked[name] is None or isinstance(run.asked[name], MfuModel):
            continue
        asked = run.asked[name]
        what = f"${asked.median:g} (median)" if isinstance(asked, PriceQuote) else f"{asked!r}"
        words = (
            f"{name}={what} was given for {run.plan.part.name} {run.plan.market} and is used for "
            f"{', '.join(others) or 'the other market'} as well: {name}=None takes that of the "
            f"{'book' if name == 'price' else 'model'}."
        )
        found.append(Finding("kept_for_all", "warning", words, {"argument": name, "gpus": others}))
    return found


@dataclass(frozen=True, eq=False, repr=False)
class RunComparison:
    """Several costs of one training.

    Parameters
    ----------
    runs : tuple of RunCost
        Cheapest first.
    failures : tuple of (str, str)
        Accelerators without an answer, and why.
    findings : tuple of Finding
        What does not carry over from one accelerator to another.
    """

    runs: tuple[RunCost, ...]
    failures: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def pareto(self) -> tuple[RunCost, ...]:
        """Those that no other beats in both dollars and time (medians), cheapest first."""
        best, front = np.inf, []
        for run in self.runs:
            if run.wall_hours.value < best:
                best = run.wall_hours.value
                front.append(run)
        return tuple(front)

    def __repr__(self) -> str:
        from economics.run_text import table

        return table(self)

    def _repr_html_(self) -> str:
        from economics.run_text import preformatted

        return preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        front = {id(run) for run in self.pareto}
        return {
            "runs": [{**run.to_dict(), "pareto": id(run) in front} for run in self.runs],
            "failures": [{"gpu": name, "why": why} for name, why in self.failures],
            "findings": [f.to_dict() for f in self.findings],
        }


def compare(run: RunCost, gpus: Any, counts: Any, changes: Mapping[str, Any]) -> RunComparison:
    """Return the costs on several accelerators; see `RunCost.compare`."""
    runs, failures = [], []
    parts = _several("gpus", gpus, run.plan.part, str | GPU)
    for part in parts:
        for n in _several("n_gpus", counts, run.asked["n_gpus"], str | int | float):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they are findings of each run as well
                    runs.append(cost(**{**run.asked, **changes, "gpu": part, "n_gpus": n}))
            except ScalingError as error:
                failures.append((str(getattr(part, "name", part)), str(error)))
                break
    found = kept(run, changes, [r.plan.part for r in runs])
    return RunComparison(tuple(sorted(runs, key=lambda r: r.usd.value)), tuple(failures), tuple(found))


def _several(name: str, given: Any, default: Any, one: Any) -> tuple[Any, ...]:
    """Return a sequence; one thing alone is a sequence of it, and none at all compares nothing."""
    if given is None:
        return (default,)
    if isinstance(given, one):
        return (given,)
    if not isinstance(given, Iterable) or not (several := tuple(given)):
        raise DataError(f"{name} must be one or more to compare, got {shown(given)}", column=name)
    return several
