"""Which uncertain factor moves a cost most: the tornado."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.plots.bars import bars_size
from economics.run_estimates import dollars, duration, plain_number
from economics.run_text import headline
from scaling.plots.labels import head
from scaling.plots.style import BLUE, GREY, INK, VERMILLION, canvas
from scaling.units import format_count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from economics.run_result import RunCost

_WRITE: dict[str, Any] = {"usd": dollars, "wall_hours": duration}
#: How the value of a factor is written.
_AT: dict[str, Callable[[float], str]] = {
    "MFU": lambda x: f"{x:.0%}",
    "price of a GPU-hour": lambda x: f"${x:.2f}",
    "preemption rate": lambda x: f"x {x:.2g}",
    "luck with interruptions": lambda x: "bad" if x > 0 else "good",
    "start-up": duration,
    "evaluation": lambda x: f"{x:.1%}",
    "share of rated power drawn": lambda x: f"{x:.0%}",
}
_NAMES = {
    "usd": "cost", "gpu_hours": "GPU-hours", "wall_hours": "wall time, hours", "energy_kwh": "energy, kWh",
    "co2_kg": "CO2, kg",
}  # fmt: skip
#: Factors that move the answer by less than this share of it are left out.
_SMALL = 0.01


def tornado_data(run: RunCost, of: str = "usd") -> pd.DataFrame:
    """Return the swings: ``factor``, its ``at_low`` and ``at_high`` (P10, P90), the answers ``low`` and ``high`` there.

    The last row is ``middle``: the answer with every factor at its median, in ``low`` and ``high`` both.
    """
    import pandas as pd

    found = run.sensitivity(of)
    rows = [(s.factor, s.at_low, s.at_high, s.low, s.high) for s in found.swings]
    rows.append(("middle", np.nan, np.nan, found.middle, found.middle))
    return pd.DataFrame(rows, columns=["factor", "at_low", "at_high", "low", "high"])


def shown(data: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are bars: factors that move the answer visibly, eight at most."""
    middle = float(data[data["factor"] == "middle"]["low"].iloc[0])
    swings = data[data["factor"] != "middle"]
    span = (swings["high"] - swings["low"]).abs()
    return swings[span > _SMALL * middle].iloc[:8]


def tornado(
    run: RunCost, ax: Axes | None = None, *, of: str = "usd", data: pd.DataFrame | None = None
) -> Axes:
    """Draw how far each uncertain factor moves the answer, the largest on top.

    Parameters
    ----------
    run : RunCost
        The cost.
    ax : Axes, optional
        Where to draw; a new figure by default.
    of : {"usd", "gpu_hours", "wall_hours", "energy_kwh", "co2_kg"}
        The answer.
    data : DataFrame, optional
        What `tornado_data` returned.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    data = tornado_data(run, of) if data is None else data
    middle = float(data[data["factor"] == "middle"]["low"].iloc[0])
    bars = shown(data)
    swings = data[data["factor"] != "middle"]
    left_out = list(swings[~swings.index.isin(bars.index)]["factor"])
    write = _WRITE.get(of, plain_number)
    short = (lambda x: f"${format_count(x)}") if of == "usd" else format_count
    with canvas(ax, bars_size(len(bars) + 1)) as ax:
        y = np.arange(len(bars))[::-1]
        ends = bars[["low", "high"]].to_numpy(dtype=float)
        low, high = (float(f(np.append(ends, middle))) for f in (np.min, np.max))
        room = 0.14 * max(high - low, 0.02 * middle)
        ax.set_xlim(low - room, high + room)
        ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))
        for at, (_, row) in zip(y, bars.iterrows(), strict=True):
            for end, value, colour in (("at_low", row["low"], BLUE), ("at_high", row["high"], VERMILLION)):
                ax.barh(at, value - middle, left=middle, height=0.58, color=colour, zorder=2)
                outward = value >= middle
                words = _AT.get(str(row["factor"]), "{:.3g}".format)(row[end])
                ax.annotate(
                    words, (value, at), (4 if outward else -4, 0), textcoords="offset points", va="center",
                    ha="left" if outward else "right", fontsize=7.5, color=INK,
                )  # fmt: skip
        ax.axvline(middle, color=INK, linewidth=0.9, zorder=3)
        ax.set_yticks(y, list(bars["factor"]))
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(-0.6, max(len(bars) - 0.4, 0.6))
        ax.grid(visible=True, axis="x", which="major", color="#ececec", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel(_NAMES[of])
        ax.spines[["left"]].set_color(GREY)
        notes = [
            headline(run),
            f"line: {write(middle)}, all at their medians; blue: one factor at its P10, red: at its P90",
            f"hardly move it: {', '.join(left_out)}" if left_out else "",
        ]
        head(ax, f"What moves the {_NAMES[of].split(',')[0]} most", notes)
    return ax
