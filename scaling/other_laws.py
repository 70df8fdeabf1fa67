"""Fits of the other laws on the same solver: L(C) and Kaplan's joint law."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from scaling.arguments import held_coefficients
from scaling.errors import DataError, TooFewRunsError
from scaling.intervals import IntervalMethod
from scaling.law_fit import LawFit
from scaling.law_fitting import Options, check_table, counted, fit_attached
from scaling.laws.kaplan import attach_kaplan
from scaling.laws.power import attach_power
from scaling.resample import LEVEL, Resample, levels
from scaling.runs import RunTable
from scaling.undetermined import distinct_runs

Variable = Literal["flops", "params", "tokens"]


def fit_power_law(
    runs: RunTable,
    variable: Variable = "flops",
    *,
    fixed: Mapping[str, float] | None = None,
    delta: float = 1e-3,
    resample: Resample = "auto",
    groups: Any = None,
    n_boot: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    interval: IntervalMethod = "percentile",
) -> LawFit:
    """Fit L = E + A/x^alpha in one variable of the runs.

    Parameters
    ----------
    runs : RunTable
        The runs. For ``"flops"`` their 6 N D is used; keep those near the frontier.
    variable : {"flops", "params", "tokens"}
        What x is.
    fixed : mapping, optional
        ``{"E": 1.6}`` pins the floor, ``{"alpha": 0.05}`` the exponent.
    delta, resample, groups, n_boot, seed, level, interval
        As in `fit_chinchilla`.

    Raises
    ------
    TooFewRunsError
        Fewer runs than coefficients plus one, or fewer than 3 distinct x.
    """
    check_table(runs)
    columns = {"flops": runs.compute, "params": runs.params, "tokens": runs.tokens}
    x = columns.get(variable) if isinstance(variable, str) else None
    if x is None:
        raise DataError(f"variable {variable!r} is none of flops, params, tokens", column="variable")
    held = held_coefficients(fixed)
    needed = 4 - len(held)
    n_levels = int(levels(x, LEVEL).max()) + 1
    if distinct_runs(runs) < needed or n_levels < needed - 1:
        raise TooFewRunsError(
            f"{counted(runs)} at {n_levels} distinct {variable} are too few for E + A/x^alpha: {needed} runs at "
            f"{needed - 1} distinct values are needed",
            n_runs=distinct_runs(runs),
            needed=needed,
            quantities=("E", "A", "alpha"),
        )
    attached = attach_power(x, np.log(runs.loss), held)
    need = (levels(x, LEVEL),), (needed - 1,)
    options = Options(delta, resample, groups, n_boot, seed, level, interval)
    return fit_attached(runs, attached, (variable,), held, need, options, name="power")


def fit_kaplan(
    runs: RunTable,
    *,
    delta: float = 1e-3,
    resample: Resample = "auto",
    groups: Any = None,
    n_boot: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    interval: IntervalMethod = "percentile",
) -> LawFit:
    """Fit Kaplan's joint law [(Nc/N)^(aN/aD) + Dc/D]^aD to runs. Options as in `fit_chinchilla`.

    Raises
    ------
    TooFewRunsError
        Fewer than 6 runs, or fewer than 2 distinct sizes or token counts.
    """
    check_table(runs)
    sizes, counts = levels(runs.params, LEVEL), levels(runs.tokens, LEVEL)
    if distinct_runs(runs) < 6 or min(sizes.max(), counts.max()) < 1:
        raise TooFewRunsError(
            f"{counted(runs)} with {sizes.max() + 1} sizes and {counts.max() + 1} token counts are too few for "
            "Kaplan's joint law: 6 runs with 2 of each are needed",
            n_runs=distinct_runs(runs),
            needed=6,
            quantities=("Nc", "Dc", "alpha_N", "alpha_D"),
        )
    need = (sizes, counts), (2, 2)
    options = Options(delta, resample, groups, n_boot, seed, level, interval)
    attached = attach_kaplan(runs.params, runs.tokens)
    return fit_attached(runs, attached, ("params", "tokens"), {}, need, options, name="kaplan")
