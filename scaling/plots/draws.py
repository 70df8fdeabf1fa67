"""Pairs of coefficients over the bootstrap refits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scaling.laws.base import Array
from scaling.plots.labels import dots, head
from scaling.plots.numbers import columns, doubt, has_draws, thin
from scaling.plots.style import BLUE, GREY, INK, SIZES, VERMILLION, canvas, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

COLUMNS = ("series", "E", "log10_A", "alpha", "log10_B", "beta")

_LABELS = {"E": "E", "log10_A": "log₁₀ A", "alpha": "α", "log10_B": "log₁₀ B", "beta": "β"}
_MOST_DRAWS, _BARS = 500, 24


def cloud_data(fit: ChinchillaFit) -> pd.DataFrame:
    """Return the numbers behind `cloud`.

    Returns
    -------
    DataFrame
        One row for each draw (``series`` "draw") and one for the fitted law ("optimum"), by coefficient.
    """
    import pandas as pd

    parts = []
    for series, law in (("optimum", fit.law), ("draw", fit.draws)):
        values = {"E": law.E, "alpha": law.alpha, "beta": law.beta}
        values |= {"log10_A": np.log10(law.A), "log10_B": np.log10(law.B)}
        if np.asarray(law.E).size:
            parts.append(pd.DataFrame(columns(COLUMNS, series=series, **values)))
    return pd.concat(parts, ignore_index=True)


def cloud(fit: ChinchillaFit, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw every pair of coefficients over the bootstrap refits, with the optimum and the correlations.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `cloud_data` returned.
    """
    data = cloud_data(fit) if data is None else data
    draws, best = data[data["series"] == "draw"], data[data["series"] == "optimum"].iloc[0]
    with canvas(ax, SIZES["cloud"]) as ax:
        title = "Coefficients over the bootstrap refits"
        names = _free(draws, fit)
        if not has_draws(fit) or not names:
            ax.set_axis_off()
            ax.text(0.5, 0.5, "no bootstrap draws to show", ha="center", va="center", color=GREY)
            head(ax, title)
            return ax
        cells = panels(ax, [1.0] * len(names), [1.0] * len(names), gap=(0.1, 0.1))
        matrix = np.atleast_2d(np.corrcoef(draws[names].to_numpy().T))
        shown = draws.iloc[thin(len(draws), _MOST_DRAWS)]
        for i, down in enumerate(names):
            for j, across in enumerate(names):
                cell = cells[i][j]
                if j > i:
                    _correlation(cell, float(matrix[i, j]))
                    continue
                cell.set_xlim(_ends(draws[across].to_numpy(), float(best[across])))
                if i == j:
                    _histogram(cell, draws[across].to_numpy(), float(best[across]))
                else:
                    cell.set_ylim(_ends(draws[down].to_numpy(), float(best[down])))
                    dots(cell, shown[across].to_numpy(), shown[down].to_numpy(), BLUE)
                    cell.plot(
                        [best[across]], [best[down]], "+", color=VERMILLION, markersize=9, markeredgewidth=1.6
                    )
                _ticks(cell, first=j == 0 and i > 0, last=i == len(names) - 1)
                if i == len(names) - 1:
                    cell.set_xlabel(_LABELS[across])
                if j == 0 and i > 0:
                    cell.set_ylabel(_LABELS[down])
        notes = [
            f"{min(len(draws), _MOST_DRAWS)} of {len(draws)} refits",
            "orange: the optimum",
            "upper right: correlations",
            *(f"{_LABELS.get(k, k)} held at {v:g}" for k, v in fit.settings.fixed.items()),
        ]
        head(ax, title, notes, doubt(fit))
    return ax


def _free(draws: pd.DataFrame, fit: ChinchillaFit) -> list[str]:
    """Return the coefficients that differ between draws, and that a float can hold in all of them."""
    return [
        name
        for name in _LABELS
        if len(draws) > 1
        and np.isfinite(draws[name]).all()
        and np.ptp(draws[name].to_numpy()) > 1e-9 * abs(float(draws[name].iloc[0]))
        and not (name == "beta" and fit.settings.tied)
    ]


def _ends(values: Array, best: float) -> tuple[float, float]:
    """Return limits that hold all but the farthest half percent of draws on each side, and the optimum."""
    low, high = np.quantile(values, [0.005, 0.995])
    low, high = min(float(low), best), max(float(high), best)
    pad = 0.07 * (high - low)
    return low - pad, high + pad


def _histogram(ax: Axes, values: Array, best: float) -> None:
    low, high = ax.get_xlim()
    counts, edges = np.histogram(values, bins=_BARS, range=(low, high))
    ax.stairs(counts, edges, fill=True, color=BLUE, alpha=0.45)
    ax.axvline(best, color=VERMILLION, linewidth=1.4)
    ax.set_ylim(0, 1.12 * max(float(counts.max()), 1.0))
    ax.spines["left"].set_visible(False)


def _correlation(ax: Axes, value: float) -> None:
    ax.set_axis_off()
    size = 8.0 + 4.0 * abs(value)
    ax.text(
        0.5, 0.5, f"{value:+.2f}".replace("-", "−"), transform=ax.transAxes, ha="center", va="center", fontsize=size,
        color=INK if abs(value) > 0.5 else GREY, fontweight="bold" if abs(value) > 0.9 else "normal",
    )  # fmt: skip


def _ticks(ax: Axes, *, first: bool, last: bool) -> None:
    """Keep three ticks, and their labels on the outer panels alone."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.tick_params(labelsize=7, labelbottom=last, labelleft=first)
    if not first:
        ax.tick_params(left=False)
