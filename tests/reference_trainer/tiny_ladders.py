"""Ladders small enough for a test, and how their tables are compared."""

from __future__ import annotations

import csv
from pathlib import Path

from reference_trainer.points import TIMES
from tests.reference_trainer.tiny_runs import write_data

#: Steps of 4 x 16 tokens; budgets of 20 and 40 steps. One size is given its rate, the other chooses it.
LADDER = """
out = "out"
tokens = [1280, 2560]
seeds = [0, 1]
[common]
train_data = "train.tokens"
val_data = "val.tokens"
seq_len = 16
batch_seqs = 4
warmup_tokens = 320
eval_tokens = 320
checkpoint_every = 7
peak_tflops = 0.1
dropout = 0.1
device = "cpu"
[[size]]
layers = 1
d_model = 8
heads = 2
lr = 1e-2
[[size]]
layers = 2
d_model = 16
heads = 2
lr_grid = [3e-3, 1e-2, 3e-2]
[lr_check]
tokens = 1280
"""


def write_ladder(folder: Path, text: str = LADDER) -> Path:
    """Write a ladder file beside its data, and return its path."""
    folder.mkdir(exist_ok=True, parents=True)
    if not (folder / "train.tokens").exists():
        write_data(folder)
    path = folder / "ladder.toml"
    path.write_text(text)
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table of points."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def without_times(path: Path) -> str:
    """Return a table as text, the columns that hold times blank."""
    return "\n".join(
        ",".join(f"{k}={'' if k in TIMES else v}" for k, v in row.items()) for row in read_rows(path)
    )
