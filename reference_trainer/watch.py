"""Who watches a run: detector, classifier and playbook behind one call a step, and the log of what they did.

``interventions.jsonl`` has one line an incident or treatment, like a clinical trial: when, why, what, outcome. It
is part of the observer's state: a resumed run writes it again exactly.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reference_trainer.hooks import CONTINUE, Action, Observer, Silent
from reference_trainer.playbook import TREATMENTS, Move, PlaybookSettings
from reference_trainer.proposals import proposals
from reference_trainer.recovery import Playbook
from reference_trainer.run_folder import write_whole
from reference_trainer.spike_class import Diagnosis, classify
from reference_trainer.spike_events import gather
from reference_trainer.spikes import Alarm, Detector

#: What is remembered of every step, for the classifier.
COLUMNS = ("step", "loss", "grad_norm", "update_norm", "param_norm", "v_norm", "lr", "finite")
#: Steps remembered beside the waits of an incident.
ROWS = 512
NAME = "interventions.jsonl"


class Watch:
    """Watch a run: an observer (`reference_trainer.hooks.Observer`).

    Parameters
    ----------
    detector : Detector
        Sees that something is wrong.
    playbook : Playbook
        Decides what to do. Whether it is done is the playbook's ``acts``.
    folder : pathlib.Path, optional
        Where ``interventions.jsonl`` is written; nowhere in processes that write nothing.
    config : mapping, optional
        Settings of the run, for proposals.
    ends_at : float
        Last step of the run, as far as is known: what is open there is decided there.
    """

    def __init__(
        self, detector: Detector, playbook: Playbook, *, folder: Path | None = None,
        config: Mapping[str, Any] | None = None, ends_at: float = math.inf,
    ) -> None:  # fmt: skip
        self.detector, self.playbook = detector, playbook
        self.entries: list[dict[str, Any]] = []
        self._folder, self._config, self._ends_at = folder, config or {}, ends_at
        waits = playbook.settings.wait * (playbook.settings.patience + 1)
        self._rows: deque[tuple[float, ...]] = deque(maxlen=ROWS + waits)
        self._alarms: list[Alarm] = []
        self._again_until = -1  # steps up to here are made a second time and were judged the first

    @property
    def open_alarm(self) -> int | None:
        """Step of the first evidence of what is not settled."""
        steps = (self.detector.open_alarm, self.playbook.open_incident)
        return min((step for step in steps if step is not None), default=None)

    def observe(self, step: int, metrics: Mapping[str, float]) -> Action:
        """Look at one step and say what to do."""
        detector = self.detector
        alarm = detector.observe(step, metrics)
        self._rows.append(tuple(metrics.get(name, math.nan) for name in COLUMNS))
        if alarm is not None:
            self._alarms = [a for a in self._alarms if a.step >= self._rows[0][0]] + [alarm]
        if step <= self._again_until:
            return CONTINUE
        move = self.playbook.step(
            step,
            detector.open_tiers,
            metrics.get("finite", 1.0) != 0,
            self._diagnose,
            ends_at=self._ends_at,
            rate_back=self._rate_back,
        )
        if move is None:
            return CONTINUE
        self._write(step, move)
        if not self.playbook.acts or move.action.kind == "continue":
            return CONTINUE
        if move.action.to_step is not None:
            self._again_until = move.action.to_step
        return move.action

    def _history(self) -> dict[str, np.ndarray]:
        return dict(zip(COLUMNS, np.array(self._rows, float).T, strict=True))

    def _diagnose(self) -> Diagnosis | None:
        """Name the newest spike in which the loss was hurt."""
        history = self._history()
        hurt = [s for s in gather(self._alarms, history) if {"shift", "nonfinite"} & set(s.tiers)]
        return classify(history, hurt[-1]) if hurt else None

    def _rate_back(self) -> bool:
        """Return whether the learning rate is about what it was before the incident."""
        first = self.playbook.memory.first
        before = [row[6] for row in self._rows if row[0] < first][-64:]
        return (
            bool(before)
            and self._rows[-1][6] <= 1.1 * float(np.median(before))
            and max(row[6] for row in self._rows if row[0] >= first) > 2 * float(np.median(before))
        )

    def _write(self, step: int, move: Move) -> None:
        """Keep a move in the log: a new line, or the outcome of an open one."""
        if move.name in ("over", "recovered", "failed", "unjudged"):
            self._close(step, move.name, move.why)
        else:
            self._close(step, move.before or "failed", f"then: {move.name}")
            self.entries.append(self._entry(step, move))
        if self._folder is not None:
            lines = [json.dumps(entry) + "\n" for entry in self.entries]
            write_whole(self._folder / NAME, "".join(lines).encode())

    def _close(self, step: int, outcome: str, why: str) -> None:
        for entry in self.entries:
            if entry["outcome"] == "open":
                outcome = "not over" if outcome == "failed" and entry["what"] not in TREATMENTS else outcome
                entry.update(outcome=outcome, outcome_step=step, outcome_why=why, loss_after=self._loss(step))

    def _entry(self, step: int, move: Move) -> dict[str, Any]:
        """Return one line: when, why, what; the outcome comes later."""
        alarms = [a for a in self._alarms if a.step >= move.first_step]
        d = move.diagnosis
        before = [row for row in self._rows if row[0] < move.first_step][-64:]
        treats = move.name in TREATMENTS
        action = asdict(move.action)
        norms = [row[2] for row in before]
        return {
            "number": len(self.entries) + 1, "step": step, "first_step": move.first_step,
            "what": move.name if self.playbook.acts or not treats else f"proposed: {move.name}", "why": move.why,
            "evidence": [f"step {a.step}, {a.tier}: {says}" for a in alarms[:8] for says in a.evidence],
            "class": d and d.kind, "confidence": d and d.confidence, "reason": d and d.reason,
            "causes": [asdict(cause) for cause in d.causes] if d else [],
            **({name: action[name] for name in ("to_step", "skip_from", "skip", "lr_factor")} if treats else {}),
            "proposals": proposals(self._config, d, norms, self.playbook.memory.rollbacks) if treats else [],
            "loss_before": float(np.median([row[1] for row in before])) if before else None,
            "loss": self._loss(step), "outcome": "the run was stopped" if move.name == "stop" and self.playbook.acts
            else "open",
        }  # fmt: skip

    def _loss(self, step: int) -> float | None:
        """Return the median loss of the last 16 steps, or nothing where none was finite."""
        last = [row[1] for row in list(self._rows)[-16:] if math.isfinite(row[1])]
        return float(np.median(last)) if last else None

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types."""
        return {
            "detector": self.detector.state_dict(), "playbook": self.playbook.state_dict(),
            "rows": [list(row) for row in self._rows], "alarms": [asdict(alarm) for alarm in self._alarms],
            "entries": [dict(entry) for entry in self.entries], "again_until": self._again_until,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`; from a run that nobody watched, begin to."""
        if state:
            self.playbook.load_state_dict(state["playbook"])
            self.entries = [dict(entry) for entry in state["entries"]]
            self._again_until = state["again_until"]
            self.go_back(state)
        if self.entries and self._folder is not None:
            write_whole(
                self._folder / NAME, "".join(json.dumps(entry) + "\n" for entry in self.entries).encode()
            )

    def go_back(self, state: Mapping[str, Any]) -> None:
        """Forget the steps after `state`, but not what was done about them."""
        if state:
            self.detector.load_state_dict(state["detector"])
            self._rows.clear()
            self._rows.extend(tuple(row) for row in state["rows"])
            self._alarms = [Alarm(**{**a, "evidence": tuple(a["evidence"])}) for a in state["alarms"]]


def observer_of(config: Any, *, writes: bool) -> Observer:
    """Return the observer that a configuration asks for.

    What is decided may depend on where the run ends, so a trunk and the run made from scratch at another length can be
    treated differently. Both are then what their interventions say.

    Parameters
    ----------
    config : reference_trainer.train.Config
        Its ``recovery`` decides, with the numbers of the playbook beside it.
    writes : bool
        This process writes the run's folder.
    """
    if config.recovery == "off":
        return Silent()
    settings = PlaybookSettings(config.recovery_wait, config.recovery_skip, margin=config.recovery_margin)
    ends_at = config.tokens / config.step_tokens
    return Watch(
        Detector(), Playbook(settings, acts=config.recovery == "auto"),
        folder=Path(config.run_dir) if writes else None, config=vars(config),
        ends_at=max(1, round(ends_at)) if ends_at < math.inf else math.inf,
    )  # fmt: skip
