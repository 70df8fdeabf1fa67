"""Residuals against compute, parameters and tokens, and their quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scaling.laws.base import Array
from scaling.plots.labels import dots, head
from scaling.plots.numbers import alike, columns, doubt, params_label, span, thin
from scaling.plots.style import BLUE, GREY, INK, SIZES, VERMILLION, canvas, flops_text, grid, log_axis, panels
from scaling.units import format_count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

COLUMNS = ("series", "row", "params", "tokens", "flops", "residual", "normal_quantile", "outlier", "against")

_LEVELS, _BINS, _FEWEST, _MOST_RUNS = 12, 8, 3, 500
#: Residuals beyond this many robust standard deviations are marked with their row.
_OUTLIER, _NAMED = 4.0, 6


def residuals_data(fit: ChinchillaFit) -> pd.DataFrame:
    """Return the numbers behind `residuals`.

    Returns
    -------
    DataFrame
        ``series`` "run" (``residual``: 100 (ln L - ln of the law), in percent of the loss;
        ``normal_quantile``: of its rank; ``outlier``: beyond 4 robust standard deviations) or "median"
        (of the residuals in groups of like ``against``).
    """
    import pandas as pd
    from scipy.special import ndtri

    runs = fit.runs
    r = 100.0 * fit.residuals
    rank = np.empty(len(r))
    rank[np.argsort(r, kind="stable")] = np.arange(len(r))
    centre, spread = _robust(r)
    parts = [
        columns(
            COLUMNS, series="run", row=runs.row, params=runs.params, tokens=runs.tokens, flops=runs.compute,
            residual=r, normal_quantile=ndtri((rank + 0.5) / len(r)),
            outlier=np.abs(r - centre) > _OUTLIER * spread, against="",
        )
    ]  # fmt: skip
    for name, x in (("flops", runs.compute), ("params", runs.params), ("tokens", runs.tokens)):
        group = alike(x, _LEVELS, _BINS)
        bins = [b for b in (group == k for k in range(int(group.max()) + 1)) if b.sum() >= _FEWEST]
        middle = {name: [float(np.exp(np.log(x[b]).mean())) for b in bins]}
        medians = [float(np.median(r[b])) for b in bins]
        if bins:
            parts.append(
                columns(COLUMNS, series="median", residual=medians, outlier=False, against=name, **middle)
            )
    return pd.concat([pd.DataFrame(p) for p in parts], ignore_index=True)


def _robust(r: Array) -> tuple[float, float]:
    """Return the median and the standard deviation that the median absolute deviation implies."""
    centre = float(np.median(r))
    return centre, 1.4826 * float(np.median(np.abs(r - centre)))


def residuals(fit: ChinchillaFit, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw residuals in four panels: against compute, parameters and tokens, and their quantiles.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `residuals_data` returned.
    """
    data = residuals_data(fit) if data is None else data
    series = dict(tuple(data.groupby("series")))
    runs, medians = series["run"], series.get("median")
    with canvas(ax, SIZES["residuals"]) as ax:
        grid_of = panels(ax, (1.0, 1.0), (1.0, 1.0), gap=(0.65, 0.5))
        places = {"flops": grid_of[0][0], "params": grid_of[0][1], "tokens": grid_of[1][0]}
        labels = {
            "flops": "training compute (FLOP)",
            "params": params_label(fit),
            "tokens": "training tokens D",
        }
        y = runs["residual"].to_numpy()
        # A law whose coefficients no float holds has no residuals; then there is a frame to say so in.
        known = y[np.isfinite(y)] if np.isfinite(y).any() else np.array([-1.0, 1.0])
        pad = 0.07 * max(float(np.ptp(known)), 1e-9)
        ends = (float(known.min()) - pad, float(known.max()) + pad)
        for name, panel in places.items():
            x = runs[name].to_numpy()
            log_axis(panel.xaxis, *span(x), write=flops_text if name == "flops" else format_count)
            panel.set_ylim(ends)
            grid(panel)
            panel.axhline(0.0, color=INK, linewidth=0.8, zorder=2)
            _points(panel, x, y, runs)
            if medians is not None:
                line = medians[medians["against"] == name]
                panel.plot(line[name], line["residual"], color=BLUE, linewidth=1.8, zorder=5)
            panel.set_xlabel(labels[name])
        _quantiles(grid_of[1][1], runs, ends)
        for panel in (grid_of[0][0], grid_of[1][0]):
            panel.set_ylabel("residual (% of loss)")
        _, spread = _robust(y)
        notes = [
            "measured over fitted loss",
            "blue: running median",
            f"scatter {spread:.2g}% (robust standard deviation)",
            f"orange: beyond {_OUTLIER:g} of these, with row numbers",
        ]
        head(ax, "Residuals of the fitted law", notes, doubt(fit))
    return ax


def _points(ax: Axes, x: Array, y: Array, runs: pd.DataFrame) -> None:
    """Draw residuals, the outliers among them in their own colour and the largest with their rows."""
    out = runs["outlier"].to_numpy(dtype=bool)
    plain = np.flatnonzero(~out)
    plain = plain[thin(len(plain), _MOST_RUNS)]
    dots(ax, x[plain], y[plain], GREY, 2.8, alpha=0.6, zorder=3)
    ax.plot(x[out], y[out], "o", color=VERMILLION, markersize=3.4, markeredgewidth=0, zorder=4)
    rows = runs["row"].to_numpy()
    frame = ax.get_window_extent()
    places = ax.transData.transform(np.column_stack([x, y]))
    named: list[Array] = []
    for i in np.flatnonzero(out)[np.argsort(-np.abs(y[out]), kind="stable")]:
        crowded = any(np.abs(places[i] - p).max() < 0.09 * frame.width for p in named)
        if len(named) == _NAMED or crowded:
            continue
        named.append(places[i])
        side = -1 if places[i, 0] > frame.x0 + 0.8 * frame.width else 1
        ax.annotate(
            f"{rows[i]:.0f}", (x[i], y[i]), (4 * side, 0), textcoords="offset points", fontsize=6.5,
            color=VERMILLION, va="center", ha="right" if side < 0 else "left",
        )  # fmt: skip


def _quantiles(ax: Axes, runs: pd.DataFrame, ends: tuple[float, float]) -> None:
    """Draw residuals against the quantiles of a normal distribution of the same robust scale."""
    x, y = runs["normal_quantile"].to_numpy(), runs["residual"].to_numpy()
    centre, spread = _robust(y)
    ax.set_ylim(ends)
    pad = 0.08 * max(float(np.ptp(x)), 1.0)
    ax.set_xlim(float(x.min()) - pad, float(x.max()) + pad)
    grid(ax)
    line = np.array(ax.get_xlim())
    ax.plot(line, centre + spread * line, color=INK, linewidth=0.8, zorder=2)
    _points(ax, x, y, runs)
    ax.set_xlabel("quantile of a normal distribution")
