"""Plots of a fitted law. `draw(fit, kind)` shows one, `save` writes it with its numbers, `KINDS` names them."""

from scaling.plots.output import KINDS, draw, plot_data, save, svg

__all__ = ["KINDS", "draw", "plot_data", "save", "svg"]
