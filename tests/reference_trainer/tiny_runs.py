"""Runs small enough for a test: their data, their configuration, and how two of them are compared."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from reference_trainer import checkpoint
from reference_trainer.data.order import Batches
from reference_trainer.data.shards import write_shard
from reference_trainer.metrics import read_log
from reference_trainer.train import Config, train

torch.set_num_threads(1)  # two threads collapse when anything else runs

#: 40 steps of 4 x 16 tokens with everything on that could break exactness; the cooldown begins at step 32.
TINY = dict(
    layers=2, d_model=16, heads=4, kv_heads=2, d_ff=32, qk_norm=True, z_loss=1e-4, dropout=0.2, seq_len=16,
    batch_seqs=4, tokens=40 * 64, warmup_tokens=300, lr=1e-2, eval_every=15, eval_tokens=320, checkpoint_every=1000,
    device="cpu", mlflow="",
)  # fmt: skip


def write_data(folder: Path) -> dict[str, str]:
    """Write a source whose next token depends on the last, and return the paths as settings."""
    rng = np.random.default_rng(0)
    table = rng.permuted(np.tile(np.arange(24), (24, 1)), axis=1)[:, :3]
    for name, length in (("train", 6000), ("val", 1000)):
        tokens = [0]
        for choice in rng.integers(0, 3, length - 1):
            tokens.append(int(table[tokens[-1], choice]))
        write_shard(folder / f"{name}.tokens", [tokens], tokenizer="none", vocab=24)
    return {"train_data": str(folder / "train.tokens"), "val_data": str(folder / "val.tokens")}


def tiny(run_dir: Path, data: dict[str, str], **changes: Any) -> Config:
    return Config(run_dir=str(run_dir), **{**TINY, **data, **changes})


def interrupted(monkeypatch: pytest.MonkeyPatch, config: Config, *steps: int) -> list[dict[str, Any]]:
    """Train with a SIGTERM inside each of the given steps, resuming after each, then to the end."""
    results = []
    for step in steps:
        with monkeypatch.context() as patch:
            real = Batches.__call__

            def stopping(self: Batches, at: int, real: Any = real, step: int = step) -> Any:
                if at == step:
                    signal.raise_signal(signal.SIGTERM)
                return real(self, at)

            patch.setattr(Batches, "__call__", stopping)
            results.append(train(config))
    return [*results, train(config)]


def state_of(run_dir: str | Path) -> dict[str, Any]:
    """Everything that exactness is about: weights, optimizer and log of a run, as bytes."""
    path = checkpoint.latest(Path(run_dir) / "checkpoints")
    assert path is not None
    tensors = {
        f"{name}:{key}": tensor.numpy().tobytes()
        for name in ("model.safetensors", "optimizer.safetensors")
        for key, tensor in load_file(path / name).items()
    }
    return {"step": path.name, **tensors, "log": (Path(run_dir) / "log.jsonl").read_bytes()}


def assert_same(a: str | Path, b: str | Path, *, but: tuple[str, ...] = ()) -> None:
    one, other = state_of(a), state_of(b)
    assert one.keys() == other.keys()
    assert [key for key in one if one[key] != other[key] and key not in but] == []


def rows(config: Config, kind: str) -> list[dict[str, Any]]:
    """Return the lines of a run's log of one kind."""
    return [row for row in read_log(Path(config.run_dir) / "log.jsonl") if row["kind"] == kind]
