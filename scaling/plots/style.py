"""One look for every plot: sizes, colours that colour-blind readers tell apart, axes, notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.laws.base import Array
from scaling.units import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Width and height in inches of a figure with one panel.
SIZE = (7.0, 4.6)

INK, GREY, FAINT = "#222222", "#6b6b6b", "#d9d9d9"
#: Okabe and Ito 2008, "Color universal design": told apart with any kind of colour vision.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
)  # fmt: skip

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "font.size": 9.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "white",
    "figure.facecolor": "white",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
    "text.color": INK,
    "text.usetex": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "savefig.dpi": 160,
    # Text stays text: small, searchable, and the same bytes on every machine.
    "svg.fonttype": "none",
    "svg.hashsalt": "isoflop",
}


@contextmanager
def canvas(ax: Axes | None, size: tuple[float, float] = SIZE) -> Iterator[Axes]:
    """Give the axes to draw on, in the style of the house: those given, or new ones of `size` inches."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(figsize=size, layout="constrained").add_subplot()
        yield ax
