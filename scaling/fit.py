"""Fit the Chinchilla law to a table of runs: the wiring from runs to a result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from scaling.bootstrap import Draws, bootstrap
from scaling.design import suggest_runs
from scaling.diagnose import Diagnostics, condition_number, identification_findings
from scaling.errors import BootstrapWarning, DataError, IdentificationWarning, ScalingError
from scaling.identify import check_design
from scaling.influence import influence, influence_findings
from scaling.intervals import IntervalMethod, check_level, check_method
from scaling.laws.base import Array
from scaling.laws.chinchilla import Attached, ChinchillaLaw, attach
from scaling.laws.power_sum import EXPONENT_BOX
from scaling.newton import Objective
from scaling.resample import Plan, Resample, levels, plan
from scaling.residuals import drift, residual_findings
from scaling.result import ChinchillaFit
from scaling.runs import RunTable
from scaling.settings import Settings
from scaling.solver import Certificate, solve_global

if TYPE_CHECKING:
    from os import PathLike

#: Fewest runs for a fit and for intervals: five coefficients and something left to judge them by.
MIN_RUNS, MIN_RUNS_FOR_INTERVALS = 6, 8
#: Sizes or token counts within 1% are one level.
_LEVEL = 0.01


def fit_chinchilla(
    runs: str | PathLike[str] | RunTable | Any | None = None,
    *,
    params: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    loss: ArrayLike | None = None,
    delta: float = 1e-3,
    resample: Resample = "auto",
    groups: ArrayLike | str | None = None,
    weights: ArrayLike | None = None,
    sigma: ArrayLike | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: bool = False,
    n_boot: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    interval: IntervalMethod = "percentile",
    progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> ChinchillaFit:
    """Fit L(N, D) = E + A/N^alpha + B/D^beta with bootstrapped intervals and a verdict.

    Parameters
    ----------
    runs : path, DataFrame, RunTable or anything `load_runs` reads
        The runs; or give arrays.
    params, tokens, loss : array_like, shape (n,), optional
        Parameters N, training tokens D and loss (nats/token) of each run, instead of `runs`.
    delta : float
        Huber threshold in log loss. 1e-3 as in Hoffmann et al. 2022.
    resample : {"auto", "pairs", "cluster", "wild"}
        Bootstrap. ``"auto"`` resamples clusters of rows when `groups` is given or ``trunk_id`` or
        ``run_id`` repeats, since rows of one run share its luck, and rows otherwise.
    groups : array_like or str, optional
        Cluster of every row, or ``"model_size"``, or the name of a column.
    weights : array_like, shape (n,), optional
        Multiply each run's term of the objective; whole numbers are copies of rows.
    sigma : array_like, shape (n,), optional
        Run-to-run standard deviation of each loss, in the unit of the losses: log residuals are scaled
        by sigma0/sigma_i before Huber. The table's own ``sigma`` column is used by default.
    fixed : mapping of str to float, optional
        Coefficients held at a value, e.g. ``{"E": 1.6}``.
    tied : bool
        Impose alpha = beta.
    n_boot : int
        Bootstrap replicates; 0 for none.
    seed : int
        Seed of the bootstrap; the optimum needs no random numbers.
    level : float
        Coverage of intervals.
    interval : {"percentile", "bias-corrected"}
        How intervals are made of draws.
    progress : callable, optional
        Called with (replicates done, replicates in all).
    **reading
        Passed to `load_runs` (``columns=``, ``where=``, ``loss_unit=``, ``on_bad=`` ...).

    Returns
    -------
    ChinchillaFit

    Raises
    ------
    DataError
        The table or an argument cannot be used; says where and why.
    TooFewRunsError
        Fewer than 6 usable runs.
    NotIdentifiedError
        One size only, one token count only, or D proportional to N throughout; carries in `partial`
        what can be fitted all the same.

    Notes
    -----
    Objective (Hoffmann et al. 2022, sec. D.2): sum over runs of Huber_delta(log L - log prediction).
    The answer does not depend on its scale, nor on a starting point. Cost: O(n) per iteration, about
    10 ms for 240 runs; the bootstrap O(n_boot n), about 0.1 ms per replicate of 240 runs.

    Examples
    --------
    >>> import numpy as np
    >>> N, D = np.meshgrid([1e8, 3e8, 1e9, 3e9], [2e9, 8e9, 32e9])
    >>> loss = 1.8 + 480 / N**0.35 + 2100 / D**0.37
    >>> fit = fit_chinchilla(params=N.ravel(), tokens=D.ravel(), loss=loss.ravel(), n_boot=0)
    >>> f"{fit.law.E:.6f} {fit.law.alpha:.6f} {fit.law.beta:.6f}"
    '1.800000 0.350000 0.370000'
    """
    _check_options(delta, n_boot, level, interval)
    table = _table(runs, params, tokens, loss, reading)
    held = dict(fixed or {})
    check_design(table, held, tied=tied, needed=MIN_RUNS, n_boot=n_boot, seed=seed)
    if len(table) < MIN_RUNS_FOR_INTERVALS and n_boot:
        warnings.warn(
            f"{len(table)} runs are too few for intervals ({MIN_RUNS_FOR_INTERVALS} are needed): the law is "
            "fitted without",
            BootstrapWarning,
            stacklevel=2,
        )
        n_boot = 0
    log_loss = np.log(table.loss)
    w = _weights(table, weights)
    scale = _scale(table, sigma)
    attached = attach(table.params, table.tokens, log_loss, held, tied)
    # Weights of mean one inside: the objective's scale is the user's own affair.
    problem = Objective(attached.form, log_loss, w / w.mean(), scale, delta)
    best, lowest, certificate = solve_global(problem)
    law = attached.law(best)
    resampling = plan(table, resample, groups)
    drawn = _draws(problem, best, resampling, table, held, n_boot, seed, progress)
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
        diagnostics=_diagnose(table, problem, best, attached, draws, certificate, settings, drawn, at_bound),
        runs=table,
        weights=w,
        scale=scale,
        cluster=resampling.cluster,
        settings=settings,
    )
    if fit.verdict == "not identified":
        first = next(f for f in fit.diagnostics.identification if f.severity == "error")
        warnings.warn(f"{first.message} {fit.diagnostics.remedy}", IdentificationWarning, stacklevel=2)
    return fit


def _check_options(delta: float, n_boot: int, level: float, interval: str) -> None:
    check_level(level)
    check_method(interval)
    if not (np.isfinite(delta) and delta > 0):
        raise DataError(f"delta must be positive, got {delta}", column="delta")
    if n_boot != int(n_boot) or n_boot < 0:
        raise DataError(f"n_boot must be a whole number from 0 up, got {n_boot}", column="n_boot")


def _table(
    runs: Any,
    params: ArrayLike | None,
    tokens: ArrayLike | None,
    loss: ArrayLike | None,
    reading: dict[str, Any],
) -> RunTable:
    """Return the runs as a table, whichever way they were given."""
    arrays = {"params": params, "tokens": tokens, "loss": loss}
    given = [name for name, value in arrays.items() if value is not None]
    if runs is not None and given:
        raise DataError(
            f"give either runs or the arrays params, tokens and loss, not runs and {', '.join(given)}"
        )
    if isinstance(runs, RunTable):
        if reading:
            raise DataError(f"{', '.join(reading)} apply to reading a file; this table is read already")
        return runs
    if runs is not None:
        from scaling.table import load_runs

        return load_runs(runs, **reading)
    if len(given) < 3:
        missing = ", ".join(name for name in arrays if name not in given)
        raise DataError(f"nothing to fit: give runs, or params, tokens and loss (missing: {missing})")
    return RunTable.from_arrays(**arrays, **reading)  # type: ignore[arg-type]


def _weights(table: RunTable, weights: ArrayLike | None) -> Array:
    if weights is None:
        return np.ones(len(table))
    w = np.asarray(weights, dtype=float)
    if w.shape != (len(table),):
        raise DataError(f"weights has shape {w.shape}, the table has {len(table)} rows", column="weights")
    bad = ~(np.isfinite(w) & (w >= 0))
    if bad.any() or not w.any():
        raise DataError(
            f"weights must be finite, not negative and not all zero; rows {table.row[bad][:10].tolist()}",
            column="weights",
            rows=table.row[bad].tolist(),
        )
    return w


def _scale(table: RunTable, sigma: ArrayLike | None) -> Array:
    """Multipliers sigma0/sigma_i of the log residuals, sigma0 the median."""
    values = table.sigma if sigma is None else sigma
    if values is None:
        return np.ones(len(table))
    s = np.asarray(values, dtype=float)
    if s.shape != (len(table),):
        raise DataError(f"sigma has shape {s.shape}, the table has {len(table)} rows", column="sigma")
    bad = ~(np.isfinite(s) & (s > 0))
    if bad.any():
        raise DataError(
            f"sigma must be positive and finite in every row; rows {table.row[bad][:10].tolist()}",
            column="sigma",
            rows=table.row[bad].tolist(),
        )
    relative = s / table.loss
    return np.asarray(np.median(relative) / relative)


def _draws(
    problem: Objective,
    best: Array,
    resampling: Plan,
    table: RunTable,
    held: dict[str, float],
    n_boot: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Draws:
    """Bootstrap with the number of distinct N, D and rows a resample needs for what is free."""
    free_n = 1 + ("A" not in held) + ("alpha" not in held)
    free_d = 1 + ("B" not in held) + ("beta" not in held)
    axes = (levels(table.params, _LEVEL), levels(table.tokens, _LEVEL), np.arange(len(table)))
    return bootstrap(
        problem,
        best,
        resampling,
        int(n_boot),
        int(seed),
        axes=axes,
        min_levels=(free_n, free_d, 5 - len(held)),
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


def _diagnose(
    table: RunTable,
    problem: Objective,
    best: Array,
    attached: Attached,
    draws: ChinchillaLaw,
    certificate: Certificate,
    settings: Settings,
    drawn: Draws,
    at_bound: tuple[str, ...],
) -> Diagnostics:
    """Gather the evidence on what the runs determine."""
    law = attached.law(best)
    residuals = np.log(table.loss) - np.log(law.loss(table.params, table.tokens))
    condition = condition_number(law, table.params, table.tokens, problem.weights * problem.scale**2)
    # D* is followed at 1B where the runs come near it, else at the largest size run.
    reference = (
        1e9 if table.params.min() / 10 <= 1e9 <= 10 * table.params.max() else float(table.params.max())
    )
    rows_out = influence(table, problem, best, attached, residuals, reference)
    second = None
    if certificate.second_basin is not None:
        second = attached.law(np.array(certificate.second_basin))
    identification = identification_findings(
        table,
        law,
        draws,
        certificate,
        condition,
        level=settings.level,
        n_units=settings.n_clusters,
        n_failed=drawn.n_failed,
        fixed=settings.fixed,
        second=second,
        at_bound=at_bound,
    )
    model = (
        *residual_findings(table, residuals * problem.scale),
        *influence_findings(rows_out, law, draws),
    )
    remedy = ""
    if any(f.severity != "info" for f in identification):
        open_floor = any(f.code == "e_at_bound" for f in identification)
        target = "E" if open_floor else f"ln_tokens@{reference:.4g}"
        noise = max(1.4826 * float(np.median(np.abs(residuals))), 1e-4)
        try:
            remedy = str(suggest_runs((table.params, table.tokens), target, law=law, sigma=noise))
        except (ScalingError, FloatingPointError, np.linalg.LinAlgError):
            # At the edge of the parameter space the law may have no finite derivative to design by.
            remedy = ""
    ratio = table.tokens / table.params
    return Diagnostics(
        condition_number=condition,
        correlation=float(np.corrcoef(np.log(table.params), np.log(table.tokens))[0, 1]),
        tokens_per_param=(float(ratio.min()), float(ratio.max())),
        decades={
            name: float(np.log10(v.max() / v.min()))
            for name, v in (("params", table.params), ("tokens", table.tokens), ("flops", table.compute))
        },
        n_sizes=int(levels(table.params, _LEVEL).max()) + 1,
        n_budgets=int(levels(table.tokens, _LEVEL).max()) + 1,
        e_zero_share=float(np.mean(np.asarray(draws.E) <= 0)) if np.asarray(draws.E).size else 0.0,
        drift=drift(table, residuals),
        influence=rows_out,
        identification=identification,
        model=model,
        remedy=remedy,
    )
