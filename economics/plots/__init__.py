"""Plots of costs and prices.

Each is a function ``kind(subject, ax=None)``, with ``kind_data(subject)`` for its numbers:
``breakdown`` and ``tornado`` take a `RunCost`, ``pareto`` a `RunComparison`, ``price_history`` the name of an
accelerator. `save` writes any of them with its numbers.
"""

from economics.plots.history import price_history, price_history_data
from economics.plots.money import breakdown, breakdown_data
from economics.plots.output import KINDS, draw, plot_data, save
from economics.plots.swings import tornado, tornado_data
from economics.plots.trade import pareto, pareto_data

__all__ = [
    "KINDS",
    "breakdown",
    "breakdown_data",
    "draw",
    "pareto",
    "pareto_data",
    "plot_data",
    "price_history",
    "price_history_data",
    "save",
    "tornado",
    "tornado_data",
]
