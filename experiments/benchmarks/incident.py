"""Rehearse an incident: train on real text, spoil some batches on purpose, recover, and write the post-mortem.

    python -m experiments.benchmarks.incident            # about 2 minutes of one core

writes ``experiments/X1-pretraining/spike-postmortem.md`` with its pictures and numbers beside it. The text is that of
`data/text`, read as bytes; the model has 0.2M parameters. The playbook acts by itself (``recovery = "auto"``).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import argparse
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import torch

from reference_trainer.cli.app import app
from reference_trainer.data.shards import write_shard
from reference_trainer.train import Config, train

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "experiments" / "X1-pretraining" / "spike-postmortem.md"
#: Every twelfth chapter is validation text.
HELD_OUT = 12
STEPS, FAULT = 1000, "random_labels@600x60"
#: A dollar price makes the cost of the incident readable; that of a small machine with two cores, rounded.
USD_PER_HOUR = 0.10
SETTINGS: dict[str, Any] = dict(
    layers=3, d_model=64, heads=4, d_ff=176, seq_len=128, batch_seqs=8, lr=4e-3, warmup_tokens=50 * 1024,
    tokens=STEPS * 1024, eval_tokens=65_536, checkpoint_every=100, keep=20, probe_every=20, recovery="auto",
    recovery_wait=100, recovery_margin=200, snapshot_every=25, snapshots=16, device="cpu", mlflow="",
    inject=FAULT, usd_per_hour=USD_PER_HOUR,
)  # fmt: skip


def write_text(folder: Path) -> dict[str, str]:
    """Write the chapters as shards of bytes, a zero byte between two; return their paths as settings."""
    with gzip.open(ROOT / "data" / "text" / "moby_dick.jsonl.gz", "rt", encoding="utf-8") as file:
        chapters = [json.loads(line)["text"].encode() + b"\0" for line in file]
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, val in (("train", False), ("val", True)):
        own = [list(text) for i, text in enumerate(chapters) if (i % HELD_OUT == 0) == val]
        path = write_shard(
            folder / f"{name}.tokens", own, tokenizer="bytes", vocab=256, text_bytes=sum(map(len, own)),
            source="Moby-Dick, data/text",
        )  # fmt: skip
        paths[f"{name}_data"] = str(path)
    return paths


def main() -> int:
    """Make the run anew and write its post-mortem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", default="out/incident", help="where the run is kept")
    parser.add_argument("--page", default=str(PAGE.relative_to(ROOT)), help="the page that is written")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path(arguments.folder)
    shutil.rmtree(folder / "run", ignore_errors=True)
    data = write_text(folder)
    train(Config(run_dir=str(folder / "run"), **(SETTINGS | data)))
    status: int = app(
        ["postmortem", str(folder / "run"), "--replay", "--out", arguments.page], standalone_mode=False
    )
    return 0 if status in (0, 1) else status  # 1: a spike hurt the run, as it was meant to


if __name__ == "__main__":
    raise SystemExit(main())
