"""Plots of a fitted law. `draw(fit, kind)` shows one, `save` writes it with its numbers, `KINDS` names them.

Each kind is also a function of its own, ``curves(fit, ax=None)``, with ``curves_data(fit)`` for the
numbers it draws.
"""

from scaling.plots.allocation import tokens, tokens_data
from scaling.plots.draws import cloud, cloud_data
from scaling.plots.iso_flop import isoflop, isoflop_data
from scaling.plots.iso_loss import contours, contours_data
from scaling.plots.loss_curves import curves, curves_data
from scaling.plots.objective import profile, profile_data
from scaling.plots.output import KINDS, draw, plot_data, save, svg
from scaling.plots.residual_panels import residuals, residuals_data

__all__ = [
    "KINDS",
    "cloud",
    "cloud_data",
    "contours",
    "contours_data",
    "curves",
    "curves_data",
    "draw",
    "isoflop",
    "isoflop_data",
    "plot_data",
    "profile",
    "profile_data",
    "residuals",
    "residuals_data",
    "save",
    "svg",
    "tokens",
    "tokens_data",
]
