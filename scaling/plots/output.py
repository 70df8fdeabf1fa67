"""Plots by name: draw one, write it with the numbers it shows, or get it as SVG for a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scaling.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

#: The kinds of plot, in the order of a report, and what each shows.
KINDS: Mapping[str, str] = {
    "curves": "Loss against tokens for each model size: the runs, and the fitted law with its interval.",
    "contours": "Lines of equal loss over parameters and tokens, the runs, and the compute-optimal path.",
    "isoflop": "Loss against parameters at fixed compute; the minima joined are the efficient frontier.",
    "tokens": "Compute-optimal tokens for each model size, with the interval and the range of the runs.",
    "residuals": "Measured over fitted loss against compute, parameters and tokens, and their quantiles.",
    "cloud": "Pairs of coefficients over the bootstrap refits: which of them trade against each other.",
}


def plot_data(fit: ChinchillaFit, kind: str) -> pd.DataFrame:
    """Return the numbers a plot shows.

    Raises
    ------
    DataError
        No plot of this name.
    """
    raise NotImplementedError


def draw(
    fit: ChinchillaFit, kind: str, ax: Axes | None = None, *, data: pd.DataFrame | None = None
) -> Axes:
    """Draw a plot of a fit.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    kind : str
        One of `KINDS`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new pyplot figure by default.
    data : DataFrame, optional
        What `plot_data` returned or `save` wrote, instead of computing it again.

    Returns
    -------
    matplotlib.axes.Axes
        Plots of several panels hold them in its `child_axes`.

    Raises
    ------
    DataError
        No plot of this name.
    """
    raise NotImplementedError


def svg(fit: ChinchillaFit, kind: str, *, data: pd.DataFrame | None = None) -> str:
    """Return a plot as an ``<svg>`` element to put inside an HTML page.

    The same fit gives the same bytes. Ids start with the kind, so that several plots fit on one page.
    """
    raise NotImplementedError


def save(fit: ChinchillaFit, kind: str, path: str | Path, *, dpi: int = 160) -> tuple[Path, Path]:
    """Write a plot and, beside it, the numbers it shows.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    kind : str
        One of `KINDS`.
    path : path
        The picture; its suffix (.png, .svg, .pdf) says in which format. The CSV has the same name.
    dpi : int
        Dots per inch of a .png.

    Returns
    -------
    picture, csv : Path
    """
    raise NotImplementedError
