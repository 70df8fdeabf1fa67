"""Money against time: which machines are worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from economics.run_estimates import dollars
from scaling.plots.labels import head
from scaling.plots.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    canvas,
    grid,
    log_axis,
)
from scaling.units import format_count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from economics.run_compare import RunComparison

_COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)


def pareto_data(comparison: RunComparison) -> pd.DataFrame:
    """Return one row a run: ``gpu, n_gpus, wall_hours, usd`` with ``_low`` and ``_high``, ``pareto``, ``fits``."""
    import pandas as pd

    front = {id(run) for run in comparison.pareto}
    rows = []
    for run in comparison.runs:
        wall, usd = run.wall_hours, run.usd
        rows.append(
            {
                "gpu": run.plan.part.name, "n_gpus": run.plan.n_gpus,
                "wall_hours": wall.value, "wall_hours_low": wall.low, "wall_hours_high": wall.high,
                "usd": usd.value, "usd_low": usd.low, "usd_high": usd.high,
                "pareto": id(run) in front,
                "fits": all(f.code != "does_not_fit" for f in run.findings),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def pareto(comparison: RunComparison, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw cost against wall time, both with their intervals; what nothing beats in both is joined.

    Parameters
    ----------
    comparison : RunComparison
        Of `RunCost.compare`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `pareto_data` returned.
    """
    from matplotlib.lines import Line2D

    data = pareto_data(comparison) if data is None else data
    with canvas(ax) as ax:
        # Ticks are round numbers of the unit: days, or hours where that is all it takes.
        unit = 24.0 if data["wall_hours"].median() > 96 else 1.0
        data = data.assign(**{str(c): data[c] / unit for c in data if str(c).startswith("wall_hours")})
        for axis, name, write in ((ax.xaxis, "wall_hours", format_count), (ax.yaxis, "usd", dollars)):
            ends = data[[f"{name}_low", f"{name}_high", name]].to_numpy(dtype=float)
            log_axis(axis, float(ends.min()) / 1.35, float(ends.max()) * 1.35, write)
        grid(ax)
        names = list(dict.fromkeys(data["gpu"]))
        colour = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
        front = data[data["pareto"]].sort_values("wall_hours")
        ax.plot(front["wall_hours"], front["usd"], color=GREY, linewidth=1.0, linestyle=(0, (4, 2)), zorder=2)
        for _, row in data.iterrows():
            c = colour[str(row["gpu"])]
            ax.plot([row["wall_hours_low"], row["wall_hours_high"]], [row["usd"]] * 2, color=c, linewidth=0.9,
                    alpha=0.45, zorder=3)  # fmt: skip
            ax.plot([row["wall_hours"]] * 2, [row["usd_low"], row["usd_high"]], color=c, linewidth=0.9,
                    alpha=0.45, zorder=3)  # fmt: skip
            ax.plot(
                [row["wall_hours"]], [row["usd"]], "o", markersize=6 if row["pareto"] else 4.5,
                color=c if row["fits"] else "white", markeredgecolor=INK if row["pareto"] else c,
                markeredgewidth=1.0, zorder=5,
            )  # fmt: skip
            ax.annotate(
                f"{row['n_gpus']}", (row["wall_hours"], row["usd"]), (5, 5), textcoords="offset points",
                fontsize=7.5, color=c, fontweight="bold", zorder=6,
            )  # fmt: skip
        handles = [
            Line2D([], [], marker="o", linestyle="", color=colour[n], markersize=5, label=n) for n in names
        ]
        ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), borderaxespad=0.0)
        ax.set_xlabel(f"wall time, {'days' if unit > 1 else 'hours'}")
        ax.set_ylabel("cost")
        doubt = "" if data["fits"].all() else "hollow: does not fit into the memory of the GPUs"
        notes = [
            _what(comparison),
            "numbers: GPUs",
            "lines: P10 to P90 of time and cost",
            "ringed and joined: nothing is both cheaper and faster (medians)",
        ]
        head(ax, "Money against time", notes, doubt)
    return ax


def _what(comparison: RunComparison) -> str:
    if not comparison.runs:
        return ""
    plan = comparison.runs[0].plan
    markets = ", ".join(dict.fromkeys(str(run.plan.market) for run in comparison.runs))
    return f"{format_count(plan.params)} parameters, {format_count(plan.tokens)} tokens, {markets}"
