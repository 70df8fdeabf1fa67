"""The fewest dollars for a loss: over sizes, accelerators and markets, with what serving costs if asked."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.decide.answer import option_of, priced, server
from economics.decide.endless import refuse_endless
from economics.decide.machines import (
    gpus_needed,
    holds,
    hours_quantile,
    offers,
    quiet_cost,
    read_hours,
    read_quantile,
    read_settings,
    recompute_findings,
    same_machines,
    settled,
)
from economics.decide.result import Option, PricedOptimum
from economics.decide.search import Found, find
from economics.decide.serving import read_serving, served_tokens
from economics.decide.tasks import Reaching
from economics.errors import EconomicsError
from economics.run_estimates import duration
from economics.run_result import RunCost
from scaling.errors import DataError, ScalingError
from scaling.guard import Unidentified
from scaling.optima.overtrained import tokens_for
from scaling.optima.served import read_run, served_at_loss, wanted_loss
from scaling.optima.subject import RunPoint, Subject, shape_of, subject
from scaling.optima.target import LossGoal, decided
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.hardware import GPU
    from scaling.laws.chinchilla import ChinchillaLaw
    from scaling.result import ChinchillaFit

#: Parameters of less than any model.
_NO_MODEL = 1e4
#: Draws with which kinds of machine are compared before the best of them is looked at closely.
_FEW = 500


class NoMachineError(EconomicsError, DataError):
    """No kind of machine has an answer; `failures` says why of each."""

    def __init__(self, message: str, failures: Sequence[tuple[str, str]]) -> None:
        super().__init__(message, column="gpu")
        self.failures = tuple(failures)


def cheapest_for_loss(
    fit: ChinchillaFit | ChinchillaLaw,
    loss: float | None = None,
    *,
    like: tuple[float | str, float | str] | None = None,
    probability: float = 0.5,
    of: str = "run",
    served: float | str | None = None,
    serving: Mapping[str, Any] | None = None,
    gpus: Sequence[GPU | str] | GPU | str | None = None,
    markets: Sequence[str] | str | None = None,
    hours: float | str | None = None,
    quantile: float | str = 0.5,
    level: float | None = None,
    unidentified: Unidentified = "raise",
    **settings: Any,
) -> PricedOptimum:
    """Return the run, and the machines, that reach a loss for the fewest dollars.

    Parameters
    ----------
    fit : ChinchillaFit or ChinchillaLaw
    loss : float, optional
        Loss to reach.
    like : (params, tokens), optional
        A run whose loss is to be reached, instead.
    probability, of
        How surely, as in `scaling.optima.cheapest_for_loss`.
    served : float or str, optional
        Tokens served over the life of the model: their dollars then count as well, and the best model is smaller.
    serving : mapping, optional
        Arguments of `inference_cost` for it; by default on the GPU of the training.
    gpus, markets : sequence of str, optional
        Kinds of machine to compare; ``"all"`` for those that the price book has prices of. By default the one GPU
        and market among the settings.
    hours : float or str, optional
        The run has to end within them: as many GPUs as that takes, or kinds of machine left out.
    quantile : float or str
        Which quantile of the dollars is made small, and of the hours kept within `hours`.
    level : float, optional
        Coverage of the intervals; the fit's own.
    unidentified : {"raise", "return"}
        What to do when the runs do not determine the answer.
    **settings
        Arguments of `cost`: gpu, n_gpus, market, price, mfu ...

    Returns
    -------
    PricedOptimum
        ``options`` has every kind of machine with its own best run, cheapest first, and ``failures`` those without.

    Raises
    ------
    NoMachineError
        No kind of machine has an answer.
    NotIdentifiedError
        As `ChinchillaFit.optimal`; or no run reaches the loss.
    DataError
        An argument cannot be.
    """
    s, given = subject(fit, level, unidentified), read_settings(settings, gpu=gpus is None)
    if (loss is None) == (like is None):
        raise DataError("give loss, or like=(params, tokens), whose loss to reach", column="loss")
    life, q = served_tokens(served), read_quantile(quantile)
    goal, words = wanted_loss(s, loss, like)
    if like is not None and not (isinstance(probability, int | float) and probability == 0.5):
        raise DataError("probability is of a loss that is given: give loss", column="probability")
    asked = _Asked(
        s, goal, LossGoal(s, goal[0], probability, of), q, life, read_serving(served, serving),
        None if hours is None else read_hours(hours), like, given,
    )  # fmt: skip
    machines, failures, options = offers(gpus, markets, given), [], []
    for machine in machines if len(machines) > 1 else []:
        name = f"{getattr(machine['gpu'], 'name', machine['gpu'])}, {machine['market']}"
        try:
            _, run, counted = _search(asked, {**machine, "draws": _FEW}, drawn=False)
            option = option_of(run, server(run.plan.params, counted, asked.serving), life)
        except ScalingError as error:
            failures.append((name, str(error)))
            continue
        if why := _unfit(asked, run):
            failures.append((name, why))
        else:
            options.append((option, {**machine, "n_gpus": counted["n_gpus"]}))
    if len(machines) > 1 and not options:
        seen = "; ".join(dict.fromkeys(f"{name}: {why}" for name, why in failures))
        raise NoMachineError(f"no kind of machine reaches {words}: {seen}", failures)
    options.sort(key=lambda pair: pair[0].lifetime_usd.value)
    found, run, chosen = _search(asked, options[0][1] if options else machines[0])
    if options:  # with all draws, so that the first line says what the answer says
        best = option_of(run, server(run.plan.params, chosen, asked.serving), life)
        options[0] = (best, chosen)
    if not options and (why := _unfit(asked, run)):
        raise NoMachineError(f"{run.plan.part.name}: {why}", [(run.plan.part.name, why)])
    return _answer(asked, found, run, chosen, words, tuple(o for o, _ in options), tuple(failures))


@dataclass(frozen=True)
class _Asked:
    """The question."""

    s: Subject
    goal: tuple[Any, Any]
    sure: LossGoal
    quantile: float
    served: float
    serving: Mapping[str, Any] | None
    hours: float | None
    like: Any
    settings: Mapping[str, Any]

    @property
    def plain(self) -> bool:
        """Whether the law itself is asked, and not a run that is to stay below with some probability."""
        return self.sure.probability == 0.5

    def task(self) -> Reaching:
        """Return the question as a search takes it."""
        if self.like is None:
            goal = self.goal[0]
            return Reaching(
                self.s.law,
                None if self.plain else self.sure.tokens,
                lambda law: goal,
                self.quantile,
                self.served,
            )
        n, d = read_run(self.like)
        return Reaching(self.s.law, None, lambda law: law.loss(n, d), self.quantile, self.served)

    def tokens(self, params: float) -> float:
        """Return the tokens of the answer at a size."""
        return float(tokens_for(self.s.law, params, self.goal[0]) if self.plain else self.sure.tokens(params))


def _search(
    asked: _Asked, settings: dict[str, Any], *, drawn: bool = True
) -> tuple[Found, RunCost, dict[str, Any]]:
    """Return the best run on one kind of machine, and the settings with the number of GPUs."""
    s = asked.s
    guess = served_at_loss(s.law, asked.goal[0], asked.served)
    if not guess.params >= _NO_MODEL:
        raise DataError(
            f"a loss of {asked.goal[0]:g} takes hardly a model ({guess.params:.2g} parameters): ask for a lower one",
            column="loss",
        )

    def near(n: float) -> float:
        d = float(tokens_for(s.law, n, asked.goal[0]))
        return float(min(d, 1e3 * guess.tokens))

    counted = settled(settings, guess.params, guess.tokens)
    found = find(s, asked.task(), counted, guess.params, near, asked.serving, drawn=drawn)
    n = found.best.params
    d = asked.tokens(n)
    again = settled(settings, n, d)
    if settings.get("n_gpus") is None and asked.hours is not None:
        again["n_gpus"] = _enough(asked, again, n, d)
    if not same_machines(again, counted):
        counted = again
        found = find(s, asked.task(), counted, n, near, asked.serving, drawn=drawn)
        n = found.best.params
        d = asked.tokens(n)
    run = quiet_cost(counted, n, d)
    refuse_endless(run, asked.quantile, run.usd_quantile(asked.quantile), "usd")
    return found, run, counted


def _enough(asked: _Asked, settings: dict[str, Any], n: float, d: float) -> int:
    """Return the GPUs that a deadline takes."""
    assert asked.hours is not None
    rest = {k: v for k, v in settings.items() if k != "n_gpus"}
    # A little less than the time there is: the size moves with the number of GPUs.
    return gpus_needed(n, d, 0.97 * asked.hours, quantile=asked.quantile, **rest).plan.n_gpus


def _unfit(asked: _Asked, run: RunCost) -> str:
    """Say why a run cannot be made on its machines; empty where it can."""
    if not holds(run):
        return f"{format_count(run.plan.params)} parameters do not fit into {run.plan.n_gpus} of them"
    if asked.hours is not None and (took := hours_quantile(run, asked.quantile)) > asked.hours:
        return f"takes {duration(took)} on {run.plan.n_gpus} of them"
    return ""


def _answer(
    asked: _Asked,
    found: Found,
    run: RunCost,
    settings: dict[str, Any],
    words: str,
    options: tuple[Option, ...],
    failures: tuple[tuple[str, str], ...],
) -> PricedOptimum:
    s, task, sure = asked.s, asked.task(), asked.sure
    best = RunPoint(run.plan.params, run.plan.tokens)
    reached = float(asked.goal[0] if asked.plain else task.loss(s.law, *best))
    with warnings.catch_warnings():
        if not asked.plain:
            warnings.simplefilter("ignore")
        made = shape_of(s, best, found.drawn, (reached, _losses(asked, found)))
    if not asked.plain:  # a decision: what was drawn is what would do if the law were known
        at = s.draws.loss(*best) if s.has_draws else np.zeros(0)
        made = replace(decided(made), loss=s.estimate(at, made.loss.value, "loss", s.loss_unit))
        words += f" with a probability of {sure.probability:g}"
    if asked.served:
        words += f", {format_count(asked.served)} tokens served"
    given = {
        "loss": asked.goal[0], "like": None if asked.like is None else list(map(str, asked.like)),
        "probability": sure.probability, "of": sure.of, "served": asked.served, "hours": asked.hours,
    }  # fmt: skip
    return priced(
        s, task, found, run, question=f"fewest dollars for {words}", given=given, made=made, options=options,
        serving=server(best.params, settings, asked.serving), served=asked.served, failures=failures,
        findings=recompute_findings(asked.settings, run),
    )  # fmt: skip


def _losses(asked: _Asked, found: Found) -> Any:
    """Return the loss that each draw reaches: the wanted one."""
    wanted = np.asarray(asked.goal[1])
    return wanted[found.law_draws] if wanted.size else wanted
