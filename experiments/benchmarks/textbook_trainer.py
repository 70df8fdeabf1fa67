"""A plain PyTorch training step of the same model, as a textbook has it: what the trainer is measured against."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scaling.architecture import Arch


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate (B, heads, T, width) by position."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Layer(nn.Module):
    """One block, every matrix a layer of its own."""

    def __init__(self, arch: Arch) -> None:
        super().__init__()
        d, kv = arch.d_model, arch.kv_heads * arch.head_dim
        self.arch = arch
        self.norm1, self.norm2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.q, self.k, self.v = (nn.Linear(d, n, bias=False) for n in (d, kv, kv))
        self.o = nn.Linear(d, d, bias=False)
        self.gate, self.up = nn.Linear(d, arch.d_ff, bias=False), nn.Linear(d, arch.d_ff, bias=False)
        self.down = nn.Linear(arch.d_ff, d, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attention, then the feed-forward."""
        batch, length, _ = x.shape
        h = self.norm1(x)
        q, k, v = (
            layer(h).view(batch, length, -1, self.arch.head_dim).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, -1))
        h = self.norm2(x)
        out: Tensor = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return out


class Textbook(nn.Module):
    """The decoder, and its mean loss."""

    def __init__(self, arch: Arch, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(arch.vocab, arch.d_model)
        self.layers = nn.ModuleList(Layer(arch) for _ in range(arch.layers))
        self.norm = nn.RMSNorm(arch.d_model)
        self.head = nn.Linear(arch.d_model, arch.vocab, bias=False)
        self.head.weight = self.embed.weight
        half = arch.head_dim // 2
        angle = torch.outer(torch.arange(length), 10_000.0 ** (-torch.arange(half) / half)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss in nats."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def textbook_step(model: Textbook, optimizer: torch.optim.Optimizer, batch: Tensor) -> None:
    """Make one step, and look at its loss, as textbooks do."""
    optimizer.zero_grad()
    loss = model(batch[:, :-1], batch[:, 1:])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()
