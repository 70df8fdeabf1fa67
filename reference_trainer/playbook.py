"""What the playbook is set to, what it says and what it remembers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from reference_trainer.hooks import Action
from reference_trainer.interventions import Intervention
from reference_trainer.spike_class import Diagnosis
from scaling.errors import DataError

Name = Literal["wait", "over", "skip", "rollback", "lower_lr", "stop", "recovered", "failed", "unjudged"]
#: Moves that ask the run for something.
TREATMENTS = ("skip", "rollback", "lower_lr", "stop")


@dataclass(frozen=True)
class PlaybookSettings:
    """Numbers of the playbook.

    Parameters
    ----------
    wait : int
        Steps from an alarm to the second look, and from a treatment to its verdict.
    skip : int
        Batches left out at the first attempt.
    lead : int
        Steps before the first evidence that are suspected too: norms lead a loss by 1 to 3 steps.
    margin : int
        Steps before the first evidence that a second attempt goes back to.
    most_rollbacks : int
        After so many the run is stopped.
    patience : int
        How often a loss on its way back is given another `wait`.
    withheld : int
        Updates withheld in a row that are not waited for any longer.
    regain : float
        An incident that passed by itself, but took more than this share of the run, is gone back over without its
        batches: the run is otherwise behind by as much. All but one of the rollbacks may be spent on that.
    linked : int
        Steps between two pieces of evidence that still are of one incident: norms are quiet in between.
    """

    wait: int = 200
    skip: int = 20
    lead: int = 3
    margin: int = 1000
    most_rollbacks: int = 3
    patience: int = 2
    withheld: int = 10
    regain: float = 0.01
    linked: int = 32

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        for name, value in asdict(self).items():
            least = 1 if name in ("wait", "skip", "withheld") else 0
            if value < least:
                raise DataError(f"{name} must be at least {least}, got {value}", column=name)


@dataclass(frozen=True)
class Move:
    """One line of the playbook's log.

    Parameters
    ----------
    name : str
        What is decided, or how a treatment or a wait ended.
    action : Action
        What the run is asked for; nothing for most.
    first_step : int
        Step of the first evidence of the incident.
    diagnosis : Diagnosis or None
        What it was taken for.
    why : str
        One sentence.
    before : str
        How what it follows ended, if that is still open.
    """

    name: Name
    action: Action
    first_step: int
    diagnosis: Diagnosis | None
    why: str
    before: str = ""


@dataclass
class Memory:
    """What a playbook remembers, as plain types.

    Attributes
    ----------
    phase : {"calm", "waiting", "trial", "stopped"}
        ``trial``: a treatment waits for its verdict.
    first, deadline : int
        First evidence of the incident; step of the next look or of the verdict.
    level : int
        Which line of the playbook comes next.
    waits : int
        How often it has waited in this incident.
    rollbacks, lowered : int
        Rollbacks of the run so far, and how often its rate was lowered.
    withheld : int
        Updates withheld in a row.
    hurt : bool
        In this incident the loss itself was hurt.
    trail, trail_end : int
        First and last step of evidence of any kind that is linked to now.
    onset : int
        First evidence of the incident that a running trial treats, the earliest of all attempts.
    changes : list of dict
        Interventions so far: they say which batch a step reads.
    """

    phase: str = "calm"
    first: int = -1
    deadline: int = -1
    level: int = 0
    waits: int = 0
    rollbacks: int = 0
    lowered: int = 0
    withheld: int = 0
    hurt: bool = False
    trail: int = -1
    trail_end: int = -1
    onset: int = -1
    changes: list[Intervention] = field(default_factory=list)
