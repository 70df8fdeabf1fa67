"""The playbook: what to do about a loss that is hurt, in which order, and when to give up. Decides; does nothing.

    wait     look again after `wait` steps: most spikes pass by themselves
    skip     go back to just before the first evidence, and leave the next batches out
    rollback go back well before it, and leave out all that was read while the loss was hurt
    rollback once more, with the rate x0.75
    stop     with a report, and with what would have to be changed by hand

A cause that the log speaks for goes first: where it is the learning rate, and it still is as high, the rate is lowered
at once (x0.75, x0.5, x0.33). At most `most_rollbacks` in a run, whatever happens. What passed by itself is gone back
over too (a skip) where it cost more than a hundredth of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from reference_trainer.hooks import CONTINUE, Action
from reference_trainer.interventions import batch_at, intervention
from reference_trainer.playbook import Memory, Move, Name, PlaybookSettings
from reference_trainer.spike_class import Diagnosis

#: Rates of the run after each lowering, as shares of the first.
RATES = (0.75, 0.5, 0.33)


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
        ends_at: float = math.inf,
        rate_back: Callable[[], bool] = lambda: False,
    ) -> Move | None:
        """Look at one step.

        Parameters
        ----------
        step : int
            Its number. After a treatment that goes back, the next is the one after that it goes back to.
        open_tiers : mapping of str to int
            Open alarms of the detector, tier to first step. Only a hurt loss (``shift``) and withheld updates
            (``nonfinite``) are acted on: outliers and norms alone do no lasting harm. Norms date the incident.
        finite : bool
            The update was made.
        diagnose : callable
            Returns what the incident is; asked only when something is decided.
        ends_at : float
            Last step of the run, as far as is known: what is open there is decided there.
        rate_back : callable
            Returns whether the learning rate is what it was before the incident: then lowering it would mend nothing.

        Returns
        -------
        Move or None
            None for nearly every step.
        """
        m = self.memory
        m.withheld = 0 if finite else m.withheld + 1
        hurt = self._first_evidence(step, open_tiers)
        last = step >= ends_at
        if m.phase == "stopped":
            # A person who goes on after a stop is left alone; once the loss is back it is watched again.
            return None if hurt is not None else self._over(step, ends_at, diagnose)
        if m.phase == "trial":
            if hurt is None:
                return self._verdict(step) if last or step >= m.deadline else None
            self._begin(step, hurt, open_tiers, level=m.level + 1)
            if not last:
                return Move("failed", CONTINUE, m.first, None, f"an alarm at step {step}, before the verdict")
        if m.phase == "calm":
            if hurt is None:
                return None
            self._begin(step, hurt, open_tiers, level=0)
            m.onset = m.first
            if not last:
                why = f"most pass by themselves: look again at step {m.deadline}"
                return Move("wait", CONTINUE, m.first, None, why)
        if hurt is None:
            return self._over(step, ends_at, diagnose)
        m.first, m.hurt = min(m.first, hurt), m.hurt or "shift" in open_tiers
        urgent = last or m.withheld >= self.settings.withheld
        if step < m.deadline and not urgent:
            return None
        diagnosis = diagnose()
        coming = diagnosis is not None and diagnosis.advice == "wait"
        if coming and m.waits < self.settings.patience and not urgent:
            m.waits, m.deadline = m.waits + 1, step + self.settings.wait
            return Move(
                "wait", CONTINUE, m.first, diagnosis, f"on its way back: look again at step {m.deadline}"
            )
        return self._treat(step, diagnosis, rate_back)

    def _first_evidence(self, step: int, open_tiers: Mapping[str, int]) -> int | None:
        """Return where the incident began, if the loss is hurt; norms that led to it without a gap count."""
        m, s = self.memory, self.settings
        evidence = [first for tier, first in open_tiers.items() if tier != "point"]
        if not evidence:
            return None
        linked = m.trail >= 0 and step - m.trail_end <= s.linked
        m.trail, m.trail_end = min(evidence + [m.trail] * linked), step
        hurt = [first for tier, first in open_tiers.items() if tier in ("shift", "nonfinite")]
        return max(m.trail, min(hurt) - s.wait) if hurt else None

    def _begin(self, step: int, first: int, open_tiers: Mapping[str, int], *, level: int) -> None:
        """Open an incident."""
        m = self.memory
        m.phase, m.level, m.waits, m.hurt = "waiting", level, 0, "shift" in open_tiers
        m.first, m.deadline = first, step + self.settings.wait

    def _verdict(self, step: int) -> Move:
        """Close a trial in which no alarm was raised."""
        m = self.memory
        m.phase, m.level = "calm", 0
        if step < m.deadline:
            return Move("unjudged", CONTINUE, m.onset, None, f"the run ended {m.deadline - step} steps early")
        why = f"no alarm in the {self.settings.wait} steps after the incident"
        return Move("recovered", CONTINUE, m.onset, None, why)

    def _over(self, step: int, ends_at: float, diagnose: Callable[[], Diagnosis | None]) -> Move:
        """Close an incident that passed by itself, or go back over it for what it cost."""
        m, s = self.memory, self.settings
        lost = step - m.first
        why = f"the loss is back {lost} steps after it began"
        whole = ends_at if ends_at < math.inf else step
        if self.acts and m.hurt and lost > s.regain * whole and m.rollbacks < s.most_rollbacks - 1:
            why += f", more than {s.regain:.0%} of the run: once more without their batches"
            return self._go_back(
                "skip", self._suspect(), lost + s.lead + s.skip, 1.0, step, diagnose(), why, "over"
            )
        m.phase, m.level = "calm", 0
        if not self.acts:  # nothing was done, so the next incident starts afresh
            m.rollbacks = m.lowered = 0
        return Move("over", CONTINUE, m.first, None, why)

    def _treat(self, step: int, diagnosis: Diagnosis | None, rate_back: Callable[[], bool]) -> Move:
        """Choose the next treatment."""
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
        rate = causes[:1] == ["learning rate too high"] and m.lowered < len(RATES) and not rate_back()
        name: Name = "rollback" if m.level else "lower_lr" if rate else "skip"
        to_step, skip = self._suspect(), s.skip + min(s.lead, m.first - 1)
        if m.level:
            to_step = max(m.onset - 1 - s.margin, 0)
            skip += step - m.first  # all that was read while the loss was hurt
        skip *= name != "lower_lr"
        why = f"back to step {to_step}" + (
            f", without {skip} batches from that of step {self._suspect() + 1} on" * (skip > 0)
        )
        factor = 1.0
        if (rate or m.level >= 2) and m.lowered < len(RATES):
            factor = RATES[m.lowered] / (RATES[m.lowered - 1] if m.lowered else 1.0)
            why += f", at {RATES[m.lowered]:g} of the first learning rate"
            m.lowered += 1
        return self._go_back(name, to_step, skip, factor, step, diagnosis, why)

    def _suspect(self) -> int:
        """Return the update before which all was well."""
        return max(self.memory.first - 1 - self.settings.lead, 0)

    def _go_back(
        self, name: Name, to_step: int, skip: int, factor: float, step: int, diagnosis: Diagnosis | None, why: str,
        before: str = "",
    ) -> Move:  # fmt: skip
        """Remember a treatment as done, and return it."""
        m, s = self.memory, self.settings
        action = Action(
            name, to_step=to_step, skip_from=batch_at(self._suspect(), m.changes), skip=skip, lr_factor=factor, why=why,  # type: ignore[arg-type]
        )  # fmt: skip
        m.rollbacks, m.deadline = m.rollbacks + 1, step + s.wait
        if self.acts:
            m.changes = m.changes + intervention(action, step)
            m.phase, m.trail = "trial", -1
        else:
            m.level += 1
        return Move(name, action, m.first, diagnosis, why, before)

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types."""
        return asdict(self.memory)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.memory = Memory(**{**state, "changes": [dict(change) for change in state["changes"]]})
