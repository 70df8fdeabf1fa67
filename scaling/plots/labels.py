"""What is written on plots: titles and notes, labels of lines; and many points at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scaling.laws.base import Array
from scaling.plots.style import GREY, VERMILLION, dots_per_inch

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    width = int(ax.get_window_extent().width / dots_per_inch(ax) * 72 / (0.49 * size))
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
    height = ax.get_window_extent().height / dots_per_inch(ax) * 72
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
