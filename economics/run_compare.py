"""Costs beside each other: one change, several accelerators, and how far each factor moves the answer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.run_cost import cost
from economics.run_draws import ANY_GRID, energy_parts, evaluate, factor_draws, grid_factor
from economics.run_estimates import estimate_of, quantiles
from economics.run_plan import RunPlan
from economics.run_result import RunCost
from scaling.errors import DataError, ScalingError
from scaling.estimate import Estimate
from scaling.findings import Finding

if TYPE_CHECKING:
    from economics.hardware import GPU
    from economics.logit_t import Array
    from economics.run_draws import Variates

#: Answers that can be asked about, with their unit.
ANSWERS = {"usd": "$", "gpu_hours": "h", "wall_hours": "h", "energy_kwh": "kWh", "co2_kg": "kg"}
_WORDS = {
    "mfu": "MFU",
    "price": "price of a GPU-hour",
    "rate": "preemption rate",
    "luck": "luck with interruptions",
    "start_hours": "start-up",
    "evaluation": "evaluation",
}


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
    def difference(self) -> dict[str, Estimate]:
        """Return this less the one before, draw by draw: usd, gpu_hours, wall_hours, energy_kwh, co2_kg."""
        return {
            name: estimate_of(
                draws_of(self, name) - draws_of(self.before, name), f"difference of {name}", unit
            )
            for name, unit in ANSWERS.items()
        }

    @property
    def ratio(self) -> Estimate:
        """Return this over the one before, in dollars."""
        return estimate_of(draws_of(self, "usd") / draws_of(self.before, "usd"), "cost after / before", "")

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
            "difference": {k: e.to_dict() for k, e in self.difference.items()},
        }


def draws_of(run: RunCost, name: str) -> Array:
    """Return the draws behind an answer."""
    if name == "energy_kwh":
        return run.energy_draws[2]
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
    after = cost(**{**run.asked, **changes})
    return WhatIf(after.plan, after.asked, run, dict(changes))


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


def compare(
    run: RunCost, gpus: Sequence[GPU | str] | None, counts: Sequence[int] | None, changes: Mapping[str, Any]
) -> RunComparison:
    """Return the costs on several accelerators; see `RunCost.compare`."""
    runs, failures = [], []
    for part in gpus or (run.plan.part,):
        for n in counts or (run.asked["n_gpus"],):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they are findings of each run as well
                    runs.append(cost(**{**run.asked, **changes, "gpu": part, "n_gpus": n}))
            except ScalingError as error:
                failures.append((str(getattr(part, "name", part)), str(error)))
                break
    found = []
    if len(gpus or ()) > 1:
        kept = [k for k in ("price", "mfu") if {**run.asked, **changes}[k] is not None]
        if kept:
            words = f"{' and '.join(kept)} given for one accelerator are used for all of them."
            found.append(Finding("kept_for_all", "warning", words, {"arguments": kept}))
    return RunComparison(tuple(sorted(runs, key=lambda r: r.usd.value)), tuple(failures), tuple(found))


@dataclass(frozen=True)
class Swing:
    """How far one factor moves the answer, all others at their medians.

    Parameters
    ----------
    factor : str
        Which.
    at_low, at_high : float
        Its 10th and 90th percentile.
    low, high : float
        The answer there.
    """

    factor: str
    at_low: float
    at_high: float
    low: float
    high: float

    @property
    def size(self) -> float:
        """How far apart the two answers are."""
        return abs(self.high - self.low)


@dataclass(frozen=True, repr=False)
class Sensitivity:
    """The uncertain factors of a cost, the one that moves the answer most first.

    Parameters
    ----------
    of, unit : str
        The answer, and its unit.
    middle : float
        The answer with every factor at its median.
    swings : tuple of Swing
        Largest first; factors that are certain are not in it.
    """

    of: str
    unit: str
    middle: float
    swings: tuple[Swing, ...]

    @property
    def top(self) -> str | None:
        """The factor that moves the answer most; None where nothing is uncertain."""
        return self.swings[0].factor if self.swings else None

    def __repr__(self) -> str:
        from economics.run_text import tornado

        return tornado(self)

    def _repr_html_(self) -> str:
        from economics.run_text import preformatted

        return preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "of": self.of,
            "unit": self.unit,
            "middle": self.middle,
            "swings": [{**vars(s), "size": s.size} for s in self.swings],
        }


def sensitivity(run: RunCost, of: str) -> Sensitivity:
    """Return the swing of each factor; see `RunCost.sensitivity`."""
    if of not in ANSWERS:
        raise DataError(f"sensitivity of {of!r} is not known: {', '.join(ANSWERS)}", column="of")
    factors = _factors(run, of)
    ends = {name: quantiles(values, (0.1, 0.5, 0.9)) for name, values in factors.items()}
    middle = {name: q[1] for name, q in ends.items()}
    swings = []
    for name, (low, _, high) in ends.items():
        if low == high:
            continue
        answers = [_answer(run.plan, of, run.variates, {**middle, name: x}) for x in (low, high)]
        if answers[0] != answers[1]:
            swings.append(Swing(_WORDS.get(name, name), low, high, *answers))
    return Sensitivity(
        of, ANSWERS[of], _answer(run.plan, of, run.variates, middle),
        tuple(sorted(swings, key=lambda s: -s.size)),
    )  # fmt: skip


def _factors(run: RunCost, of: str) -> dict[str, Array]:
    found = dict(vars(run.variates))
    if of in ("energy_kwh", "co2_kg"):
        parts = energy_parts(run.plan)
        found |= {f.name: d for f, d in zip(parts, factor_draws(run.plan), strict=True)}
    if of == "co2_kg":
        found[ANY_GRID.name] = run.grid_draws
    return found


def _answer(plan: RunPlan, of: str, template: Variates, at: Mapping[str, float]) -> float:
    out = evaluate(plan, type(template)(**{name: np.array([at[name]]) for name in vars(template)}))
    if of in ("usd", "gpu_hours", "wall_hours"):
        draws = {"usd": out.total_usd, "gpu_hours": out.total_gpu_hours, "wall_hours": out.wall_hours}
        return float(draws[of][0])
    kwh = float(out.total_gpu_hours[0]) * plan.energy.watts / 1e3
    for factor in energy_parts(plan):
        kwh *= at[factor.name]
    return kwh * at[grid_factor(plan.energy.grid).name] / 1e3 if of == "co2_kg" else kwh
