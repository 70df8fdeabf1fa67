"""The playbook: what to do about a loss that is hurt, in which order, and when to give up. Decides; does nothing.

    wait     look again after `wait` steps: most spikes pass by themselves
    skip     go back to just before the first evidence, and leave the next batches out
    rollback go back well before it, leave out what was suspected then and now, lower the rate x0.75
    rollback once more, the rate x0.5 of what it was at first
    stop     with a report, and with what it would have to be changed by hand

A cause that the log speaks for goes first: where it is the learning rate, the rate is lowered at once (x0.75, x0.5,
x0.33). At most `most_rollbacks` in a run, whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from reference_trainer.hooks import CONTINUE, Action
from reference_trainer.interventions import Intervention, batch_at, intervention
from reference_trainer.spike_class import Diagnosis
from scaling.errors import DataError

#: Rates of the run after each lowering, as shares of the first.
RATES = (0.75, 0.5, 0.33)

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
    """

    wait: int = 200
    skip: int = 20
    lead: int = 3
    margin: int = 1000
    most_rollbacks: int = 3
    patience: int = 2
    withheld: int = 10

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
    """

    name: Name
    action: Action
    first_step: int
    diagnosis: Diagnosis | None
    why: str


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
    onset: int = -1
    changes: list[Intervention] = field(default_factory=list)


class Playbook:
    """Follow the playbook, one step at a time.

    Parameters
    ----------
    settings : PlaybookSettings, optional
        Its numbers.
    acts : bool
        What it asks for is done. Otherwise it goes on proposing while the loss stays hurt.

    Examples
    --------
    >>> book = Playbook(PlaybookSettings(wait=10, skip=5, margin=50))
    >>> moves = [book.step(step, {"shift": 300} if step >= 308 else {}, True, lambda: None) for step in range(319)]
    >>> [(step, move.name, move.action.to_step, move.action.skip) for step, move in enumerate(moves) if move]
    [(308, 'wait', None, 0), (318, 'skip', 296, 8)]
    """

    def __init__(self, settings: PlaybookSettings | None = None, *, acts: bool = True) -> None:
        self.settings, self.acts = settings or PlaybookSettings(), acts
        self.memory = Memory()

    @property
    def open_incident(self) -> int | None:
        """First evidence of what is not settled yet, from before which a state must be kept."""
        m = self.memory
        return None if m.phase == "calm" else m.onset

    def step(
        self,
        step: int,
        open_tiers: Mapping[str, int],
        finite: bool,
        diagnose: Callable[[], Diagnosis | None],
        *,
        last: bool = False,
    ) -> Move | None:
        """Look at one step.

        Parameters
        ----------
        step : int
            Its number. After a treatment that goes back, the next is the one after that it goes back to.
        open_tiers : mapping of str to int
            Open alarms of the detector, tier to first step. Only a hurt loss (``shift``) and withheld updates
            (``nonfinite``) are acted on: outliers and norms alone do no lasting harm.
        finite : bool
            The update was made.
        diagnose : callable
            Returns what the incident is; asked only when something is decided.
        last : bool
            The run ends here: what is open is decided now.

        Returns
        -------
        Move or None
            None for nearly every step.
        """
        m, s = self.memory, self.settings
        m.withheld = 0 if finite else m.withheld + 1
        hurt = [first for tier, first in open_tiers.items() if tier in ("shift", "nonfinite")]
        if m.phase == "stopped":
            return None if hurt or self.acts else self._over(step)
        if m.phase == "trial" and hurt:
            m.phase, m.level, m.waits = "waiting", m.level + 1, 0
            m.first, m.deadline = min(hurt), step + s.wait
            if not last:
                return Move("failed", CONTINUE, m.first, None, f"an alarm at step {step}, before the verdict")
        if m.phase == "trial":
            if step < m.deadline and not last:
                return None
            m.phase, m.level = "calm", 0
            if step < m.deadline:
                return Move(
                    "unjudged", CONTINUE, m.onset, None, f"the run ended {m.deadline - step} steps early"
                )
            return Move(
                "recovered", CONTINUE, m.onset, None, f"no alarm in the {s.wait} steps after the incident"
            )
        if m.phase == "calm":
            if not hurt:
                return None
            m.phase, m.first, m.deadline, m.waits = "waiting", min(hurt), step + s.wait, 0
            m.onset = m.first
            if not last and m.withheld < s.withheld:
                return Move(
                    "wait",
                    CONTINUE,
                    m.first,
                    None,
                    f"most pass by themselves: look again at step {m.deadline}",
                )
        if not hurt:
            return self._over(step)
        m.first = min(m.first, *hurt)
        if step < m.deadline and not last and m.withheld < s.withheld:
            return None
        diagnosis = diagnose()
        coming = diagnosis is not None and diagnosis.advice == "wait" and m.withheld < s.withheld
        if coming and m.waits < s.patience and not last:
            m.waits, m.deadline = m.waits + 1, step + s.wait
            return Move(
                "wait", CONTINUE, m.first, diagnosis, f"on its way back: look again at step {m.deadline}"
            )
        return self._treat(step, diagnosis)

    def _over(self, step: int) -> Move:
        """Close an incident that passed by itself; where nothing was done, the next one starts afresh."""
        m = self.memory
        m.phase, m.level = "calm", 0
        if not self.acts:
            m.rollbacks = m.lowered = 0
        return Move(
            "over", CONTINUE, m.first, None, f"the loss is back {step - m.first} steps after it began"
        )

    def _treat(self, step: int, diagnosis: Diagnosis | None) -> Move:
        """Choose the next treatment, and remember it as done."""
        m, s = self.memory, self.settings
        m.onset = min(m.onset, m.first) if m.level else m.first
        if m.rollbacks >= s.most_rollbacks or m.level >= 3:
            m.phase = "stopped"
            why = (
                f"{m.rollbacks} rollbacks did not help; a person has to look"
                if self.acts
                else "nothing else is left"
            )
            return Move("stop", Action("stop", why=why), m.first, diagnosis, why)
        causes = [cause.cause for cause in diagnosis.causes] if diagnosis is not None else []
        suspect = max(m.first - 1 - s.lead, 0)  # the update before which all was well
        rate = causes[:1] == ["learning rate too high"] and m.lowered < len(RATES)
        name: Name = "skip" if m.level == 0 else "rollback"
        to_step, skip = suspect, s.skip + min(s.lead, m.first - 1)
        if m.level:
            to_step = max(min(m.onset, m.first) - 1 - s.margin, 0)
            skip += self._hurt_for(step)
        why = f"back to step {to_step}, without {skip} batches from the one of step {suspect + 1} on"
        if rate and m.level == 0:
            name, skip, why = "lower_lr", 0, f"back to step {to_step}"
        factor = 1.0
        if (rate or m.level) and m.lowered < len(RATES):
            factor = RATES[m.lowered] / (RATES[m.lowered - 1] if m.lowered else 1.0)
            why += f", at {RATES[m.lowered]:g} of the first learning rate"
            m.lowered += 1
        before = batch_at(suspect, m.changes)
        action = Action(name, to_step=to_step, skip_from=before, skip=skip, lr_factor=factor, why=why)  # type: ignore[arg-type]
        m.rollbacks += 1
        if self.acts:
            m.changes = m.changes + intervention(action, step)
            m.phase, m.deadline = "trial", step + s.wait
        else:
            m.level, m.deadline = m.level + 1, step + s.wait
        return Move(name, action, m.first, diagnosis, why)

    def _hurt_for(self, step: int) -> int:
        """Return the steps from the first evidence to the alarm: their batches are suspected too."""
        m, s = self.memory, self.settings
        return max(m.deadline - s.wait * (m.waits + 1) - m.first, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types."""
        return asdict(self.memory)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.memory = Memory(**{**state, "changes": [dict(change) for change in state["changes"]]})
