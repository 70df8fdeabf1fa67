"""The best model that a sum of money buys: the (N, D) with the lowest predicted loss whose cost is the budget."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.budget_law import law_findings, require_optimum
from economics.budget_plan import BudgetPlan
from economics.run_cost import cost
from economics.run_estimates import LEVEL, dollars, quantiles
from economics.run_numbers import money, positive, share
from economics.run_result import RunCost
from economics.run_search import BudgetError as BudgetError, RunSearch
from scaling.errors import DataError, shown
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.guard import Unidentified, check_unidentified
from scaling.intervals import check_level

if TYPE_CHECKING:
    from scaling.laws.chinchilla import ChinchillaLaw
    from scaling.result import ChinchillaFit


def solve_budget(
    usd: float | str,
    *,
    fit: ChinchillaFit | None = None,
    law: ChinchillaLaw | None = None,
    N: float | str | None = None,
    quantile: float | str = 0.5,
    level: float | None = None,
    unidentified: Unidentified = "raise",
    **settings: Any,
) -> BudgetPlan:
    """Return the run with the lowest predicted loss that a sum of money buys.

    Parameters
    ----------
    usd : float or str
        The money ("1M", "$50").
    fit : ChinchillaFit, optional
        Fitted law: its draws give the interval of the loss.
    law : ChinchillaLaw, optional
        A law instead; with arrays as coefficients it brings draws as well.
    N : float or str, optional
        Parameters, if they are decided; the law is then needed for the loss alone.
    quantile : float or str
        Which quantile of the cost must equal the money: 0.5 is as likely over as under, 0.9 is safe.
    level : float, optional
        Of the loss interval; the fit's own.
    unidentified : {"raise", "return"}
        What to do when the runs behind `fit` do not determine the best size.
    **settings
        Arguments of `cost`: gpu, n_gpus, market, price, mfu, arch, overheads ... With n_gpus given, the number
        stays; without, the run ends in about a month.

    Returns
    -------
    BudgetPlan
        ``cost(N=plan.params, D=plan.tokens, n_gpus=plan.cost.plan.n_gpus, **settings)`` costs `usd` again.

    Raises
    ------
    BudgetError
        The money does not even start the machines.
    NotIdentifiedError
        N is open and the runs behind `fit` do not determine it.
    DataError
        Neither N nor a law is given, or an argument cannot be.

    Examples
    --------
    What does $1M buy for a 7B model?

    >>> from scaling.published import published
    >>> law = published("Hoffmann Approach 3 (unrounded)").law
    >>> plan = solve_budget("1M", law=law, N="7B", gpu="H100 SXM", n_gpus=512, as_of="2026-10-10")
    >>> 3e12 < plan.tokens < 7e12, round(plan.usd.value)
    (True, 1000000)

    And if the size is open:

    >>> best = solve_budget("1M", law=law, gpu="H100 SXM", n_gpus=512, as_of="2026-10-10")
    >>> best.params > 7e9 and best.loss.value < plan.loss.value
    True
    """
    limit = money("usd", usd)
    if not 0.0 < (quantile := share("quantile", quantile)) < 1.0:
        raise DataError(f"quantile must lie between 0 and 1, got {shown(quantile)}", column="quantile")
    level = None if level is None else check_level(level)
    check_unidentified(unidentified)
    if fit is not None and law is not None:
        raise DataError("fit and law contradict each other: give one of them", column="law")
    for name, given, such in (
        ("law", law, "a law such as published('Hoffmann Approach 3').law"),
        ("fit", fit, "what fit_chinchilla returns"),
    ):
        if given is not None and not callable(getattr(given, "loss" if name == "law" else "predict", None)):
            raise DataError(f"{name} must be {such}, got {shown(given)}", column=name)
    for name in sorted(set(settings) - (set(inspect.signature(cost).parameters) - {"D"})):
        found = name in ("D", "tokens")
        why = (
            "is what solve_budget finds: leave it out, or use cost()" if found else "is no setting of cost()"
        )
        raise DataError(f"{name} {why}", column=name)
    predict = fit.law if fit is not None else law
    known = N if N is not None else settings.get("arch")
    if known is None and predict is None:
        raise DataError("give N, or a fit or law to choose it by", column="N")
    search = RunSearch(
        limit,
        lambda run: run.usd_quantile(quantile),
        settings,
        lambda run, floor: too_dear(run, floor, limit),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are findings of the cost
        if known is not None:
            best = search.run(None if N is None else positive("N", N, "parameters, such as 7e9 or '7B'"))
            span = None
        else:
            assert predict is not None
            loss = _loss_of(predict)
            best = search.best(loss)
            if fit is not None and unidentified == "raise":
                require_optimum(fit, best)
            span = search.span(loss, best)
        start = search.start_of(best)
    affordable, nothing = _affordable(best, start, limit)
    findings = _findings(best, predict, fit, nothing, chosen=settings.get("n_gpus") is None)
    mean, single = _losses(fit, law, best, level)
    return BudgetPlan(
        limit, quantile, best.plan.params, best.plan.tokens, affordable, mean, single, span, best, findings
    )


def _loss_of(law: ChinchillaLaw) -> Callable[[RunCost], float]:
    return lambda run: float(np.median(law.loss(run.plan.params, run.plan.tokens)))


def too_dear(run: RunCost, floor: float, money: float) -> BudgetError:
    """Say that the money is gone, `floor` dollars of it, before the first token."""
    return BudgetError(
        f"{dollars(money)} do not buy a run on {run.plan.n_gpus} x {run.plan.part.name}: starting the "
        f"machines, storage and the rest take {dollars(floor)} before the first token. Use fewer GPUs, or less "
        f"of them: {', '.join(k for k, s in run.shares.items() if s > 0.1)}.",
        needed_usd=floor,
    )


def _affordable(run: RunCost, start: RunCost, money: float) -> tuple[Estimate, float]:
    """Tokens for the money, draw by draw, and the share of the draws in which it is gone before the first one.

    `start` is the same run on one token: what is left of the money after it buys tokens at one price each.
    """
    fixed, spent = start.outcome.total_usd, run.outcome.total_usd
    each = np.maximum(spent - fixed, 1e-300) / (run.plan.tokens - start.plan.tokens)
    tokens = np.maximum(money - fixed, 0.0) / each
    low, middle, high = quantiles(tokens, ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    return Estimate(middle, low, high, LEVEL, "median", "D", "tokens"), float(np.mean(tokens == 0.0))


def _losses(
    fit: ChinchillaFit | None, law: ChinchillaLaw | None, run: RunCost, level: float | None
) -> tuple[Estimate | None, Estimate | None]:
    n, d = run.plan.params, run.plan.tokens
    if fit is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the distance to the runs is a finding
            answer = fit.predict(n, d, level=level)
        return answer.mean, answer.prediction
    if law is None:
        return None, None
    draws = np.atleast_1d(np.asarray(law.loss(n, d), dtype=np.float64))
    if draws.size == 1:
        return Estimate(float(draws[0]), math.nan, math.nan, 0.95, "optimum", "loss of the law"), None
    share = 0.95 if level is None else level
    low, middle, high = quantiles(draws, ((1 - share) / 2, 0.5, (1 + share) / 2))
    return Estimate(middle, low, high, share, "median", "loss of the law"), None


def _findings(
    run: RunCost, law: ChinchillaLaw | None, fit: ChinchillaFit | None, nothing: float, *, chosen: bool
) -> tuple[Finding, ...]:
    found = [f for f in run.findings if f.severity != "info"]
    if nothing > 0.05:
        words = (
            f"in {nothing:.0%} of the draws the money is gone before the first token: starting {run.plan.n_gpus} GPUs "
            "takes it. Use fewer of them."
        )
        found.append(Finding("budget_may_buy_nothing", "warning", words, {"share": nothing}))
    if chosen:
        words = f"{run.plan.n_gpus} GPUs were chosen, so that the run ends in about a month: give n_gpus."
        found.append(Finding("n_gpus_chosen", "info", words, {"n_gpus": run.plan.n_gpus}))
    found += law_findings(run, law, fit)
    return tuple(found)
