"""Compute-optimal tokens for each model size, D*(N), and tokens per parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scaling.errors import NotIdentifiedError
from scaling.laws.base import Array
from scaling.plots.labels import dots, head
from scaling.plots.numbers import (
    band,
    best_tokens,
    beyond,
    columns,
    doubt,
    has_draws,
    how,
    params_label,
    span,
    thin,
)
from scaling.plots.style import BLUE, GREY, INK, SIZES, VERMILLION, canvas, grid, log_axis, panels
from scaling.summary import HEADLINE_PARAMS
from scaling.units import format_count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

COLUMNS = ("series", "row", "params", "tokens", "low", "high", "decades_beyond", "identified", "note")

#: Tokens per parameter of the rule of thumb (Hoffmann et al. 2022 as it is commonly quoted).
RULE = 20.0

_GRID, _MOST_RUNS, _FAR = 120, 800, 1e3


def tokens_data(fit: ChinchillaFit, mark: float | None = HEADLINE_PARAMS) -> pd.DataFrame:
    """Return the numbers behind `tokens`.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    mark : float, optional
        Size N marked; the range of sizes reaches it.

    Returns
    -------
    DataFrame
        ``series`` "run", "optimum" (D*(N) between ``low`` and ``high``; ``decades_beyond``: of compute
        beyond the runs), "rule" (20 N) or "mark" (``identified`` false where `tokens_at` refuses).
    """
    import pandas as pd

    runs = fit.runs
    sizes = np.append(runs.params, [] if mark is None else [mark, 2 * mark])
    n = np.geomspace(*span(sizes, 0.04), _GRID)
    d = best_tokens(fit, n)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        low, high = band(fit, np.asarray(fit.draws.tokens_at(n[:, None])), d, "tokens")
    parts = [
        columns(
            COLUMNS, series="run", row=runs.row, params=runs.params, tokens=runs.tokens, decades_beyond=0.0,
            identified=True, note="",
        ),
        columns(COLUMNS, series="rule", params=n[[0, -1]], tokens=RULE * n[[0, -1]], identified=True, note=""),
        columns(
            COLUMNS, series="optimum", params=n, tokens=d, low=low, high=high,
            decades_beyond=beyond(fit, n, d), identified=True, note="",
        ),
    ]  # fmt: skip
    if mark is not None:
        parts.append(_mark(fit, mark))
    return pd.concat([pd.DataFrame(p) for p in parts], ignore_index=True)


def _mark(fit: ChinchillaFit, params: float) -> dict[str, Array]:
    """Return D* at one size, and in words what the fit has to say about it."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = fit.tokens_at(params, unidentified="return")
        try:
            fit.tokens_at(params)
            identified = True
        except NotIdentifiedError:
            identified = False
    away = float(beyond(fit, np.array([params]), np.array([answer.value]))[0])
    name = format_count(params)
    if identified:
        note = f"D*({name}) = {answer}"
    else:
        ends = ""
        if answer.low == answer.low:
            low, high = format_count(answer.low), format_count(answer.high)
            ends = f"\n{100 * answer.level:g}% interval {low} to {high}"
        note = f"D*({name}) is not identified{ends}"
    if 0 < away < np.inf:
        note += f"\n{away:.1f} decades of compute beyond the runs"
    return columns(
        COLUMNS, series="mark", params=params, tokens=answer.value, low=answer.low, high=answer.high,
        decades_beyond=away, identified=identified, note=note,
    )  # fmt: skip


def tokens(
    fit: ChinchillaFit,
    ax: Axes | None = None,
    *,
    mark: float | None = HEADLINE_PARAMS,
    data: pd.DataFrame | None = None,
) -> Axes:
    """Draw D*(N) with its band, and below it D*(N)/N.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    mark : float, optional
        Size N marked with its answer; None for none.
    data : DataFrame, optional
        What `tokens_data` returned.
    """
    data = tokens_data(fit, mark) if data is None else data
    with canvas(ax, SIZES["tokens"]) as ax:
        upper, lower = (row[0] for row in panels(ax, (1.6, 1.0), (1.0,), gap=(0.0, 0.18)))
        _draw(upper, data, fit, per_param=False)
        _draw(lower, data, fit, per_param=True)
        upper.tick_params(labelbottom=False)
        upper.set_ylabel("compute-optimal tokens D*")
        lower.set_ylabel("D*/N (tokens/parameter)")
        lower.set_xlabel(params_label(fit))
        notes = [
            "blue: D*(N), dashed where 6·N·D* lies beyond the compute of the runs",
            how(fit, "band"),
            "points: runs",
            f"grey: {RULE:g} tokens per parameter",
        ]
        head(ax, "Compute-optimal tokens for each model size", notes, doubt(fit))
    return ax


def _draw(ax: Axes, data: pd.DataFrame, fit: ChinchillaFit, *, per_param: bool) -> None:
    """Draw one panel: tokens, or tokens per parameter."""
    series = dict(tuple(data.groupby("series")))
    best, runs, rule = series["optimum"], series["run"], series["rule"]
    n, line = best["params"].to_numpy(), _y(best, "tokens", per_param)
    low, high = _y(best, "low", per_param), _y(best, "high", per_param)
    log_axis(ax.xaxis, n[0], n[-1])
    seen = np.concatenate([_y(f, "tokens", per_param) for f in (runs, rule)])
    # A line that runs off to where nobody goes must not squeeze the runs into a corner.
    bottom, top = span(np.append(seen, np.clip(line, seen.min() / _FAR, seen.max() * _FAR)))
    if has_draws(fit):
        # The band may widen the plot by a decade and a half, not to where nothing else can be seen.
        bottom = min(bottom, max(float(np.nanmin(low)) / 1.2, bottom / 30))
        top = max(top, min(float(np.nanmax(high)) * 1.2, top * 30))
    log_axis(ax.yaxis, bottom, top)
    grid(ax)
    shown = runs.iloc[thin(len(runs), _MOST_RUNS)]
    x, y = shown["params"].to_numpy(), _y(shown, "tokens", per_param)
    dots(ax, x, y, GREY, 2.8, alpha=0.55, zorder=2)
    ax.plot(
        rule["params"], _y(rule, "tokens", per_param), color=GREY, linewidth=1.0, linestyle=(0, (6, 2, 1, 2)),
        zorder=3,
    )  # fmt: skip
    if has_draws(fit):
        ax.fill_between(
            n, np.clip(low, bottom / 10, top * 10), np.clip(high, bottom / 10, top * 10), color=BLUE, alpha=0.2,
            linewidth=0, zorder=3,
        )  # fmt: skip
    inside = best["decades_beyond"].to_numpy() <= 0
    ax.plot(n, line, color=BLUE, linewidth=1.1, linestyle=(0, (4, 2)), zorder=4)
    ax.plot(n, np.where(inside, line, np.nan), color=BLUE, linewidth=2.2, zorder=5)
    if "mark" in series:
        _annotate(ax, series["mark"].iloc[[0]], per_param=per_param)


def _annotate(ax: Axes, mark: pd.DataFrame, *, per_param: bool) -> None:
    """Mark one size, with its interval, and say what the fit says about it."""
    x = float(mark["params"].iloc[0])
    value, low, high = (float(_y(mark, name, per_param)[0]) for name in ("tokens", "low", "high"))
    identified = bool(mark["identified"].iloc[0])
    bottom, top = ax.get_ylim()
    colour = INK if identified else VERMILLION
    ax.axvline(x, color=colour, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
    if low == low:
        ax.vlines(x, max(low, bottom), min(high, top), color=colour, linewidth=2.0, zorder=6)
    ax.plot(
        [x], [value], "o", color=colour if identified else "white", markeredgecolor=colour, markersize=5,
        markeredgewidth=1.2, zorder=7,
    )  # fmt: skip
    if per_param:
        return
    ax.text(
        0.98, 0.04, str(mark["note"].iloc[0]), transform=ax.transAxes, ha="right", va="bottom", fontsize=8,
        color=colour, zorder=8, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )  # fmt: skip


def _y(frame: pd.DataFrame, column: str, per_param: bool) -> Array:
    """Return tokens, or tokens per parameter."""
    values = frame[column].to_numpy(dtype=float)
    return np.asarray(values / frame["params"].to_numpy() if per_param else values)
