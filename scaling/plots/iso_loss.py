"""Lines of equal loss over parameters and tokens, the runs, and the compute-optimal path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.laws.base import Array
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN
from scaling.plots.labels import dots, head
from scaling.plots.numbers import (
    band,
    best_tokens,
    beyond,
    columns,
    doubt,
    has_draws,
    how,
    loss_label,
    params_label,
    span,
    thin,
)
from scaling.plots.style import FAINT, GREY, INK, VERMILLION, canvas, flops_text, log_axis, ordered_colours

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

COLUMNS = ("series", "row", "params", "tokens", "loss", "flops", "low", "high", "decades_beyond")

_GRID, _LEVELS, _MOST_BUDGETS, _MOST_RUNS = 80, 9, 8, 800


def contours_data(fit: ChinchillaFit) -> pd.DataFrame:
    """Return the numbers behind `contours`.

    Returns
    -------
    DataFrame
        ``series`` "run", "contour" (points of equal ``loss``), "budget" (points of equal ``flops``) or
        "optimum" (D*(N), ``tokens`` between ``low`` and ``high``).
    """
    import pandas as pd

    runs = fit.runs
    (left, right), (bottom, top) = span(runs.params, 0.1), span(runs.tokens, 0.1)
    parts = [
        columns(
            COLUMNS, series="run", row=runs.row, params=runs.params, tokens=runs.tokens, loss=runs.loss,
            flops=runs.compute, decades_beyond=0.0,
        )
    ]  # fmt: skip
    for level in _loss_levels(fit):
        n, d = _contour(fit, level)
        parts.append(columns(COLUMNS, series="contour", params=n, tokens=d, loss=level))
    low, high = FLOPS_PER_PARAM_TOKEN * left * bottom, FLOPS_PER_PARAM_TOKEN * right * top
    decades = range(int(np.ceil(np.log10(low))), int(np.floor(np.log10(high))) + 1)
    for decade in decades[:: -(-len(decades) // _MOST_BUDGETS) or 1]:
        n = np.array([left, right])
        d = 10.0**decade / FLOPS_PER_PARAM_TOKEN / n
        parts.append(columns(COLUMNS, series="budget", params=n, tokens=d, flops=10.0**decade))
    n = np.geomspace(left, right, _GRID)
    best = best_tokens(fit, n)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ends = band(fit, np.asarray(fit.draws.tokens_at(n[:, None])), best, "tokens")
    parts.append(
        columns(
            COLUMNS, series="optimum", params=n, tokens=best, low=ends[0], high=ends[1],
            loss=fit.law.loss(n, best), flops=FLOPS_PER_PARAM_TOKEN * n * best,
            decades_beyond=beyond(fit, n, best),
        )
    )  # fmt: skip
    return pd.concat([pd.DataFrame(p) for p in parts], ignore_index=True)


def _loss_levels(fit: ChinchillaFit) -> Array:
    """Return round losses between those of the law at its best and worst run, dense where it is flat.

    None where the law is the same at every run, up to rounding.
    """
    fitted = np.asarray(fit.law.loss(fit.runs.params, fit.runs.tokens))
    low, high = float(fitted.min()) - fit.law.E, float(fitted.max()) - fit.law.E
    if not high - low > 1e-9 * float(fitted.max()):
        return np.empty(0)
    exact = fit.law.E + np.geomspace(max(low, 1e-3 * high), high, _LEVELS)
    closest = float(np.diff(exact).min())
    decade = 10.0 ** np.floor(np.log10(closest))
    step = decade * max(m for m in (1, 2, 5) if m * decade <= closest * (1 + 1e-12))
    levels = np.unique([float(f"{step * k:.12g}") for k in np.round(exact / step)])
    return np.asarray(levels[levels > fit.law.E + 0.2 * low])


def _contour(fit: ChinchillaFit, loss: float) -> tuple[Array, Array]:
    """Return points (N, D) where the law has this loss, by the share each term has in loss - E."""
    law = fit.law
    share = 1.0 / (1.0 + np.exp(np.linspace(-9.0, 9.0, _GRID)))
    rest = loss - law.E
    with np.errstate(over="ignore"):
        n = np.exp((np.log(law.A) - np.log(share * rest)) / law.alpha)
        d = np.exp((np.log(law.B) - np.log((1.0 - share) * rest)) / law.beta)
    fine = np.isfinite(n) & np.isfinite(d)
    return n[fine], d[fine]


def contours(fit: ChinchillaFit, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw iso-loss lines in the plane of parameters and tokens, with the path of least compute.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `contours_data` returned.
    """
    data = contours_data(fit) if data is None else data
    series = dict(tuple(data.groupby("series")))
    runs, best = series["run"], series["optimum"]
    with canvas(ax) as ax:
        x_ends, y_ends = (span(runs[name].to_numpy(), 0.1) for name in ("params", "tokens"))
        log_axis(ax.xaxis, *x_ends)
        log_axis(ax.yaxis, *y_ends)
        _budgets(ax, series.get("budget"), best)
        levels = np.sort(data["loss"][data["series"] == "contour"].unique())[::-1]
        colours = ordered_colours(len(levels))[::-1][: len(levels)]  # of no levels it returns one
        for level, colour in zip(levels, colours, strict=True):
            line = series["contour"][series["contour"]["loss"] == level]
            x, y = line["params"].to_numpy(), line["tokens"].to_numpy()
            ax.plot(x, y, color=colour, linewidth=1.2, zorder=2)
            _label(ax, x, y, f"{level:.6g}", colour)
        shown = runs.iloc[thin(len(runs), _MOST_RUNS)]
        dots(ax, shown["params"].to_numpy(), shown["tokens"].to_numpy(), INK, 2.8, zorder=3)
        x, y = best["params"].to_numpy(), best["tokens"].to_numpy()
        if has_draws(fit):
            ax.fill_between(
                x, best["low"].clip(lower=1e-300), best["high"].clip(upper=1e300), color=VERMILLION,
                alpha=0.2, linewidth=0, zorder=4,
            )  # fmt: skip
        inside = best["decades_beyond"].to_numpy() <= 0
        ax.plot(x, y, color=VERMILLION, linewidth=1.0, linestyle=(0, (3, 2)), zorder=5)
        ax.plot(x, np.where(inside, y, np.nan), color=VERMILLION, linewidth=2.0, zorder=5, label="D*(N)")
        ax.set_xlabel(params_label(fit))
        ax.set_ylabel("training tokens D")
        notes = [
            f"coloured: lines of equal {loss_label(fit)}",
            "orange: D*(N), the compute-optimal tokens, dashed beyond the compute of the runs",
            how(fit, "band"),
            "grey: equal 6ND",
        ]
        head(ax, "Lines of equal loss and the compute-optimal path", notes, doubt(fit), above=12.0)
    return ax


def _budgets(ax: Axes, lines: pd.DataFrame | None, best: pd.DataFrame) -> None:
    """Draw lines of equal compute, each labelled near an end inside the plot, away from D*(N)."""
    if lines is None:
        return
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    width, height = np.log(right / left), np.log(top / bottom)
    log_n, log_d = np.log(best["params"].to_numpy()), np.log(best["tokens"].to_numpy())
    for flops in lines["flops"].unique():
        line = lines[lines["flops"] == flops]
        ax.plot(line["params"], line["tokens"], color=FAINT, linewidth=0.8, zorder=1)
        nd = float(flops) / FLOPS_PER_PARAM_TOKEN
        ends = np.log([min(nd / bottom, right), max(nd / top, left)])
        for x in ends + width * np.array([-0.07, 0.07]):
            y = np.log(nd) - x
            inside = 0.06 < (x - np.log(left)) / width < 0.94 and 0.04 < (y - np.log(bottom)) / height < 0.96
            if not inside or abs(y - np.interp(x, log_n, log_d)) < 0.1 * height:
                continue
            ax.text(
                np.exp(x), np.exp(y), f"{flops_text(float(flops))} FLOP", fontsize=7, color=GREY, ha="center",
                va="center", zorder=2.5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
            break


def _label(ax: Axes, x: Array, y: Array, text: str, colour: str) -> None:
    """Label a contour outside the frame where it leaves at the top and the right, else in its middle."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    log_x, log_y = np.log(x), np.log(y)
    order = np.argsort(log_y)
    at_top = float(np.exp(np.interp(np.log(top), log_y[order], log_x[order], np.nan, np.nan)))
    order = np.argsort(log_x)
    at_right = float(np.exp(np.interp(np.log(right), log_x[order], log_y[order], np.nan, np.nan)))
    style: Any = {"fontsize": 7.5, "color": colour, "fontweight": "bold", "annotation_clip": False}
    leaves_top, leaves_right = left * 1.02 < at_top < right, bottom * 1.02 < at_right < top
    if leaves_top:
        ax.annotate(text, (at_top, 1), (0, 3), ("data", "axes fraction"), textcoords="offset points",
                    ha="center", va="bottom", **style)  # fmt: skip
    if leaves_right:
        ax.annotate(text, (1, at_right), (4, 0), ("axes fraction", "data"), textcoords="offset points",
                    ha="left", va="center", **style)  # fmt: skip
    seen = np.flatnonzero((x > left) & (x < right) & (y > bottom) & (y < top))
    if not (leaves_top or leaves_right) and seen.size:
        middle = seen[seen.size // 2]
        ax.text(x[middle], y[middle], text, fontsize=7.5, color=colour, fontweight="bold", ha="center",
                va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip
