"""Alarms grouped into spikes, each measured on the log: before, peak, after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reference_trainer.spike_alarm import Alarm, DetectorSettings
from reference_trainer.spike_excerpts import Short, short_spikes
from reference_trainer.spike_measure import SHORTEST, Shape, measure
from reference_trainer.spike_rows import Rows, read_rows
from reference_trainer.spikes import Detector

#: Rows between the end of one spike and the first evidence of the next that still make them one.
JOIN = 8


@dataclass(frozen=True)
class Spike:
    """One event in a log, from the first evidence to the loss being back.

    Parameters
    ----------
    first_step : int
        Step of the first evidence.
    alarm_step : int
        Step at which the first alarm was raised.
    peak_step : int
        Step of the highest loss.
    end_step : int or None
        First step at which the loss was back; None while it is not.
    loss_before, loss_peak : float
        Median loss of the rows before, highest loss, nats/token. The peak is infinite if the loss was not finite.
    loss_after_500 : float or None
        Median loss around 500 steps after the first evidence; None if the log ends before.
    grad_norm_before, grad_norm_peak : float or None
        The same of the gradient norm, where the log has it.
    alarms : tuple of Alarm
        What was raised; none in an excerpt too short for a noise of its own.
    row : int
        Row of the first evidence.
    shape : Shape
        Everything else that was measured.
    """

    first_step: int
    alarm_step: int
    peak_step: int
    end_step: int | None
    loss_before: float
    loss_peak: float
    loss_after_500: float | None
    grad_norm_before: float | None
    grad_norm_peak: float | None
    alarms: tuple[Alarm, ...]
    row: int
    shape: Shape

    @property
    def tiers(self) -> tuple[str, ...]:
        """Kinds of alarm, in order of appearance."""
        return tuple(dict.fromkeys(alarm.tier for alarm in self.alarms))


def find_spikes(history: Mapping[str, object], settings: DetectorSettings | None = None) -> list[Spike]:
    """Run the detector over a whole log and return its spikes, oldest first.

    A log of excerpts, whose segments are too short to have a noise of their own, is read in short-history mode: a
    spike there is a loss well above the rows just before it.

    Parameters
    ----------
    history : mapping of str to array
        ``step``, ``loss`` and any of the norms: see `reference_trainer.spike_rows.read_rows`.
    settings : DetectorSettings, optional
        Thresholds.

    Raises
    ------
    DetectorError
        A column is missing or does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> loss = 3 + 0.02 * np.sin(1e4 * np.arange(600.0) ** 2)
    >>> loss[300:340] += np.linspace(1.0, 0.0, 40)
    >>> [(s.first_step, s.tiers) for s in find_spikes({"step": np.arange(600), "loss": loss})]
    [(300, ('point', 'shift'))]
    """
    rows = read_rows(history)
    if is_excerpt(rows):
        return [from_short(rows, short) for short in short_spikes(rows)]
    detector = Detector(settings)
    columns = {"loss": rows.loss.tolist(), **{name: column.tolist() for name, column in rows.others.items()}}
    names = list(columns)
    found = []
    for i, values in enumerate(zip(*columns.values(), strict=True)):
        signals = dict(zip(names, values, strict=True))
        # In a table NaN in a norm may mean "not logged": only the loss, and what the trainer vetoed, is evidence.
        signals = {n: x for n, x in signals.items() if n == "loss" or x == x}
        if alarm := detector.observe(int(rows.step[i]), signals):
            found.append((i, alarm))
    return join(rows, found)


def gather(alarms: Sequence[Alarm], history: Mapping[str, object]) -> list[Spike]:
    """Group the alarms of a streaming detector and measure them on the log it watched.

    Parameters
    ----------
    alarms : sequence of Alarm
        In the order they were raised.
    history : mapping of str to array
        The log; alarms at steps it does not hold are left to a later call.
    """
    rows = read_rows(history)
    found, begin = [], 0
    for alarm in alarms:
        at = np.flatnonzero(rows.step[begin:] == alarm.step)
        if len(at):
            begin += int(at[0])
            found.append((begin, alarm))
    return join(rows, found)


def is_excerpt(rows: Rows) -> bool:
    """Whether no segment is long enough for the detector to learn its noise."""
    lengths = np.diff(np.append(rows.starts, len(rows)))
    return int(lengths.max(initial=0)) < SHORTEST


def join(rows: Rows, found: Sequence[tuple[int, Alarm]]) -> list[Spike]:
    """Group alarms, each with the row it was raised at, and measure every group."""
    spikes: list[Spike] = []
    for row, alarm in found:
        first = row_of(rows, row, alarm.first_step)
        if spikes:
            last = spikes[-1]
            over = last.shape.end_row if last.shape.end_row is not None else last.shape.last_row
            same_branch = rows.branch_start(row) <= last.row
            if same_branch and first <= max(over, last.row) + JOIN:
                spikes[-1] = build(rows, min(last.row, first), (*last.alarms, alarm))
                continue
        spikes.append(build(rows, first, (alarm,)))
    return spikes


def row_of(rows: Rows, row: int, step: int) -> int:
    """Return the row of a step at or before `row`, on the same branch."""
    begin = rows.branch_start(row)
    while row > begin and rows.step[row] > step:
        row -= 1
    return row


def build(rows: Rows, row: int, alarms: tuple[Alarm, ...]) -> Spike:
    """Measure a group of alarms whose first evidence is at `row`."""
    rises = [alarm.value - alarm.baseline for alarm in alarms if alarm.tier == "shift"]
    level = next((alarm.baseline for alarm in alarms if alarm.tier == "shift"), None)
    return spike_of(rows, row, measure(rows, row, min(rises, default=None), level), alarms, alarms[0].step)


def from_short(rows: Rows, short: Short) -> Spike:
    """Return the spike of an excerpt."""
    return spike_of(rows, short.row, short.shape, (), int(rows.step[short.alarm_row]))


def spike_of(rows: Rows, row: int, shape: Shape, alarms: tuple[Alarm, ...], alarm_step: int) -> Spike:
    """Name what was measured."""
    return Spike(
        first_step=int(rows.step[row]),
        alarm_step=alarm_step,
        peak_step=int(rows.step[shape.peak_row]),
        end_step=None if shape.end_row is None else int(rows.step[shape.end_row]),
        loss_before=shape.before,
        loss_peak=shape.peak,
        loss_after_500=shape.after_500,
        grad_norm_before=shape.grad_before,
        grad_norm_peak=shape.grad_peak,
        alarms=alarms,
        row=row,
        shape=shape,
    )
