"""The two figures of `experiments.benchmarks.mup`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scaling.plots.style import GREY, STYLE, ordered_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.benchmarks.mup_coordinates import Size
    from experiments.benchmarks.mup_transfer import Run

_TITLES = {True: "with muP", False: "without"}


def _mean(values: Sequence[float]) -> float:
    """Return the mean; inf where a run failed."""
    return float(np.mean(values))


def _widths(axes: Axes, widths: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(widths))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def draw_coordinates(sizes: Sequence[Size], path: Path) -> None:
    """Draw how large stream and logits are over width, a line for each number of steps; tied models.

    Parameters
    ----------
    sizes : sequence of Size
        Readings of all seeds; their mean of logarithms is drawn.
    path : pathlib.Path
        The picture.
    """
    import matplotlib as mpl

    tied = [s for s in sizes if s.tied]
    widths, steps = sorted({s.width for s in tied}), sorted({s.step for s in tied})
    colours = ordered_colours(len(steps))
    with mpl.rc_context(STYLE):
        import matplotlib.pyplot as plt

        figure, panels = plt.subplots(
            2, 2, figsize=(7.4, 6.0), layout="constrained", sharex=True, sharey="row"
        )
        for row, quantity in zip(panels, ("stream", "logits"), strict=True):
            for axes, mup in zip(row, (True, False), strict=True):
                for step, colour in zip(steps, colours, strict=True):
                    own = [s for s in tied if (s.mup, s.quantity, s.step) == (mup, quantity, step)]
                    values = [np.exp(_mean([np.log(s.rms) for s in own if s.width == w])) for w in widths]
                    axes.plot(
                        widths,
                        values,
                        "o-",
                        color=colour,
                        label=f"{step}" if step in (0, steps[-1]) else None,
                    )
                axes.set_yscale("log")
                _widths(axes, widths)
                axes.set_title(f"{quantity}, {_TITLES[mup]}")
            row[0].set_ylabel(f"rms of the {quantity}")
        for axes in panels[-1]:
            axes.set_xlabel("width")
        panels[0][0].legend(title="steps made")
        figure.savefig(path)
        plt.close(figure)


def draw_transfer(runs: Sequence[Run], path: Path) -> None:
    """Draw the loss over the learning rate, a line for each width: the mean of the seeds, and each as a dot.

    Parameters
    ----------
    runs : sequence of Run
        All runs.
    path : pathlib.Path
        The picture.
    """
    import matplotlib as mpl

    from experiments.benchmarks.mup_models import SOURCE
    from experiments.benchmarks.mup_transfer import TRANSFER_BASE

    widths = sorted({r.width for r in runs})
    with mpl.rc_context(STYLE):
        import matplotlib.pyplot as plt

        figure, panels = plt.subplots(
            1, 2, figsize=(7.4, 3.8), layout="constrained", sharex=True, sharey=True
        )
        for axes, mup in zip(panels, (True, False), strict=True):
            for width, colour in zip(widths, ordered_colours(len(widths)), strict=True):
                own = [r for r in runs if r.width == width and (r.mup == mup or width == TRANSFER_BASE)]
                rates = sorted({r.log2_lr for r in own})
                means = [_mean([r.loss for r in own if r.log2_lr == rate]) for rate in rates]
                axes.plot(rates, means, "-", color=colour, label=f"{width}")
                axes.plot([r.log2_lr for r in own], [r.loss for r in own], ".", color=colour)
                axes.plot(rates[int(np.argmin(means))], min(means), "o", color=colour, markersize=7)
            axes.axhline(SOURCE.entropy, color=GREY, linestyle=":", linewidth=1)
            axes.set_title(_TITLES[mup])
            axes.set_xlabel("log2 of the learning rate")
        panels[0].set_ylabel("loss, nats/token (dotted: entropy)")
        panels[0].legend(title="width")
        figure.savefig(path)
        plt.close(figure)
