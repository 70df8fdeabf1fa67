"""Spikes of the loss, by the detector, with class and cause."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_trainer.guide.feature import UNEXPLAINED, Confidence, Feature
from reference_trainer.guide.own_run import injected
from reference_trainer.training_log import TrainingLog

#: Outliers of single rows are told one by one up to this many, beyond it together.
_SINGLY = 5


def found_spikes(log: TrainingLog) -> list[tuple[Any, Any]]:
    """Return the spikes of a log with their diagnoses (`spike_events.Spike`, `spike_class.Diagnosis`), oldest first."""
    from reference_trainer.spike_class import classify
    from reference_trainer.spike_events import find_spikes

    history = log.history()
    if "loss" not in history or len(history["step"]) == 0:
        return []
    del history["line"]
    return [(spike, classify(history, spike)) for spike in find_spikes(history)]


def spike_lines(log: TrainingLog, spike: Any) -> tuple[int, int]:
    """Return the first line of a spike, and the last before the loss was back."""
    lines = log.history()["line"]
    end = spike.shape.end_row if spike.shape.end_row is not None else spike.shape.last_row
    last = max(min(end - 1, len(lines) - 1), spike.row)
    return int(lines[spike.row]), int(lines[last])


def read_spikes(log: TrainingLog, others: list[Feature]) -> list[Feature]:
    """Return the spikes as features; many outliers of single rows become one."""
    found = found_spikes(log)
    harmless = [(s, d) for s, d in found if d.kind == "data outlier"]
    out = []
    if len(harmless) > _SINGLY:
        out.append(_together(log, harmless))
        found = [(s, d) for s, d in found if d.kind != "data outlier"]
    return out + [_one(log, spike, diagnosis, others) for spike, diagnosis in found]


def _one(log: TrainingLog, spike: Any, diagnosis: Any, others: list[Feature]) -> Feature:
    first, last = spike_lines(log, spike)
    after = "the log, or this attempt, ends before 500 steps have passed"
    if spike.loss_after_500 is not None:
        after = f"{spike.loss_after_500:.3f} 500 steps later"
    peak = f"{spike.loss_peak:.3f}" if np.isfinite(spike.loss_peak) else "a loss that is not finite"
    what = (
        f"{diagnosis.kind}: the loss goes from {spike.loss_before:.3f} to {peak} at step {spike.peak_step:,}"
    )
    what += f"; {after}"
    if spike.grad_norm_peak is not None and spike.grad_norm_before is not None:
        what += f"; gradient norm {spike.grad_norm_before:.3g} to {spike.grad_norm_peak:.3g}"
    what += f". {diagnosis.reason[0].upper()}{diagnosis.reason[1:]}."
    end = spike.end_step if spike.end_step is not None else spike.peak_step
    numbers = {
        "class": diagnosis.kind, "advice": diagnosis.advice, "alarm_step": spike.alarm_step,
        "loss_before": spike.loss_before, "loss_peak": spike.loss_peak, "loss_after_500": spike.loss_after_500,
        "causes": [cause.cause for cause in diagnosis.causes],
    }  # fmt: skip
    sure: Confidence = diagnosis.confidence
    return Feature(
        "spike", float(spike.first_step), float(max(end, spike.peak_step)), log.cite(first, last), what,
        _decision(log, spike, diagnosis, others), sure, numbers,
    )  # fmt: skip


def _decision(log: TrainingLog, spike: Any, diagnosis: Any, others: list[Feature]) -> str:
    """Name what the run did just before, if anything, else the cause with the most evidence."""
    if faults := injected(log, spike.first_step, spike.peak_step, spike_lines(log, spike)[0]):
        return "; ".join(faults)
    reach = 16
    for feature in others:
        if feature.kind in ("learning rate jump", "restart", "batch ramp", "gap") and (
            spike.first_step - reach <= feature.first_step <= max(spike.peak_step, spike.first_step) + 1
        ):
            return f"{feature.kind} at step {feature.first_step:,.0f} ({feature.where}) comes just before"
    if diagnosis.causes:
        cause = diagnosis.causes[0]
        evidence = cause.evidence if isinstance(cause.evidence, str) else "; ".join(cause.evidence)
        return f"{cause.cause} ({cause.confidence} confidence): {evidence}"
    return f"{UNEXPLAINED}; playbook: {diagnosis.advice}"


def _together(log: TrainingLog, spikes: list[tuple[Any, Any]]) -> Feature:
    first, last = spikes[0][0], spikes[-1][0]
    worst = max((s for s, _ in spikes), key=lambda s: s.loss_peak - s.loss_before)
    lines = [spike_lines(log, s)[0] for s, _ in spikes]
    shown = ", ".join(map(str, lines[:8])) + (", ..." if len(lines) > 8 else "")
    what = (
        f"{len(spikes)} data outliers of single rows that are gone at once; the largest goes from "
        f"{worst.loss_before:.3f} to {worst.loss_peak:.3f} at step {worst.peak_step:,}"
    )
    why = "strange batches: nothing to do while the loss comes back at once"
    numbers = {
        "class": "data outlier",
        "count": len(spikes),
        "steps": [s.first_step for s, _ in spikes][:100],
    }
    where = f"{log.steps.word}s {shown}"
    return Feature(
        "spike", float(first.first_step), float(last.first_step), where, what, why, "high", numbers
    )
