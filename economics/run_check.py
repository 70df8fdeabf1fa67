"""How good predicted GPU-hours are: published runs, predicted from what was known before they began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from economics.gpu_names import read_table
from economics.mfu_check import Check, Coverage, coverage
from economics.mfu_rows import DEFAULT_GPUS, DEFAULT_SEQ_LEN, Array
from economics.run_cost import cost


@dataclass(frozen=True)
class KnownRuns:
    """Published runs beside their predictions.

    Parameters
    ----------
    model, gpu : object array, shape (n,)
        What, and on what.
    hours, median, low, high : array, shape (n,)
        GPU-hours as published; predicted, with the 10th and 90th percentile.
    """

    model: NDArray[np.object_]
    gpu: NDArray[np.object_]
    hours: Array
    median: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return int(self.hours.size)

    @property
    def error(self) -> Array:
        """Relative error of the predicted GPU-hours."""
        return np.asarray(np.abs(self.median / self.hours - 1.0))

    @property
    def check(self) -> Check:
        """The same as speeds, so that it is judged as `economics.mfu_check` judges those."""
        return Check(self.model, 1.0 / self.hours, 1.0 / self.median, 1.0 / self.high, 1.0 / self.low)

    @property
    def coverage(self) -> Coverage:
        """Runs whose hours lie in the interval, and the counts that an honest one would give."""
        return coverage(self.check)


def known_runs() -> KnownRuns:
    """Predict the GPU-hours of the usable rows of ``known_runs.csv`` with `cost`.

    The rows were used for nothing else. Rows that are not usable carry their reason: hours derived from FLOPs
    (circular), hours of something else than the tokens (faulty), distilled models, duplicates, missing figures.
    Overheads are left out, as published hours are those of training; a run that does not say how many GPUs it
    had is taken to have 64.
    """
    rows = [row for row in read_table("known_runs.csv") if row["usable"] == "yes"]
    runs = [
        cost(
            N=float(row["n_params"]),
            N_active=float(row["n_active"]),
            D=float(row["d_tokens"]),
            gpu=row["gpu_spec"],
            n_gpus=int(float(row["n_gpus"] or DEFAULT_GPUS)),
            seq_len=DEFAULT_SEQ_LEN,
            price=1.0,
            overheads="none",
        )
        for row in rows
    ]
    hours = [run.gpu_hours for run in runs]
    return KnownRuns(
        np.array([row["model"] for row in rows], dtype=object),
        np.array([row["gpu_spec"] for row in rows], dtype=object),
        np.array([float(row["gpu_hours"]) for row in rows]),
        *(np.array([getattr(h, end) for h in hours]) for end in ("value", "low", "high")),
    )
