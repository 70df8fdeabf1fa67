"""A feature of a log: what is seen, in which lines, and which decision of the run explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reference_trainer.training_log import Series, TrainingLog

Floats = NDArray[np.float64]
Confidence = Literal["low", "medium", "high"]

#: Where nothing in the log explains a feature.
UNEXPLAINED = "no decision that the log shows explains it"


@dataclass(frozen=True)
class Feature:
    """One thing that a reader of the log should know.

    Parameters
    ----------
    kind : str
        One of `reference_trainer.log_guide.KINDS`, such as ``"warm-up"``.
    first_step, last_step : float
        Where, in the log's own count of steps.
    where : str
        The lines, such as ``"lines 12-15"``.
    what : str
        What is seen, with numbers.
    decision : str
        The decision of the run that explains it, or `UNEXPLAINED`.
    confidence : {"low", "medium", "high"}
        How sure the explanation is.
    numbers : mapping
        The numbers behind the words, JSON-able.
    """

    kind: str
    first_step: float
    last_step: float
    where: str
    what: str
    decision: str = UNEXPLAINED
    confidence: Confidence = "high"
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the feature as plain types."""
        return {**vars(self), "numbers": dict(self.numbers)}


def timeline(series: Series | None) -> Series | None:
    """Return a series sorted by step with one value a step: what a restart wrote again stands for what it replaced.

    Values that are not finite are left out.
    """
    if series is None:
        return None
    good = np.flatnonzero(np.isfinite(series.value))
    step = series.step[good][::-1]
    _, last = np.unique(step, return_index=True)
    keep = good[len(good) - 1 - last]
    return Series(series.step[keep], series.value[keep], series.lines[keep], series.source)


def cite(log: TrainingLog, series: Series, first: int, last: int) -> str:
    """Write the lines of two positions of a series; the file is named where it is not that of the steps."""
    low, high = sorted((int(series.lines[first]), int(series.lines[last])))
    text = log.cite(low, high)
    return text if series.source == log.steps.source else f"{series.source.rsplit('/', 1)[-1]} {text}"


def steps_text(first: float, last: float) -> str:
    """Write a range of steps.

    Examples
    --------
    >>> steps_text(600, 604), steps_text(947, 947)
    ('steps 600 to 604', 'step 947')
    """
    return f"step {first:,.0f}" if first == last else f"steps {first:,.0f} to {last:,.0f}"
