"""What only our own runs tell: which batches a step read, which faults were injected, what the playbook did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reference_trainer.hooks import Action
from reference_trainer.inject import KINDS, parse_faults
from reference_trainer.interventions import Intervention, batch_at, intervention
from reference_trainer.training_log import TrainingLog
from scaling.errors import DataError

_FIELDS = ("skip", "skip_from", "to_step", "lr_factor", "why")


def is_own(log: TrainingLog) -> bool:
    """Tell a log of our own trainer whose configuration is known: its batches are a pure function of the step."""
    return "batch_seqs" in log.facts.get("config", {})


def interventions_before(log: TrainingLog, line: int) -> list[Intervention]:
    """Return the interventions written above a line of the log."""
    out: list[Intervention] = []
    for row in log.facts.get("actions", ()):
        if row["line"] < line:
            action = Action(row["do"], **{name: row[name] for name in _FIELDS if row.get(name) is not None})
            out += intervention(action, int(row["step"]))
    return out


def batches(log: TrainingLog, first_step: int, last_step: int, line: int) -> tuple[int, int] | None:
    """Return first and last batch that steps of the log read (the log counts updates from 1), None if not ours."""
    if not is_own(log):
        return None
    changes = interventions_before(log, line)
    return batch_at(max(first_step - 1, 0), changes), batch_at(max(last_step - 1, 0), changes)


def injected(log: TrainingLog, first_step: int, last_step: int, line: int) -> list[str]:
    """Return the faults that were injected on purpose into steps of the log, as sentences."""
    text = log.facts.get("config", {}).get("inject") or ""
    if not text or not is_own(log):
        return []
    read = batches(log, first_step, last_step, line) or (0, -1)
    out = []
    for fault in parse_faults(text):
        low, high = read if KINDS[fault.kind].of_data else (first_step - 1, last_step - 1)
        if fault.start <= high and low < fault.start + fault.span:
            out.append(f"{fault} was injected on purpose: {KINDS[fault.kind].does}")
    return out


def treatments(log: TrainingLog) -> list[dict[str, Any]]:
    """Return the entries of interventions.jsonl beside a run's log, each with its line.

    Raises
    ------
    DataError
        A line is no JSON.
    """
    folder = log.facts.get("run_uri")
    path = Path(str(folder)) / "interventions.jsonl"
    if folder is None or not path.is_file():
        return []
    out = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            out.append({"line": number, **json.loads(text)})
        except ValueError as error:
            raise DataError(
                f"{path}: line {number} is no JSON ({error})", source=str(path), rows=(number,)
            ) from error
    return out
