"""What the money of a run goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from economics.plots.bars import bars_size
from economics.run_estimates import dollars
from economics.run_text import headline
from scaling.plots.labels import head
from scaling.plots.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION, canvas

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from economics.run_result import RunCost

#: Parts smaller than this are told in a note.
_SMALL = 0.005
#: Colours by what money is for: training, time lost, data, people.
_COLOURS = {
    "compute": BLUE, "evaluation": SKY, "start-up": SKY, "ablations": SKY,
    "saving": ORANGE, "rework": VERMILLION, "restarts": ORANGE,
    "storage": GREEN, "egress": GREEN, "people": PURPLE,
}  # fmt: skip


def breakdown_data(run: RunCost) -> pd.DataFrame:
    """Return the parts of a cost: ``part, share`` (mean over the draws), ``usd, low, high`` (P50, P10, P90)."""
    import pandas as pd

    shares = run.shares
    rows = [
        {"part": name, "share": shares[name], "usd": e.value, "low": e.low, "high": e.high}
        for name, e in run.breakdown.items()
        if shares[name] > 0
    ]
    rows.sort(key=lambda row: -float(str(row["share"])))
    total = run.usd
    rows.append({"part": "total", "share": 1.0, "usd": total.value, "low": total.low, "high": total.high})
    return pd.DataFrame(rows, columns=["part", "share", "usd", "low", "high"])


def shown(data: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are bars."""
    return data[(data["part"] != "total") & (data["share"] >= _SMALL)]


def breakdown(run: RunCost, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw the parts of a cost as bars, largest first, each with its share and its interval in dollars.

    Parameters
    ----------
    run : RunCost
        The cost.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `breakdown_data` returned.
    """
    data = breakdown_data(run) if data is None else data
    total = data[data["part"] == "total"].iloc[0]
    parts = data[data["part"] != "total"]
    bars = shown(data)
    rest = parts[parts["share"] < _SMALL]
    with canvas(ax, bars_size(len(bars))) as ax:
        y = np.arange(len(bars))[::-1]
        share = 100 * bars["share"].to_numpy(dtype=float)
        colours = [_COLOURS.get(str(name), GREY) for name in bars["part"]]
        ax.barh(y, share, height=0.62, color=colours, zorder=2)
        for at, (_, row) in zip(y, bars.iterrows(), strict=True):
            ends = f"{dollars(row['low'])} to {dollars(row['high'])}"
            words = f"{100 * row['share']:.1f}%   {dollars(row['usd'])}  ({ends})"
            ax.annotate(
                words, (100 * row["share"], at), (5, 0), textcoords="offset points", va="center", fontsize=8,
                color=INK, annotation_clip=False,
            )  # fmt: skip
        ax.set_yticks(y, [str(name) for name in bars["part"]])
        ax.tick_params(axis="y", length=0)
        # Room for the words behind the longest bar.
        ax.set_xlim(0, max(float(share.max()) * 1.62, 1.0))
        ax.set_ylim(-0.6, len(bars) - 0.4)
        ax.set_xticks([])
        ax.spines[["bottom"]].set_visible(False)
        small = (
            f"not bars, together {rest['share'].sum():.1%}: {', '.join(rest['part'])}" if len(rest) else ""
        )
        notes = [
            headline(run),
            "share of the mean; dollars are the median, in brackets P10 to P90",
            "medians do not add up to the median of the total",
            small,
        ]
        title = f"{dollars(total['usd'])}, 80% [{dollars(total['low'])}, {dollars(total['high'])}]: what it goes to"
        head(ax, title, notes)
    return ax
