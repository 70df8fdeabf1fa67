"""Loss against parameters at fixed compute: slices of the law, the runs near them, and the frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scaling.laws.base import Array, Mask
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN
from scaling.plots.labels import head, side_legend
from scaling.plots.numbers import (
    WINDOW,
    band,
    budgets,
    columns,
    doubt,
    has_draws,
    how,
    loss_label,
    params_label,
    thin,
)
from scaling.plots.style import INK, canvas, flops_text, grid, log_axis, loss_axis, ordered_colours

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

COLUMNS = (
    "series", "budget", "row", "flops", "params", "tokens", "loss", "loss_at_budget", "low", "high",
    "params_low", "params_high", "among_runs",
)  # fmt: skip

_GRID, _MOST_RUNS = 60, 600
#: A slice reaches this factor beyond its runs and beyond its optimum, if that is near.
_REACH, _NEAR = 2.0, 30.0


def isoflop_data(fit: ChinchillaFit) -> pd.DataFrame:
    """Return the numbers behind `isoflop`.

    Returns
    -------
    DataFrame
        ``series`` "slice" (the law at ``budget`` FLOPs), "run" (``loss_at_budget`` is its loss times the
        law's ratio between the budget's tokens and its own; ``budget`` is nan for runs near none),
        "optimum" (the best size of each budget, between ``params_low`` and ``params_high``) or
        "frontier" (the same over all compute).
    """
    import pandas as pd

    runs, law = fit.runs, fit.law
    flops, index = budgets(fit)
    member = index >= 0
    own = np.where(member, flops[np.maximum(index, 0)], np.nan)
    at = own / FLOPS_PER_PARAM_TOKEN / runs.params
    moved = np.full(len(runs), np.nan)
    ratio = np.asarray(law.loss(runs.params[member], at[member]))
    ratio = ratio / np.asarray(law.loss(runs.params[member], runs.tokens[member]))
    moved[member] = runs.loss[member] * ratio
    parts = [
        columns(
            COLUMNS, series="run", budget=own, row=runs.row, flops=runs.compute, params=runs.params,
            tokens=runs.tokens, loss=runs.loss, loss_at_budget=moved, among_runs=True,
        )
    ]  # fmt: skip
    for k, c in enumerate(flops):
        sizes = runs.params[index == k]
        best = float(law.optimal(c).params)
        n, inside = _sizes(sizes, best, runs.params)
        d = c / FLOPS_PER_PARAM_TOKEN / n
        loss = np.asarray(law.loss(n, d))
        low, high = band(fit, np.asarray(fit.draws.loss(n[:, None], d[:, None])), loss, "loss")
        parts.append(
            columns(
                COLUMNS, series="slice", budget=c, flops=c, params=n, tokens=d, loss=loss, low=low, high=high,
                among_runs=inside,
            )
        )  # fmt: skip
    for series, c in (("optimum", flops), ("frontier", np.geomspace(flops.min(), flops.max(), _GRID))):
        best_at = law.optimal(c)
        draws = fit.draws.optimal(c[:, None])
        low, high = band(fit, np.asarray(draws.loss), np.asarray(best_at.loss), "loss")
        n_low, n_high = band(fit, np.asarray(draws.params), np.asarray(best_at.params), "params")
        inside = (best_at.params >= runs.params.min()) & (best_at.params <= runs.params.max())
        parts.append(
            columns(
                COLUMNS, series=series, budget=c, flops=c, params=best_at.params, tokens=best_at.tokens,
                loss=best_at.loss, low=low, high=high, params_low=n_low, params_high=n_high, among_runs=inside,
            )
        )  # fmt: skip
    return pd.concat([pd.DataFrame(p) for p in parts], ignore_index=True)


def _sizes(of_budget: Array, best: float, all_sizes: Array) -> tuple[Array, Mask]:
    """Return the sizes a slice is drawn at, and which of them its runs cover."""
    known = of_budget if of_budget.size else np.array([np.sqrt(all_sizes.min() * all_sizes.max())])
    low, high = float(known.min()), float(known.max())
    left, right = low / _REACH, high * _REACH
    if low / _NEAR < best < high * _NEAR:
        left, right = min(left, best / _REACH), max(right, best * _REACH)
    n = np.geomspace(left, right, _GRID)
    return n, (n >= low / 1.02) & (n <= high * 1.02) & (of_budget.size > 1)


def isoflop(fit: ChinchillaFit, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw loss against parameters at fixed compute, with the minima joined to the efficient frontier.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `isoflop_data` returned.
    """
    data = isoflop_data(fit) if data is None else data
    series = dict(tuple(data.groupby("series")))
    runs, slices, best, frontier = (series[k] for k in ("run", "slice", "optimum", "frontier"))
    runs = runs[runs["budget"].notna()]
    with canvas(ax) as ax:
        flops = np.sort(slices["budget"].unique())
        colours = ordered_colours(len(flops))
        n = slices["params"].to_numpy()
        log_axis(ax.xaxis, float(n.min()), float(n.max()))
        # Every curve of the legend and every optimum must be seen, also where no run is near.
        near = best["params"].between(n.min(), n.max())
        lowest = slices.groupby("budget")["loss"].min()
        seen = np.concatenate([runs["loss_at_budget"], best["loss"][near], lowest])
        loss_axis(ax.yaxis, seen[np.isfinite(seen)] if np.isfinite(seen).any() else fit.runs.loss)
        grid(ax)
        for c, colour in zip(flops, colours, strict=True):
            line = slices[slices["budget"] == c]
            x, y = line["params"].to_numpy(), line["loss"].to_numpy()
            if has_draws(fit):
                ax.fill_between(x, line["low"], line["high"], color=colour, alpha=0.18, linewidth=0, zorder=1)
            inside = line["among_runs"].to_numpy(dtype=bool)
            ax.plot(x, y, color=colour, linewidth=0.9, linestyle=(0, (3, 2.5)), alpha=0.8, zorder=2)
            ax.plot(x, np.where(inside, y, np.nan), color=colour, zorder=3)
            points = runs[runs["budget"] == c]
            points = points.iloc[thin(len(points), _MOST_RUNS // len(flops))]
            ax.plot(
                points["params"], points["loss_at_budget"], "o", color=colour, markeredgecolor="white",
                markeredgewidth=0.4, zorder=4,
            )  # fmt: skip
        ax.plot(frontier["params"], frontier["loss"], color=INK, linewidth=1.2, zorder=5)
        ax.plot(
            best["params"], best["loss"], "D", color="white", markeredgecolor=INK, markersize=4.5,
            markeredgewidth=1.1, zorder=7,
        )  # fmt: skip
        if has_draws(fit):
            ax.hlines(
                best["loss"], best["params_low"], best["params_high"], color=INK, linewidth=0.9, zorder=6
            )
        side_legend(ax, [flops_text(c, 2) for c in flops], colours, title="6ND (FLOP)")
        ax.set_xlabel(params_label(fit))
        ax.set_ylabel(loss_label(fit))
        notes = [
            "curves: the law at fixed 6ND",
            f"points: runs within {100 * np.expm1(WINDOW):.0f}% of a budget, moved to it along the law",
            "diamonds: the best size of each budget, joined to the efficient frontier",
            how(fit, "bands and bars"),
        ]
        if not near.all():
            notes.append(f"{(~near).sum()} of {len(near)} best sizes lie beyond the plot")
        head(ax, "Loss at fixed compute and the efficient frontier", notes, doubt(fit))
    return ax
