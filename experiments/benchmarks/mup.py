"""Whether muP does what it promises: sizes of activations, and the best learning rate, that do not move with width.

    python -m experiments.benchmarks.mup                    # 20 minutes of one core
    python -m experiments.benchmarks.mup --write            # and put tables and figures into this folder

Coordinate check (arXiv 2203.03466, appendix D.1): a few steps of models of several widths, at one learning rate. Root
mean squares are taken on a batch that is never trained on: of the residual stream after the last block, of the logits,
and of how far both have moved since the start. A slope is d ln(rms) / d ln(width), its interval Student's over seeds.

Learning-rate transfer: whole runs of `train` on a second-order Markov source. The best rate of a width and a seed is
the vertex of the parabola through the best value of the grid and its neighbours; its slope over log2(width), by least
squares over widths and seeds, is the drift, in doublings of the rate per doubling of the width. What is in ``--kept``
already is not measured again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from experiments.benchmarks.mup_coordinates import (
    COORDINATE_BASE,
    COORDINATE_LR,
    COORDINATE_SEEDS,
    COORDINATE_WIDTHS,
    QUANTITIES,
    Size,
    coordinates,
    read_sizes,
    slopes,
)
from experiments.benchmarks.mup_models import SHAPE, SOURCE
from experiments.benchmarks.mup_transfer import (
    TRANSFER_BASE,
    TRANSFER_SEEDS,
    TRANSFER_STEPS,
    Run,
    bests,
    drift,
    transfer,
    write_rows,
)

FIGURES = Path(__file__).with_name("figures")


def interval(values: npt.NDArray[np.float64]) -> str:
    """Return mean and 95% interval (Student) of values that are independent."""
    from scipy.stats import t

    if len(values) < 2:
        return f"{values.mean():+.2f}"
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():+.2f} [{values.mean() - half:+.2f}, {values.mean() + half:+.2f}]"


def coordinate_table(sizes: Sequence[Size]) -> str:
    """Return the slopes at the start, after one step and after the last, with muP and without."""
    from experiments.benchmarks.tables import markdown

    last = max(s.step for s in sizes)
    rows = []
    for mup, tied in ((True, True), (True, False), (False, True), (False, False)):
        mine = [s for s in sizes if (s.mup, s.tied) == (mup, tied)]
        for quantity in QUANTITIES:
            cells = [
                interval(slopes(mine, quantity, step)) if step or not quantity.endswith("moved") else ""
                for step in (0, 1, last)
            ]
            name = f"{'muP' if mup else 'plain'}, {'tied' if tied else 'untied'}"
            rows.append([name, quantity, *cells[:-1], f"**{cells[-1]}**"])
    return markdown(["model", "rms of", "at the start", "after 1 step", f"after {last} steps"], rows)


def transfer_table(runs: Sequence[Run]) -> str:
    """Return the best rate of each width and its drift, with muP and without."""
    from experiments.benchmarks.tables import markdown

    found = {mup: bests(runs, mup) for mup in (True, False)}
    rows = [
        [width, *(_best_text(found[mup][width], runs, mup, width) for mup in (True, False))]
        for width in found[True]
    ]
    last = ["**drift, doublings per doubling**", *(_drift_text(found[mup]) for mup in (True, False))]
    return markdown(["width", "log2 of the best rate, muP", "plain"], [*rows, last])


def _drift_text(found: dict[int, list[tuple[float, bool]]]) -> str:
    slope, half = drift(found)
    return f"**{slope:+.2f} [{slope - half:+.2f}, {slope + half:+.2f}]**"


def _best_text(seeds: list[tuple[float, bool]], runs: Sequence[Run], mup: bool, width: int) -> str:
    values = " / ".join(f"{value:.1f}" + ("" if inside else "†") for value, inside in seeds)
    mine = [r for r in runs if r.width == width and (r.mup == mup or width == TRANSFER_BASE)]
    lowest = np.mean([min(r.loss for r in mine if r.seed == seed) for seed in sorted({r.seed for r in mine})])
    return f"{values} (loss {lowest:.3f})"


def main() -> None:
    """Print the tables, or write them and the figures."""
    from experiments.benchmarks.mup_figures import draw_coordinates, draw_transfer
    from experiments.benchmarks.tables import write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put tables and figures into this folder")
    parser.add_argument(
        "--kept", type=Path, default=Path("out/mup"), help="folder of what was measured so far"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.kept.mkdir(parents=True, exist_ok=True)
    measured = given.kept / "mup_coordinates.csv"
    if not measured.exists():
        write_rows(measured, [
            size
            for tied in (True, False) for mup in (True, False) for width in COORDINATE_WIDTHS
            for seed in range(COORDINATE_SEEDS) for size in coordinates(width, mup, seed, tied=tied)
        ])  # fmt: skip
    sizes, runs = read_sizes(measured), transfer(given.kept / "mup_transfer.csv")
    first = (
        f"{coordinate_table(sizes)}\n\nWidths {', '.join(map(str, COORDINATE_WIDTHS))}, muP's base "
        f"{COORDINATE_BASE}, rate 2^{np.log2(COORDINATE_LR):g}, {COORDINATE_SEEDS} seeds; torch {torch.__version__}."
    )
    second = (
        f"{transfer_table(runs)}\n\nEach of {TRANSFER_SEEDS} seeds; † at an end of the grid, so the best lies there or "
        f"beyond; loss in nats/token, mean of the seeds' best runs. Runs of {TRANSFER_STEPS} steps of "
        f"{SHAPE['batch_seqs'] * SHAPE['seq_len']} tokens from a source of {SOURCE.vocab} tokens and "  # type: ignore
        f"{SOURCE.entropy:.3f} nats; at width {TRANSFER_BASE}, the base, both are the same runs."
    )
    print(f"{first}\n\n{second}")
    if given.write:
        FIGURES.mkdir(exist_ok=True)
        write("mup_coordinates", first)
        write("mup_transfer", second)
        write_rows(FIGURES / "mup_coordinates.csv", sizes)
        write_rows(FIGURES / "mup_transfer.csv", runs)
        draw_coordinates(sizes, FIGURES / "mup_coordinates.png")
        draw_transfer(runs, FIGURES / "mup_transfer.png")


if __name__ == "__main__":
    main()
