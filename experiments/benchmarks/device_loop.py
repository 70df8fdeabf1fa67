"""The loop of the trainer on a device, without its logs, and how its time and memory are taken.

Needs torch, numpy and safetensors.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

import torch

from reference_trainer.data.order import Batches
from reference_trainer.data.shards import TokenSet
from reference_trainer.machine import Place
from reference_trainer.metrics import Ring
from reference_trainer.train import SIGNALS, Config, Decoder, parameter_groups, update


class Loop:
    """The loop of `train`, without its logs: batches to the device, `update`, the ring."""

    def __init__(self, config: Config, place: Place) -> None:
        self.config, self.place = config, place
        tokens = TokenSet.open(config.train_data)
        self.batches = Batches(tokens, config.seq_len, config.batch_seqs, 0)
        torch.manual_seed(0)
        plain = Decoder(config.arch(tokens.vocab), config, place.flash).to(place.device)
        self.optimizer = torch.optim.AdamW(
            parameter_groups(plain, config), config.lr, (config.beta1, config.beta2), config.eps, fused=True
        )
        self.params = list(plain.parameters())
        self.old = [torch.empty_like(p) for group in self.optimizer.param_groups for p in group["params"]]
        if place.compile:
            torch._dynamo.reset()  # else the second shape is compiled for shapes of every size
        self.model, self.ring = place.wrap(plain), Ring(SIGNALS, 10, place.device)

    def batch(self, step: int) -> torch.Tensor:
        """Return the batch of a step, on the device."""
        return self.place.put(self.batches(step))

    def update(self, batch: torch.Tensor, step: int) -> list[torch.Tensor]:
        """Make one update."""
        return update(self.model, self.optimizer, batch, step, self.config, self.place, self.old)

    def step(self, step: int) -> None:
        """Make one step as `train` does."""
        if self.ring.full:
            self.ring.read()
        self.ring.push(step, [*self.update(self.batch(step), step), self.config.lr])

    def read(self) -> list[dict[str, float]]:
        """Return the steps in the ring."""
        return self.ring.read()

    def state(self) -> list[bytes]:
        """Return weights and moments as bytes."""
        moments = [t for p in self.params for t in self.optimizer.state[p].values()]
        return [t.detach().cpu().numpy().tobytes() for t in (*self.params, *moments)]


def largest(candidates: Iterable[int], fits: Callable[[int], bool]) -> int:
    """Return the first of falling candidates that fits."""
    for candidate in candidates:
        if fits(candidate):
            return candidate
    raise MemoryError("not one sequence fits into the memory of the device")


def timed(place: Place, work: Callable[[], object]) -> float:
    """Return the seconds until the device is done."""
    wait: Callable[[], object] = torch.cuda.synchronize if place.device.type == "cuda" else lambda: None
    wait()
    begin = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - begin


def clear() -> None:
    """Give memory back that nothing uses any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def reset_memory(place: Place) -> None:
    """Begin to look for the most memory anew."""
    if place.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peak_memory(place: Place) -> float | None:
    """Return the most memory that tensors took, in GB of 1e9 bytes."""
    return torch.cuda.max_memory_allocated() / 1e9 if place.device.type == "cuda" else None
