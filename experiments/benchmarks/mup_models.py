"""The models and the source of the studies of muP."""

from __future__ import annotations

from typing import Any

from experiments.ladders.markov_source import MarkovSource
from reference_trainer.train import Config

SOURCE = MarkovSource.dirichlet(12)
#: Everything but the width, and muP's base beside it; the width of a head grows with the model.
SHAPE = dict(
    run_dir="",
    train_data="",
    val_data="",
    layers=2,
    heads=4,
    seq_len=64,
    batch_seqs=8,
    device="cpu",
    mlflow="",
)


def settings(width: int, base: int, mup: bool, **changes: Any) -> Config:
    """Return the configuration of one width; at the `base`, muP changes nothing."""
    shape = {**SHAPE, "d_model": width, "d_ff": 2 * width, "mup": mup, "mup_base_width": base, "tokens": 1e9}
    return Config(**{**shape, "mup_base_head_dim": base // 4, **changes})
