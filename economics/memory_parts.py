"""The parts of a training step's memory on one GPU, in GB of 1e9 bytes."""

from __future__ import annotations

from economics.activations import (
    checkpoint_bytes_per_token,
    layer_bytes_per_token,
    logits_bytes_per_token,
    outside_bytes_per_token,
)
from economics.memory_layout import Layout, MemoryPlanError, state_bytes
from scaling.architecture import Arch


def memory_parts(arch: Arch, layout: Layout) -> dict[str, float]:
    """Memory of one GPU by part, at the end of the forward pass.

    Parameters
    ----------
    arch : Arch
        The shape; of a mixture all experts are held and the active ones computed with.
    layout : Layout
        How it is trained.

    Returns
    -------
    dict of str to float
        GB for ``weights``, ``gradients``, ``optimizer`` (master copy and moments), ``casts`` (bf16 copies
        under autocast), ``gathered`` (blocks that ZeRO 3 holds whole while it computes with them),
        ``activations``, ``logits`` and ``reserve``.

    Raises
    ------
    MemoryPlanError
        More tensor-parallel GPUs than heads to share.

    Examples
    --------
    The states of 7.5B parameters on 64 GPUs in Rajbhandari et al. 2020 (arXiv 1910.02054), figure 1:

    >>> shape = Arch(layers=1, d_model=1, heads=1, d_ff=1, vocab=1, extra_params=7_500_000_000 - 11)
    >>> for zero in (0, 1, 2, 3):
    ...     parts = memory_parts(shape, Layout(n_gpus=64, zero=zero))
    ...     print(f"{sum(parts[p] for p in ('weights', 'gradients', 'optimizer')):.1f}")
    120.0
    31.4
    16.6
    1.9
    """
    if arch.heads % layout.tp:
        raise MemoryPlanError(f"tp={layout.tp} does not divide {arch.heads} heads", column="tp")
    vectors = arch.params_non_embedding - arch.params("body")
    local = (arch.params_total - vectors) / layout.tp + vectors
    state = state_bytes(layout.precision, layout.gradients, layout.optimizer)
    over = [layout.dp if layout.zero >= stage else 1 for stage in (3, 2, 1)]
    tokens = layout.micro_batch * layout.seq_len
    parts = {
        "weights": state.weights * local / over[0],
        "gradients": state.gradients * local / over[1],
        "optimizer": (state.master + state.moments) * local / over[2],
        "casts": _casts(arch, layout),
        "gathered": _gathered(arch, layout),
        "activations": tokens * _activations_per_token(arch, layout),
        "logits": tokens
        * logits_bytes_per_token(arch, tp=layout.tp, chunks=layout.loss_chunks, inplace=layout.inplace_loss),
    }
    return {**{name: part / 1e9 for name, part in parts.items()}, "reserve": layout.reserve_gb}


def _activations_per_token(arch: Arch, layout: Layout) -> float:
    kernels = layout.kernels
    split = layout.tp if layout.sequence_parallel else 1
    layer = layer_bytes_per_token(
        arch, layout.seq_len, kernels, tp=layout.tp, sequence_parallel=layout.sequence_parallel
    )
    outside = outside_bytes_per_token(arch, kernels) / split
    if layout.checkpointing == "full":  # the inputs of all blocks, and one block while it is recomputed
        return arch.layers * checkpoint_bytes_per_token(arch, kernels) / split + layer + outside
    return arch.layers * layer + outside


def _casts(arch: Arch, layout: Layout) -> float:
    """bf16 copies of fp32 weights: kept to the end of the step, or for one block if that is recomputed."""
    if layout.precision != "autocast" or _sharded(layout):
        return 0.0
    whole = arch.params_matmul
    if layout.checkpointing == "full":
        whole = min(whole, arch.layer_matrices + arch.vocab * arch.d_model)
    return 2.0 * whole / layout.tp


def _gathered(arch: Arch, layout: Layout) -> float:
    """Under ZeRO 3: embedding and head, the block at work and the next one whole, and one block's gradients."""
    if not _sharded(layout):
        return 0.0
    element = 4 if layout.precision == "fp32" else 2
    layer = arch.layer_matrices
    root = arch.params_total - arch.params_non_embedding
    return float(element * (2 * layer + root) + element * max(layer, root)) / layout.tp


def _sharded(layout: Layout) -> bool:
    return layout.zero == 3 and layout.dp > 1
