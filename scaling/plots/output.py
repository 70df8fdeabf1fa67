"""Plots by name: draw one, write it with the numbers it shows, or get it as SVG for a page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling.errors import DataError
from scaling.plots.style import SIZE, SIZES, STYLE

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
    "profile": "The objective with E, alpha or beta held at other values: those the runs do not exclude.",
}

#: Kind -> module with the functions `kind` and `kind_data`.
_MODULES = {
    "curves": "scaling.plots.loss_curves",
    "contours": "scaling.plots.iso_loss",
    "isoflop": "scaling.plots.iso_flop",
    "tokens": "scaling.plots.allocation",
    "residuals": "scaling.plots.residual_panels",
    "cloud": "scaling.plots.draws",
    "profile": "scaling.plots.objective",
}
_FORMATS = (".png", ".svg", ".pdf")


def plot_data(fit: ChinchillaFit, kind: str) -> pd.DataFrame:
    """Return the numbers a plot shows.

    Raises
    ------
    DataError
        No plot of this name.
    """
    data: pd.DataFrame = _function(kind, "_data")(fit)
    return data


def draw(fit: ChinchillaFit, kind: str, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
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
    drawn: Axes = _function(kind)(fit, ax, data=data)
    return drawn


def svg(fit: ChinchillaFit, kind: str, *, data: pd.DataFrame | None = None) -> str:
    """Return a plot as an ``<svg>`` element to put inside an HTML page.

    The same fit gives the same bytes. Ids start with the kind, so that several plots fit on one page.
    """
    shown = plot_data(fit, kind) if data is None else data
    return inline_svg(lambda ax: draw(fit, kind, ax, data=shown), kind, KINDS[kind], SIZES.get(kind, SIZE))


def inline_svg(paint: Callable[[Axes], Any], name: str, label: str, size: tuple[float, float] = SIZE) -> str:
    """Return any picture as an ``<svg>`` element to put inside an HTML page.

    Parameters
    ----------
    paint : callable
        Draws on the axes it is given.
    name : str
        Unlike that of other pictures of the page: ids start with it.
    label : str
        What it shows, for readers who cannot see it.
    size : (float, float)
        Width and height in inches.
    """
    file = io.BytesIO()
    _write(paint, file, "svg", size)
    return _inline(file.getvalue().decode(), name, label)


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

    Raises
    ------
    DataError
        No plot of this name, no such format, or a file of the two is the one the runs came from.
    OSError
        A file cannot be written; each is written whole or not at all.
    """
    from scaling.storage import refuse_overlap

    refuse_overlap((path, Path(path).with_suffix(".csv")), (fit.runs.source,))
    data = plot_data(fit, kind)
    return write_picture(
        path, lambda ax: draw(fit, kind, ax, data=data), data, SIZES.get(kind, SIZE), dpi=dpi
    )


def write_picture(
    path: str | Path,
    paint: Callable[[Axes], Any],
    data: pd.DataFrame,
    size: tuple[float, float] = SIZE,
    *,
    dpi: int = 160,
) -> tuple[Path, Path]:
    """Write a picture and, beside it, the numbers it shows.

    Parameters
    ----------
    path : path
        The picture; its suffix (.png, .svg, .pdf) says in which format. The CSV has the same name.
    paint : callable
        Draws on the axes it is given.
    data : DataFrame
        The numbers.
    size : (float, float)
        Width and height in inches.
    dpi : int
        Dots per inch of a .png.

    Returns
    -------
    picture, csv : Path

    Raises
    ------
    DataError
        The suffix is none of these.
    OSError
        A file cannot be written; each is written whole or not at all.
    """
    from scaling.storage import write_atomically

    picture = Path(path)
    if picture.suffix.lower() not in _FORMATS:
        raise DataError(
            f"{picture.name}: a plot is written as {', '.join(_FORMATS)}; the suffix chooses", column="path"
        )
    table = picture.with_suffix(".csv")
    file = io.BytesIO()
    _write(paint, file, picture.suffix.lower()[1:], size, dpi=dpi)
    write_atomically(picture, file.getvalue())
    write_atomically(table, data.to_csv(index=False))
    return picture, table


def _function(kind: str, suffix: str = "") -> Callable[..., Any]:
    """Return the function that draws a kind, or with "_data" the one that computes it."""
    if kind not in _MODULES:
        raise DataError(f"no plot {kind!r}: choose one of {', '.join(KINDS)}", column="kind")
    found: Callable[..., Any] = getattr(import_module(_MODULES[kind]), kind + suffix)
    return found


def _write(
    paint: Callable[[Axes], Any], file: io.BytesIO, form: str, size: tuple[float, float], *, dpi: int = 160
) -> None:
    """Draw on a figure of its own, not one of pyplot's, and write it without a date."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        paint(figure.add_subplot())
        metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(file, format=form, dpi=dpi, metadata=metadata)


def _inline(text: str, kind: str, label: str) -> str:
    """Make a whole SVG file of matplotlib an element to put inside a page, and smaller.

    Coordinates keep two decimals (of a point), markers in a row share one style, ids that nothing refers
    to go, and the others start with the kind; the rule for every element of the page becomes a style of
    this one.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'<style type="text/css">.*?</style>', "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{kind}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{kind}-", text)
    text = re.sub(r"(\d+\.\d\d)\d+", r"\1", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    text = re.sub(r"\n?\b([LCQ]) ", r"\1", text)
    text = re.sub(r"M (\S+) (\S+)L(\S+) \2\n?(?=[M\"])", _dot, text)
    text = re.sub(r'(?:<use [^>]* style="([^"]*)"/>\n)(?:<use [^>]* style="\1"/>\n)+', _hoist, text)
    style = "stroke-linejoin:round;stroke-linecap:butt"
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}" style="{style}"', 1)


def _dot(match: re.Match[str]) -> str:
    """Shorten a stroke of next to no length, which is a dot, and leave lines alone."""
    x, y, end = match.groups()
    return f"M{x} {y}h.01" if abs(float(end) - float(x)) < 0.05 else match[0]


def _hoist(match: re.Match[str]) -> str:
    """Move the style that markers in a row have in common to a group around them."""
    style = f' style="{match[1]}"'
    return f"<g{style}>\n{match[0].replace(style, '')}</g>\n"
