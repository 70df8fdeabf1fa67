"""What several plots compute alike: bands, groups of sizes, budgets, and what may not be believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.errors import DataError
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN
from scaling.resample import levels

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

#: Sizes within 1% are one; more sizes than this are drawn in groups.
_SAME_SIZE, MAX_SIZES, N_GROUPS = 0.01, 9, 7
#: Runs within this of a budget (in ln C) are shown with it; budgets are further apart, and have three sizes.
WINDOW, _APART, _BUDGET_SIZES = float(np.log(1.25)), float(np.log(1.8)), 3
MAX_BUDGETS = 8

#: Findings in a few words, for the line under a title.
_SHORT = {
    "e_at_bound": "E is at its bound 0",
    "exponent_at_bound": "an exponent at its bound",
    "ill_conditioned": "ill-conditioned",
    "narrow_tokens_per_param": "narrow range of D/N",
    "not_converged": "not converged",
    "optimum_outside": "optimum outside the sizes run",
    "second_basin": "a second minimum nearby",
    "wide_optimum": "wide interval of D*",
    "failed_replicates": "failed refits",
    "no_draws": "no bootstrap was made",
    "few_units": "few independent units",
}


def has_draws(fit: ChinchillaFit) -> bool:
    """Tell whether the fit has bootstrap draws to make bands of."""
    return np.asarray(fit.draws.E).size > 0


def band(fit: ChinchillaFit, draws: Array, values: Array, unit: str) -> tuple[Array, Array]:
    """Return the ends of the fit's interval at each point, made as the fit makes those of its answers.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    draws : array, shape (m, R)
        A quantity at m points, for every draw.
    values : array, shape (m,)
        The same for the fitted law.
    unit : {"params", "tokens", "loss"}
        What it is.

    Returns
    -------
    low, high : array, shape (m,)
        ``nan`` without draws.
    """
    unit = fit.runs.loss_unit if unit == "loss" else unit
    answers = [fit._estimate(row, float(v), "", unit, None) for row, v in zip(draws, values, strict=True)]
    return np.array([a.low for a in answers]), np.array([a.high for a in answers])


def best_tokens(fit: ChinchillaFit, params: Array) -> Array:
    """Return D*(N) of the fitted law, within what a float holds: an undetermined law may put it anywhere.

    Raises
    ------
    DataError
        The coefficients themselves are too large for floats, so that there is no D*.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        best: Array = np.clip(np.asarray(fit.law.tokens_at(params)), 1e-200, 1e200)
    if np.isnan(best).any():
        raise DataError(
            f"this law has no compute-optimal tokens to draw: A = {fit.law.A:g}, B = {fit.law.B:g}"
        )
    return best


def size_groups(params: Array) -> tuple[Index, Array]:
    """Sort runs by model size: every size its own group, or seven groups where there are more than nine.

    Returns
    -------
    group : int array, shape (n,)
        Group of each run, from 0 by rising size.
    size : array, shape (k,)
        Geometric mean of the sizes in each group.
    """
    group = alike(params, MAX_SIZES, N_GROUPS)
    size = np.array([np.exp(np.log(params[group == k]).mean()) for k in range(int(group.max()) + 1)])
    return group, size


def alike(values: Array, most: int, count: int) -> Index:
    """Sort positive values into their levels (within 1%), or into `count` groups beyond `most` levels."""
    group = levels(values, _SAME_SIZE)
    return group if group.max() < most else natural_breaks(np.log(values), count)


def natural_breaks(x: Array, count: int) -> Index:
    """Sort numbers into groups of least variance within (Fisher 1958, JASA 53, 789), numbered by size.

    Parameters
    ----------
    x : array, shape (n,)
        The numbers; at most 200 distinct ones are told apart.
    count : int
        Number of groups.
    """
    cell = np.round((x - x.min()) / max(float(np.ptp(x)), 1e-300) * 199).astype(np.int64)
    place, position, weight = np.unique(cell, return_inverse=True, return_counts=True)
    count = min(count, len(place))
    total, first, second = (
        np.concatenate([[0.0], np.cumsum(weight * place.astype(float) ** power)]) for power in (0, 1, 2)
    )
    # cost[i, j]: sum of squares around the mean of the places i to j - 1.
    w = total[None] - total[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = (second[None] - second[:, None]) - (first[None] - first[:, None]) ** 2 / w
    cost = np.where(w > 0, cost, np.inf)
    best, cuts = cost[0], []
    for _ in range(count - 1):
        through = best[:, None] + cost
        cuts.append(through.argmin(axis=0))
        best = through.min(axis=0)
    ends = [len(place)]
    for cut in reversed(cuts):
        ends.append(int(cut[ends[-1]]))
    return np.asarray(np.searchsorted(np.sort(ends)[:-1], position, side="right"), dtype=np.int64)


def budgets(fit: ChinchillaFit) -> tuple[Array, Index]:
    """Return compute budgets at which to cut the law, and the runs that belong to them.

    They are where the runs are: the window of 25% to either side of some run that holds most runs, then
    the next among those at least a factor 1.8 away, and so on. Runs made at fixed budgets give those
    budgets back. Where no window holds three sizes, they are spread over the range of the runs.

    Returns
    -------
    flops : array, shape (k,)
        The budgets, rising.
    budget : int array, shape (n,)
        Index of the budget of each run; -1 for runs more than 25% from all.
    """
    log_c = np.log(fit.runs.compute)
    sizes = levels(fit.runs.params, _SAME_SIZE)
    found: list[float] = []
    free = np.ones(len(log_c), dtype=bool)
    while free.any() and len(found) < MAX_BUDGETS:
        c = np.sort(log_c[free])
        held = np.searchsorted(c, c + WINDOW, "right") - np.searchsorted(c, c - WINDOW, "left")
        centre = float(c[held.argmax()])
        members = free & (np.abs(log_c - centre) <= WINDOW)
        if len(np.unique(sizes[members])) >= _BUDGET_SIZES:
            found.append(float(np.median(log_c[members])))
        free &= np.abs(log_c - centre) > _APART
    if len(found) < 2:
        low, high = np.quantile(log_c, [0.05, 0.95])
        found = list(np.linspace(low, high, int(np.clip((high - low) / np.log(3.0), 2, 6))))
    at = np.sort(found)
    distance = np.abs(log_c[:, None] - at[None])
    index = np.where(distance.min(axis=1) <= WINDOW, distance.argmin(axis=1), -1)
    return np.exp(at), np.asarray(index, dtype=np.int64)


def beyond(fit: ChinchillaFit, params: Array, tokens: Array) -> Array:
    """Return how many decades of compute 6 N D lies beyond the runs, at each point; 0 inside."""
    with np.errstate(divide="ignore"):
        c = np.log10(FLOPS_PER_PARAM_TOKEN) + np.log10(params) + np.log10(tokens)
    known = np.log10(FLOPS_PER_PARAM_TOKEN * fit.runs.params * fit.runs.tokens)
    return np.asarray(np.maximum(0.0, np.maximum(c - known.max(), known.min() - c)))


def thin(n: int, most: int) -> Index:
    """Return at most `most` positions out of n, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def span(values: Array, margin: float = 0.06) -> tuple[float, float]:
    """Return the ends of a log axis that holds the values, with a margin in shares of its length."""
    low, high = float(np.log(np.min(values))), float(np.log(np.max(values)))
    pad = margin * max(high - low, 0.5)
    return float(np.exp(low - pad)), float(np.exp(high + pad))


def doubt(fit: ChinchillaFit) -> str:
    """Return why the fit is not to be taken at its word, in one line; empty where nothing is amiss."""
    if fit.verdict == "identified":
        return ""
    worst = "error" if fit.verdict == "not identified" else "warning"
    codes = [f.code for f in fit.diagnostics.identification if f.severity == worst]
    short = {code: _SHORT.get(code, code.replace("_", " ")) for code in codes}
    if "e_at_bound" in short and fit.law.E > 0:
        short["e_at_bound"] = f"E is at its bound 0 in {fit.diagnostics.e_zero_share:.0%} of the refits"
    reasons = ", ".join(short.values())
    head = "Not identified" if worst == "error" else "Weakly identified"
    return f"{head}: {reasons}"


def how(fit: ChinchillaFit, what: str) -> str:
    """Return what a band shows, or that there is none."""
    if not has_draws(fit):
        return "no bootstrap draws: no intervals"
    return f"{what}: {100 * fit.settings.level:g}% bootstrap interval"


def loss_label(fit: ChinchillaFit) -> str:
    """Return the axis label of losses with kind and unit."""
    kind = "" if fit.runs.loss_kind == "unstated" else f"{fit.runs.loss_kind} "
    unit = "unit not stated" if fit.runs.loss_unit == "unstated" else fit.runs.loss_unit
    return f"{kind}loss ({unit})"


def params_label(fit: ChinchillaFit) -> str:
    """Return the axis label of sizes with what they count."""
    kind = {"unstated": "", "total": "total "}.get(
        fit.runs.params_kind, f"{fit.runs.params_kind.replace('_', '-')} "
    )
    return f"{kind}parameters N"


def columns(names: Sequence[str], **values: Any) -> dict[str, Any]:
    """Return columns of one length: those given, broadcast, and ``nan`` for the rest of `names`."""
    given = {name: np.asarray(v) for name, v in values.items()}
    length = max((v.size for v in given.values() if v.ndim), default=1)
    return {name: np.broadcast_to(given.get(name, np.asarray(np.nan)), length) for name in names}
