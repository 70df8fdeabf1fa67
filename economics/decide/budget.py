"""The lowest loss for a sum of money, or within some hours: data, serving and deadlines included."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from economics.budget_solver import too_dear
from economics.decide.answer import lifetime, option_of, priced, server
from economics.decide.endless import flops_within, refuse_endless
from economics.decide.machines import (
    hours_quantile,
    quiet_cost,
    read_hours,
    read_quantile,
    read_settings,
    recompute_findings,
    same_machines,
    settled,
)
from economics.decide.repeated import NewData, Repeated, plain_or_repeated
from economics.decide.result import Option, PricedOptimum
from economics.decide.search import LARGEST, MOST_TOKENS, SMALLEST, Found, find
from economics.decide.serving import read_serving, served_tokens
from economics.decide.tasks import Within
from economics.run_estimates import dollars, duration, quantiles
from economics.run_inputs import MOST_GPUS
from economics.run_numbers import money, whole
from economics.run_result import RunCost
from economics.run_search import BudgetError, RunSearch
from scaling.errors import DataError, shown
from scaling.guard import Unidentified
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.optima.repetition import MUENNIGHOFF, Repetition
from scaling.optima.served import served_for_flops
from scaling.optima.subject import Subject, subject
from scaling.result import ChinchillaFit
from scaling.units import format_count


def best_for_budget(
    usd: float | str,
    fit: ChinchillaFit | ChinchillaLaw,
    *,
    served: float | str | None = None,
    serving: Mapping[str, Any] | None = None,
    unique_tokens: float | str | None = None,
    repetition: Repetition = MUENNIGHOFF,
    worth_share: float = 0.5,
    quantile: float | str = 0.5,
    level: float | None = None,
    unidentified: Unidentified = "raise",
    **settings: Any,
) -> PricedOptimum:
    """Return the run with the lowest loss for a sum of money.

    As `economics.solve_budget`, with an interval of the size itself, and for tokens that are served or scarce.

    Parameters
    ----------
    usd : float or str
        The money: for training, and for serving where `served` is given.
    fit : ChinchillaFit or ChinchillaLaw
    served : float or str, optional
        Tokens served over the life of the model.
    serving : mapping, optional
        Arguments of `inference_cost` for it; by default on the GPU of the training.
    unique_tokens : float or str, optional
        Distinct tokens there are: more are seen again, at the worth that `repetition` says.
    repetition, worth_share
        What a repetition is worth, and until when it pays: as in `scaling.optima.data_limited_optimal`.
    quantile : float or str
        Which quantile of the cost must equal the money: 0.9 is safe.
    level : float, optional
        Coverage of the intervals; the fit's own.
    unidentified : {"raise", "return"}
        What to do when the runs do not determine the answer.
    **settings
        Arguments of `cost`: gpu, n_gpus, market, price, mfu ...

    Returns
    -------
    PricedOptimum
        Intervals of N, D and loss are those of the optimum of each draw of law and cost.

    Raises
    ------
    BudgetError
        The money is gone before the first token.
    NotIdentifiedError
        As `ChinchillaFit.optimal`.
    DataError
        An argument cannot be.
    """
    limit = money("usd", _first("usd", usd))
    life = served_tokens(served)
    asked = _Asked(
        subject(fit, level, unidentified), read_quantile(quantile), life, read_serving(served, serving)
    )
    what = f"lowest loss for {dollars(limit)}"
    data = plain_or_repeated(unique_tokens, repetition, worth_share)
    return _within(asked, limit, "usd", what, read_settings(settings), data)


def best_by_deadline(
    hours: float | str,
    fit: ChinchillaFit | ChinchillaLaw,
    *,
    up_to: int | str | None = None,
    unique_tokens: float | str | None = None,
    repetition: Repetition = MUENNIGHOFF,
    worth_share: float = 0.5,
    quantile: float | str = 0.5,
    level: float | None = None,
    unidentified: Unidentified = "raise",
    **settings: Any,
) -> PricedOptimum:
    """Return the run with the lowest loss that ends within some hours.

    Parameters
    ----------
    hours : float or str
        From the start of the machines to the end ("24", "3 d"), waits included.
    fit : ChinchillaFit or ChinchillaLaw
    up_to : int, optional
        The most GPUs: 1, 2, 4, 8, 16 ... are tried. Instead of ``n_gpus`` among the settings.
    quantile : float or str
        Which quantile of the hours must equal the deadline: 0.9 is safe.
    unique_tokens, repetition, worth_share, level, unidentified, settings
        As in `best_for_budget`.

    Returns
    -------
    PricedOptimum
        With the cost; `options` has the numbers of GPUs that were tried.

    Raises
    ------
    BudgetError
        The time is gone before the first token.
    NotIdentifiedError, DataError
        As `best_for_budget`.
    """
    limit, given = read_hours(_first("hours", hours)), read_settings(settings)
    if (up_to is None) == (given.get("n_gpus") is None):
        raise DataError(
            "give n_gpus=... or up_to=..., one of them: the hours need a number of GPUs", column="n_gpus"
        )
    asked = _Asked(subject(fit, level, unidentified), read_quantile(quantile), 0.0, None)
    what = f"lowest loss within {duration(limit)}"
    data = plain_or_repeated(unique_tokens, repetition, worth_share)
    counts = (
        [whole("n_gpus", given["n_gpus"])]
        if up_to is None
        else _counts(whole("up_to", up_to, most=MOST_GPUS))
    )
    tried: list[tuple[float, int]] = []
    failures: list[tuple[str, str]] = []
    options: list[Option] = []
    for n in counts if len(counts) > 1 else []:
        try:
            _, run, task = _search(
                asked, limit, "hours", {**given, "n_gpus": n, "draws": 500}, None, drawn=False
            )
        except DataError as error:
            failures.append((f"{n} GPUs", str(error)))
            continue
        tried.append((float(task.loss(asked.s.law, run.plan.params, run.plan.tokens)), n))
        options.append(option_of(run, None, 0.0))
    if len(counts) > 1 and not tried:
        raise BudgetError(failures[0][1], column="hours")
    chosen = min(tried)[1] if tried else counts[0]
    order = sorted(range(len(options)), key=lambda i: tried[i])
    return _within(
        asked, limit, "hours", what, {**given, "n_gpus": chosen}, data,
        tuple(options[i] for i in order), tuple(failures),
    )  # fmt: skip


def _first(name: str, given: Any) -> Any:
    """Return the limit, which stands before the fit; the other way round it is refused by name."""
    if isinstance(given, ChinchillaFit | ChinchillaLaw):
        raise DataError(
            f"{name} comes first and fit second, got {shown(given)} for {name}: the two are swapped",
            column=name,
        )
    return given


@dataclass(frozen=True)
class _Asked:
    """What both questions share."""

    s: Subject
    quantile: float
    served: float
    serving: Mapping[str, Any] | None


def _counts(most: int) -> list[int]:
    out = [1]
    while 2 * out[-1] <= most:
        out.append(2 * out[-1])
    return out if out[-1] == most else [*out, most]


def _within(
    asked: _Asked,
    limit: float,
    of: str,
    what: str,
    settings: dict[str, Any],
    data: NewData,
    options: tuple[Option, ...] = (),
    failures: tuple[tuple[str, str], ...] = (),
) -> PricedOptimum:
    """Search, at every worth of a repetition that may be, and put the answer together."""
    given_settings, answers = settings, []
    for loss in data.losses:
        found, run, task = _search(asked, limit, of, settings, loss)
        chosen = {"n_gpus": run.plan.n_gpus, "act_ckpt": run.asked["act_ckpt"]}
        settings = {**settings, **chosen}  # the same for all of them
        answers.append((found, run, task))
    found, run, task = answers[0]
    if options:  # with all draws, so that the first line says what the answer says
        options = (option_of(run, None, 0.0), *options[1:])
    words = "".join(
        [
            f", {format_count(asked.served)} tokens served with it" if asked.served else "",
            f", {format_count(data.unique)} unique tokens" if data.unique else "",
        ]
    )
    given = {of: limit, "quantile": asked.quantile, "served": asked.served, "unique_tokens": data.unique}
    out = priced(
        asked.s, task, found, run, question=what + words, given=given,
        serving=server(run.plan.params, settings, asked.serving), served=asked.served, options=options,
        failures=failures, findings=recompute_findings(given_settings, run),
    )  # fmt: skip
    return data.spanned(asked.s, out, answers) if isinstance(data, Repeated) else out


def _search(
    asked: _Asked, limit: float, of: str, settings: dict[str, Any], loss: Any, *, drawn: bool = True
) -> tuple[Found, RunCost, Within]:
    s, q = asked.s, asked.quantile
    task = Within(s.law, limit, of, q, asked.served)
    if loss is not None:
        task = replace(task, loss=loss)
    flops = flops_within(
        limit, settings, (lambda r: r.usd.value) if of == "usd" else (lambda r: r.wall_hours.value)
    )
    guess = served_for_flops(s.law, flops, asked.served)
    size = min(max(guess.params, SMALLEST), LARGEST)
    counted = settled(settings, size, min(max(guess.tokens, 1.0), MOST_TOKENS))

    def near(n: float) -> float:
        return float(min(max(flops / (6.0 * n), 1e3), MOST_TOKENS))

    def refuse(run: RunCost, floor: float) -> BudgetError:
        if of == "usd":
            return too_dear(run, floor, limit)
        return BudgetError(
            f"starting {run.plan.n_gpus} x {run.plan.part.name} takes {duration(floor)}, all of {duration(limit)}: "
            "give more time, or overheads={'start_hours': ...}.",
            column="hours",
        )

    first = quiet_cost(counted, size, 1.0)
    floor = hours_quantile(first, q) if of == "hours" else first.usd_quantile(q)
    if floor >= limit:
        raise refuse(first, floor)
    found = find(s, task, counted, size, near, asked.serving, drawn=drawn)
    again = settled(settings, *found.best)
    if not same_machines(again, counted):
        counted = again
        found = find(s, task, counted, found.best.params, near, asked.serving, drawn=drawn)
    served = server(found.best.params, counted, asked.serving)

    def measure(run: RunCost) -> float:
        if of == "hours":
            return hours_quantile(run, q)
        return quantiles(np.atleast_1d(lifetime(run, served, asked.served)), (q,))[0]

    search = RunSearch(limit, measure, counted, refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are findings of the run
        run = search.run(found.best.params)
    refuse_endless(run, q, limit, of)
    return found, run, task
