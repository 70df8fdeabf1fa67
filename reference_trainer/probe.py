"""Readings of the model that decide nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_trainer.machine import Place


@torch.no_grad()
def activations(model: nn.Module, tokens: Tensor, place: Place) -> dict[str, float]:
    """Return the root mean square of the residual stream after each block, for inputs (B, T)."""
    found: list[Tensor] = []
    model.eval()
    with place.autocast():
        model(tokens, tokens, found)
    model.train()
    return {f"rms_{i}": value for i, value in enumerate(torch.stack(found).tolist())}


@torch.no_grad()
def norms(optimizer: torch.optim.AdamW, params: list[Tensor], old: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the norms of the weights, of Adam's second moments, and of the update from the `old` weights.

    `old` is overwritten.
    """
    torch._foreach_sub_(old, params)
    second = [optimizer.state[p]["exp_avg_sq"] for p in params]
    found = torch.stack(torch._foreach_norm([*params, *second, *old]))
    return found.view(3, -1).square().sum(dim=1).sqrt().unbind()
