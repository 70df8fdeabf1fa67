"""Runs that save nothing, or seldom, where machines are taken away: where to begin, and which of them never end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from economics.decide.machines import hours_quantile, quiet_cost
from economics.run_estimates import dollars, duration
from economics.run_result import RunCost
from economics.run_search import BudgetError
from scaling.errors import DataError

#: Interruptions expected between two saves from which on a cost grows visibly faster than its tokens; the best
#: interval between saves has fewer.
_MANY = 0.3
#: A run of which one case in ten takes so many times what there is does not end, as people say it.
_ENDLESS = 10.0
#: More dollars or hours than this are never spent.
_NEVER = 1e15
#: Compute of the smallest run a search begins with; halvings of the way to it; tokens per parameter there.
_LEAST, _HALVINGS, _RATIO = 1e12, 30, 20.0


def unsaved(run: RunCost) -> bool:
    """Whether work is lost in so large pieces that a run of twice the tokens takes more than twice the money.

    With the best interval between saves it never is: a run of many of them takes so much for each.
    """
    plan, asked = run.plan, run.asked["checkpoint_every"]
    if isinstance(asked, str) and asked == "optimal":
        return False
    every = math.inf if plan.interval is None else plan.interval
    return plan.interrupted and (plan.preempted + plan.faults) * every > _MANY


def flops_within(limit: float, settings: Mapping[str, Any], of: Callable[[RunCost], float]) -> float:
    """Return about what compute a limit of what `of` measures buys: where a search begins.

    From a run of middling size, in proportion; where such a run would never end, the most compute of a run on 20
    tokens a parameter that stays within the limit.
    """
    given = dict(settings) if settings.get("n_gpus") is not None else {**settings, "n_gpus": 8}
    run = quiet_cost(given, 1e9, 1e12)
    if not unsaved(run):
        return limit * 6e21 / of(run)
    saved = quiet_cost({**given, "checkpoint_every": "optimal"}, 1e9, 1e12)
    low, high = math.log(_LEAST), math.log(max(limit * 6e21 / of(saved), 2 * _LEAST))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        n = math.sqrt(math.exp(middle) / (6.0 * _RATIO))
        low, high = (middle, high) if of(quiet_cost(given, n, _RATIO * n)) <= limit else (low, middle)
    return math.exp(low)


def refuse_unsaved(run: RunCost, hours: float) -> None:
    """Refuse a run that is reckoned by the price of its tokens where they have none.

    Parameters
    ----------
    run : RunCost
        On the machines meant.
    hours : float
        What the longest of its runs takes.

    Raises
    ------
    DataError
        It saves nothing, or too seldom, for a run so long.
    """
    rate = run.plan.preempted + run.plan.faults
    if unsaved(run) and rate * hours > _MANY:
        raise DataError(
            f"a machine is lost every {duration(1.0 / rate)}, and a run of {duration(hours)} without saves on the way "
            "costs more for each token the longer it is: this is reckoned by what a token costs. Give "
            "checkpoint_every='optimal', or how often it saves.",
            column="checkpoint_every",
        )


def refuse_endless(run: RunCost, quantile: float, limit: float, of: str) -> None:
    """Refuse a run that meets a limit as often as was asked for, and otherwise goes on and on.

    Parameters
    ----------
    run : RunCost
    quantile : float
        Which quantile of the run meets the limit; from 0.9 on nothing is refused.
    limit : float
    of : {"usd", "hours"}
        What is limited.

    Raises
    ------
    BudgetError
        It saves too seldom, and in one case of ten takes more than ten times the limit.
    """
    plan, often = run.plan, max(quantile, 0.9)
    if not unsaved(run):
        return
    took = run.usd_quantile(often) if of == "usd" else hours_quantile(run, often)
    if took <= _ENDLESS * limit:
        return
    write = dollars if of == "usd" else duration
    up = 1.0 / (plan.preempted + plan.faults)
    saves = (
        "nothing is saved on the way"
        if plan.interval is None
        else f"saves are {duration(plan.interval)} apart"
    )
    more = f"takes {write(took)}" if took < _NEVER else "never does"
    others = ", market='on-demand'" if plan.preempted else ""
    others += ", n_gpus=8" if plan.n_gpus < 8 else ""
    raise BudgetError(
        f"the best run for {write(limit)} on {plan.n_gpus} x {plan.part.name} does not end: a machine is lost "
        f"every {duration(up)} and {saves}, so that in one case of ten it {more}. Give checkpoint_every='optimal'"
        f"{others}, quantile=0.9, or less {'money' if of == 'usd' else 'time'}.",
        column="checkpoint_every",
    )  # fmt: skip
