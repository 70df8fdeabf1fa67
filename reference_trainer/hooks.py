"""The seam between the training loop and whoever watches it: one call for each step, one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from scaling.errors import DataError

#: What the loop may be asked to do.
Kind = Literal["continue", "skip", "rollback", "lower_lr", "stop"]


@dataclass(frozen=True)
class Action:
    """What the loop should do after a step.

    Interventions are absolute (which batches, from which step), so what follows depends on them alone and not on
    the checkpoint that the run went back to: a recovered run is the run made from scratch with the same ones.

    Parameters
    ----------
    kind : {"continue", "skip", "rollback", "lower_lr", "stop"}
        What it is called in the log. Going back, leaving out and lowering follow from the fields below.
    to_step : int, optional
        Go back to the newest state at or before this step. Needed for ``skip`` and ``rollback``: the damage is
        done where an alarm is raised.
    skip_from, skip : int
        First batch to leave out, and how many.
    lr_factor : float
        Factor on the learning rate, in (0, 1], from the step on at which the run goes on.
    why : str
        One sentence for the log.

    Raises
    ------
    DataError
        The fields make no sense together.

    Examples
    --------
    >>> Action("rollback", to_step=4_000, skip_from=4_180, skip=20, why="the norm rose before the loss").skip
    20
    """

    kind: Kind = "continue"
    to_step: int | None = None
    skip_from: int = 0
    skip: int = 0
    lr_factor: float = 1.0
    why: str = ""

    def __post_init__(self) -> None:
        """Refuse an action that the loop could only guess at."""
        if self.kind not in get_args(Kind):
            raise DataError(
                f"no action {self.kind!r}: it is one of {', '.join(get_args(Kind))}", column="kind"
            )
        if self.skip < 0 or (self.kind == "skip" and self.skip == 0):
            raise DataError(f"skip counts batches to leave out, got {self.skip}", column="skip")
        if self.kind in ("skip", "rollback") and (self.to_step is None or self.to_step < 0):
            raise DataError(
                f"a {self.kind} needs to_step, the step to go back to, got {self.to_step!r}", column="to_step"
            )
        if not 0 < self.lr_factor <= 1 or (self.kind == "lower_lr" and self.lr_factor == 1):
            raise DataError(
                f"lr_factor multiplies the learning rate and lies in (0, 1], below 1 for lower_lr, got "
                f"{self.lr_factor!r}",
                column="lr_factor",
            )


#: Nothing to do; one object, so that a quiet step costs nothing.
CONTINUE = Action()


class Observer(Protocol):
    """Who watches a run. The loop calls `observe` for every step, in order, when the ring is read."""

    @property
    def open_alarm(self) -> int | None:
        """Step of the oldest alarm that is not closed, which checkpoints before it must outlive."""

    def observe(self, step: int, metrics: Mapping[str, float]) -> Action:
        """Look at one step's numbers (loss in nats/token, norms, learning rate, ...) and say what to do."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types; it is saved with every checkpoint."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`, so that the answers are those of a run that never stopped."""

    def go_back(self, state: Mapping[str, Any]) -> None:
        """Forget the steps after `state`, which the run has gone back to, but not what was done about them."""


class Silent:
    """An observer that never objects.

    Examples
    --------
    >>> Silent().observe(1, {"loss": 10.8}).kind
    'continue'
    """

    open_alarm: int | None = None

    def observe(self, step: int, metrics: Mapping[str, float]) -> Action:
        """Return the action ``continue``."""
        return CONTINUE

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept any state: there is nothing to restore."""

    def go_back(self, state: Mapping[str, Any]) -> None:
        """Accept any state."""
