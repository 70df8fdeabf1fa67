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
#: Where a kind needs another size.
SIZES = {"tokens": (7.0, 6.0), "residuals": (7.4, 5.8), "cloud": (7.4, 6.6), "profile": (7.4, 3.4)}

INK, GREY, FAINT = "#222222", "#6b6b6b", "#d9d9d9"
#: Okabe and Ito 2008, "Color universal design": told apart with any kind of colour vision.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
)  # fmt: skip

#: matplotlib's own settings; its stubs spell out every key, hence Any.
STYLE: Any = {
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


def ordered_colours(count: int) -> list[str]:
    """Return colours from dark to light for groups that have an order (viridis without its pale end)."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    return [to_hex(c) for c in mpl.colormaps["viridis"](np.linspace(0.0, 0.86, max(count, 1)))]


def flops_text(value: float, digits: int = 3) -> str:
    """Write a number of FLOPs as 6×10¹⁸, which reads the same in a picture, a page and a terminal."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = str(int(exponent)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    head = f"{float(mantissa):g}"
    return f"10{power}" if head == "1" else f"{head}×10{power}"


def log_axis(axis: Any, low: float, high: float, write: Any = format_count) -> None:
    """Make an x or y axis logarithmic from `low` to `high`, with ticks people read: 10M, 30M, 100M.

    Parameters
    ----------
    axis : matplotlib.axis.Axis
        ``ax.xaxis`` or ``ax.yaxis``.
    low, high : float
        Ends.
    write : callable
        Writes a value as a label.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    ax, name = axis.axes, axis.axis_name
    getattr(ax, f"set_{name}scale")("log")
    getattr(ax, f"set_{name}lim")(low, high)
    major, minor = _log_ticks(low, high)
    axis.set_major_locator(FixedLocator(major))
    axis.set_minor_locator(FixedLocator(minor))
    axis.set_major_formatter(FuncFormatter(lambda x, _: write(x)))
    axis.set_minor_formatter(NullFormatter())


def _log_ticks(low: float, high: float) -> tuple[list[float], list[float]]:
    """Return labelled and unlabelled ticks between two positive numbers: about four to eight labelled."""
    decades = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    length = np.log10(high / low)
    heads = (1,) if length > 3.2 else (1, 3) if length > 1.6 else (1, 2, 5) if length > 0.9 else range(1, 10)
    step = int(np.ceil(length / 8)) if length > 8 else 1

    def ticks(multiples: Any, every: int = 1) -> list[float]:
        # Through the decimal text, so that 3e8 is 3e8 and not 2.9999999e8.
        values = [float(f"{m}e{int(d)}") for d in decades if d % every == 0 for m in multiples]
        return [v for v in values if low <= v <= high]

    minor = ticks((1,)) if length > 5 else ticks(range(1, 10))
    major = ticks(heads, step)
    if len(major) < 3:
        from matplotlib.ticker import MaxNLocator

        even = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        major = [float(f"{v:.6g}") for v in even if low <= v <= high]
    return major, minor


def loss_axis(axis: Any, losses: Array, *, low: float | None = None) -> None:
    """Make an axis that holds the losses: linear, or logarithmic where they span a factor of five.

    Parameters
    ----------
    axis : matplotlib.axis.Axis
        ``ax.xaxis`` or ``ax.yaxis``.
    losses : array
        What must be seen.
    low : float, optional
        Where the axis should begin if that is not far below.
    """
    smallest, largest = float(np.min(losses)), float(np.max(losses))
    if largest > 5 * smallest:
        log_axis(axis, smallest / 1.1, largest * 1.1, lambda x: f"{x:g}")
        return
    pad = 0.06 * max(largest - smallest, 1e-6 * largest)
    ends = (smallest - pad if low is None else min(low, smallest - pad), largest + pad)
    getattr(axis.axes, f"set_{axis.axis_name}lim")(*ends)


def grid(ax: Axes) -> None:
    """Lay a quiet grid behind the data."""
    ax.set_axisbelow(True)
    ax.grid(visible=True, which="major", color="#ececec", linewidth=0.6)
    ax.tick_params(which="minor", length=2.0, width=0.5)


def dots_per_inch(ax: Axes) -> float:
    """Return the dots per inch of the figure that holds the axes."""
    figure = ax.get_figure(root=True)
    return 100.0 if figure is None else float(figure.dpi)


def panels(
    ax: Axes,
    rows: Sequence[float],
    columns: Sequence[float],
    *,
    gap: tuple[float, float] = (0.55, 0.45),
) -> list[list[Axes]]:
    """Split axes into panels, which become its `child_axes`; returned by row from the top.

    Parameters
    ----------
    ax : Axes
        Its own frame and ticks are taken away; its title stays.
    rows, columns : sequence of float
        Relative heights and widths.
    gap : (float, float)
        Inches between columns and between rows, room for their labels.
    """
    ax.set_axis_off()
    box = ax.get_window_extent()
    dpi = dots_per_inch(ax)
    gap_x, gap_y = gap[0] * dpi / box.width, gap[1] * dpi / box.height
    widths = np.asarray(columns) / np.sum(columns) * (1 - gap_x * (len(columns) - 1))
    heights = np.asarray(rows) / np.sum(rows) * (1 - gap_y * (len(rows) - 1))
    left = np.concatenate([[0.0], np.cumsum(widths + gap_x)])
    top = 1.0 - np.concatenate([[0.0], np.cumsum(heights + gap_y)])
    return [
        [ax.inset_axes((left[j], top[i] - heights[i], widths[j], heights[i])) for j in range(len(columns))]
        for i in range(len(rows))
    ]
