"""Profile of the objective over single coefficients: which values the runs do not exclude."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling.errors import DataError
from scaling.plots.labels import head
from scaling.plots.numbers import columns, doubt, has_draws
from scaling.plots.style import BLUE, GREY, SIZES, VERMILLION, canvas, grid, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from scaling.result import ChinchillaFit

COLUMNS = ("series", "coefficient", "value", "excess", "threshold", "low", "high", "note")

_LABELS = {"E": "E", "alpha": "α", "beta": "β"}
#: Excess shown, in thresholds.
_TOP = 4.0


def profile_data(fit: ChinchillaFit, n_boot: int = 200) -> pd.DataFrame:
    """Return the numbers behind `profile`.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    n_boot : int
        Replicates behind each threshold.

    Returns
    -------
    DataFrame
        ``series`` "profile" (objective above its minimum with ``coefficient`` held at ``value``) or
        "optimum" (with the ends of the values below the ``threshold``) or "refused" (``note`` says why
        there is none). Without draws nothing but a row of series "none".
    """
    import pandas as pd

    from scaling.profile import profile as profile_of

    parts = [columns(COLUMNS, series="none", coefficient="")]
    tied = {"beta"} if fit.settings.tied else set()
    names = [n for n in _LABELS if n not in fit.settings.fixed and n not in tied] if has_draws(fit) else []
    for name in names:
        try:
            p = profile_of(fit, name, n_boot=n_boot)
        except DataError as error:
            parts.append(columns(COLUMNS, series="refused", coefficient=name, note=str(error)))
            continue
        parts.append(
            columns(
                COLUMNS, series="profile", coefficient=name, value=p.values, excess=p.excess,
                threshold=p.threshold, low=p.low, high=p.high,
            )
        )  # fmt: skip
        parts.append(
            columns(
                COLUMNS, series="optimum", coefficient=name, value=p.estimate, excess=0.0,
                threshold=p.threshold, low=p.low, high=p.high,
            )
        )  # fmt: skip
    return pd.concat([pd.DataFrame(p) for p in parts], ignore_index=True)


def profile(fit: ChinchillaFit, ax: Axes | None = None, *, data: pd.DataFrame | None = None) -> Axes:
    """Draw the objective against E, alpha and beta, the others refitted at each value.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    ax : Axes, optional
        Where to draw; a new figure by default.
    data : DataFrame, optional
        What `profile_data` returned.
    """
    data = profile_data(fit) if data is None else data
    names = [n for n in _LABELS if (data["coefficient"] == n).any()]
    with canvas(ax, SIZES["profile"]) as ax:
        title = "Objective with one coefficient held"
        if not names:
            ax.set_axis_off()
            ax.text(
                0.5, 0.5, "no bootstrap draws to set a threshold by", ha="center", va="center", color=GREY
            )
            head(ax, title)
            return ax
        for k, (name, panel) in enumerate(
            zip(names, panels(ax, [1.0], [1.0] * len(names), gap=(0.18, 0.0))[0], strict=True)
        ):
            _draw(panel, data[data["coefficient"] == name])
            panel.set_xlabel(_LABELS[name])
            if k == 0:
                panel.set_ylabel("rise of the objective (thresholds)")
            else:
                panel.tick_params(labelleft=False)
        level = f"{100 * fit.settings.level:g}%"
        notes = [
            "blue: rise above the minimum, all other coefficients refitted",
            f"shaded: values the runs do not exclude at {level}, threshold from the bootstrap",
            "orange: the optimum",
        ]
        head(ax, title, notes, doubt(fit))
    return ax


def _draw(ax: Axes, data: pd.DataFrame) -> None:
    refused = data[data["series"] == "refused"]
    if len(refused):
        from textwrap import fill

        ax.set_xticks([])
        ax.set_yticks([])
        why = fill(str(refused["note"].iloc[0]), 30)
        ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", fontsize=7, color=GREY)
        return
    line, best = data[data["series"] == "profile"], data[data["series"] == "optimum"].iloc[0]
    unit = max(float(best["threshold"]), 1e-300)
    x = line["value"].to_numpy()
    ax.set_xlim(float(x[0]), float(x[-1]))
    ax.set_ylim(0.0, _TOP)
    grid(ax)
    low, high = max(float(best["low"]), float(x[0])), min(float(best["high"]), float(x[-1]))
    ax.axvspan(low, high, color=BLUE, alpha=0.12, linewidth=0)
    ax.axhline(1.0, color=GREY, linewidth=0.9, linestyle=(0, (3, 2)))
    ax.plot(x, line["excess"].to_numpy() / unit, color=BLUE, zorder=3)
    ax.axvline(float(best["value"]), color=VERMILLION, linewidth=1.2, zorder=2)
