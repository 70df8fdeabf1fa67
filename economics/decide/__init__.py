"""Decisions about runs: the best one for money, time, data, a loss or a lifetime of serving, with intervals.

The laws say what a run reaches (`scaling.optima` has the same questions in FLOPs), the costs what it takes; each
answer is looked for anew for every draw of both.
"""

from economics.decide.budget import best_by_deadline, best_for_budget
from economics.decide.loss import NoMachineError, cheapest_for_loss
from economics.decide.machines import gpus_needed
from economics.decide.result import Option, PricedOptimum
from economics.decide.smaller import SmallerModel, smaller_model

__all__ = [
    "NoMachineError",
    "Option",
    "PricedOptimum",
    "SmallerModel",
    "best_by_deadline",
    "best_for_budget",
    "cheapest_for_loss",
    "gpus_needed",
    "smaller_model",
]
