"""`plan`: what the runs say, what the money buys, what may go wrong, which runs to make next, put together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from economics.decide import PricedOptimum, best_for_budget
from economics.decide.machines import holds
from economics.next_runs.known import published_prior, read_reading
from economics.proposal.basis import Basis, asked, read_basis, statements
from economics.proposal.choosing import eligible, given_for_all, no_machine, same_kind
from economics.proposal.learning import learn
from economics.proposal.offer import Offer, front
from economics.proposal.others import alternatives
from economics.proposal.question import FACTORS, SPLITS, Question, read_question
from economics.proposal.result import Proposal, Safe, Step
from economics.proposal.risk import bars, cap_of, spot_of
from economics.proposal.weighing import share_better, share_cheaper
from economics.proposal.words import unknown_costs
from economics.proposal.yard import Yard
from scaling.errors import NotIdentifiedError, ScalingError
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.targets import Target

if TYPE_CHECKING:
    from economics.hardware import GPU
    from scaling.result import ChinchillaFit

#: Sizes about one on 20 times its tokens for which it is told what the money buys where no law is known.
_SIZES = (0.25, 0.5, 1.0, 2.0, 4.0)


def plan(
    runs: Any = None,
    budget: float | str = 50.0,
    *,
    gpu: GPU | str | Sequence[GPU | str] | None = None,
    markets: str | Sequence[str] | None = None,
    target: Target = "tokens@1B",
    deadline_hours: float | str | None = None,
    serve_tokens: float | str | None = None,
    serving: Mapping[str, Any] | None = None,
    unique_tokens: float | str | None = None,
    loss: float | None = None,
    quantile: float | str = 0.5,
    risk: float | str = 0.1,
    level: float | None = None,
    factors: Sequence[float] = FACTORS,
    splits: Sequence[float] = SPLITS,
    prior: str | ChinchillaLaw | None = None,
    vocab: int | str | None = None,
    sizes: Any = None,
    token_counts: Any = None,
    reading: dict[str, Any] | None = None,
    **settings: Any,
) -> Proposal:
    """Return what to do with a sum of money: what a team would bring to a meeting.

    Parameters
    ----------
    runs : path, DataFrame, RunTable, ChinchillaFit or None
        Runs at hand, or their fit; None where there are none yet.
    budget : float or str
        Dollars ("50", "$1.5k"): the cap.
    gpu : str, GPU or sequence of them, optional
        Kinds of accelerator to choose from; all that the price book prices, if none is named.
    markets : str or sequence of str, optional
        Markets to choose from; on-demand and spot, if none is named; "all" takes every one.
    target : str or callable
        What next runs are to narrow, as in `economics.suggest`.
    deadline_hours : float or str, optional
        The run has to end within them ("36", "3 d").
    serve_tokens, serving : float, mapping, optional
        Tokens served over the life of the model, and arguments of `economics.inference_cost`: gives the run that
        reaches the same loss for the least over its life, beside the recommended one.
    unique_tokens : float or str, optional
        Distinct tokens there are: gives the best run that sees them again.
    loss : float, optional
        A loss that is wanted: gives the cheapest run that reaches it.
    quantile : float or str
        Which quantile of the cost equals the budget for the recommended run.
    risk : float or str
        Probability of breaking the cap that the safe run may have.
    level : float, optional
        Coverage of the intervals of losses and sizes; the fit's own.
    factors : sequence of float
        Multiples of the budget in the table of money against loss.
    splits : sequence of float
        Shares of the budget that are weighed as spent on next runs first.
    prior : str or ChinchillaLaw, optional
        A published law ("hoffmann2022", or a name of `scaling.published.names`) to be asked as such. It never moves
        the recommendation; where the runs determine no law, next runs are planned with it.
    vocab, sizes, token_counts : optional
        Where next runs are looked for, as in `economics.suggest`.
    reading : dict, optional
        Arguments of `scaling.load_runs`.
    **settings
        Arguments of `economics.cost`: n_gpus, mfu, provider, price, as_of, overheads ...

    Returns
    -------
    Proposal
        ``str()`` is one block, ``save(path)`` writes a page and every number of it.

    Raises
    ------
    BudgetError
        The money is gone before the first token on every kind of machine.
    NoMachineError
        No kind of machine has an answer for another reason.
    DataError
        An argument cannot be, or the table cannot be read. UnknownGPU is one.

    Examples
    --------
    >>> from economics import plan
    >>> from scaling import datasets
    >>> sweep = datasets.builtin("cpu_sweep")  # does not identify a law
    >>> page = plan(sweep, "$50", gpu="A100 SXM 80GB", markets="on-demand", as_of="2026-10-10", splits=[0.5])
    >>> page.usable, page.best is None, page.learning.suggested.runs.usd.value <= 50.5
    (False, True, True)
    """
    q = read_question(
        budget, gpu, markets, target=target, deadline_hours=deadline_hours, serve_tokens=serve_tokens,
        serving=serving, unique_tokens=unique_tokens, loss=loss, quantile=quantile, risk=risk, level=level,
        factors=factors, splits=splits, prior=prior, settings=settings,
        search={"vocab": vocab, "sizes": sizes, "token_counts": token_counts},
    )  # fmt: skip
    law, name = (None, "") if prior is None else published_prior(prior)
    basis = read_basis(runs, read_reading(reading))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are findings and statements of the proposal
        if basis.usable:
            assert basis.fit is not None
            made = _recommend(q, basis, basis.fit)
            if isinstance(made, Proposal):
                return made if law is None else _with_published(made, law, name)
            basis = made
        return _refuse(q, basis, law, name)


def _recommend(q: Question, basis: Basis, fit: ChinchillaFit) -> Proposal | Basis:
    """Return the proposal; or, where the runs do not determine the best run after all, the basis that says so."""
    yard = Yard(q.machines, fit.law, q.hours)
    offers, failures = yard.offers(q.usd, q.quantile)
    may, unmeasured = eligible(q, offers, failures)
    best = None
    for place, machine in enumerate(may):
        how = dict(machine.settings)
        try:
            best = best_for_budget(
                q.usd,
                fit,
                quantile=q.quantile,
                level=q.level,
                **{**how, "act_ckpt": q.settings.get("act_ckpt")},
            )
        except NotIdentifiedError as error:
            return Basis(basis.runs, fit, str(error).split(" (unidentified=")[0])
        assert best.cost is not None
        if holds(best.cost):
            may = may[place:]
            break
        failures.append((machine.machine, "the best size does not quite fit into its memory"))
    else:
        raise no_machine(q, failures)
    assert best is not None and best.cost is not None
    machine = replace(
        machine, params=best.params.value, tokens=best.tokens.value, loss=best.loss.value, cost=best.cost
    )
    offers = [machine if o is may[0] else o for o in offers]
    may = [machine, *may[1:]]
    kinds = [m for m in q.machines if any(same_kind(m, o) for o in may)]
    cap = cap_of(best.cost, q.usd, q.hours)
    safe = _safe(q, yard, fit, best, kinds)
    known, unknown = statements(basis, best.params.value)
    costs = {"recommended": best.cost}
    if safe is not None and safe.answer.cost is not None:
        costs["safe"] = safe.answer.cost
    runner_up = may[1] if len(may) > 1 else None
    return Proposal(
        q, basis, best, machine, tuple(offers), tuple(failures), runner_up,
        None if runner_up is None else share_better(yard, machine, runner_up, q.usd), unmeasured,
        _steps(q, yard, fit, kinds, offers), cap, safe, _spot(best, may), learn(q, basis, how, yard, machine),
        alternatives(q, fit, best, how), None, "", (), asked(basis, q.goal), tuple(known),
        (*unknown, *unknown_costs(best.findings)), bars(costs, q.usd),
        (*best.findings, *given_for_all(q)),
    )  # fmt: skip


def _refuse(q: Question, basis: Basis, law: ChinchillaLaw | None, name: str) -> Proposal:
    """Return the proposal that recommends no run: next runs first, and what the money buys whatever the law."""
    yard = Yard(q.machines, None, q.hours)
    size = yard.middle(q.usd)
    offers: list[Offer] = []
    failures: list[tuple[str, str]] = []
    for kind in q.machines:
        try:
            offers.append(yard.plain(kind, q.usd, q.quantile, size))
        except ScalingError as error:
            failures.append((f"{getattr(kind['gpu'], 'name', kind['gpu'])}, {kind['market']}", str(error)))
    offers.sort(key=lambda o: -o.tokens)
    may, unmeasured = eligible(q, offers, failures)
    machine, runner_up = may[0], may[1] if len(may) > 1 else None
    how = dict(machine.settings)
    buys = []
    for factor in _SIZES:
        try:
            buys.append((factor * size, yard.plain(how, q.usd, q.quantile, factor * size).tokens))
        except ScalingError:  # a size that the machine does not hold
            continue
    known, unknown = statements(basis, size)
    made = Proposal(
        q, basis, None, machine, tuple(offers), tuple(failures), runner_up,
        None if runner_up is None else share_cheaper(machine, runner_up), unmeasured, (), None, None, None,
        learn(q, basis, {**how, "n_gpus": q.settings.get("n_gpus")}, None, None), (), None, "", tuple(buys), None,
        tuple(known), (*unknown, *unknown_costs(machine.cost.findings)), {}, given_for_all(q),
    )  # fmt: skip
    return made if law is None else _with_published(made, law, name)


def _with_published(p: Proposal, law: ChinchillaLaw, name: str) -> Proposal:
    """Return the proposal with what a published law says as such, on the same machines."""
    how = {k: v for k, v in p.machine.settings.items() if k != "act_ckpt"}
    q = p.question
    return replace(p, published=best_for_budget(q.usd, law, quantile=q.quantile, **how), published_name=name)


def _safe(
    q: Question, yard: Yard, fit: ChinchillaFit, best: PricedOptimum, kinds: Sequence[dict[str, Any]]
) -> Safe | None:
    """Return the best run that breaks the cap with no more than the risk allowed, over all kinds of machine."""
    offers, _ = yard.offers(q.usd, 1.0 - q.risk, kinds)
    for offer in offers:
        answer = best_for_budget(
            q.usd, fit, quantile=1.0 - q.risk, level=q.level, unidentified="return", **dict(offer.settings)
        )
        assert answer.cost is not None
        if not holds(answer.cost):
            continue
        return Safe(answer, cap_of(answer.cost, q.usd, q.hours), answer.loss.value - best.loss.value)
    return None


def _steps(
    q: Question, yard: Yard, fit: ChinchillaFit, kinds: Sequence[dict[str, Any]], at_hand: Sequence[Offer]
) -> tuple[Step, ...]:
    """Return what nothing beats in dollars and loss, over the kinds that may be recommended and several sums."""
    every: list[Offer] = []
    for factor in q.factors:
        if factor == 1.0:
            every += [o for o in at_hand if any(same_kind(m, o) for m in kinds)]
        else:
            every += yard.offers(factor * q.usd, q.quantile, kinds)[0]
    out = []
    for i in front([(o.budget_usd, o.loss) for o in every]):
        answer = fit.predict(every[i].params, every[i].tokens, level=q.level)
        out.append(Step(every[i], answer.mean, answer.prediction, answer.decades_outside))
    return tuple(sorted(out, key=lambda s: s.offer.budget_usd))


def _spot(best: PricedOptimum, may: Sequence[Offer]) -> Any:
    """Return what being taken away does: of the recommended run, else of the best offer on spot machines."""
    assert best.cost is not None
    own = spot_of(best.cost, recommended=True)
    if own is not None:
        return own
    spot = next((o for o in may if o.cost.plan.preempted), None)
    return None if spot is None else spot_of(spot.cost, recommended=False)
