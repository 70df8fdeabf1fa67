"""Readings of the model that decide nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_trainer.machine import Place


@torch.no_grad()
def activations(model: nn.Module, batch: Tensor, place: Place) -> dict[str, float]:
    """Return the root mean square of the residual stream after each block, for sequences (B, T + 1)."""
    found: list[Tensor] = []
    model.eval()
    with place.autocast():
        model(batch[:, :-1], batch[:, 1:], found)
    model.train()
    return {f"rms_{i}": value for i, value in enumerate(torch.stack(found).tolist())}
