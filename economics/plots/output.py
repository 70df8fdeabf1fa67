"""Plots by name: draw one, or write it with the numbers it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from economics.plots.bars import bars_size
from economics.run_numbers import one_of
from scaling.errors import DataError, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The kinds of plot, and what each shows.
KINDS: Mapping[str, str] = {
    "breakdown": "What the money of a run goes to: the share of each part, and the total with its interval.",
    "tornado": "How far each uncertain factor moves the answer between its 10th and 90th percentile.",
    "pareto": "Cost against wall time of several machines; those that nothing beats in both are joined.",
    "price_history": "Dated prices of an accelerator by provider, logarithmic.",
}

#: Kind -> module with the functions `kind` and `kind_data`, and size in inches; None grows with the bars.
_MODULES: Mapping[str, tuple[str, tuple[float, float] | None]] = {
    "breakdown": ("economics.plots.money", None),
    "tornado": ("economics.plots.swings", None),
    "pareto": ("economics.plots.trade", (7.0, 4.6)),
    "price_history": ("economics.plots.history", (7.4, 4.6)),
}


#: Kind -> what its subject has, and what it is.
_SUBJECTS = {
    "breakdown": ("breakdown", "what cost() returns"),
    "tornado": ("sensitivity", "what cost() returns"),
    "pareto": ("pareto", "what compare() of a cost returns"),
}


def plot_data(subject: Any, kind: str, **options: Any) -> pd.DataFrame:
    """Return the numbers a plot shows.

    Parameters
    ----------
    subject : RunCost, RunComparison or str
        What the kind is about.
    kind : str
        One of `KINDS`.
    **options
        Arguments of the kind.

    Raises
    ------
    DataError
        No plot of this name.
    """
    function, needs = _function(kind, "_data"), _SUBJECTS.get(kind)
    if needs is not None and not hasattr(subject, needs[0]):
        raise DataError(
            f"subject of the plot {kind!r} must be {needs[1]}, got {shown(subject)}", column="subject"
        )
    data: pd.DataFrame = function(subject, **options)
    return data


def draw(subject: Any, kind: str, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw a plot; `subject`, `kind` and `options` as in `plot_data`, a new figure without `ax`."""
    drawn: Axes = _function(kind)(subject, ax, **options)
    return drawn


def save(subject: Any, kind: str, path: str | Path, *, dpi: int = 160, **options: Any) -> tuple[Path, Path]:
    """Write a plot and, beside it, the numbers it shows.

    Parameters
    ----------
    subject, kind, **options
        As in `plot_data`.
    path : path
        The picture; its suffix (.png, .svg, .pdf) says in which format. The CSV has the same name.
    dpi : int
        Dots per inch of a .png.

    Returns
    -------
    picture, csv : Path
    """
    from scaling.plots.output import write_picture

    data = plot_data(subject, kind, **options)
    paint = _function(kind)
    size = _MODULES[kind][1] or bars_size(len(import_module(_MODULES[kind][0]).shown(data)))
    return write_picture(path, lambda ax: paint(subject, ax, data=data, **options), data, size, dpi=dpi)


def _function(kind: str, suffix: str = "") -> Callable[..., Any]:
    one_of("kind", kind, KINDS)
    found: Callable[..., Any] = getattr(import_module(_MODULES[kind][0]), kind + suffix)
    return found
