"""Coordinate check: how large activations are, and how far they move, over widths (arXiv 2203.03466, appendix D.1)."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from experiments.benchmarks.mup_models import SOURCE, settings
from reference_trainer import machine
from reference_trainer.train import Decoder, parameter_groups, update

QUANTITIES = ("stream", "logits", "stream moved", "logits moved")
COORDINATE_WIDTHS, COORDINATE_BASE, COORDINATE_STEPS = (32, 64, 128, 256, 512), 128, 10
COORDINATE_LR, COORDINATE_SEEDS = 2.0**-9, 5


@dataclass(frozen=True)
class Size:
    """One reading: the root mean square of one quantity, of one model, after so many steps."""

    mup: bool
    tied: bool
    width: int
    seed: int
    step: int
    quantity: str
    rms: float


def coordinates(
    width: int,
    mup: bool,
    seed: int,
    *,
    tied: bool = True,
    steps: int = COORDINATE_STEPS,
    base: int = COORDINATE_BASE,
) -> list[Size]:
    """Train one model for a few steps, and return its sizes before the first and after each.

    Parameters
    ----------
    width : int
        Of the model.
    mup : bool
        Whether muP is on.
    seed : int
        Of the weights.
    tied : bool
        Whether the head is the embedding.
    steps : int
        Steps made.
    base : int
        Width at which muP changes nothing.
    """
    config = settings(width, base, mup, tied=tied, seed=seed, lr=COORDINATE_LR, vocab=SOURCE.vocab)
    place = machine.join("cpu", "fp32", "off", "sdpa")
    torch.manual_seed(seed)
    model = Decoder(config.arch(SOURCE.vocab), config)
    optimizer = torch.optim.AdamW(parameter_groups(model, config), fused=True)
    for group in optimizer.param_groups:
        group["lr"] = config.lr * group["lr_factor"]
    old = [torch.empty_like(p) for group in optimizer.param_groups for p in group["params"]]
    tokens = SOURCE.draw((steps + 1) * config.batch_seqs * (config.seq_len + 1), seed=100 + seed)
    batches = torch.from_numpy(tokens).view(steps + 1, config.batch_seqs, config.seq_len + 1)

    def sizes() -> tuple[torch.Tensor, torch.Tensor]:
        kept: list[torch.Tensor] = []
        hooks = [
            m.register_forward_hook(lambda _, __, out: kept.append(out))
            for m in (model.blocks[-1], model.head)
        ]
        with torch.no_grad():
            model(batches[-1][:, :-1], batches[-1][:, 1:])
        for hook in hooks:
            hook.remove()
        return kept[0], kept[1]

    start = sizes()
    found = []
    for step in range(steps + 1):
        now = sizes()
        values = (*now, now[0] - start[0], now[1] - start[1])
        for name, value in zip(QUANTITIES, values, strict=True):
            if step or not name.endswith("moved"):
                found.append(Size(mup, tied, width, seed, step, name, value.square().mean().sqrt().item()))
        if step < steps:
            update(model, optimizer, batches[step], step, config, place, old)
    return found


def slopes(sizes: Iterable[Size], quantity: str, step: int) -> npt.NDArray[np.float64]:
    """Return d ln(rms) / d ln(width) of each seed, by least squares over the widths."""
    chosen = [s for s in sizes if s.quantity == quantity and s.step == step]
    return np.array([
        np.polyfit(np.log([s.width for s in own]), np.log([s.rms for s in own]), 1)[0]
        for seed in sorted({s.seed for s in chosen})
        for own in [[s for s in chosen if s.seed == seed]]
    ])  # fmt: skip


def read_sizes(path: Path) -> list[Size]:
    """Read the readings that `mup_transfer.write_rows` wrote."""
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Size(
                r["mup"] == "True", r["tied"] == "True", int(r["width"]), int(r["seed"]), int(r["step"]), r["quantity"],
                float(r["rms"]),
            )
            for r in csv.DictReader(file)
        ]  # fmt: skip
