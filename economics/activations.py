"""Bytes that the forward pass keeps for the backward pass, tensor by tensor.

The accounting of Korthikanti et al. 2022 (arXiv 2205.05198, section 4), extended to grouped heads, gated
feed-forwards, RMSNorm, mixtures and flash attention. With dropout, plain attention and the GPT block it is
their sbh(34 + 5as/h). The extensions were checked against the tensors torch 2.13 saves for one block, eager
and compiled, in bf16, fp32 and under autocast: 1% too low to 6% too high (tests/economics).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scaling.architecture import Arch

Checkpointing = Literal["none", "selective", "full"]


@dataclass(frozen=True)
class Kernels:
    """How the blocks are computed, as far as it changes what they keep.

    Parameters
    ----------
    element : int
        Bytes of an activation: 2, or 4 in fp32.
    autocast : bool
        fp32 weights under autocast: the residual stream stays fp32, each linear layer casts its own input.
    flash : bool
        Attention that never stores the T x T scores (flash attention, SDPA).
    fused : bool
        Compiled or fused norms and activations, which keep their inputs alone; eager ones keep more.
    dropout : bool
        One-byte masks, and the dropped-out scores where attention is not flash.
    """

    element: int = 2
    autocast: bool = False
    flash: bool = True
    fused: bool = True
    dropout: bool = False


def layer_bytes_per_token(
    arch: Arch, seq_len: int, kernels: Kernels, *, tp: int = 1, sequence_parallel: bool = False
) -> float:
    """Bytes one block keeps for each token, on one GPU.

    Parameters
    ----------
    arch : Arch
        The shape.
    seq_len : int
        Tokens in a sequence: the scores of plain attention grow with it.
    kernels : Kernels
        What is computed how.
    tp : int
        Tensor-parallel GPUs. What lies between the parallel regions is kept on each of them ...
    sequence_parallel : bool
        ... unless it is split along the sequence.

    Returns
    -------
    float

    Examples
    --------
    GPT-3 in the setting of the paper, sbh(34 + 5as/h) with 5as/h = 80:

    >>> gpt3 = Arch(layers=96, d_model=12288, heads=96, d_ff=49152, vocab=51200, gated=False)
    >>> paper = Kernels(flash=False, dropout=True)
    >>> layer_bytes_per_token(gpt3.replace(norm="layernorm"), 2048, paper) / 12288
    114.0
    """
    everywhere = _between_regions(arch, kernels)
    split = _attention(arch, seq_len, kernels) + _feed_forward(arch, kernels)
    return everywhere / (tp if sequence_parallel else 1) + split / tp


def checkpoint_bytes_per_token(arch: Arch, kernels: Kernels) -> float:
    """Bytes kept per token and layer under full recomputation: the input of the block."""
    return arch.d_model * _residual(kernels)


def outside_bytes_per_token(arch: Arch, kernels: Kernels) -> float:
    """Bytes per token of the last norm, the input of the head and the embedding's dropout; no logits."""
    d = arch.d_model
    return d * (_norm(arch, kernels) + kernels.element + (1 if kernels.dropout else 0))


def logits_bytes_per_token(arch: Arch, *, tp: int = 1, chunks: int = 1, inplace: bool = False) -> float:
    """Bytes of fp32 logits and of their gradient, which an in-place loss writes over them, per token.

    With the loss in `chunks` only one part exists at a time.
    """
    return (4.0 if inplace else 8.0) * arch.vocab / tp / chunks


def _residual(kernels: Kernels) -> int:
    return 4 if kernels.autocast else kernels.element


def _norm(arch: Arch, kernels: Kernels) -> int:
    """Bytes per channel: LayerNorm keeps its input, an eager RMSNorm two fp32 copies (input, normalised)."""
    if arch.norm == "rmsnorm" and not kernels.fused:
        return 8
    return _residual(kernels)


def _between_regions(arch: Arch, kernels: Kernels) -> float:
    """Norm inputs, inputs of the projections, dropout masks: as wide as the model on every GPU."""
    casts = kernels.autocast and not kernels.fused  # every linear layer keeps its own cast of a shared input
    used = _experts_used(arch)
    inputs = (3 if casts else 1) + used * (2 if casts and arch.gated else 1)
    masks = 2 if kernels.dropout else 0
    return float(
        arch.d_model * (arch.norms_per_layer * _norm(arch, kernels) + inputs * kernels.element + masks)
    )


def _attention(arch: Arch, seq_len: int, kernels: Kernels) -> float:
    query, key = arch.d_attention, arch.kv_heads * arch.head_dim
    # Rotated queries are stored head by head and attention's output with them: the projection needs a copy.
    copies = 1 if arch.learned_positions == 0 and kernels.flash else 0
    kept = kernels.element * ((2 + copies) * query + 2 * key)
    if kernels.flash:
        return float(kept + 4 * arch.heads)  # fp32 log-sum-exp
    per_score = kernels.element + ((1 + kernels.element) if kernels.dropout else 0)
    return float(kept + per_score * arch.heads * seq_len)


def _feed_forward(arch: Arch, kernels: Kernels) -> float:
    """Gate, up and their product (plus the activated gate when eager), or input and output of the GELU."""
    wide = (3 if kernels.fused else 4) if arch.gated else 2
    router = 2 * kernels.element * arch.experts
    return float(_experts_used(arch) * wide * kernels.element * arch.d_ff + router)


def _experts_used(arch: Arch) -> int:
    return arch.experts_per_token + arch.shared_experts if arch.experts else 1
