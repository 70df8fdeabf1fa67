"""How good the utilisation model is where it was not calibrated: every figure of its table.

Three questions: a model size it has not seen, a code base it has not seen, whole runs it has not seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from economics.mfu import Kind, MfuModel, mfu_model
from economics.mfu_gap import RunGap, run_gap
from economics.mfu_mixed import Spread, fit, reml
from economics.mfu_rows import Array, Rows, calibration, run_rows

HOME = "llm-foundry"
LEVEL = 0.8


@dataclass(frozen=True)
class Check:
    """Predictions of measured utilisations.

    Parameters
    ----------
    group : object array, shape (n,)
        What was left out together.
    measured, median, low, high : array, shape (n,)
        Utilisations; the interval has level 0.8.
    """

    group: NDArray[np.object_]
    measured: Array
    median: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return int(self.measured.size)

    @property
    def error(self) -> Array:
        """Relative error of the predicted speed."""
        return np.asarray(np.abs(self.median / self.measured - 1.0))

    @property
    def error_of_hours(self) -> Array:
        """Relative error of the predicted time, which is 1 / speed."""
        return np.asarray(np.abs(self.measured / self.median - 1.0))

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Whether the measured value lies in the interval."""
        return np.asarray((self.low <= self.measured) & (self.measured <= self.high))

    @property
    def interval_score(self) -> float:
        """Mean interval score of ln(speed), lower is better (Gneiting & Raftery 2007, equation 43)."""
        y, low, high = np.log(self.measured), np.log(self.low), np.log(self.high)
        outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
        return float(np.mean(high - low + 2.0 / (1.0 - LEVEL) * outside))

    def select(self, mask: NDArray[np.bool_]) -> Check:
        """Return the predictions where `mask` is true."""
        return Check(
            self.group[mask], self.measured[mask], self.median[mask], self.low[mask], self.high[mask]
        )

    def groups(self) -> Iterator[tuple[str, Check]]:
        """Yield each group by itself."""
        for name in dict.fromkeys(map(str, self.group)):
            yield name, self.select(self.group == name)


class Coverage(NamedTuple):
    """Intervals that hold, of how many, and the central 95% range of that count if the level is true."""

    covered: int
    n: int
    low: int
    high: int

    @property
    def honest(self) -> bool:
        """The count lies in the range."""
        return self.low <= self.covered <= self.high


def coverage(check: Check) -> Coverage:
    """Count the intervals that hold, and say which counts the level would give."""
    n = len(check)
    cumulative = np.cumsum([math.comb(n, k) * LEVEL**k * (1 - LEVEL) ** (n - k) for k in range(n + 1)])
    low, high = (int(np.searchsorted(cumulative, q)) for q in (0.025, 0.975))
    return Coverage(int(check.covered.sum()), n, low, high)


def leave_one_size_out(rows: Rows | None = None, spread: Spread | None = None) -> Check:
    """Predict each model size of the home code base from its other sizes alone.

    Parameters
    ----------
    rows : Rows, optional
        Measured rows; those that ship inside.
    spread : Spread, optional
        Standard deviations; those that ship inside.
    """
    every = calibration() if rows is None else rows
    home = every.select(every.code_base == HOME)
    used = mfu_model()
    parts = []
    for model in dict.fromkeys(home.model):
        out = home.model == model
        rest = replace(used, rows=home.select(~out), spread=spread or used.spread)
        parts.append(_check(home.select(out), home.model[out], rest))
    return _stack(parts)


def constant(value: float, rows: Rows | None = None) -> Check:
    """Predict one utilisation for every row of the home code base: what is usually done."""
    every = calibration() if rows is None else rows
    home = every.select(every.code_base == HOME)
    flat = np.full(len(home), value)
    return Check(home.model, home.mfu, flat, flat, flat)


def leave_one_code_base_out(rows: Rows | None = None) -> Check:
    """Predict each other code base from all the rest, standard deviations estimated again without it."""
    every = calibration() if rows is None else rows
    bases = [b for b in dict.fromkeys(map(str, every.code_base)) if b != HOME]
    used, parts = mfu_model(), []
    for base in bases:
        out = every.code_base == base
        rest = every.select(~out)
        spread = reml(rest, used.spread.groups["config"])
        without = replace(used, rows=rest, spread=spread, df=len(bases) - 1)
        parts.append(_check(every.select(out), every.code_base[out], without))
    return _stack(parts)


def whole_runs(
    table: str = "known_runs.csv", model: MfuModel | None = None, *, only_usable: bool = True
) -> Check:
    """Predict the GPU-hours of published runs; their table was used for nothing else.

    Parameters
    ----------
    table : str
        One of the tables of `economics.mfu_rows.run_rows`.
    model : MfuModel, optional
        The model; the one that ships inside.
    only_usable : bool
        Leave out the rows the table marks as not usable.
    """
    used = model or mfu_model()
    runs, _, _ = run_rows(table, only_usable=only_usable)
    return _check(runs, runs.model, used, kind="run")


def leave_one_organisation_out() -> Check:
    """Predict the runs the whole-run gap comes from, each organisation from the others."""
    used = mfu_model()
    runs, _, _ = run_rows("calibration_runs.csv")
    parts = []
    for name in dict.fromkeys(runs.code_base):
        out = runs.code_base == name
        gap = run_gap(runs.select(~out), used.posterior)
        without = replace(used, gap=(gap.mean, gap.sd), gap_df=gap.df)
        parts.append(_check(runs.select(out), runs.code_base[out], without, "run"))
    return _stack(parts)


def components() -> tuple[Spread, RunGap, int]:
    """Estimate everything that ``mfu_components.csv`` holds, from the tables that ship inside."""
    rows = calibration()
    spread = reml(rows, 0.0)
    # A configuration that was measured is known beyond its row-to-row deviation: that is its spread.
    spread = Spread({**spread.groups, "config": spread.row}, spread.row)
    gap = run_gap(run_rows("calibration_runs.csv")[0], fit(rows, spread))
    return spread, gap, len(set(map(str, rows.code_base))) - 1


def _check(rows: Rows, group: NDArray[np.object_], model: MfuModel, kind: Kind = "steady") -> Check:
    each = np.eye(len(rows), dtype=bool)
    laws = [model.law(rows.select(one), kind) for one in each]
    median, low, high = (np.array([law.quantile(q) for law in laws]) for q in (0.5, 0.1, 0.9))
    return Check(group, rows.mfu, median, low, high)


def _stack(parts: list[Check]) -> Check:
    names = ("group", "measured", "median", "low", "high")
    return Check(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))
