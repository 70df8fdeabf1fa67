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

    Parameters
    ----------
    kind : {"continue", "skip", "rollback", "lower_lr", "stop"}
        ``skip`` leaves out the next `skip` batches, ``rollback`` goes back to `to_step` and then leaves out
        `skip` batches, ``lower_lr`` multiplies the learning rate by `lr_factor` from here on.
    skip : int
        Batches to leave out.
    to_step : int, optional
        Step to go back to: a checkpoint at or before it. Needed for ``rollback``.
    lr_factor : float
        Factor on the learning rate, in (0, 1].
    why : str
        One sentence for the log.

    Raises
    ------
    DataError
        The fields make no sense together.

    Examples
    --------
    >>> Action("rollback", to_step=4_000, skip=200, why="gradient norm rose before the loss did").to_step
    4000
    """

    kind: Kind = "continue"
    skip: int = 0
    to_step: int | None = None
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
        if self.kind == "rollback" and (self.to_step is None or self.to_step < 0):
            raise DataError(
                f"a rollback needs to_step, the step to go back to, got {self.to_step!r}", column="to_step"
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
