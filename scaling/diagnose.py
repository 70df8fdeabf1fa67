"""What the data can and cannot tell: the evidence, gathered in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scaling.bootstrap import Draws
from scaling.design import suggest_runs
from scaling.errors import ScalingError
from scaling.findings import Finding
from scaling.influence import Influence, influence, influence_findings
from scaling.jacobian import condition_number, free_columns
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, Attached, ChinchillaLaw
from scaling.newton import Objective
from scaling.open_form.form_test import form_findings
from scaling.resample import LEVEL, levels
from scaling.residuals import (
    copy_findings,
    noise_sd,
    outlier_findings,
    repeat_findings,
    residual_findings,
)
from scaling.runs import RunTable
from scaling.settings import Settings
from scaling.solver import Certificate
from scaling.verdicts import identification_findings


@dataclass(frozen=True)
class Diagnostics:
    """Evidence on how well the data determine the law.

    Parameters
    ----------
    condition_number : float
        Of the Jacobian of log predictions in those of (log A, alpha, log B, beta, E) that are free, with
        ln N and ln D centred and columns scaled to one length.
    correlation : float
        Of ln N with ln D over the runs; nan where one of them does not vary.
    tokens_per_param : tuple of float
        Smallest and largest D/N.
    decades : dict of str to float
        Decades spanned by params, tokens and flops.
    n_sizes, n_budgets : int
        Distinct values of N and of D (within 1%).
    e_zero_share : float
        Share of bootstrap draws with E = 0.
    influence : Influence or None
        Refits without some rows.
    identification : tuple of Finding
        What is and is not determined.
    model : tuple of Finding
        Where the law and the runs disagree.
    remedy : str
        Runs that would help most, in words; empty where nothing is amiss.
    """

    condition_number: float
    correlation: float
    tokens_per_param: tuple[float, float]
    decades: dict[str, float]
    n_sizes: int
    n_budgets: int
    e_zero_share: float
    influence: Influence | None
    identification: tuple[Finding, ...]
    model: tuple[Finding, ...]
    remedy: str

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, those on identification first."""
        return (*self.identification, *self.model)

    def finding(self, code: str) -> Finding | None:
        """Return the first finding with this code, or None."""
        return next((f for f in self.findings if f.code == code), None)


def extrapolation(runs: RunTable, flops: float) -> float:
    """Return how many decades `flops` lies beyond the compute of the runs; 0 inside their range."""
    if not 0 < flops < np.inf:  # an optimum that ran off to nothing or to infinity
        return float("inf")
    c, at = np.log10(FLOPS_PER_PARAM_TOKEN * runs.params * runs.tokens), np.log10(flops)
    return float(max(0.0, at - c.max(), c.min() - at))


def diagnose(
    table: RunTable,
    problem: Objective,
    best: Array,
    attached: Attached,
    draws: ChinchillaLaw,
    certificate: Certificate,
    settings: Settings,
    drawn: Draws,
    cluster: Index,
    at_bound: tuple[str, ...],
) -> Diagnostics:
    """Gather the evidence on what the runs determine. Called by `fit_chinchilla`."""
    law = attached.law(best)
    residuals = np.log(table.loss) - np.log(law.loss(table.params, table.tokens))
    held, tied = settings.fixed, settings.tied
    condition = condition_number(
        law, table.params, table.tokens, problem.weights * problem.scale**2, held, tied
    )
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
        fixed=held,
        tied=tied,
        second=second,
        at_bound=at_bound,
    )
    n_free = free_columns(held, tied).shape[1]
    model = (
        *copy_findings(table),
        *repeat_findings(table),
        *outlier_findings(table, residuals * problem.scale, n_free),
        *residual_findings(table, residuals * problem.scale, cluster),
        *form_findings(law, table, residuals, cluster, held, tied, problem.scale),
        *influence_findings(rows_out, table, law, draws),
    )
    remedy = ""
    if n_free and any(f.severity != "info" for f in identification):
        open_floor = any(f.code == "e_at_bound" for f in identification)
        target = "E" if open_floor else f"ln_tokens@{reference:.4g}"
        noise = max(noise_sd(residuals, n_free), 1e-4)
        try:
            plan = (table.params, table.tokens)
            remedy = str(suggest_runs(plan, target, law=law, sigma=noise, fixed=held, tied=tied))
        except (ScalingError, FloatingPointError, np.linalg.LinAlgError):
            # At the edge of the parameter space the law may have no finite derivative to design by.
            remedy = ""
    ratio = table.tokens / table.params
    return Diagnostics(
        condition_number=condition,
        correlation=_correlation(np.log(table.params), np.log(table.tokens)),
        tokens_per_param=(float(ratio.min()), float(ratio.max())),
        decades={
            name: float(np.log10(v.max() / v.min()))
            for name, v in (("params", table.params), ("tokens", table.tokens), ("flops", table.compute))
        },
        n_sizes=int(levels(table.params, LEVEL).max()) + 1,
        n_budgets=int(levels(table.tokens, LEVEL).max()) + 1,
        e_zero_share=float(np.mean(np.asarray(draws.E) <= 0)) if np.asarray(draws.E).size else 0.0,
        influence=rows_out,
        identification=identification,
        model=model,
        remedy=remedy,
    )


def _correlation(x: Array, y: Array) -> float:
    """Return the correlation of two columns; nan where one does not vary."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
