"""Which runs to make next: the set that shrinks an uncertainty most for the money, or enough for the least."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.decide.endless import refuse_unsaved
from economics.next_runs.bill import OTHER_RHO, Bill, Errors
from economics.next_runs.findings import findings
from economics.next_runs.goal import read_goal
from economics.next_runs.grid import MOST_VOCAB, Pool, make_pool, plain_grids, read_range
from economics.next_runs.known import gather, read_reading
from economics.next_runs.result import NextRun, NextRuns, PlainGrid
from economics.run_cost import cost
from economics.run_estimates import estimate_of
from economics.run_numbers import hours, money, share, whole
from economics.token_cost import start_cost
from scaling.design import Chosen, Search, moments
from scaling.errors import DataError
from scaling.intervals import check_level
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.targets import Target

if TYPE_CHECKING:
    pass

#: GPT-2's vocabulary.
VOCAB = 50257
#: Times that a precision, or a budget, is aimed at a little more closely.
_TRIES = 5
#: By how much runs that hardly tell anything may widen the interval together: they are left out.
SPARED = 0.01


def suggest(
    runs: Any = None,
    budget: float | str | None = None,
    *,
    target: Target = "tokens@1B",
    precision: float | str | None = None,
    sigma: float | str | None = None,
    rho: float | str | None = None,
    prior: str | ChinchillaLaw | None = None,
    sizes: Any = None,
    token_counts: Any = None,
    vocab: int | str = VOCAB,
    trunks: int | str = 2,
    max_hours: float | str | None = None,
    quantile: float | str | None = None,
    level: float = 0.95,
    n_laws: int = 16,
    seed: int = 0,
    reading: dict[str, Any] | None = None,
    **settings: Any,
) -> NextRuns:
    """Return the runs that determine a quantity best for a budget, or well enough for the least money.

    Parameters
    ----------
    runs : path, DataFrame, RunTable, ChinchillaFit or None
        Runs at hand. If they identify no law, a published one says what they leave open, and the answer says so;
        None plans the first runs. They count with what they tell; trunks among them are not branched any further:
        every branch suggested leaves a trunk that is trained anew.
    budget : float or str, optional
        Dollars ("50", "$1.5k"). Needed unless `precision` is given.
    target : str or callable
        "tokens@1B" (the best tokens for a size), "params@20B", "loss@1B,20B", "a" (of N* ~ C^a), a coefficient, or
        a function of a law.
    precision : float, optional
        Half-width wanted: a factor such as 1.25 for tokens and sizes, else a difference. The cheapest runs that
        reach it are looked for.
    sigma, rho : float, optional
        Noise of a log loss (0.01 is 1% of the loss), and its correlation among branches of a trunk. By default the
        noise is that of seeds or residuals at hand; the correlation is never estimated: 0.5 unless given, and the
        answer has the widths of 0 and 0.8 beside.
    prior : str or ChinchillaLaw, optional
        Published law that is to speak besides the runs: a name of `scaling.published.names`, or "hoffmann2022".
    sizes, token_counts : (smallest, largest), optional
        Where to look. By default from half the smallest run at hand to four times the largest, within 2 to 1,000 tokens
        per parameter; 10M to 1B parameters and 100M to 100B tokens where there are no runs.
    vocab : int
        Vocabulary of the shapes.
    trunks : int
        Seeds that may be trained of each size.
    max_hours : float or str, optional
        Longest a single run may take ("12 h").
    quantile : float, optional
        Of the uncertainty over the laws held possible, what is minimised: by default the mean of its log, which
        counts every law and no halving more than another; 0.9 is for those who want no bad surprise.
    level : float
        Coverage of the intervals.
    n_laws, seed : int
        Laws held possible (draws of the fit, or of the prior), and the seed of the latter.
    reading : dict, optional
        Arguments of `scaling.load_runs`.
    **settings
        Arguments of `economics.cost`: gpu, n_gpus (1 if not given), market, price, mfu, seq_len ...

    Returns
    -------
    NextRuns

    Raises
    ------
    BudgetError
        The budget does not pay for the smallest run; `needed_usd` is what would.
    DataError
        An argument cannot be, the table cannot be read, or runs among interruptions save too seldom.

    Examples
    --------
    >>> from scaling import datasets
    >>> found = suggest(datasets.builtin("hoffmann2022"), "200", gpu="A100 SXM 80GB", price=1.5)
    >>> found.usd.value <= 200 and found.after.value < found.before.value
    True
    """
    goal = read_goal(target, check_level(level))
    limit = None if budget is None else money("budget", budget)
    wanted = None if precision is None else goal.wanted_se(precision)
    if limit is None and wanted is None:
        raise DataError("give a budget in dollars, or the precision that is wanted", column="budget")
    asked = _settings(settings)
    known = gather(
        runs, prior, sigma, rho, function=goal.function, centre=None, reading=read_reading(reading),
        n_laws=whole("n_laws", n_laws, least=2, most=1000), seed=whole("seed", seed, least=0),
    )  # fmt: skip
    pool = make_pool(
        known.runs, limit, vocab=whole("vocab", vocab, least=2, most=MOST_VOCAB), sizes=read_range("sizes", sizes),
        tokens=read_range("token_counts", token_counts), trunks=whole("trunks", trunks, least=1, most=64),
        max_hours=None if max_hours is None else hours("max_hours", max_hours, positive=True), settings=asked,
    )  # fmt: skip
    one = cost(arch=pool.sizes[0].arch, D=1e9, **asked)
    plan = one.plan
    refuse_unsaved(one, pool.longest_hours)
    bill = Bill(pool, start_cost(pool.sizes[0].arch, **asked))
    if limit is not None:
        bill.require(limit)
    options = {"sigma": known.sigma, "rho": known.rho, "delta": known.delta}
    held = {"fixed": tuple(known.fixed), "tied": known.tied}
    told = moments(known.laws, goal.function, known.known, pool.candidates, **options, **held)  # type: ignore[arg-type]
    search = Search(told, None if quantile is None else share("quantile", quantile))
    se = Errors(goal, known, search.quantile)
    found, spared = _found(search, se, wanted, limit, bill)
    at = np.array(found.positions)
    made = _runs(pool, at)
    after = se.of(pool.candidates, at)
    result = NextRuns(
        goal.name, made, estimate_of(bill.usd(at), "cost", "$"), estimate_of(bill.hours(at), "hours", "h"), limit,
        None if precision is None else float(precision), se.before(), after, _plain(pool, found.cost, se, bill.start),
        f"{plan.n_gpus} x {plan.part.name}, {plan.market}", known.basis, known.noise,
        {r: se.of(pool.candidates, at, r) for r in OTHER_RHO} if any(r.kind == "branch" for r in made) else {},
    )  # fmt: skip
    return findings(result, goal, known, pool, spared)


def _found(
    search: Search, se: Errors, wanted: float | None, limit: float | None, bill: Bill
) -> tuple[Chosen, int]:
    """Return the cheapest set of the wanted standard error, else the most precise one, within the money.

    With it the number of runs that were left out because they hardly tell anything.
    """
    c = search.candidates
    left = c.cost(range(len(c))) if limit is None else limit - bill.start
    kept: list[int] = []
    for _ in range(_TRIES):
        found, spared = _precise_enough(search, se, wanted, None if limit is None else left), 0
        if found is None:
            every = search.most_precise(left).positions
            found = search.spared(every, SPARED)
            spared = len(every) - len(found.positions)
        usd = bill.median(found.positions)
        if limit is None or usd <= limit:
            return found, spared
        kept = sorted(found.positions, key=lambda i: -c.rate[i] * c.tokens[i])
        # The median of a sum is a little more, or less, than the sum of the medians.
        left *= 0.9999 * (limit - bill.start) / (usd - bill.start)
        if left < bill.least:
            return search.chosen([bill.cheapest]), 0
    while limit is not None and len(kept) > 1 and bill.median(kept) > limit:
        kept.pop()
    return search.chosen(kept), spared


def _precise_enough(search: Search, se: Errors, wanted: float | None, left: float | None) -> Chosen | None:
    """Return the cheapest set of the wanted standard error; None where none reaches it, or none is wanted."""
    score = 0.0 if wanted is None else math.log(wanted)
    for _ in range(0 if wanted is None else _TRIES):
        found = search.cheapest(score, left)
        if found is None:
            return None
        if se.of(search.candidates, found.positions).value <= se.goal.half_width(wanted or 0.0):
            return found
        score -= 0.01  # the search takes a little as known of every direction; the answer does not
    return None


def _settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Check arguments of `cost`: one GPU by default."""
    allowed = set(inspect.signature(cost).parameters) - {"N", "D", "arch", "N_active"}
    for name in sorted(set(settings) - allowed):
        found = name in ("N", "D", "arch", "params", "tokens")
        why = (
            "is what suggest finds: give sizes= and token_counts="
            if found
            else "is no setting of suggest() or cost()"
        )
        raise DataError(f"{name} {why}", column=name)
    given = {k: v for k, v in settings.items() if v is not None or k == "checkpoint_every"}
    return {"n_gpus": 1, **given}


def _runs(pool: Pool, at: Any) -> tuple[NextRun, ...]:
    """Return the runs chosen: trunk by trunk from the smallest size on, the longest of each first."""
    c = pool.candidates
    shares = dict(zip(at.tolist(), c.shares(at).tolist(), strict=True))
    order = sorted(at.tolist(), key=lambda i: (pool.size_of[i], c.trunk[i], -c.tokens[i]))
    number: dict[int, int] = {}
    out = []
    for i in order:
        trunk, size = int(c.trunk[i]), pool.sizes[pool.size_of[i]]
        kind = "branch" if trunk in number else "trunk"
        number.setdefault(trunk, len(number) + 1)
        a = size.arch
        out.append(
            NextRun(
                number[trunk], kind, float(c.params[i]), float(c.tokens[i]), shares[i] / size.usd * size.hours,
                shares[i], f"{a.layers} x {a.d_model}, {a.heads} heads, FFN {a.d_ff}",
            )
        )  # fmt: skip
    return tuple(out)


def _plain(pool: Pool, spent: float, se: Errors, start: float) -> PlainGrid | None:
    """Return the best plain grid for no more money."""
    family = plain_grids(pool, spent)
    if family is None:
        return None
    candidates, sets, which = family
    k = se.known
    told = moments(
        k.laws, se.goal.function, k.known, candidates, sigma=k.sigma, rho=k.rho, delta=k.delta,
        fixed=tuple(k.fixed), tied=k.tied,
    )  # fmt: skip
    search = Search(told, se.quantile)
    best = min(range(len(sets)), key=lambda i: search.score(sets[i]))
    at = np.array(sets[best])
    params = tuple(pool.sizes[i].params for i in which[best])
    counts = tuple(candidates.tokens[at[: len(at) // len(params)]].tolist())
    return PlainGrid(params, counts, start + candidates.cost(at), se.of(candidates, at))
