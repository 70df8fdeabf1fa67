"""Loss against tokens for each model size: the runs, the law, and the interval of the law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scaling.plots.labels import head, side_labels
from scaling.plots.numbers import band, columns, doubt, has_draws, how, loss_label, size_groups, span, thin
from scaling.plots.style import GREY, canvas, grid, log_axis, loss_axis, ordered_colours
from scaling.units import format_count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

COLUMNS = ("series", "size", "row", "params", "tokens", "loss", "loss_at_size", "low", "high", "among_runs")

_GRID = 60
#: Runs shown at most; the CSV has all.
MOST_RUNS = 800


def curves_data(fit: ChinchillaFit) -> pd.DataFrame:
    """Return the numbers behind `curves`.

    Returns
    -------
    DataFrame
        ``series`` "run" (``size``: the curve it belongs to; ``loss_at_size``: its loss times the law's
        ratio between that size and its own, where sizes are grouped) or "law" (``low``, ``high``:
        interval of the law; ``among_runs``: whether runs of this size reach these tokens); parameters,
        tokens, and losses in the unit of the table.
    """
    import pandas as pd

    runs = fit.runs
    group, sizes = size_groups(runs.params)
    left, right = span(runs.tokens)
    tokens = np.geomspace(left, right, _GRID)
    at_size = np.asarray(fit.law.loss(sizes[group], runs.tokens))
    moved = runs.loss * at_size / np.asarray(fit.law.loss(runs.params, runs.tokens))
    grouped = np.abs(np.log(runs.params / sizes[group])).max() > 0.01
    parts = [
        columns(
            COLUMNS, series="run", size=sizes[group], row=runs.row, params=runs.params, tokens=runs.tokens,
            loss=runs.loss, loss_at_size=moved if grouped else runs.loss, among_runs=True,
        )
    ]  # fmt: skip
    for k, size in enumerate(sizes):
        of_size = runs.tokens[group == k]
        loss = np.asarray(fit.law.loss(size, tokens))
        low, high = band(fit, fit.draws.loss(size, tokens[:, None]), loss, "loss")
        inside = (tokens >= of_size.min() / 1.05) & (tokens <= of_size.max() * 1.05)
        parts.append(
            columns(
                COLUMNS, series="law", size=size, params=size, tokens=tokens, loss=loss, low=low, high=high,
                among_runs=inside,
            )
        )  # fmt: skip
    return pd.concat([pd.DataFrame(p) for p in parts], ignore_index=True)


def curves(fit: ChinchillaFit, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw loss against tokens, one curve for each size, or for groups of sizes where there are many.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `curves_data` returned.
    """
    data = curves_data(fit) if data is None else data
    with canvas(ax) as ax:
        runs, law = data[data["series"] == "run"], data[data["series"] == "law"]
        grouped = not np.allclose(runs["loss"], runs["loss_at_size"], rtol=1e-12)
        sizes = np.sort(law["size"].unique())
        colours = ordered_colours(len(sizes))
        log_axis(ax.xaxis, *span(runs["tokens"].to_numpy()))
        floor = fit.law.E
        losses = runs["loss_at_size"].to_numpy()
        near = floor > 0 and losses.min() - floor < 0.5 * np.ptp(losses)
        loss_axis(ax.yaxis, losses, low=floor - 0.04 * np.ptp(losses) if near else None)
        grid(ax)
        for size, colour in zip(sizes, colours, strict=True):
            line = law[law["size"] == size]
            x, y = line["tokens"].to_numpy(), line["loss"].to_numpy()
            if has_draws(fit):
                ax.fill_between(x, line["low"], line["high"], color=colour, alpha=0.18, linewidth=0, zorder=1)
            solid = line["among_runs"].to_numpy(dtype=bool)
            ax.plot(x, y, color=colour, linewidth=0.9, linestyle=(0, (3, 2.5)), alpha=0.7, zorder=2)
            ax.plot(x, np.where(solid, y, np.nan), color=colour, zorder=3)
            points = runs[runs["size"] == size]
            points = points.iloc[thin(len(points), MOST_RUNS // len(sizes))]
            ax.plot(
                points["tokens"], points["loss_at_size"], "o", color=colour, markeredgecolor="white",
                markeredgewidth=0.4, zorder=4,
            )  # fmt: skip
        ends = [float(law[law["size"] == s]["loss"].iloc[-1]) for s in sizes]
        side_labels(
            ax, np.array(ends), [format_count(s) for s in sizes], colours, title="N ≈" if grouped else "N ="
        )
        if near:
            ax.axhline(floor, color=GREY, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
            ax.annotate(
                f"E = {floor:.3g}", (1, floor), (-4, 2), ("axes fraction", "data"),
                textcoords="offset points", ha="right", va="bottom", fontsize=7.5, color=GREY,
            )  # fmt: skip
        ax.set_xlabel("training tokens D")
        ax.set_ylabel(loss_label(fit))
        of = "the middle size of each group" if grouped else "each size"
        notes = [
            f"points: runs{', moved to that size along the law' if grouped else ''}",
            f"curves: the law at {of}, dashed beyond its runs",
            how(fit, "bands"),
        ]
        if grouped:
            notes[:2] = notes[1::-1]
        head(ax, f"Loss of {fit.n_runs} runs and the fitted law", notes, doubt(fit))
    return ax
