"""The cost of a run: numbers with intervals, and the questions that can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.run_draws import Outcome, Variates, energy_kwh, evaluate, grid_draws, variates
from economics.run_estimates import CostEstimate, estimate_of, quantiles
from economics.run_numbers import share
from economics.run_plan import RunPlan
from scaling.estimate import Estimate
from scaling.findings import Finding

if TYPE_CHECKING:
    from economics.hardware import GPU
    from economics.memory import MemoryFit
    from economics.quantile_draws import Array
    from economics.run_compare import RunComparison, WhatIf
    from economics.run_sensitivity import Sensitivity


@dataclass(frozen=True, repr=False)
class EnergyEstimate(CostEstimate):
    """Energy of the facility (what is metered and paid for), with its parts.

    Parameters
    ----------
    parts : tuple of array
        Draws of the boards alone, and of the servers.
    """

    parts: tuple[Array, ...] = field(default=(), compare=False)

    @cached_property
    def gpu(self) -> Estimate:
        """The boards alone."""
        return estimate_of(self.parts[0], "GPU boards", self.unit)

    @cached_property
    def server(self) -> Estimate:
        """The servers, without cooling and losses of the building."""
        return estimate_of(self.parts[1], "servers", self.unit)

    @property
    def facility(self) -> Estimate:
        """The facility, which is what this estimate itself says."""
        return CostEstimate(self.value, self.low, self.high, self.level, self.kind, self.name, self.unit)


@dataclass(frozen=True, eq=False, repr=False)
class RunCost:
    """Cost of a run. Made by `cost`; every estimate is the median with the 10th and 90th percentile.

    Parameters
    ----------
    plan : RunPlan
        Every input, resolved.
    asked : mapping
        The arguments of `cost`.
    """

    plan: RunPlan
    asked: Mapping[str, Any]

    # --- draws: kept, never shown ------------------------------------------------------------------

    @cached_property
    def variates(self) -> Variates:
        """The draws of the uncertain factors."""
        return variates(self.plan)

    @cached_property
    def outcome(self) -> Outcome:
        """Hours and dollars by part, draw by draw."""
        return evaluate(self.plan, self.variates)

    @cached_property
    def energy_draws(self) -> tuple[Array, Array, Array] | None:
        """Kilowatt-hours of boards, servers and facility, draw by draw; None where the power is not published."""
        return energy_kwh(self.plan, self.outcome.total_gpu_hours)

    @cached_property
    def grid_draws(self) -> Array:
        """Grams of CO2 per kWh, draw by draw."""
        return grid_draws(self.plan)

    @cached_property
    def co2_draws(self) -> Array | None:
        """Kilograms of CO2, draw by draw; None where the energy is."""
        return None if self.energy_draws is None else self.energy_draws[2] * self.grid_draws / 1e3

    # --- numbers with intervals --------------------------------------------------------------------

    @cached_property
    def gpu_hours(self) -> Estimate:
        """Billed GPU-hours, everything of `breakdown` included."""
        out, n = self.outcome, self.plan.n_gpus
        if self.plan.overheads.ablations or out.wall_hours is not out.billed_hours:
            return estimate_of(out.total_gpu_hours, "GPU-hours", "h")
        return replace(self.wall_hours.times(n), name="GPU-hours")  # all GPUs, from the start to the end

    @cached_property
    def training_gpu_hours(self) -> Estimate:
        """GPU-hours of training steps and evaluation alone: what papers report."""
        parts = self.outcome.gpu_hours
        return estimate_of(parts["compute"] + parts["evaluation"], "GPU-hours of training", "h")

    @cached_property
    def wall_hours(self) -> CostEstimate:
        """Hours from the start of the instances to the end, waits for machines included."""
        return estimate_of(self.outcome.wall_hours, "wall time", "h")

    @cached_property
    def usd(self) -> Estimate:
        """Dollars, all parts together."""
        return estimate_of(self.outcome.total_usd, "cost", "$")

    @cached_property
    def energy_kwh(self) -> EnergyEstimate | None:
        """Energy in kWh: of the facility, with ``.gpu``, ``.server`` and ``.facility`` apart.

        None where nobody published the power of the part and ``energy={"watts": ...}`` does not give it: there is
        then a finding ``power_unknown``.
        """
        if self.energy_draws is None:
            return None
        *parts, facility = self.energy_draws
        return EnergyEstimate(**vars(estimate_of(facility, "facility", "kWh")), parts=tuple(parts))

    @cached_property
    def co2_kg(self) -> Estimate | None:
        """Kilograms of CO2 of the facility's energy, over all countries without a region; None where energy is."""
        if self.co2_draws is None:
            return None
        return estimate_of(self.co2_draws, "CO2", "kg")

    @cached_property
    def breakdown(self) -> dict[str, Estimate]:
        """Dollars by part. Medians do not add up to the median of the whole; `shares` do add up to 1."""
        return {name: estimate_of(d, name, "$") for name, d in self.outcome.usd.items()}

    @property
    def shares(self) -> dict[str, float]:
        """Share of each part in the cost, mean over the draws."""
        total = self.outcome.total_usd
        with np.errstate(invalid="ignore"):
            return {name: float(np.mean(d / total)) for name, d in self.outcome.usd.items()}

    @property
    def interruptions(self) -> Estimate:
        """Number of preemptions and faults that are counted apart."""
        return estimate_of(self.outcome.interruptions, "interruptions", "")

    def usd_quantile(self, q: float | str) -> float:
        """Return the dollars that a share `q` of the draws stays below."""
        return quantiles(self.outcome.total_usd, (share("quantile", q),))[0]

    # --- questions ---------------------------------------------------------------------------------

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to know before using the numbers: memory, spot, prices, utilisation, what is not in them."""
        from economics.run_findings import findings

        return findings(self)

    @cached_property
    def memory(self) -> MemoryFit | None:
        """The lightest layout (ZeRO 3, full checkpointing, micro-batch 1) against the GPU's memory.

        None where the shape is neither given nor can be solved for.
        """
        from economics.run_findings import lightest_layout

        return lightest_layout(self.plan)

    def what_if(self, **changes: Any) -> WhatIf:
        """Return the cost with some arguments changed, beside this one.

        Both share the draws of whatever did not change, so the difference is that of the change.

        Parameters
        ----------
        **changes
            Arguments of `cost`.

        Examples
        --------
        >>> from economics import cost
        >>> run = cost(N="1B", D="20B", gpu="A100 SXM 80GB", n_gpus=8, mfu="40%", price=1.79)
        >>> faster = run.what_if(mfu="50%")
        >>> faster.difference["usd"].value < 0
        True
        """
        from economics.run_compare import what_if

        return what_if(self, changes)

    def compare(
        self,
        gpus: Sequence[GPU | str] | GPU | str | None = None,
        *,
        n_gpus: Sequence[int] | int | None = None,
        **changes: Any,
    ) -> RunComparison:
        """Return the cost on several accelerators (and numbers of them), with the Pareto front of $ and time.

        Parameters
        ----------
        gpus : GPU, str or sequence of them, optional
            Accelerators; this run's alone, if not given.
        n_gpus : int or sequence of int, optional
            Numbers of them; this run's alone, if not given.
        **changes
            Other arguments of `cost` to change for all.
        """
        from economics.run_compare import compare

        return compare(self, gpus, n_gpus, changes)

    def sensitivity(self, of: str = "usd") -> Sensitivity:
        """Return how far each uncertain factor moves the answer by itself, the largest first.

        Parameters
        ----------
        of : {"usd", "gpu_hours", "wall_hours", "energy_kwh", "co2_kg"}
            The answer.
        """
        from economics.run_sensitivity import sensitivity

        return sensitivity(self, of)

    # --- words -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        from economics.run_text import text

        return text(self)

    def _repr_html_(self) -> str:
        from economics.run_text import html

        return html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, factors and findings as plain types."""
        from economics.run_text import plain

        return plain(self)
