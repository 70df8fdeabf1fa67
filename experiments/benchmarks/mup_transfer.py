"""Learning-rate transfer: the best rate of each width, found by whole runs."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.mup_models import SHAPE, SOURCE, settings
from experiments.ladders.markov_source import write_source
from reference_trainer.train import train

TRANSFER_WIDTHS, TRANSFER_BASE = (32, 64, 128, 256), 256
TRANSFER_STEPS, TRANSFER_SEEDS = 300, 2
#: With muP or without -> powers of 2 that are tried. The runs at the base are tried with those of muP.
LOG2_LRS = {True: range(-12, -7), False: range(-10, -4)}


@dataclass(frozen=True)
class Run:
    """One whole run: its setting, and the loss on the validation tokens (inf where it failed)."""

    mup: bool
    width: int
    log2_lr: float
    seed: int
    loss: float


def transfer_run(mup: bool, width: int, log2_lr: float, seed: int, data: dict[str, str], folder: Path) -> Run:
    """Train one run of `TRANSFER_STEPS` steps; `data` are the settings that name the shards."""
    tokens = TRANSFER_STEPS * SHAPE["batch_seqs"] * SHAPE["seq_len"]  # type: ignore[operator]
    config = settings(
        width, TRANSFER_BASE, mup, **data, run_dir=str(folder / f"{mup}_{width}_{log2_lr:g}_{seed}"),
        lr=2.0**log2_lr, seed=seed, tokens=tokens, warmup_tokens=tokens / 10, eval_tokens=16_384,
        log_every=TRANSFER_STEPS, checkpoint_every=10 * TRANSFER_STEPS,
    )  # fmt: skip
    result = train(config)
    if result["status"] == "truncated":  # by a signal: that is no answer
        raise SystemExit(f"stopped ({result['ended_by']}); the runs that are over are in the table")
    loss = result["loss"] if result["status"] == "ok" else None
    return Run(mup, width, log2_lr, seed, float("inf") if loss is None else loss)


def transfer(path: Path, widths: Sequence[int] = TRANSFER_WIDTHS) -> list[Run]:
    """Make the runs that `path`, a CSV, does not hold yet; return all. A row a run, seed by seed."""
    done = {(r.mup, r.width, r.log2_lr, r.seed): r for r in read_runs(path)} if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    wanted = [
        (mup, width, float(lr), seed)
        for seed in range(TRANSFER_SEEDS) for width in widths for mup in (True, False) for lr in LOG2_LRS[mup]
        if not (width == TRANSFER_BASE and not mup)  # the same run: the base is where muP changes nothing
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_source(folder, SOURCE, train=1_000_000, val=16_385)
        for key in wanted:
            if key in done:
                continue
            done[key] = transfer_run(*key, data, folder)
            write_rows(path, done.values())
    return [done[key] for key in wanted]


def best(runs: Iterable[Run]) -> tuple[float, bool]:
    """Return the best log2 learning rate of the runs of one width and seed, and whether it is inside the grid.

    At an end of the grid there is no parabola: the end itself is returned, and False.
    """
    own = sorted(runs, key=lambda r: r.log2_lr)
    losses = np.array([r.loss for r in own])
    k = int(losses.argmin())
    if not 0 < k < len(own) - 1 or not np.isfinite(losses[k + 1]):
        return own[k].log2_lr, 0 < k < len(own) - 1
    left, middle, right = losses[k - 1 : k + 2]
    step = own[k + 1].log2_lr - own[k].log2_lr
    return own[k].log2_lr + step * (left - right) / (2 * (left - 2 * middle + right)), True


def bests(runs: Iterable[Run], mup: bool) -> dict[int, list[tuple[float, bool]]]:
    """Return, for each width, `best` of each seed. The runs at the base belong to both ways."""
    mine = [r for r in runs if r.mup == mup or r.width == TRANSFER_BASE]
    return {
        width: [best(r for r in mine if (r.width, r.seed) == (width, seed)) for seed in range(TRANSFER_SEEDS)]
        for width in sorted({r.width for r in mine})
    }


def drift(found: dict[int, list[tuple[float, bool]]]) -> tuple[float, float]:
    """Return the slope of the best log2 rate over log2(width), and half of its 95% interval.

    By least squares over all widths and seeds, which are runs of their own; the interval is Student's, with what does
    not lie on a line counted as noise.
    """
    from scipy.stats import linregress, t

    widths, best = np.array(
        [(np.log2(width), value) for width, seeds in found.items() for value, _ in seeds]
    ).T
    line = linregress(widths, best)
    return float(line.slope), float(t.ppf(0.975, len(widths) - 2) * line.stderr)


def read_runs(path: Path) -> list[Run]:
    """Read the runs that `write_rows` wrote."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Run(r["mup"] == "True", int(r["width"]), float(r["log2_lr"]), int(r["seed"]), float(r["loss"]))
        for r in rows
    ]


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write dataclasses of one kind as a CSV."""
    rows = list(rows)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(rows[0])], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
