"""The wiring from runs to a result, behind `scaling.fit.fit_chinchilla`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from scaling.arguments import (
    as_table,
    check_magnitudes,
    check_options,
    held_coefficients,
    residual_scale,
    row_weights,
    weighted_rows,
)
from scaling.bootstrap import Draws, bootstrap
from scaling.diagnose import diagnose
from scaling.errors import BootstrapWarning, IdentificationWarning, warn
from scaling.intervals import IntervalMethod
from scaling.laws.base import Array
from scaling.laws.chinchilla import ChinchillaLaw, attach
from scaling.laws.power_sum import EXPONENT_BOX
from scaling.newton import Objective
from scaling.resample import LEVEL, Plan, Resample, levels, plan
from scaling.result import ChinchillaFit
from scaling.runs import RunTable
from scaling.settings import Settings
from scaling.solver import solve_global
from scaling.undetermined import check_design, distinct_runs, needed_levels

if TYPE_CHECKING:
    from os import PathLike

#: Fewest runs for a fit and for intervals: five coefficients and something left to judge them by.
MIN_RUNS, MIN_RUNS_FOR_INTERVALS = 6, 8
#: Fewest independent units that are resampled: of three, most resamples lack one.
MIN_UNITS_FOR_INTERVALS = 4


def fit_runs(
    runs: str | PathLike[str] | RunTable | Any | None,
    *,
    params: ArrayLike | None,
    tokens: ArrayLike | None,
    loss: ArrayLike | None,
    delta: float,
    resample: Resample,
    groups: ArrayLike | str | None,
    weights: ArrayLike | None,
    sigma: ArrayLike | None,
    fixed: Mapping[str, float] | None,
    tied: bool,
    n_boot: int,
    seed: int,
    level: float,
    interval: IntervalMethod,
    progress: Callable[[int, int], None] | None,
    reading: dict[str, Any],
) -> ChinchillaFit:
    """Fit the law: see `scaling.fit.fit_chinchilla`, which passes all its arguments on."""
    check_options(delta, n_boot, seed, level, interval)
    held = held_coefficients(fixed)
    table = as_table(runs, params, tokens, loss, reading)
    check_magnitudes(table)
    table, w, groups, sigma = weighted_rows(table, row_weights(table, weights), groups, sigma)
    check_design(table, held, tied=tied, needed=MIN_RUNS, n_boot=n_boot, seed=seed)
    n_runs = distinct_runs(table)
    if n_runs < MIN_RUNS_FOR_INTERVALS and n_boot:
        warn(
            f"{n_runs} runs are too few for intervals ({MIN_RUNS_FOR_INTERVALS} are needed): the law is "
            "fitted without",
            BootstrapWarning,
        )
        n_boot = 0
    elif 0 < n_boot * (1 - level) < 2:
        warn(
            f"{n_boot} replicates cannot place the ends of a {100 * level:g}% interval: "
            f"n_boot={int(np.ceil(2 / (1 - level)))} or more can",
            BootstrapWarning,
        )
    log_loss = np.log(table.loss)
    scale = residual_scale(table, sigma)
    attached = attach(table.params, table.tokens, log_loss, held, tied)
    # Weights of mean one inside: the objective's scale is the user's own affair.
    problem = Objective(attached.form, log_loss, w / w.mean(), scale, delta)
    best, lowest, certificate = solve_global(problem)
    law = attached.law(best)
    resampling = plan(table, resample, groups)
    if resampling.n_clusters < MIN_UNITS_FOR_INTERVALS and n_boot:
        warn(
            f"only {resampling.n_clusters} independent {resampling.key} clusters: {MIN_UNITS_FOR_INTERVALS} are needed "
            "for intervals, so the law is fitted without",
            BootstrapWarning,
        )
        n_boot = 0
    drawn = _draws(problem, best, resampling, table, held, tied, n_boot, seed, progress)
    at_bound = _at_bound(law, held)
    settings = Settings(
        delta=float(delta),
        resample=resampling.method if n_boot else "none",
        cluster_key=resampling.key,
        n_clusters=resampling.n_clusters,
        n_boot=int(n_boot),
        seed=int(seed),
        level=float(level),
        interval=interval,
        fixed={k: float(v) for k, v in held.items()},
        tied=bool(tied),
        weighted=weights is not None,
        sigma_used=sigma is not None or table.sigma is not None,
    )
    draws = attached.law(drawn.plain)
    fit = ChinchillaFit(
        law=law,
        objective=lowest * float(w.mean()),
        certificate=certificate,
        status="bound_hit" if at_bound else "converged" if certificate.converged else "not_converged",
        draws=draws,
        n_failed=drawn.n_failed,
        failures=drawn.failures,
        diagnostics=diagnose(
            table,
            problem,
            best,
            attached,
            draws,
            certificate,
            settings,
            drawn,
            resampling.cluster,
            at_bound,
        ),
        runs=table,
        weights=w,
        scale=scale,
        cluster=resampling.cluster,
        settings=settings,
    )
    if fit.verdict == "not identified":
        first = next(f for f in fit.diagnostics.identification if f.severity == "error")
        warn(f"{first.message} {fit.diagnostics.remedy}", IdentificationWarning)
    return fit


def _draws(
    problem: Objective,
    best: Array,
    resampling: Plan,
    table: RunTable,
    held: dict[str, float],
    tied: bool,
    n_boot: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Draws:
    """Bootstrap with the number of distinct N, D and rows a resample needs for what is free."""
    free_n, free_d, _ = needed_levels(held, tied)
    axes = (levels(table.params, LEVEL), levels(table.tokens, LEVEL), np.arange(len(table)))
    return bootstrap(
        problem,
        best,
        resampling,
        int(n_boot),
        int(seed),
        axes=axes,
        min_levels=(free_n, free_d, 5 - tied - len(held)),
        progress=progress,
    )


def _at_bound(law: ChinchillaLaw, held: dict[str, float]) -> tuple[str, ...]:
    low, high = EXPONENT_BOX
    out = ["E"] if law.E <= 0 and "E" not in held else []
    out += [
        name
        for name in ("alpha", "beta")
        if name not in held and not low * 1.001 < getattr(law, name) < high * 0.999
    ]
    return tuple(out)
