"""Name a spike: its class, the causes that have evidence, and the first step of the playbook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reference_trainer.errors import DetectorError
from reference_trainer.spike_causes import Cause, Confidence, find_causes
from reference_trainer.spike_events import Spike
from reference_trainer.spike_measure import Shape
from reference_trainer.spike_rows import read_rows

#: Classes, from harmless to fatal.
SpikeClass = Literal["data outlier", "recoverable", "persistent", "divergent"]
#: First step of the playbook.
Advice = Literal["none", "wait", "rollback"]

#: Bad rows that still make an outlier.
FEW = 3
#: Steps after which the playbook looks again.
LOOK_AGAIN = 200
#: Rows below which nothing after a spike has been seen to speak of.
HARDLY = 32


@dataclass(frozen=True)
class Diagnosis:
    """What a spike is.

    Parameters
    ----------
    kind : {"data outlier", "recoverable", "persistent", "divergent"}
        Its class.
    confidence : {"low", "medium", "high"}
        How sure the class is.
    reason : str
        The numbers that decided, and what limits the confidence.
    causes : tuple of Cause
        Plausible causes, the surest first; empty where nothing in the log speaks for one.
    advice : {"none", "wait", "rollback"}
        First step of the playbook: log it; look again after 200 steps; go back before the first evidence.
    """

    kind: SpikeClass
    confidence: Confidence
    reason: str
    causes: tuple[Cause, ...]
    advice: Advice


def classify(history: Mapping[str, object], spike: Spike, *, ongoing: bool = False) -> Diagnosis:
    """Name a spike.

    ``data outlier``: a bad row or a few, and the loss is back at once. ``recoverable``: the loss came back within
    500 steps, or is well on its way. ``persistent``: it did not. ``divergent``: it keeps rising, stays near its
    peak, or is not finite any more.

    Parameters
    ----------
    history : mapping of str to array
        The log in which `spike` was found: see `reference_trainer.spike_events.find_spikes`.
    spike : Spike
        The event.
    ongoing : bool
        The run goes on: less than 200 steps after the first evidence a loss that does not rise is left time to return.
        By default the log is all there is.

    Raises
    ------
    DetectorError
        The spike is not in the history.

    Examples
    --------
    >>> import numpy as np
    >>> from reference_trainer.spike_events import find_spikes
    >>> loss = 3 + 0.02 * np.sin(1e4 * np.arange(900.0) ** 2)
    >>> loss[300:] += 0.5
    >>> history = {"step": np.arange(900), "loss": loss}
    >>> found = classify(history, find_spikes(history)[0])
    >>> found.kind, found.confidence, found.advice
    ('persistent', 'high', 'rollback')
    """
    rows = read_rows(history)
    if not 0 <= spike.row < len(rows) or rows.step[spike.row] != spike.first_step:
        raise DetectorError(
            f"row {spike.row} of the history is not step {spike.first_step}: pass the history the spike was found in",
            column="spike",
        )
    shape = spike.shape
    if shape.short:
        kind, confidence, reason = short_class(shape)
    elif shape.rows_after >= 2 * HARDLY and not {"shift", "nonfinite"} & set(spike.tiers):
        kind, confidence = "data outlier", "high" if shape.end_row is not None else "medium"
        reason = f"{shape.bad_rows} rows stood out, and no median of the {shape.rows_after} rows after did"
    else:
        kind, confidence, reason = full_class(shape, ongoing, "shift" in spike.tiers)
    causes = find_causes(rows, spike.row, shape)
    return Diagnosis(kind, confidence, reason, causes, advise(kind, spike))


def advise(kind: SpikeClass, spike: Spike) -> Advice:
    """Return the first step of the playbook."""
    if kind in ("persistent", "divergent"):
        return "rollback"
    # One batch whose update was withheld is no harm done, but also nothing to pass over in silence.
    return "wait" if kind == "recoverable" or spike.shape.nonfinite else "none"


def full_class(shape: Shape, ongoing: bool, shifted: bool) -> tuple[SpikeClass, Confidence, str]:
    """Judge by the noise of the log itself."""
    excess, top = shape.end - shape.before, shape.smooth_peak - shape.before
    seen = f"{shape.rows_after} rows ({shape.steps_after} steps) after the first evidence"
    if shape.nonfinite_end * 2 >= min(16, shape.rows_after) and shape.nonfinite_end >= FEW:
        return (
            "divergent",
            "high" if shape.nonfinite_end >= 8 else "medium",
            f"{shape.nonfinite_end} of the last {min(16, shape.rows_after)} rows are not finite",
        )
    sure: Confidence = "medium" if shape.rows_before < 48 or shape.rows_after < 2 * HARDLY else "high"
    if shape.end_row is not None:
        back = f"the loss was back within {shape.tolerance:.2g} of {shape.before:.4g}"
        if shape.bad_rows <= FEW - shifted:  # a shift takes more than a few rows by itself
            return "data outlier", sure, f"{shape.bad_rows} rows stood out and {back} at once"
        return "recoverable", sure, f"{back} after {shape.bad_rows} bad rows"
    if shape.rows_after < 8 and shape.bad_rows <= 1:
        return "data outlier", "low", f"one row stands out so far, with {seen}"
    rising = shape.rise > max(3 * shape.rise_se, 0.02 * abs(top))
    stuck = excess > max(1.0, 0.3 * abs(shape.before)) and excess >= 0.5 * top
    where = f"{seen} the loss is {excess:.3g} above the {shape.before:.4g} of before (at its peak, smoothed: {top:.3g})"
    early = shape.rows_after < HARDLY or (ongoing and shape.steps_after < LOOK_AGAIN)
    if rising and excess >= 0.8 * top and (shape.rows_after >= HARDLY or not ongoing):
        return "divergent", "medium" if early else "high", f"{where}, and still rising"
    if early or shape.steps_after < LOOK_AGAIN:
        return unfinished(shape, excess, top, where, ongoing, stuck)
    clear = excess > 3 * shape.tolerance
    if stuck:
        return "divergent", sure if clear else "medium", f"{where}, and does not come down"
    return "persistent", sure if clear else "medium", where


def unfinished(
    shape: Shape, excess: float, top: float, where: str, ongoing: bool, stuck: bool
) -> tuple[SpikeClass, Confidence, str]:
    """Judge a spike whose log ends before 200 steps have passed."""
    if ongoing:
        return "recoverable", "low", f"{where}; look again {LOOK_AGAIN} steps after it began"
    falling = shape.rise < -2 * shape.rise_se
    if excess <= 0.3 * top or (falling and excess <= 0.5 * top):
        return "recoverable", "low", f"{where}, and coming down"
    if stuck:
        return "divergent", "low", f"{where}, where the log ends"
    return "persistent", "low", f"{where}, where the log ends"


def short_class(shape: Shape) -> tuple[SpikeClass, Confidence, str]:
    """Judge an excerpt by its few rows: without a noise of its own the confidence stays low."""
    top, excess = shape.peak - shape.before, shape.end - shape.before
    few = f"only {shape.rows_before} rows before and {shape.rows_after} after are quoted"
    if not np.isfinite(shape.end):
        return "divergent", "low", f"the loss is not finite where the excerpt ends; {few}"
    share = excess / top if np.isfinite(top) and top > 0 else 0.0
    where = f"{shape.steps_after} steps after the peak {share:.0%} of the rise of {top:.3g} is left; {few}"
    if shape.end_row is not None and share <= 0.1:
        kind: SpikeClass = "data outlier" if shape.bad_rows <= 2 else "recoverable"
        return kind, "low", where
    if shape.steps_after < 100 and 0 < share <= 0.5 and shape.rise < 0:
        return "recoverable", "low", where
    return ("divergent" if share > 0.7 else "persistent"), "low", where
