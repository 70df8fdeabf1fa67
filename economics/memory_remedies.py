"""What would make a layout fit: single changes first, then the smallest set of changes that works."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from economics.memory_layout import Layout, MemoryPlanError
from economics.memory_parts import memory_parts
from scaling.architecture import Arch

#: Numbers of GPUs to try when more are needed: whole servers of 8, from 128 GPUs on in doublings.
_GPU_COUNTS = (2, 4, *range(8, 128, 8), *(128 * 2**n for n in range(10)))
_TP = (2, 4, 8)
_CHUNKS = (8, 32)
_WORDS: Mapping[str, Callable[[Any], str]] = {
    "micro_batch": lambda v: f"micro-batch {v} (and accumulate gradients over more of them)",
    "checkpointing": lambda v: f"{v} activation checkpointing",
    "fused": lambda _: "fused kernels (torch.compile)",
    "flash": lambda _: "flash attention",
    "inplace_loss": lambda _: "a fused loss that works in place",
    "loss_chunks": lambda v: f"the loss in {v} chunks",
    "zero": lambda v: f"ZeRO {v}",
    "n_gpus": lambda v: f"{v} GPUs",
    "tp": lambda v: f"tensor parallelism over {v} GPUs",
}


@dataclass(frozen=True)
class Remedy:
    """Changes to a layout after which it fits; one that asks for other hardware has no changes.

    Parameters
    ----------
    changes : mapping
        Fields of `Layout` to replace.
    total_gb : float
        What is needed then.
    """

    changes: Mapping[str, Any] = field(hash=False)
    total_gb: float

    def __str__(self) -> str:
        if not self.changes:
            return f"a GPU with at least {self.total_gb:.0f} GB"
        words = (_WORDS[name](value) for name, value in self.changes.items())
        return f"{' with '.join(words)}: {self.total_gb:.1f} GB"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {"changes": dict(self.changes), "total_gb": self.total_gb, "text": str(self)}


def total_gb(arch: Arch, layout: Layout) -> float:
    """GB that a layout needs on each GPU."""
    return sum(memory_parts(arch, layout).values())


def largest_micro_batch(arch: Arch, layout: Layout, capacity_gb: float) -> int:
    """Largest micro-batch that fits with everything else unchanged; 0 if not even 1 does."""
    one, two = (total_gb(arch, replace(layout, micro_batch=b)) for b in (1, 2))
    return int(1 + (capacity_gb - one) / (two - one)) if one <= capacity_gb else 0


def find_remedies(arch: Arch, layout: Layout, capacity_gb: float) -> tuple[Remedy, ...]:
    """Find changes that make a layout fit.

    Every single change that suffices, with the smallest step of it; if there is none, the smallest set of
    memory-saving changes that works, with the largest micro-batch it then allows. Last the memory that a
    GPU would need for the layout as it is.
    """
    needed = Remedy({}, total_gb(arch, layout))
    found: dict[str, Remedy] = {}
    batch = largest_micro_batch(arch, layout, capacity_gb)
    if 1 <= batch < layout.micro_batch:
        found["micro_batch"] = _try(arch, layout, {"micro_batch": batch})
    for changes in _singles(arch, layout):
        key = "+".join(changes)
        if key in found:
            continue
        remedy = _try(arch, layout, changes)
        if remedy.total_gb <= capacity_gb:
            found[key] = remedy
    if "n_gpus" in found:
        found.pop("zero+n_gpus", None)
    if "inplace_loss" in found:
        found.pop("loss_chunks", None)
    if found.keys() <= {"tp"}:  # nothing gentler than splitting every matrix: offer what else would work
        combined = _combined(arch, layout, capacity_gb)
        if combined is not None:
            found["combined"] = combined
    return (*found.values(), needed)


def _try(arch: Arch, layout: Layout, changes: Mapping[str, Any]) -> Remedy:
    return Remedy(changes, total_gb(arch, replace(layout, **changes)))


def _singles(arch: Arch, layout: Layout) -> Iterator[dict[str, Any]]:
    """Single changes, each kind from its smallest step up."""
    if not layout.flash:
        yield {"flash": True}
        yield {"checkpointing": "selective"}
    if not layout.fused:
        yield {"fused": True}
    if layout.checkpointing != "full":
        yield {"checkpointing": "full"}
    if not layout.inplace_loss:
        yield {"inplace_loss": True}
    for chunks in _CHUNKS:
        if chunks > layout.loss_chunks:
            yield {"loss_chunks": chunks}
    if layout.dp > 1:
        for zero in range(layout.zero + 1, 4):
            yield {"zero": zero}
    for n_gpus in _more_gpus(layout):
        if layout.zero:
            yield {"n_gpus": n_gpus}
        yield {"zero": 3, "n_gpus": n_gpus}
    for tp in _TP:
        if tp > layout.tp and layout.n_gpus % tp == 0 and arch.heads % tp == 0:
            yield {"tp": tp}


def _more_gpus(layout: Layout) -> Iterator[int]:
    return (n for n in _GPU_COUNTS if n > layout.n_gpus and n % layout.tp == 0)


def _combined(arch: Arch, layout: Layout, capacity_gb: float) -> Remedy | None:
    """Find the first set of savings that fits, its largest micro-batch, and drop what it does not need."""
    savings: dict[str, Any] = {"micro_batch": 1}
    if not layout.flash:
        savings["flash"] = True
    if layout.checkpointing != "full":
        savings["checkpointing"] = "full"
    if layout.loss_chunks < _CHUNKS[0]:
        savings["loss_chunks"] = _CHUNKS[0]
    if layout.zero < 3 and layout.dp > 1:
        savings["zero"] = 3
    prefixes = (dict(itertools.islice(savings.items(), n)) for n in range(1, len(savings) + 1))
    larger = ({**savings, "zero": 3, "n_gpus": n} for n in _more_gpus(layout))
    tensor = (
        {**savings, "zero": 3, "n_gpus": max(n, layout.n_gpus), "tp": tp}
        for tp in _TP
        for n in _GPU_COUNTS
        if tp > layout.tp and arch.heads % tp == 0 and n % tp == 0
    )
    for changes in itertools.chain(prefixes, larger, tensor):
        batch = min(largest_micro_batch(arch, replace(layout, **changes), capacity_gb), layout.micro_batch)
        if batch:
            kept = {**changes, "micro_batch": batch}
            for name in list(kept):
                fewer = {other: value for other, value in kept.items() if other != name}
                # Tensor parallelism over 4 needs its 4 GPUs: a change may only make sense with another.
                with contextlib.suppress(MemoryPlanError):
                    if _try(arch, layout, fewer).total_gb <= capacity_gb:
                        kept = fewer
            return _try(arch, layout, kept)
    return None
