"""Whether the runs reject the form of the law itself, a sum of two shortages."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from scaling.findings import Finding
from scaling.jacobian import free_columns, log_jacobian
from scaling.laws.base import Array, Index, quiet
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.residuals import added_variance, clipped
from scaling.runs import RunTable

#: Significance below which the form is said to be rejected, and fewest units among which it is asked.
_SIGNIFICANT, _FEWEST = 0.01, 12


@quiet
def power_test(
    law: ChinchillaLaw,
    runs: RunTable,
    residuals: Array,
    cluster: Index,
    fixed: Collection[str] = (),
    tied: bool = False,
) -> tuple[float, float]:
    """Test k = 1 in L = E + (A/N^alpha + B/D^beta)^k, from the fit with k = 1 alone.

    A Lagrange multiplier test in its regression form (Breusch & Pagan 1980, Rev. Econ. Stud. 47, 239-253): do
    residuals, regressed on the derivatives of the law by its coefficients, also follow that by k?

    Parameters
    ----------
    law : ChinchillaLaw
        The optimum with k = 1.
    runs : RunTable
        The runs.
    residuals : array, shape (n,)
        Of log losses; outliers are drawn in.
    cluster : int array, shape (n,)
        Unit each row belongs to: means of units are regressed.
    fixed : collection of str
        Coefficients held.
    tied : bool
        Whether alpha = beta.

    Returns
    -------
    float
        One Newton step from k = 1: about where k would lie.
    float
        Its p-value; 1 where there are too few units, or nothing to tell k by.
    """
    x, y = np.log(runs.params), np.log(runs.tokens)
    base = log_jacobian(law, x - x.mean(), y - y.mean(), runs.params, runs.tokens) @ free_columns(fixed, tied)
    loss = np.asarray(law.loss(runs.params, runs.tokens))
    above = loss - law.E
    by_power = above * np.log(above) / loss
    columns = np.column_stack([base, by_power, clipped(residuals)])
    if not np.isfinite(columns).all():
        return 1.0, 1.0
    means = np.stack([np.bincount(cluster, v) / np.bincount(cluster) for v in columns.T], axis=1)
    base, extra, target = means[:, :-2], means[:, -2:-1], means[:, -1]
    if len(means) < _FEWEST:
        return 1.0, 1.0
    _, p_value = added_variance(base, extra, target)
    step = np.linalg.lstsq(np.column_stack([base, extra]), target, rcond=None)[0][-1]
    return 1.0 + float(step), p_value


def form_findings(
    law: ChinchillaLaw,
    runs: RunTable,
    residuals: Array,
    cluster: Index,
    fixed: Collection[str] = (),
    tied: bool = False,
) -> tuple[Finding, ...]:
    """Report that the runs reject k = 1; the arguments are those of `power_test`."""
    k, p_value = power_test(law, runs, residuals, cluster, fixed, tied)
    if p_value >= _SIGNIFICANT:
        return ()
    side = "below" if k < 1 else "above"
    return (
        Finding(
            "form_rejected",
            "warning",
            f"The runs reject the sum in the law itself: in L = E + (A/N^alpha + B/D^beta)^k they ask for k {side} 1 "
            f"(p = {p_value:.1e}). E, D* and their intervals take k = 1 for known; fit.open_form leaves it open.",
            {"side": side, "p_value": p_value},
        ),
    )
