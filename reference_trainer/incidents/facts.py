"""What a log tells about one spike: symptoms, norms, the clock, the batches, activations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from reference_trainer.guide.own_run import batches, injected, is_own
from reference_trainer.guide.spikes import spike_lines
from reference_trainer.training_log import SIGNALS, TrainingLog

#: Rows before the first evidence whose median is "before".
_BEFORE = 64
_DATES = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True)
class Facts:
    """One spike, measured; None is what the log does not tell.

    Parameters
    ----------
    number : int
        From 1, in the order of the log.
    date : str
        When, in UTC, or ``"date unknown"``.
    date_source : str
        Where the date comes from, or why there is none.
    lines : str
        The lines of the log, from the first evidence to the loss being back.
    first_line : int
        Line of the first evidence.
    symptoms : mapping
        ``first_step``, ``alarm_step``, ``peak_step``, ``end_step``, ``loss_before``, ``loss_peak``, ``loss_after_500``,
        ``grad_norm_before``, ``grad_norm_peak``, ``bad_rows``, ``went_back``.
    norms : tuple of mapping
        For each signal of the log: ``name``, ``before`` (median of 64 rows), ``at_first``, ``extreme``,
        ``extreme_step``, ``after`` (around 500 steps later).
    batches : (int, int) or None
        First and last batch between the first evidence and the peak, in our own runs.
    batch_text : str
        The same as a sentence, or why it is not known.
    injected : tuple of str
        Faults that were injected on purpose.
    activations : tuple of mapping
        For each block: ``block``, ``before``, ``during``, ``after``: root mean square of the residual stream.
    alarms : tuple of str
        What the detector said.
    """

    number: int
    date: str
    date_source: str
    lines: str
    first_line: int
    symptoms: Mapping[str, Any]
    norms: tuple[Mapping[str, Any], ...]
    batches: tuple[int, int] | None
    batch_text: str
    injected: tuple[str, ...]
    activations: tuple[Mapping[str, Any], ...]
    alarms: tuple[str, ...]


def facts_of(log: TrainingLog, spike: Any, number: int, started: datetime | None) -> Facts:
    """Measure one spike of a log.

    Parameters
    ----------
    log : TrainingLog
    spike : reference_trainer.spike_events.Spike
        Found in ``log.history()``.
    number : int
        Its number.
    started : datetime, optional
        When the first row was written, for logs that have only the seconds since then.
    """
    first, last = spike_lines(log, spike)
    date, source = _date(log, spike.first_step, first, started)
    names = ("first_step", "alarm_step", "peak_step", "end_step", "loss_before", "loss_peak", "loss_after_500",
             "grad_norm_before", "grad_norm_peak")  # fmt: skip
    symptoms = {name: getattr(spike, name) for name in names}
    symptoms |= {"bad_rows": spike.shape.bad_rows, "went_back": spike.shape.went_back}
    read, text = _batches(log, spike, first)
    alarms = tuple(f"step {a.step:,}, {a.tier}: {says}" for a in spike.alarms for says in a.evidence)
    return Facts(
        number, date, source, log.cite(first, last), first, symptoms, _norms(log, spike), read, text,
        tuple(injected(log, spike.first_step, spike.peak_step, first)), _activations(log, first, last), alarms,
    )  # fmt: skip


def _norms(log: TrainingLog, spike: Any) -> tuple[dict[str, Any], ...]:
    history = log.history()
    step = history["step"]
    stop = spike.shape.end_row if spike.shape.end_row is not None else spike.shape.last_row
    during = slice(spike.row, max(stop, spike.row + 1))
    # The same branch of the log: a restart before the spike, or after it, begins another attempt.
    back = np.flatnonzero(np.diff(step[: spike.row + 1]) <= 0)
    again = np.flatnonzero(np.diff(step[spike.row :]) <= 0)
    branch = slice(spike.row + 1, spike.row + 1 + int(again[0]) if len(again) else None)
    begin = max(int(back[-1]) + 1 if len(back) else 0, spike.row - _BEFORE)
    if spike.shape.short:  # nor do rows before a jump of the step: rows are counted from the rise of the loss
        begin = max(begin, spike.shape.last_row - spike.shape.rows_after - spike.shape.rows_before)
    later = spike.row + 1 + np.flatnonzero(np.abs(step[branch] - spike.first_step - 500) <= 16)
    out = []
    for name in SIGNALS:
        if name == "finite" or name not in history:
            continue
        value = history[name]
        inside = value[during]
        finite = np.flatnonzero(np.isfinite(inside))
        before = _median(value[begin : spike.row])
        row: dict[str, Any] = {"name": name, "before": before, "at_first": _number(value[spike.row])}
        row |= {"extreme": None, "extreme_step": None, "after": _median(value[later])}
        row["not_finite"] = int(len(inside) - len(finite))
        if len(finite):
            away = np.abs(inside[finite] - (before if before is not None else 0.0))
            at = int(finite[int(np.argmax(away))])
            row |= {"extreme": float(inside[at]), "extreme_step": int(step[spike.row + at])}
        out.append(row)
    return tuple(out)


def _median(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _batches(log: TrainingLog, spike: Any, line: int) -> tuple[tuple[int, int] | None, str]:
    read = batches(log, spike.first_step, spike.peak_step, line)
    if read is None:
        why = (
            "no run.json is beside the log"
            if log.format.startswith("run folder")
            else "the log is not of our trainer"
        )
        return None, f"unknown: {why}, so which data a step read is not known"
    config = log.facts["config"]
    seqs, length = int(config["batch_seqs"]), int(config["seq_len"])
    which = f"batch {read[0]:,}" if read[0] == read[1] else f"batches {read[0]:,} to {read[1]:,}"
    text = f"{which} of the data order with seed {config.get('seed', 'unknown')}: {seqs} sequences of {length:,} tokens"
    text += f" each, {(read[1] - read[0] + 1) * seqs * length:,} tokens"
    return read, f"{text} (from the first evidence to the peak)"


def _activations(log: TrainingLog, first: int, last: int) -> tuple[dict[str, Any], ...]:
    """Return the last reading above the spike's lines, the largest in them, and the first below."""
    rows = log.side.get("activations")
    if rows is None:
        return ()
    # A reading stands below the row of its step: the last one of the spike above the row after it.
    later = log.steps.lines[log.steps.lines > last]
    until = int(later[0]) if len(later) else int(rows.lines[-1]) + 1
    inside = (rows.lines >= first) & (rows.lines < until)
    picks = {
        "before": np.flatnonzero(rows.lines < first)[-1:], "during": np.flatnonzero(inside),
        "after": np.flatnonzero(rows.lines > until)[:1],
    }  # fmt: skip
    out = []
    names = sorted(
        (n for n in rows.columns if n.startswith("rms_")), key=lambda n: int(n.removeprefix("rms_"))
    )
    for name in names:
        found: dict[str, Any] = {"block": int(name.removeprefix("rms_"))}
        for word, pick in picks.items():
            finite = rows.columns[name][pick]
            finite = finite[np.isfinite(finite)]
            found[word] = float(finite.max()) if len(finite) else None
        out.append(found)
    return tuple(out)


def _date(log: TrainingLog, step: int, line: int, started: datetime | None) -> tuple[str, str]:
    """Return when a spike happened, or that it is not known; nothing is guessed."""
    rows = log.steps
    at = (
        int(np.searchsorted(rows.lines, line))
        if np.all(np.diff(rows.lines) > 0)
        else int(np.argmax(rows.lines == line))
    )
    if rows.has("time") and np.isfinite(rows.columns["time"][at]):
        zone = "" if log.format.startswith("mlflow") else ", taken as UTC where it names no zone"
        return _text(float(rows.columns["time"][at])), f"the time stamp of {log.cite(line)}{zone}"
    wall = _wall(log, step)
    if started is not None and wall is not None:
        return _text(started.timestamp() + wall), "the start that was given, and the seconds in the log"
    if is_own(log) and wall is not None and (end := _ended(log)) is not None:
        return _text(
            end[0] - end[1] + wall
        ), "the time stamps of run.json and perf.jsonl, which agree with the log"
    if started is not None:
        return (
            "date unknown",
            f"the run started {started.astimezone(UTC).strftime(_DATES)}; the log has no times",
        )
    return "date unknown", "the log has no times"


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_DATES)


def _wall(log: TrainingLog, step: float) -> float | None:
    """Return the seconds the run had been up when it made a step for the first time."""
    series = log.series("wall_s")
    if series is None:
        return None
    reached = np.flatnonzero((series.step >= step) & np.isfinite(series.value))
    return float(series.value[reached[0]]) if len(reached) else None


def _ended(log: TrainingLog) -> tuple[float, float] | None:
    """Return when perf.jsonl was last written and its last seconds, if the times of the files can be believed.

    A folder that was copied has the times of the copy: then the two files do not lie a run apart.
    """
    folder = Path(str(log.facts.get("run_uri", "")))
    begin, end, series = folder / "run.json", folder / "perf.jsonl", log.series("wall_s")
    if series is None or not begin.is_file() or not end.is_file():
        return None
    wall = float(series.value[-1])
    apart = end.stat().st_mtime - begin.stat().st_mtime
    return (end.stat().st_mtime, wall) if abs(apart - wall) <= 0.1 * wall + 30.0 else None
