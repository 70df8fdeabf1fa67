"""A spike drawn: loss, gradient norm and learning rate around it, with its marks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reference_trainer.training_log import TrainingLog
from scaling.plots.output import write_picture
from scaling.plots.style import BLUE, GREEN, GREY, INK, ORANGE, VERMILLION, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Panels below the loss, those that the log has, and their axes.
_PANELS = (("grad_norm", "gradient norm"), ("update_norm", "update norm"), ("lr", "learning rate"))
_MOST_PANELS = 3
#: Steps shown before the first evidence and after it, at least.
_BEFORE, _AFTER = 150, 300


def picture_data(log: TrainingLog, spike: Any) -> pd.DataFrame:
    """Return the rows that are drawn: ``line, attempt, step, loss`` and the norms; an attempt ends where steps go back.

    Parameters
    ----------
    log : TrainingLog
    spike : reference_trainer.spike_events.Spike
    """
    import pandas as pd

    history = log.history()
    step = history["step"]
    length = max((spike.end_step or 0) - spike.first_step, spike.peak_step - spike.first_step, 1)
    low, high = (
        spike.first_step - max(_BEFORE, length // 2),
        spike.first_step + max(_AFTER, int(1.5 * length)),
    )
    attempt = np.concatenate(([0], np.cumsum(np.diff(step) <= 0)))
    here = (step >= low) & (step <= high)
    names = ["step", "loss", *(name for name, _ in _PANELS if name in history)]
    columns = {"line": history["line"][here].astype(int), "attempt": attempt[here] - attempt[spike.row]}
    return pd.DataFrame({**columns, **{name: history[name][here] for name in names}})


def draw(spike: Any, data: pd.DataFrame, ax: Axes, *, title: str = "") -> Axes:
    """Draw a spike: this attempt dark, what came before or after a restart pale.

    Parameters
    ----------
    spike : reference_trainer.spike_events.Spike
    data : DataFrame
        From `picture_data`.
    ax : Axes
        Split into panels.
    title : str

    Returns
    -------
    Axes
    """
    below = [(name, label) for name, label in _PANELS if name in data.columns][: _MOST_PANELS - 1]
    rows = panels(ax, [2.0, *[1.0] * len(below)], [1.0], gap=(0.0, 0.12))
    ax.set_title(title)
    for row, (name, label) in zip(rows, [("loss", "loss (nats/token)"), *below], strict=True):
        _panel(row[0], spike, data, name, label)
    for row in rows[:-1]:
        row[0].tick_params(labelbottom=False)
    rows[-1][0].set_xlabel("step")
    rows[0][0].legend(loc="upper right", fontsize=7.5, frameon=True, framealpha=0.85, edgecolor="none")
    return ax


def _panel(ax: Axes, spike: Any, data: pd.DataFrame, name: str, label: str) -> None:
    for attempt, part in data.groupby("attempt"):
        own = attempt == 0
        value = part[name].to_numpy(dtype=float)
        style: dict[str, Any] = {
            "color": BLUE if own else GREY,
            "alpha": 1.0 if own else 0.45,
            "linewidth": 1.2,
        }
        ax.plot(
            part["step"],
            np.where(np.isfinite(value), value, np.nan),
            marker="." if len(part) < 60 else "",
            **style,
        )
        broken = ~np.isfinite(value)
        if name == "loss" and broken.any() and own:
            top = np.nanmax(np.where(np.isfinite(value), value, np.nan)) if (~broken).any() else 1.0
            ax.plot(
                part["step"][broken],
                np.full(int(broken.sum()), top),
                "x",
                color=VERMILLION,
                label="not finite",
            )
    finite = data[name].to_numpy(dtype=float)
    finite = finite[np.isfinite(finite) & (finite > 0)]
    if name != "loss" and len(finite) and finite.max() > 20 * finite.min():
        ax.set_yscale("log")
        ax.minorticks_off()
    elif name == "lr":
        ax.set_ylim(bottom=0.0)  # else a change of the last digit fills the panel
    marks = [(spike.first_step, ORANGE, "first evidence"), (spike.alarm_step, VERMILLION, "alarm"),
             (spike.peak_step, INK, "peak"), (spike.end_step, GREEN, "back")]  # fmt: skip
    for step, colour, word in marks:
        if step is not None:
            ax.axvline(step, color=colour, linewidth=0.9, linestyle="--", label=f"{word}, step {step:,}")
    if name == "loss":
        ax.axhline(
            spike.loss_before,
            color=GREY,
            linewidth=0.8,
            linestyle=":",
            label=f"before, {spike.loss_before:.3f}",
        )
    ax.set_ylabel(label, fontsize=8)


def save_picture(log: TrainingLog, spike: Any, path: Path, title: str) -> tuple[Path, Path]:
    """Write the picture and, beside it, its numbers as CSV.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    data = picture_data(log, spike)
    return write_picture(path, lambda ax: draw(spike, data, ax, title=title), data, (7.4, 5.6))
