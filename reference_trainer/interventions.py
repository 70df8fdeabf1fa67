"""What recoveries have changed of a run: which batches it leaves out, and by what its learning rate is lower.

Interventions are absolute. With the configuration they decide every later step, whatever checkpoint was gone back
to, so a run that recovered is the run made from scratch with the same interventions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reference_trainer.hooks import Action

#: ``skip_from``, ``skip``, ``lr_from``, ``lr_factor``, ``at`` (the step that the run had reached) and ``why``, as plain
#: types for the checkpoint.
Intervention = dict[str, Any]


def intervention(action: Action, step: int) -> list[Intervention]:
    """Return what an action taken after `step` changes from there on, as a list of one or none."""
    if not action.skip and action.lr_factor == 1.0 and action.to_step is None:
        return []
    return [{
        "skip_from": action.skip_from, "skip": action.skip, "lr_factor": action.lr_factor,
        "lr_from": step if action.to_step is None else action.to_step, "at": step, "why": action.why,
    }]  # fmt: skip


def not_before(began: int, action: Action) -> Action:
    """Return an action that does not go back beyond the step at which a branch left its trunk."""
    if action.to_step is None or action.to_step >= began:
        return action
    return replace(action, to_step=began, skip_from=max(action.skip_from, began))


def gone_back_over(step: int, interventions: Sequence[Intervention]) -> bool:
    """Return whether the run has made update `step`, and then gone back before it."""
    return any(change["lr_from"] <= step < change["at"] for change in interventions)


def batch_at(step: int, interventions: Sequence[Intervention]) -> int:
    """Return the batch that update `step` (from 0) reads: the step's own, but for those left out before it.

    Examples
    --------
    >>> skip = {"skip_from": 3, "skip": 2, "lr_from": 0, "lr_factor": 1.0, "why": ""}
    >>> [batch_at(step, [skip]) for step in range(6)]
    [0, 1, 2, 5, 6, 7]
    """
    for change in sorted(interventions, key=lambda change: int(change["skip_from"])):
        step += change["skip"] if step >= change["skip_from"] else 0
    return step


def lr_factor_at(step: int, interventions: Sequence[Intervention]) -> float:
    """Return the factor on the learning rate of update `step`."""
    return math.prod(float(change["lr_factor"]) for change in interventions if step >= change["lr_from"])
