"""How much less a whole run reaches than benchmarks predict: estimated from published runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from economics.mfu_mixed import Posterior
from economics.mfu_rows import Array, Rows


class RunGap(NamedTuple):
    """Difference of whole runs to the steady prediction, logit units.

    ``mean`` and ``sd`` are those of the next run of another organisation; ``between`` and ``within`` the
    spread between organisations and between the runs of one; ``df`` the organisations less one.
    """

    mean: float
    sd: float
    between: float
    within: float
    df: int


def run_gap(runs: Rows, posterior: Posterior) -> RunGap:
    """Estimate the gap by restricted maximum likelihood, organisations as random effects.

    Parameters
    ----------
    runs : Rows
        Whole runs; ``code_base`` is the organisation.
    posterior : Posterior
        What benchmarks say.
    """
    from scipy.optimize import minimize

    gap = runs.logit - posterior.predict(runs)[0]
    same = np.asarray(runs.code_base[:, None] == runs.code_base[None, :], dtype=np.float64)

    def weights(between: float, within: float) -> tuple[Array, float]:
        inverse = np.linalg.inv(between**2 * same + within**2 * np.eye(gap.size))
        row = inverse.sum(axis=0)
        return row, float(row.sum())

    def minus_log_likelihood(log_sd: NDArray[np.float64]) -> float:
        between, within = np.exp(log_sd)
        cov = between**2 * same + within**2 * np.eye(gap.size)
        row, total = weights(between, within)
        left = gap - row @ gap / total
        # The last term keeps the spread between organisations off zero (Chung et al. 2013).
        return float(
            0.5 * (np.linalg.slogdet(cov)[1] + np.log(total) + left @ np.linalg.solve(cov, left)) - log_sd[0]
        )

    found = np.exp(minimize(minus_log_likelihood, np.array([-1.0, -1.0]), method="BFGS").x)
    between, within = float(found[0]), float(found[1])
    row, total = weights(between, within)
    sd = float(np.sqrt(between**2 + within**2 + 1.0 / total))
    return RunGap(float(row @ gap / total), sd, between, within, len(set(map(str, runs.code_base))) - 1)
