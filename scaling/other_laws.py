"""Fits of the other laws on the same solver: L(C) and Kaplan's joint law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from scaling.arguments import check_magnitudes, check_options, held_coefficients, positive_count
from scaling.bootstrap import bootstrap
from scaling.errors import DataError, TooFewRunsError
from scaling.estimate import Estimate
from scaling.intervals import IntervalMethod, check_level, estimate
from scaling.laws.kaplan import attach_kaplan
from scaling.laws.power import attach_power
from scaling.newton import Objective
from scaling.resample import LEVEL, Resample, levels, plan
from scaling.runs import RunTable
from scaling.solver import Certificate, solve_global

Variable = Literal["flops", "params", "tokens"]


@dataclass(frozen=True, eq=False, repr=False)
class LawFit:
    """A fitted law of any form.

    Parameters
    ----------
    law : PowerLaw or KaplanLaw
        The optimum, at full precision.
    variables : tuple of str
        What its `loss` takes: ("flops",), ("params",), ("tokens",) or ("params", "tokens").
    objective : float
        Sum of Huber losses of log residuals.
    certificate : Certificate
        Evidence that the optimum is global.
    draws : PowerLaw or KaplanLaw
        Bootstrap draws: a law whose fields are arrays.
    n_failed : int
        Replicates without a usable optimum.
    runs : RunTable
        The runs fitted.
    level : float
        Default coverage.
    interval : {"percentile", "bias-corrected"}
        How intervals are made of draws.
    fixed : mapping of str to float
        Coefficients held.
    n_units : int
        Independent units resampled.
    """

    law: Any
    variables: tuple[str, ...]
    objective: float
    certificate: Certificate
    draws: Any
    n_failed: int
    runs: RunTable
    level: float
    interval: IntervalMethod
    fixed: dict[str, float]
    n_units: int

    def ci(self, name: str, level: float | None = None) -> Estimate:
        """Return a coefficient with its interval."""
        names = self.law.COEFFICIENTS
        if name not in names:
            raise DataError(f"{name!r} is none of {', '.join(names)}", column=name)
        unit = self.runs.loss_unit if name == "E" else ""
        return self._estimate(getattr(self.draws, name), getattr(self.law, name), name, unit, level)

    def predict(self, *at: float | str, level: float | None = None) -> Estimate:
        """Return the law's loss at one point (in the order of `variables`) with its interval."""
        if len(at) != len(self.variables):
            raise DataError(f"this law takes {', '.join(self.variables)}")
        x = [positive_count(name, value) for name, value in zip(self.variables, at, strict=True)]
        return self._estimate(
            self.draws.loss(*x), self.law.loss(*x), "loss of the law", self.runs.loss_unit, level
        )

    def summary(self) -> str:
        """Return the fit as one readable block."""
        head = f"{type(self.law).__name__} in {', '.join(self.variables)}: {len(self.runs)} runs, objective "
        lines = [f"{head}{self.objective:.6g}"]
        for name in self.law.COEFFICIENTS:
            held = " (held)" if name in self.fixed else ""
            lines.append(f"  {name:<8}{self.ci(name)}{held}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def _estimate(self, draws: Any, value: float, name: str, unit: str, level: float | None) -> Estimate:
        chosen = self.level if level is None else check_level(level)
        scale = name in ("A", "Nc", "Dc")
        out = estimate(
            np.asarray(draws),
            value,
            chosen,
            self.interval,
            n_units=self.n_units,
            log_scale=scale,
            name=name,
            unit=unit,
        )
        # No loss and no coefficient is negative: an interval stretched past zero ends there.
        return replace(out, low=max(out.low, 0.0)) if np.size(draws) else out


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
    _check_table(runs)
    x = {"flops": runs.compute, "params": runs.params, "tokens": runs.tokens}.get(variable)
    if x is None:
        raise DataError(f"variable {variable!r} is none of flops, params, tokens", column="variable")
    held = held_coefficients(fixed)
    needed = 4 - len(held)
    n_levels = int(levels(x, LEVEL).max()) + 1
    if len(runs) < needed or n_levels < needed - 1:
        raise TooFewRunsError(
            f"{len(runs)} runs at {n_levels} distinct {variable} are too few for E + A/x^alpha: {needed} runs at "
            f"{needed - 1} distinct values are needed",
            n_runs=len(runs),
            needed=needed,
            quantities=("E", "A", "alpha"),
        )
    attached = attach_power(x, np.log(runs.loss), held)
    need = (levels(x, LEVEL),), (needed - 1,)
    options = (delta, resample, groups, n_boot, seed, level, interval)
    return _fit(runs, attached, (variable,), held, need, options)


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
    _check_table(runs)
    sizes, counts = levels(runs.params, LEVEL), levels(runs.tokens, LEVEL)
    if len(runs) < 6 or min(sizes.max(), counts.max()) < 1:
        raise TooFewRunsError(
            f"{len(runs)} runs with {sizes.max() + 1} sizes and {counts.max() + 1} token counts are too few for "
            "Kaplan's joint law: 6 runs with 2 of each are needed",
            n_runs=len(runs),
            needed=6,
            quantities=("Nc", "Dc", "alpha_N", "alpha_D"),
        )
    need = (sizes, counts), (2, 2)
    options = (delta, resample, groups, n_boot, seed, level, interval)
    return _fit(runs, attach_kaplan(runs.params, runs.tokens), ("params", "tokens"), {}, need, options)


def _check_table(runs: RunTable) -> None:
    if not isinstance(runs, RunTable):
        raise DataError(
            f"runs must be a RunTable, got {type(runs).__name__}: read it with load_runs or RunTable.from_arrays",
            column="runs",
        )
    check_magnitudes(runs)


def _fit(
    runs: RunTable,
    attached: Any,
    variables: tuple[str, ...],
    fixed: dict[str, float],
    need: tuple[tuple[Any, ...], tuple[int, ...]],
    options: tuple[Any, ...],
) -> LawFit:
    delta, resample, groups, n_boot, seed, level, interval = options
    check_options(delta, n_boot, seed, level, interval)
    one = np.ones(len(runs))
    problem = Objective(attached.form, np.log(runs.loss), one, one, delta)
    best, lowest, certificate = solve_global(problem)
    resampling = plan(runs, resample, groups)
    drawn = bootstrap(problem, best, resampling, n_boot, seed, axes=need[0], min_levels=need[1])
    return LawFit(
        attached.law(best),
        variables,
        lowest,
        certificate,
        attached.law(drawn.plain),
        drawn.n_failed,
        runs,
        level,
        interval,
        fixed,
        resampling.n_clusters,
    )
