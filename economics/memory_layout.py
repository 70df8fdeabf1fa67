"""What training keeps in memory per parameter, and the choices of a layout that change it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from economics.activations import Checkpointing, Kernels
from economics.errors import EconomicsError
from economics.run_numbers import numeric
from scaling.errors import DataError, shown

#: More sequences, tokens or GPUs than this are none.
_MOST = 10**9
Precision = Literal["mixed", "autocast", "fp32"]
Gradients = Literal["bf16", "fp32", "both"]
Optimizer = Literal["adamw", "adamw-8bit", "lion", "sgd"]

#: Bytes of optimizer moments per parameter. AdamW: two in fp32. 8-bit: Dettmers et al. 2021 (arXiv
#: 2110.02861). Lion: one (Chen et al. 2023, arXiv 2302.06675). SGD: without momentum.
MOMENT_BYTES: Mapping[str, int] = MappingProxyType({"adamw": 8, "adamw-8bit": 2, "lion": 4, "sgd": 0})
_GRADIENT_BYTES = {"bf16": 2, "fp32": 4, "both": 6}


class MemoryPlanError(EconomicsError, DataError):
    """The layout contradicts itself or the shape."""


@dataclass(frozen=True)
class StateBytes:
    """Bytes per parameter of what training keeps between steps.

    Parameters
    ----------
    weights, gradients, master, moments : int
        Weights used by the step, gradients, fp32 copy that is updated, optimizer moments.
    """

    weights: int
    gradients: int
    master: int
    moments: int

    @property
    def total(self) -> int:
        """All four together."""
        return self.weights + self.gradients + self.master + self.moments


def state_bytes(
    precision: Precision = "mixed", gradients: Gradients | None = None, optimizer: Optimizer = "adamw"
) -> StateBytes:
    """Bytes per parameter of weights, gradients and optimizer.

    Parameters
    ----------
    precision : {"mixed", "autocast", "fp32"}
        ``mixed``: bf16 weights (2) beside an fp32 master (4). ``autocast``: fp32 weights (4), which are the
        master; bf16 casts of them exist during the step and are counted apart. ``fp32``: weights (4).
    gradients : {"bf16", "fp32", "both"}, optional
        2, 4 or (bf16 gradients accumulated in fp32) 6; by default bf16 with ``mixed``, else fp32.
    optimizer : {"adamw", "adamw-8bit", "lion", "sgd"}
        8, 2, 4 or 0 bytes of moments.

    Examples
    --------
    >>> [state_bytes(gradients=g).total for g in ("bf16", "fp32", "both")]
    [16, 18, 20]
    >>> state_bytes("autocast")
    StateBytes(weights=4, gradients=4, master=0, moments=8)
    """
    _word("precision", precision, Precision)
    _word("gradients", "bf16" if gradients is None else gradients, Gradients)
    _word("optimizer", optimizer, Optimizer)
    mixed = precision == "mixed"
    kept = _GRADIENT_BYTES[gradients or ("bf16" if mixed else "fp32")]
    return StateBytes(2 if mixed else 4, kept, 4 if mixed else 0, MOMENT_BYTES[optimizer])


def _word(name: str, value: Any, kind: Any) -> None:
    if not isinstance(value, str) or value not in get_args(kind):
        raise MemoryPlanError(
            f"{name} must be one of {', '.join(get_args(kind))}, got {shown(value)}", column=name
        )


@dataclass(frozen=True)
class Layout:
    """How a step is laid out. Every choice that changes memory is here and has a name.

    Parameters
    ----------
    micro_batch, seq_len : int
        Sequences a GPU (or tensor-parallel group) processes at once, and their length.
    n_gpus, tp : int
        All GPUs, and how many of them share each matrix; the others are data-parallel.
    zero : {0, 1, 2, 3}
        What data-parallel GPUs split: nothing; optimizer; and gradients; and weights (as FSDP does).
    checkpointing : {"none", "selective", "full"}
        Recompute nothing, attention scores (nothing to gain with flash attention), or whole blocks.
    precision, gradients, optimizer
        As in `state_bytes`.
    flash, fused, dropout : bool
        As in `economics.activations.Kernels`; eager kernels unless said otherwise.
    sequence_parallel : bool
        Split what lies between tensor-parallel regions along the sequence.
    loss_chunks : int
        Parts in which logits and loss are computed, one at a time.
    inplace_loss : bool
        A fused loss that writes the gradient over the logits.
    reserve_gb : float
        Kept for CUDA context, library workspaces, communication buffers and fragmentation: an allowance.
    """

    micro_batch: int = 1
    seq_len: int = 2048
    n_gpus: int = 1
    tp: int = 1
    zero: int = 0
    checkpointing: Checkpointing = "none"
    precision: Precision = "mixed"
    gradients: Gradients | None = None
    optimizer: Optimizer = "adamw"
    flash: bool = True
    fused: bool = False
    dropout: bool = False
    sequence_parallel: bool = False
    loss_chunks: int = 1
    inplace_loss: bool = False
    reserve_gb: float = 2.0

    def __post_init__(self) -> None:
        for name in ("micro_batch", "seq_len", "n_gpus", "tp", "loss_chunks"):
            value = getattr(self, name)
            number = numeric(value)
            if not 1 <= number <= _MOST or number != int(number):
                raise MemoryPlanError(
                    f"{name} must be a whole number from 1 to {_MOST:,}, got {shown(value)}", column=name
                )
            object.__setattr__(self, name, int(number))
        if numeric(self.zero) not in (0, 1, 2, 3):
            raise MemoryPlanError(f"zero must be 0, 1, 2 or 3, got {shown(self.zero)}", column="zero")
        _word("checkpointing", self.checkpointing, Checkpointing)
        _word("precision", self.precision, Precision)
        _word("optimizer", self.optimizer, Optimizer)
        for name in ("flash", "fused", "dropout", "sequence_parallel", "inplace_loss"):
            if not isinstance(getattr(self, name), bool):
                seen = getattr(self, name)
                raise MemoryPlanError(f"{name} must be True or False, got {shown(seen)}", column=name)
        if self.n_gpus % self.tp:
            raise MemoryPlanError(f"n_gpus={self.n_gpus} is not a multiple of tp={self.tp}", column="tp")
        if not 0 <= numeric(self.reserve_gb) < math.inf:
            raise MemoryPlanError(
                f"reserve_gb must be GB, not negative: got {shown(self.reserve_gb)}", column="reserve_gb"
            )

    @property
    def dp(self) -> int:
        """Data-parallel replicas, over which ZeRO splits."""
        return self.n_gpus // self.tp

    @property
    def kernels(self) -> Kernels:
        """The layout's part of how blocks are computed; selective recomputation drops the scores as flash does."""
        return Kernels(
            element=4 if self.precision == "fp32" else 2,
            autocast=self.precision == "autocast",
            flash=self.flash or self.checkpointing == "selective",
            fused=self.fused,
            dropout=self.dropout,
        )
