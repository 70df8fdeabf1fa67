"""States of a run kept in the host's memory: going back a little costs no disk and few repeated steps."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from reference_trainer import checkpoint
from reference_trainer.checkpoint_state import optimizer_tensors, without_aliases
from reference_trainer.operation import Operation


class Snapshots:
    """The last few states of a run: weights, optimizer, where it is, and what its observer knew.

    What follows a state depends on it and on the interventions alone, so it makes no difference to a run whether it
    goes back to a snapshot or to an older checkpoint: only time. Nothing of this outlives the process.

    Parameters
    ----------
    config : Operation
        Its ``snapshot_every`` steps lie between two, 0 for none; ``snapshots`` are kept. Each takes 12 bytes a
        parameter with AdamW in fp32.
    """

    def __init__(self, config: Operation) -> None:
        self.every = config.snapshot_every
        self._kept: deque[checkpoint.Loaded] = deque(maxlen=config.snapshots)

    def due(self, step: int) -> bool:
        """Return whether the state after `step` updates is to be kept."""
        return self.every > 0 and step % self.every == 0

    def take(
        self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, manifest: Mapping[str, Any]
    ) -> None:
        """Copy a state to the host; the oldest goes."""
        self.forget(after=step - 1)
        tensors = copied(model.state_dict()), copied(optimizer_tensors(model, optimizer))
        self._kept.append(checkpoint.Loaded(step, *tensors, copy.deepcopy(dict(manifest))))

    def newest(self, at_most: int) -> checkpoint.Loaded | None:
        """Return the newest state at or before a step, if one is kept."""
        for found in reversed(self._kept):
            if found.step <= at_most:  # it may be gone back to again: nobody may change it
                return checkpoint.Loaded(
                    found.step, found.model, found.optimizer, copy.deepcopy(found.manifest)
                )
        return None

    def forget(self, *, after: int) -> None:
        """Drop the states after a step: they are of a way that the run has left."""
        while self._kept and self._kept[-1].step > after:
            self._kept.pop()


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors on the host that share no memory with those given; tied ones stay one."""
    kept, aliases = without_aliases(tensors)
    own = {name: tensor.clone() if tensors[name].is_cpu else tensor for name, tensor in kept.items()}
    return own | {alias: own[name] for alias, name in aliases.items()}
