"""Does a training step fit into the memory of a GPU, part by part; and if not, what would.

Everything is counted for the fullest moment, the end of the forward pass, on one GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from economics.memory_layout import Layout
from economics.memory_parts import memory_parts
from economics.memory_remedies import Remedy, find_remedies, largest_micro_batch
from economics.run_numbers import plain, positive, whole
from scaling.architecture import Arch
from scaling.errors import DataError, shown
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.hardware import GPU


@dataclass(frozen=True)
class MemoryFit:
    """What a layout needs on each GPU, against what the GPU has.

    Parameters
    ----------
    arch, layout : Arch, Layout
        What was asked.
    gpu : str
        Name of the GPU.
    capacity_gb : float
        Its memory in GB of 1e9 bytes, as vendors print it.
    parts : mapping of str to float
        GB by part: weights, gradients, optimizer, casts, gathered, activations, logits, reserve.
    remedies : tuple of Remedy
        If it does not fit: what would, smallest change first.
    """

    arch: Arch
    layout: Layout
    gpu: str
    capacity_gb: float
    parts: Mapping[str, float] = field(hash=False)
    remedies: tuple[Remedy, ...] = ()

    @property
    def total_gb(self) -> float:
        """All parts together."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether they are at most the memory of the GPU."""
        return self.total_gb <= self.capacity_gb

    @property
    def largest_micro_batch(self) -> int:
        """Largest micro-batch that fits with everything else as it is; 0 if none does."""
        return largest_micro_batch(self.arch, self.layout, self.capacity_gb)

    def __str__(self) -> str:
        at = self.layout
        head = (
            f"{format_count(self.arch.params_total)} parameters, micro-batch {at.micro_batch} x {at.seq_len} on "
            f"{at.n_gpus} x {self.gpu}, ZeRO {at.zero}: {self.total_gb:.1f} of {self.capacity_gb:g} GB"
        )
        parts = "  ".join(f"{name} {gb:.1f}" for name, gb in self.parts.items() if gb >= 0.05)
        verdict = (
            f"fits (micro-batch up to {self.largest_micro_batch})" if self.fits else "does not fit; would:"
        )
        return "\n".join((head, f"  {parts}", verdict, *(f"  - {remedy}" for remedy in self.remedies)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "fits": self.fits,
            "total_gb": self.total_gb,
            "capacity_gb": self.capacity_gb,
            "parts_gb": dict(self.parts),
            "largest_micro_batch": self.largest_micro_batch,
            "remedies": [remedy.to_dict() for remedy in self.remedies],
        }


def memory_fit(arch: Arch | str, gpu: GPU | str | float, **settings: Any) -> MemoryFit:
    """Count what a training step needs on each GPU and compare it with what there is.

    Parameters
    ----------
    arch : Arch or str
        The shape, or the name of a published one.
    gpu : GPU, str or float
        The accelerator, its name, or its memory in GB.
    **settings
        Fields of `economics.memory_layout.Layout`: micro_batch, seq_len, n_gpus, tp, zero, checkpointing,
        precision, gradients, optimizer, flash, fused, dropout, sequence_parallel, loss_chunks, inplace_loss,
        reserve_gb.

    Returns
    -------
    MemoryFit
        With `remedies` if it does not fit.

    Raises
    ------
    MemoryPlanError
        The settings contradict each other or the shape.
    UnknownGPU
        No accelerator has this name.

    Examples
    --------
    >>> from scaling.published_archs import arch
    >>> print(memory_fit(arch("llama-2-7b"), 80, micro_batch=4, seq_len=4096, n_gpus=8, zero=3))
    6.74B parameters, micro-batch 4 x 4096 on 8 x 80 GB, ZeRO 3: 132.9 of 80 GB
      weights 1.7  gradients 1.7  optimizer 10.1  gathered 1.9  activations 111.3  logits 4.2  reserve 2.0
    does not fit; would:
      - micro-batch 2 (and accumulate gradients over more of them): 75.1 GB
      - full activation checkpointing: 30.0 GB
      - tensor parallelism over 4 GPUs: 77.5 GB
      - a GPU with at least 133 GB
    """
    unknown = set(settings) - set(Layout.__dataclass_fields__)
    if unknown:
        raise DataError(
            f"memory_fit has no setting {', '.join(sorted(map(repr, unknown)))}: there are "
            f"{', '.join(Layout.__dataclass_fields__)}.",
            column=sorted(unknown)[0],
        )
    if isinstance(arch, str):
        from scaling.published_archs import arch as published

        arch = published(arch)
    if not isinstance(arch, Arch):
        raise DataError(
            f"arch must be an Arch or the name of a published one, got {shown(arch)}", column="arch"
        )
    layout = Layout(**settings)
    name, capacity = _capacity(gpu)
    fit = MemoryFit(arch, layout, name, capacity, memory_parts(arch, layout))
    if fit.fits:
        return fit
    return replace(fit, remedies=find_remedies(arch, layout, capacity))


def _capacity(gpu: GPU | str | float) -> tuple[str, float]:
    if isinstance(gpu, int | float):
        capacity = plain(gpu)
        if not 0 < capacity < math.inf:
            raise DataError(f"memory of a GPU must be positive, got gpu={gpu!r:.80}", column="gpu")
        return f"{capacity:g} GB", capacity
    from economics.hardware import gpu as find

    part = find(gpu)
    return part.name, float(part.memory_gb)


def kv_cache_bytes(arch: Arch, tokens: int, *, element: float = 2.0) -> float:
    """Bytes of keys and values that generation keeps for one sequence.

    Parameters
    ----------
    arch : Arch
        The shape; layers with a sliding window keep no more than it.
    tokens : int
        Tokens in the sequence so far.
    element : float
        Bytes of a number: 2 in bf16, 1 in fp8.

    Examples
    --------
    >>> from scaling.published_archs import arch
    >>> kv_cache_bytes(arch("llama-3-8b"), 1)
    131072.0
    """
    if not isinstance(arch, Arch):
        raise DataError(f"arch must be an Arch, got {shown(arch)}", column="arch")
    tokens = whole("tokens", tokens)
    element = positive("element", element, "bytes of a number, such as 2")
    windowed = arch.layers - arch.global_layers if arch.window is not None else 0
    kept = (arch.layers - windowed) * tokens + windowed * min(tokens, arch.window or tokens)
    return 2.0 * arch.kv_heads * arch.head_dim * element * kept
