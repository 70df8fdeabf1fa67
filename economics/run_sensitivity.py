"""How far each uncertain factor of a cost moves the answer by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.power import unknown_power
from economics.run_draws import ANY_GRID, energy_parts, evaluate, factor_draws, grid_factor
from economics.run_estimates import quantiles
from economics.run_numbers import one_of
from economics.run_plan import RunPlan
from economics.run_result import RunCost
from scaling.errors import DataError

if TYPE_CHECKING:
    from economics.quantile_draws import Array
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
    one_of("of", of, ANSWERS)
    if of in ("energy_kwh", "co2_kg") and run.plan.energy.watts is None:
        raise DataError(unknown_power(run.plan.part.name, "energy={'watts': ...}"), column="energy")
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
    kwh = float(out.total_gpu_hours[0]) * (plan.energy.watts or 0.0) / 1e3
    for factor in energy_parts(plan):
        kwh *= at[factor.name]
    return kwh * at[grid_factor(plan.energy.grid).name] / 1e3 if of == "co2_kg" else kwh
