"""What a training run costs, with an interval, from dated prices and measured throughputs.

Everything here loads on first use: ``import economics`` costs next to nothing, and ``economics.budget``
needs the standard library alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from economics.budget import (
        BudgetExceeded as BudgetExceeded,
        BudgetGuard as BudgetGuard,
        BudgetStatus as BudgetStatus,
    )
    from economics.budget_plan import BudgetPlan as BudgetPlan
    from economics.budget_solver import solve_budget as solve_budget
    from economics.decide import (
        PricedOptimum as PricedOptimum,
        best_by_deadline as best_by_deadline,
        best_for_budget as best_for_budget,
        cheapest_for_loss as cheapest_for_loss,
        gpus_needed as gpus_needed,
        smaller_model as smaller_model,
    )
    from economics.energy_use import Energy as Energy, energy as energy, energy_factors as energy_factors
    from economics.errors import (
        AmbiguousGPU as AmbiguousGPU,
        DtypeError as DtypeError,
        EconomicsError as EconomicsError,
        EconomicsWarning as EconomicsWarning,
        MissingExtraError as MissingExtraError,
        NoQuoteError as NoQuoteError,
        PriceError as PriceError,
        StalePriceWarning as StalePriceWarning,
        UnknownGPU as UnknownGPU,
    )
    from economics.grid import (
        UnknownRegion as UnknownRegion,
        grid_intensity as grid_intensity,
        regions as regions,
    )
    from economics.hardware import GPU as GPU, gpu as gpu, gpus as gpus
    from economics.inference import InferenceCost as InferenceCost, inference_cost as inference_cost
    from economics.interruptions import (
        interruption_rate as interruption_rate,
        optimal_interval as optimal_interval,
    )
    from economics.memory import (
        MemoryFit as MemoryFit,
        kv_cache_bytes as kv_cache_bytes,
        memory_fit as memory_fit,
    )
    from economics.mfu import MfuModel as MfuModel, mfu_model as mfu_model
    from economics.mfu_estimate import MfuEstimate as MfuEstimate
    from economics.next_runs.result import NextRuns as NextRuns
    from economics.next_runs.suggestion import suggest as suggest
    from economics.overheads import Overheads as Overheads
    from economics.plan_check import PlanCheck as PlanCheck, check_plan as check_plan
    from economics.plan_reading import PlanError as PlanError
    from economics.price_book import PriceBook as PriceBook
    from economics.price_gpuhunt import refresh_prices as refresh_prices
    from economics.price_import import ImportReport as ImportReport
    from economics.price_quote import PriceQuote as PriceQuote
    from economics.price_rows import PriceRow as PriceRow
    from economics.price_search import fixed_price as fixed_price, prices as prices
    from economics.price_skypilot import import_skypilot as import_skypilot
    from economics.price_user import add_price as add_price
    from economics.proposal.making import plan as plan
    from economics.proposal.result import Proposal as Proposal
    from economics.run_compare import RunComparison as RunComparison, WhatIf as WhatIf
    from economics.run_cost import cost as cost
    from economics.run_result import RunCost as RunCost
    from economics.run_sensitivity import Sensitivity as Sensitivity
    from economics.spot import SpotRun as SpotRun, spot_run as spot_run
    from economics.utilisation import (
        MfuError as MfuError,
        MfuWarning as MfuWarning,
        hfu as hfu,
        measured_mfu as measured_mfu,
        parse_mfu as parse_mfu,
    )

#: Public name -> module that defines it.
_EXPORTS = {
    "AmbiguousGPU": "economics.errors",
    "BudgetExceeded": "economics.budget",
    "BudgetGuard": "economics.budget",
    "BudgetPlan": "economics.budget_plan",
    "BudgetStatus": "economics.budget",
    "DtypeError": "economics.errors",
    "EconomicsError": "economics.errors",
    "EconomicsWarning": "economics.errors",
    "Energy": "economics.energy_use",
    "GPU": "economics.hardware",
    "ImportReport": "economics.price_import",
    "InferenceCost": "economics.inference",
    "MemoryFit": "economics.memory",
    "MfuError": "economics.utilisation",
    "MfuEstimate": "economics.mfu_estimate",
    "MfuModel": "economics.mfu",
    "MfuWarning": "economics.utilisation",
    "MissingExtraError": "economics.errors",
    "NextRuns": "economics.next_runs.result",
    "NoQuoteError": "economics.errors",
    "Overheads": "economics.overheads",
    "PlanCheck": "economics.plan_check",
    "PlanError": "economics.plan_reading",
    "PriceBook": "economics.price_book",
    "PriceError": "economics.errors",
    "PriceQuote": "economics.price_quote",
    "PriceRow": "economics.price_rows",
    "PricedOptimum": "economics.decide",
    "Proposal": "economics.proposal.result",
    "RunComparison": "economics.run_compare",
    "RunCost": "economics.run_result",
    "Sensitivity": "economics.run_sensitivity",
    "SpotRun": "economics.spot",
    "StalePriceWarning": "economics.errors",
    "UnknownGPU": "economics.errors",
    "UnknownRegion": "economics.grid",
    "WhatIf": "economics.run_compare",
    "add_price": "economics.price_user",
    "best_by_deadline": "economics.decide",
    "best_for_budget": "economics.decide",
    "cheapest_for_loss": "economics.decide",
    "check_plan": "economics.plan_check",
    "cost": "economics.run_cost",
    "energy": "economics.energy_use",
    "energy_factors": "economics.energy_use",
    "fixed_price": "economics.price_search",
    "gpu": "economics.hardware",
    "gpus": "economics.hardware",
    "gpus_needed": "economics.decide",
    "grid_intensity": "economics.grid",
    "hfu": "economics.utilisation",
    "import_skypilot": "economics.price_skypilot",
    "inference_cost": "economics.inference",
    "interruption_rate": "economics.interruptions",
    "kv_cache_bytes": "economics.memory",
    "measured_mfu": "economics.utilisation",
    "memory_fit": "economics.memory",
    "mfu_model": "economics.mfu",
    "optimal_interval": "economics.interruptions",
    "parse_mfu": "economics.utilisation",
    "plan": "economics.proposal.making",
    "prices": "economics.price_search",
    "refresh_prices": "economics.price_gpuhunt",
    "regions": "economics.grid",
    "smaller_model": "economics.decide",
    "solve_budget": "economics.budget_solver",
    "spot_run": "economics.spot",
    "suggest": "economics.next_runs.suggestion",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
