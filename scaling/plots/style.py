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

    minor = ticks((1,)) if length > 8 else ticks(range(1, 10))
    return ticks(heads, step), minor


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


def head(ax: Axes, title: str, notes: Sequence[str] = (), doubt: str = "", *, above: float = 0.0) -> None:
    """Put a title over a plot, quiet notes under it, and a doubt where it cannot be overlooked.

    Parameters
    ----------
    ax : Axes
        The plot.
    title : str
        What it shows.
    notes : sequence of str
        How to read it; a line is broken between notes.
    doubt : str
        Why not to believe it, if so.
    above : float
        Points left free for labels between the plot and the notes.
    """
    from textwrap import wrap

    size = 7.5
    # Inches of the plot, and of a letter: the layout is not made yet, and gives it a little more.
    width = int(ax.get_window_extent().width / _dpi(ax) * 72 / (0.49 * size))
    lines = [(line, GREY, "normal") for line in packed([n for n in notes if n], max(width, 30))]
    lines += [(line, VERMILLION, "bold") for line in wrap(doubt, max(int(0.88 * width), 30))]
    offset = 6.0 + above
    for line, colour, weight in reversed(lines):
        ax.annotate(
            line, (0, 1), (0, offset), "axes fraction", textcoords="offset points", va="bottom",
            fontsize=size, color=colour, fontweight=weight, annotation_clip=False,
        )  # fmt: skip
        offset += 1.35 * size
    ax.set_title(title, loc="left", pad=offset + 2.0)


def packed(notes: Sequence[str], width: int, joint: str = "  ·  ") -> list[str]:
    """Put notes on as few lines of at most `width` letters as their order allows; none is broken."""
    lines: list[str] = []
    for note in notes:
        if lines and len(lines[-1]) + len(joint) + len(note) <= width:
            lines[-1] += joint + note
        else:
            lines.append(note)
    return lines


def _dpi(ax: Axes) -> float:
    """Return the dots per inch of the figure that holds the axes."""
    figure = ax.get_figure(root=True)
    return 100.0 if figure is None else float(figure.dpi)


def side_legend(ax: Axes, texts: Sequence[str], colours: Sequence[str], *, title: str) -> None:
    """List lines right of the plot, where they cover no data."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, linewidth=2.0) for colour in colours]
    legend = ax.legend(
        handles, texts, loc="center left", bbox_to_anchor=(1.01, 0.5), borderaxespad=0.0, title=title,
        handlelength=1.2, labelspacing=0.6,
    )  # fmt: skip
    legend.get_title().set_fontsize(8.0)
    legend.get_title().set_color(GREY)


def side_labels(
    ax: Axes, at: Array, texts: Sequence[str], colours: Sequence[str], *, title: str = "", size: float = 8.0
) -> None:
    """Label lines at the right edge where they end, pushed apart so that no two overlap.

    Parameters
    ----------
    ax : Axes
        With its limits set.
    at : array, shape (k,)
        Height of the end of each line, in data.
    texts, colours : sequence of str, length k
        Label and colour of each.
    title : str
        Heading above the labels.
    """
    ends = ax.transAxes.inverted().transform(ax.transData.transform([(1.0, float(y)) for y in at]))[:, 1]
    height = ax.get_window_extent().height / _dpi(ax) * 72
    places = spread(np.clip(ends, 0.0, 1.0), 1.15 * size / height)
    for y, text, colour in zip(places, texts, colours, strict=True):
        ax.annotate(
            text, (1, float(y)), (5, 0), "axes fraction", textcoords="offset points", va="center",
            fontsize=size, color=colour, fontweight="bold", annotation_clip=False,
        )  # fmt: skip
    if title:
        ax.annotate(
            title, (1, max(float(places.max()), 0.0)), (5, 1.2 * size), "axes fraction",
            textcoords="offset points", va="center", fontsize=size - 0.5, color=GREY, annotation_clip=False,
        )  # fmt: skip


def spread(places: Array, gap: float) -> Array:
    """Move numbers as little as needed so that neighbours are `gap` apart; their order stays."""
    order = np.argsort(places, kind="stable")
    # Pool neighbours that are too close, as in isotonic regression of place minus rank times gap.
    shifted = places[order] - gap * np.arange(len(places))
    blocks: list[list[float]] = []
    for value in shifted:
        blocks.append([float(value)])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = np.concatenate([np.full(len(b), np.mean(b)) for b in blocks])
    out = np.empty(len(places))
    out[order] = level + gap * np.arange(len(places))
    return out


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
    dpi = _dpi(ax)
    gap_x, gap_y = gap[0] * dpi / box.width, gap[1] * dpi / box.height
    widths = np.asarray(columns) / np.sum(columns) * (1 - gap_x * (len(columns) - 1))
    heights = np.asarray(rows) / np.sum(rows) * (1 - gap_y * (len(rows) - 1))
    left = np.concatenate([[0.0], np.cumsum(widths + gap_x)])
    top = 1.0 - np.concatenate([[0.0], np.cumsum(heights + gap_y)])
    return [
        [ax.inset_axes((left[j], top[i] - heights[i], widths[j], heights[i])) for j in range(len(columns))]
        for i in range(len(rows))
    ]


def dots(
    ax: Axes, x: Array, y: Array, colour: str, size: float = 2.2, *, alpha: float = 1.0, zorder: float = 2.0
) -> None:
    """Draw many equal points as one path, which takes an SVG a fifth of the bytes of markers.

    Parameters
    ----------
    ax : Axes
        With its scales and limits set.
    x, y : array, shape (n,)
        Where.
    colour : str
        One colour; where points overlap it does not deepen.
    size : float
        Diameter in points.
    alpha, zorder : float
        As everywhere in matplotlib.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    # A stroke with round ends and next to no length is a disc. It needs some length: the PNG back end
    # leaves out strokes of none.
    left, right = ax.get_xlim()
    vertices = np.repeat(np.column_stack([x, y]), 2, axis=0)
    vertices[1::2, 0] += vertices[1::2, 0] * 1e-4 if ax.get_xscale() == "log" else (right - left) * 1e-4
    codes = np.tile([Path.MOVETO, Path.LINETO], len(x)).astype(Path.code_type)
    path = Path(vertices, codes)
    path.should_simplify = False
    ax.add_patch(
        PathPatch(
            path, fill=False, edgecolor=colour, linewidth=size, capstyle="round", snap=False, alpha=alpha,
            zorder=zorder,
        )
    )  # fmt: skip
