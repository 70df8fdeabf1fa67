"""What the answer owes to choices that the table does not settle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scaling.arguments import check_whole, positive_count
from scaling.errors import DataError
from scaling.estimate import Estimate
from scaling.intervals import estimate
from scaling.laws.base import Array
from scaling.laws.chinchilla import ChinchillaLaw, attach
from scaling.newton import Objective
from scaling.resample import LEVEL, levels
from scaling.solver import solve

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit


@dataclass(frozen=True)
class ParamsSensitivity:
    """How far the law moves when the parameter counts themselves are uncertain.

    Parameters
    ----------
    spread : float
        Each model size was multiplied by a factor drawn between 1 - spread and 1 + spread.
    alpha, beta, tokens : Estimate
        Exponents and D* at `params`; the intervals hold this uncertainty alone, not sampling noise.
    params : float
        Size at which D* was followed.
    """

    spread: float
    alpha: Estimate
    beta: Estimate
    tokens: Estimate
    params: float


def perturb_params(
    fit: ChinchillaFit, spread: float = 0.15, *, params: float | str = 1e9, n: int = 200, seed: int = 0
) -> ParamsSensitivity:
    """Refit with every model size multiplied by a random factor.

    What counts as a parameter differs by up to 15.2% between readings of Hoffmann et al.'s own table
    (Schaeffer et al. 2025, arXiv 2509.23963). A factor common to all sizes changes A alone, by its
    alpha-th power; only factors that differ between sizes touch alpha and beta.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit to perturb.
    spread : float
        Half-width of the factors, between 0 and 1.
    params : float or str
        Size at which D* is followed.
    n, seed : int
        Number of refits and seed.

    Raises
    ------
    DataError
        For a spread outside (0, 1).
    """
    if not 0 < spread < 1:
        raise DataError(f"spread must lie between 0 and 1, got {spread}", column="spread")
    check_whole("n", n, least=1)
    check_whole("seed", seed)
    size = positive_count("params", params)
    rng = np.random.default_rng(seed)
    sizes = levels(fit.runs.params, LEVEL)
    log_loss = np.log(fit.runs.loss)
    laws = []
    for _ in range(n):
        factor = rng.uniform(1 - spread, 1 + spread, size=int(sizes.max()) + 1)
        laws.append(_refit(fit, fit.runs.params * factor[sizes], log_loss))
    alpha, beta, tokens = np.array([(law.alpha, law.beta, law.tokens_at(size)) for law in laws]).T
    level = fit.settings.level
    return ParamsSensitivity(
        spread,
        estimate(alpha, fit.law.alpha, level, name="alpha"),
        estimate(beta, fit.law.beta, level, name="beta"),
        estimate(tokens, fit.law.tokens_at(size), level, name=f"D*({size:.4g})", unit="tokens"),
        size,
    )


def _refit(fit: ChinchillaFit, params: Array, log_loss: Array) -> ChinchillaLaw:
    attached = attach(params, fit.runs.tokens, log_loss, fit.settings.fixed, fit.settings.tied)
    problem = Objective(
        attached.form, log_loss, fit.weights / fit.weights.mean(), fit.scale, fit.settings.delta
    )
    return attached.law(solve(problem, attached.plain(fit.law)[None], cold=True).plain[0])
