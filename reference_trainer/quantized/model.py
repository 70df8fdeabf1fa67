"""A trained model under a scheme: which of its tensors are rounded, and the bytes that it then has."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reference_trainer.checkpoint_state import without_aliases
from reference_trainer.quantized.packing import Int4Matrix, Int8Matrix
from reference_trainer.quantized.scheme import Scheme
from reference_trainer.train import Decoder


class PackedLinear(nn.Module):
    """A linear layer without bias whose matrix is packed.

    Parameters
    ----------
    weight : Int8Matrix or Int4Matrix
    """

    def __init__(self, weight: Int8Matrix | Int4Matrix) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., out) of (..., in)."""
        return self.weight.product(x)


class PackedEmbedding(nn.Module):
    """An embedding whose table is int8, one step for each token.

    Parameters
    ----------
    weight : Int8Matrix
        The same object as that of the head, where they are tied.
    """

    def __init__(self, weight: Int8Matrix) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (..., d_model) of token ids."""
        return self.weight.rows(tokens)


def under(model: Decoder, scheme: Scheme) -> Decoder:
    """Return a copy of a trained model under a scheme, ready to read with; the model itself stays as it is.

    With int8 and int4 the matrices of blocks have the bits of the scheme. Embedding and head are int8 in both: tied,
    they are one table, every token reads it, and it is the half of a small model with a large vocabulary. The gains
    of norms stay fp32; they are a thousandth of the weights. Products are computed in fp32: bytes are saved, no
    arithmetic. With bf16 everything is bf16 but the angles of positions, as in training under autocast.

    Raises
    ------
    NonFiniteError
        A weight is NaN or infinite.
    """
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for name, p in model.named_parameters():
        if not torch.isfinite(p).all():
            Int8Matrix.of(p.reshape(1, -1), name)  # says it
    if scheme.bits == 16:
        for p in model.parameters():
            p.data = p.data.bfloat16()
    if scheme.bits > 8:
        return model
    for at, block in enumerate(model.blocks):
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear):
                where = f"blocks.{at}.{name}.weight"
                packed = (
                    Int8Matrix.of(layer.weight, where)
                    if scheme.bits == 8
                    else Int4Matrix.of(layer.weight, scheme.group, where)
                )
                setattr(block, name, PackedLinear(packed))
    tied = model.head.weight is model.embed.weight
    table = Int8Matrix.of(model.embed.weight, "embed.weight")
    head = table if tied else Int8Matrix.of(model.head.weight, "head.weight")
    model.embed, model.head = PackedEmbedding(table), PackedLinear(head)  # type: ignore[assignment]
    return model


@dataclass(frozen=True)
class Bytes:
    """Bytes that a model's weights take, steps included; a tied table is counted once.

    Attributes
    ----------
    blocks, embedding, rest : int
        Matrices of blocks; embedding and head; norms.
    """

    blocks: int
    embedding: int
    rest: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.blocks + self.embedding + self.rest


def bytes_of(model: nn.Module) -> Bytes:
    """Count the bytes of a model as `under` makes it."""
    tensors: Mapping[str, Tensor] = without_aliases(model.state_dict())[0]
    sums = {"blocks": 0, "embedding": 0, "rest": 0}
    for name, tensor in tensors.items():
        part = "rest" if "norm" in name else "blocks" if name.startswith("blocks") else "embedding"
        sums[part] += tensor.nbytes
    return Bytes(**sums)
