"""Reading and writing token by token, with the keys and values of earlier positions kept.

Training never needs it, so it is not in `train`; it walks the same modules and gives the same logits.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_trainer.errors import QuantizeError
from reference_trainer.train import Decoder, rotate


class Cache:
    """Keys and values of the positions that a batch of sequences has read so far.

    Parameters
    ----------
    model : Decoder
    batch : int
        Sequences.
    """

    def __init__(self, model: Decoder, batch: int) -> None:
        self.batch, self.length, self.room = batch, 0, model.get_buffer("turn").shape[0]
        self._held: list[Tensor] = []

    def put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keep keys and values (B, T, heads, width) of new positions; return those of all, as views."""
        if layer == len(self._held):  # made when the first are seen: they know shape, dtype and device
            self._held.append(k.new_empty(2, self.batch, self.room, *k.shape[2:]))
        held, end = self._held[layer], self.length + k.shape[1]
        held[0, :, self.length : end], held[1, :, self.length : end] = k, v
        return held[0, :, :end], held[1, :, :end]


@torch.inference_mode()
def read(model: Decoder, tokens: Tensor, cache: Cache, *, last: bool = False) -> Tensor:
    """Return the logits (B, T, vocabulary) of new tokens (B, T), and keep their keys and values.

    A whole prompt into an empty cache, or one token after others. With `last` the logits of the last position alone,
    (B, 1, vocabulary), which is all that writing needs.

    Raises
    ------
    QuantizeError
        The sequence grows past the positions that the model was trained for; or several tokens after others.
    """
    count = tokens.shape[1]
    if cache.length + count > cache.room:
        raise QuantizeError(
            f"{cache.length + count} positions, the model was trained for {cache.room}", column="tokens"
        )
    if cache.length and count > 1:
        raise QuantizeError("after the prompt, tokens are read one at a time", column="tokens")
    turn = model.get_buffer("turn")[cache.length : cache.length + count]
    x = model.embed(tokens)
    for layer, found in enumerate(model.blocks):
        block: Any = found
        h = block.norm1(x)
        q, k, v = (f(h).unflatten(-1, (-1, block.width)) for f in (block.q, block.k, block.v))
        q, k = rotate(block.q_norm(q), turn), rotate(block.k_norm(k), turn)
        k, v = cache.put(layer, k, v)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
            is_causal=count > 1, scale=block.scale, enable_gqa=block.gqa,
        )  # fmt: skip
        x = x + block.out(y.transpose(1, 2).flatten(2))
        h = block.norm2(x)
        x = x + block.down(F.silu(block.gate(h)) * block.up(h))
    cache.length += count
    if last:
        x = x[:, -1:]
    logits: Tensor = model.head(model.norm(x) * model.output_scale)
    return logits


def write(model: Decoder, prompt: Tensor, count: int) -> Tensor:
    """Return the `count` likeliest tokens, one after the other, (B, count), after a prompt (B, T)."""
    cache = Cache(model, len(prompt))
    token = read(model, prompt, cache, last=True).argmax(-1)
    made = [token]
    while len(made) < count:
        token = read(model, token, cache).argmax(-1)
        made.append(token)
    return torch.cat(made, dim=1)
