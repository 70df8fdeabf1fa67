"""Fit of the coupled law, E + (A/N^alpha + B/D^beta)^k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scaling.arguments import held_coefficients
from scaling.data_constrained import free_names
from scaling.findings import Finding
from scaling.intervals import IntervalMethod
from scaling.law_fit import LawFit
from scaling.law_fitting import Options, check_levels, check_table, fit_attached, search_global
from scaling.laws.coupled import CoupledLaw, attach_coupled
from scaling.newton import Objective
from scaling.resample import Resample
from scaling.runs import RunTable
from scaling.undetermined import needed_levels


def fit_coupled(
    runs: RunTable,
    *,
    fixed: Mapping[str, float] | None = None,
    tied: bool = False,
    delta: float = 1e-3,
    resample: Resample = "auto",
    groups: Any = None,
    n_boot: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    interval: IntervalMethod = "percentile",
) -> LawFit:
    """Fit L = E + (A/N^alpha + B/D^beta)^k. k = 1 is the law of Hoffmann et al. 2022.

    Parameters
    ----------
    runs : RunTable
        The runs.
    fixed : mapping of str to float, optional
        Coefficients held, such as ``{"k": 1.0}``.
    tied : bool
        Whether to impose alpha = beta.
    delta, resample, groups, n_boot, seed, level, interval
        As in `fit_chinchilla`.

    Returns
    -------
    LawFit
        Its findings say how much worse k = 1 is; ``fit.profile("k")`` shows the rest.

    Raises
    ------
    DataError
        An argument is out of range.
    TooFewRunsError
        Fewer runs, sizes or token counts than the free coefficients need.

    Notes
    -----
    On 64 runs with 1% noise over three decades of N and four of D, 95% intervals hold the truth in 97 to 99.5% of
    worlds with k = 0.6: see `LawFit.ci`.

    Examples
    --------
    >>> import numpy as np
    >>> law = CoupledLaw(1.8, 300.0, 900.0, 0.35, 0.37, k=0.8)
    >>> N, D = (a.ravel() for a in np.meshgrid(np.geomspace(2e7, 5e9, 5), np.geomspace(3e8, 1e12, 5)))
    >>> runs = RunTable.from_arrays(params=N, tokens=D, loss=law.loss(N, D))
    >>> f"{fit_coupled(runs, n_boot=0).law.k:.5f}"
    '0.80000'
    """
    check_table(runs)
    held = held_coefficients(fixed)
    free = free_names(CoupledLaw.COEFFICIENTS, held, tied)
    need = check_levels(runs, free, needed_levels(set(held) - {"k"}, tied))
    attached = attach_coupled(runs.params, runs.tokens, np.log(runs.loss), held, tied)
    options = Options(delta, resample, groups, n_boot, seed, level, interval)
    return fit_attached(
        runs, attached, ("params", "tokens"), held, need, options, name="coupled", tied=tied, judge=_judge
    )


def _judge(fit: LawFit) -> Sequence[Finding]:
    """Say how much worse the plain law is."""
    if "k" in fit.fixed:
        return ()
    runs, log_loss, one = fit.runs, np.log(fit.runs.loss), np.ones(len(fit.runs))
    plain = attach_coupled(runs.params, runs.tokens, log_loss, {**fit.fixed, "k": 1.0}, fit.tied)
    _, at_one, _ = search_global(Objective(plain.form, log_loss, one, one, fit.delta))
    if fit.objective <= len(runs) * 1e-30:
        return ()
    rise = at_one / fit.objective - 1.0
    found = fit.ci("k")
    inside = (
        ""
        if found.low != found.low
        else (f", and 1 lies {'inside' if found.low <= 1.0 <= found.high else 'outside'} the interval of k")
    )
    return (
        Finding(
            "plain_law",
            "info",
            f"With k held at 1, the law of Hoffmann et al., the objective is {100 * rise:.2g}% higher ({at_one:.6g})"
            f"{inside}.",
            {"objective_at_one": at_one, "rise": rise},
        ),
    )
