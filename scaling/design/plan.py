"""The search put together: runs at hand, laws, a target and candidates in; the runs to make out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from scaling.design.candidates import Candidates
from scaling.design.moments import Known, moments
from scaling.design.predicted import predicted_se
from scaling.design.search import Search
from scaling.errors import DataError
from scaling.jacobian import gradient
from scaling.laws.base import Array
from scaling.laws.chinchilla import COEFFICIENTS, ChinchillaLaw
from scaling.resample import labels
from scaling.targets import Target, target_function, written

#: Draws of the law that are designed for.
N_LAWS = 16


@dataclass(frozen=True, eq=False)
class DesignedRuns:
    """Runs to make. Made by `design_runs`.

    Parameters
    ----------
    positions : tuple of int
        Which candidates.
    runs : tuple of (float, float)
        (params, tokens) of each.
    cost : float
        Of all together, in the unit of the candidates.
    se_before, se_after : array, shape (r,)
        Predicted standard error of the target without and with them at each law; infinite where not identified.
    reached : bool
        Whether the standard error asked for is reached, in the mean of its log; True where none was.
    target : str
        What was to be known better.
    """

    positions: tuple[int, ...]
    runs: tuple[tuple[float, float], ...]
    cost: float
    se_before: Array
    se_after: Array
    reached: bool
    target: str

    def __str__(self) -> str:
        before, after = (float(np.exp(np.mean(np.log(se)))) for se in (self.se_before, self.se_after))
        now = "infinite" if math.isinf(before) else f"{before:.2g}"
        ends = f"{self.se_after.min():.2g} to {self.se_after.max():.2g}"
        return (
            f"{len(self.runs)} runs for {self.cost:.4g} would take the predicted standard error of {self.target} from "
            f"{now} to {after:.2g} ({ends} over {len(self.se_after)} laws)."
        )


def design_runs(
    runs: Any,
    target: Target,
    candidates: Candidates,
    *,
    sigma: float,
    rho: float = 0.5,
    budget: float | None = None,
    se: float | None = None,
    law: ChinchillaLaw | None = None,
    groups: Any = None,
    delta: float = 1e-3,
    quantile: float | None = None,
    n_laws: int = N_LAWS,
) -> DesignedRuns:
    """Choose among candidates the set that determines a target best for a budget, or well enough for the least.

    Parameters
    ----------
    runs : ChinchillaFit, RunTable, (params, tokens) or None
        Runs at hand. The bootstrap draws of a fit are the laws designed for, and its clusters share noise.
    target : str or callable
        See `scaling.targets.target_function`.
    candidates : Candidates
        Runs that could be made, with their costs and trunks.
    sigma, rho : float
        Standard deviation of the log loss of a run, and its correlation within a trunk.
    budget : float, optional
        Most that may be spent, in the unit of the candidates' costs. This or `se` is needed.
    se : float, optional
        Standard error wanted, as the mean of its log over the laws: the cheapest set that reaches it is looked for,
        and where there is none the most precise one is returned.
    law : ChinchillaLaw, optional
        Law to design for, its fields numbers or arrays of draws (`believe` makes them of a published law); needed
        unless `runs` is a fit with draws.
    groups : array, shape (n,), optional
        Which runs at hand share noise.
    delta : float
        Huber threshold of the fit to come.
    quantile : float, optional
        Minimise this quantile of the standard error over the laws, not the mean of its log. Why that mean: see
        `scaling.design.search`.
    n_laws : int
        Draws to use, evenly spaced.

    Returns
    -------
    DesignedRuns

    Raises
    ------
    DataError
        An argument cannot be, or the budget pays for no candidate.

    Examples
    --------
    >>> from scaling import ChinchillaLaw
    >>> law = ChinchillaLaw(E=1.82, A=482.0, B=2085.0, alpha=0.348, beta=0.366)
    >>> from scaling.design import grid_candidates
    >>> sizes, counts = [2e7, 6e7, 2e8], [2e8, 8e8, 3.2e9]
    >>> c = grid_candidates(sizes, counts, [1e-9, 2e-9, 5e-9])  # dollars a token
    >>> found = design_runs(None, "ln_tokens@1B", c, law=law, sigma=0.003, budget=30.0)
    >>> found.cost <= 30.0, bool(found.se_after < 0.5)
    (True, True)
    """
    if budget is None and se is None:
        raise DataError("give a budget, or the standard error that is wanted", column="budget")
    if se is not None and not 0 < se < math.inf:
        raise DataError(f"se must be a positive number, got {se!r}", column="se")
    function = target_function(target)
    known, laws, held = _read(runs, law, groups, n_laws)
    laws = [one for one in laws if np.isfinite(gradient(function, one)).all()]
    if not laws:
        raise DataError("the target has no finite derivative at any of the laws", column="target")
    told = moments(laws, function, known, candidates, sigma=sigma, rho=rho, delta=delta, **held)
    search = Search(told, quantile)
    found = None if se is None else search.cheapest(math.log(se), budget)
    reached = se is None or found is not None
    if found is None:
        everything = candidates.cost(range(len(candidates)))
        found = search.most_precise(everything if budget is None else budget)
    at = np.array(found.positions)

    def errors(extra: Any) -> Array:
        n, d = (
            np.append(known.params, candidates.params[extra]),
            np.append(known.tokens, candidates.tokens[extra]),
        )
        if not len(n):
            return np.full(len(laws), math.inf)
        above = int(known.cluster.max()) + 1 if len(known.cluster) else 0
        trunk = np.append(known.cluster, above + candidates.trunk[extra])
        options = {"sigma": sigma, "rho": rho, "groups": trunk, "delta": delta, **held}
        return np.array([predicted_se((n, d), target, law=one, **options) for one in laws])

    made = tuple((float(candidates.params[i]), float(candidates.tokens[i])) for i in at)
    name = written(target)
    return DesignedRuns(found.positions, made, found.cost, errors(at[:0]), errors(at), reached, name)


def single_laws(draws: ChinchillaLaw, n: int) -> list[ChinchillaLaw]:
    """Return up to n of the draws in a law whose fields are arrays, evenly spaced; a single law as it is."""
    count = np.size(draws.E)
    at: list[int] = np.unique(np.linspace(0, count - 1, n).round().astype(int)).tolist() if count else []
    fields = [np.broadcast_to(getattr(draws, name), count) for name in COEFFICIENTS]
    return [ChinchillaLaw(*(float(field[i]) for field in fields)) for i in at]


def _read(
    runs: Any, law: ChinchillaLaw | None, groups: Any, n_laws: int
) -> tuple[Known, list[ChinchillaLaw], dict[str, Any]]:
    """Return what is at hand, the laws, and what the fit holds."""
    held: dict[str, Any] = {}
    cluster = None
    if runs is None:
        params, tokens = np.empty(0), np.empty(0)
    elif hasattr(runs, "draws"):
        held = {"fixed": tuple(runs.settings.fixed), "tied": runs.settings.tied}
        params, tokens, cluster = runs.runs.params, runs.runs.tokens, runs.cluster
        law = law or (runs.draws if np.size(runs.draws.E) else runs.law)
    elif hasattr(runs, "params"):
        params, tokens = runs.params, runs.tokens
    else:
        params, tokens = (np.asarray(values, dtype=float) for values in runs)
    if law is None:
        raise DataError("runs that are no fit have no law of their own: give law=", column="law")
    if groups is not None:
        cluster = labels(groups)
    if cluster is None:
        cluster = np.arange(len(params))
    if not len(params) == len(tokens) == len(cluster):
        raise DataError(
            f"runs has {len(params)} params, {len(tokens)} tokens and {len(cluster)} groups", column="runs"
        )
    return Known(params, tokens, cluster), single_laws(law, n_laws), held
