"""Settings of a question, and the machines it is answered on."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from economics.hardware import GPU, gpu as find_gpu
from economics.mfu_rows import CHECKPOINTING_FROM
from economics.price_rows import market_kind
from economics.run_cost import cost
from economics.run_estimates import duration, quantiles
from economics.run_numbers import whole
from economics.run_result import RunCost
from economics.run_search import BudgetError
from scaling.errors import DataError, shown
from scaling.findings import Finding
from scaling.units import format_count

#: Draws of the cost: the tenth and the ninetieth percentile of so many scatter by 2% of the distance between them.
DRAWS = 2000
#: What would fix the size that is looked for.
_SIZES = ("N", "D", "arch", "N_active")
#: Numbers of GPUs tried: all on one machine, then whole machines.
_MOST = 1 << 17
#: Hours that nobody waits for.
_CENTURY = 8766.0 * 100


def read_settings(settings: Mapping[str, Any], *, gpu: bool = True) -> dict[str, Any]:
    """Return the arguments of `cost` that were given, checked, with the number of draws.

    Raises
    ------
    DataError
        One of them is no setting of `cost`, or would fix what is looked for; or no accelerator is named.
    """
    known = set(inspect.signature(cost).parameters)
    for name in sorted(settings):
        if name not in known:
            raise DataError(f"{name} is no setting of cost()", column=name)
        if name in _SIZES and settings[name] is not None:
            raise DataError(f"{name} is what is looked for: leave it out", column=name)
    given = {k: v for k, v in settings.items() if k not in _SIZES}
    if "market" in given:
        market_kind(given["market"])  # refused here, not on one machine after another
    if gpu and given.get("gpu") is None:
        raise DataError("give gpu: a name such as 'H100 SXM'", column="gpu")
    return {"draws": DRAWS, **given}


def with_count(settings: Mapping[str, Any], params: float, tokens: float) -> dict[str, Any]:
    """Return the settings with a number of GPUs: the given one, or the fewest for a month that hold the model."""
    if settings.get("n_gpus") is not None:
        return {**settings, "n_gpus": whole("n_gpus", settings["n_gpus"])}
    try:
        run = quiet_cost(settings, params, tokens)
        n = run.plan.n_gpus
        quiet_cost({**settings, "n_gpus": n}, params, tokens)  # as many as there are
    except DataError as error:
        quiet_cost({**settings, "n_gpus": 8}, params, tokens)  # what is wrong whatever their number
        raise DataError(
            f"to train {format_count(params)} parameters on {format_count(tokens)} tokens within a month takes more "
            "GPUs than there are to rent: give n_gpus, and it takes longer, or ask for less.",
            column="n_gpus",
        ) from error
    while not holds(run) and n < _MOST:
        n = 8 if n < 8 else 2 * n
        run = quiet_cost({**settings, "n_gpus": n}, params, tokens)
    return {**settings, "n_gpus": n}


def recomputes(settings: Mapping[str, Any], params: float) -> dict[str, Any]:
    """Return the settings with activation checkpointing decided for all sizes alike, by what a size usually has.

    `cost` assumes it from 5B parameters on where nobody says: between two sizes that is a step of the cost, at which
    every optimum would come to lie that is anywhere near.
    """
    if settings.get("act_ckpt") is not None or settings.get("mfu") is not None:
        return dict(settings)
    return {**settings, "act_ckpt": params >= CHECKPOINTING_FROM}


def settled(settings: Mapping[str, Any], params: float, tokens: float) -> dict[str, Any]:
    """Return the settings with what was left open decided for a run: `recomputes`, then `with_count`."""
    return with_count(recomputes(settings, params), params, tokens)


def same_machines(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether `settled` came to the same."""
    return all(one.get(name) == other.get(name) for name in ("n_gpus", "act_ckpt"))


def recompute_findings(asked: Mapping[str, Any], run: RunCost) -> tuple[Finding, ...]:
    """Say what was decided about activation checkpointing for the user."""
    assumed = run.asked["act_ckpt"]
    if asked.get("act_ckpt") is not None or assumed is None:
        return ()
    near = 0.3 < run.plan.params / CHECKPOINTING_FROM < 3.0
    words = (
        f"all sizes were compared {'with' if assumed else 'without'} activation checkpointing, as is usual for the "
        f"best of them: act_ckpt={not assumed} takes the other."
    )
    return (Finding("act_ckpt_assumed", "warning" if near else "info", words, {"act_ckpt": assumed}),)


def holds(run: RunCost) -> bool:
    """Whether the GPUs of a run hold its model."""
    fit = run.memory
    return all(f.code != "does_not_fit" for f in run.findings) if fit is None else fit.fits


def quiet_cost(settings: Mapping[str, Any], params: float, tokens: float) -> RunCost:
    """Return a cost without the warnings that are among its findings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cost(**{**settings, "N": params, "D": tokens})


def gpus_needed(
    N: float | str, D: float | str, hours: float | str, *, quantile: float | str = 0.5, **settings: Any
) -> RunCost:
    """Return the run with the fewest GPUs that ends within some hours.

    Parameters
    ----------
    N, D, settings
        Arguments of `cost`, without `n_gpus`.
    hours : float or str
        From the start of the machines to the end, waits included.
    quantile : float
        Which quantile of the hours must be within them: 0.9 is safe.

    Returns
    -------
    RunCost
        ``plan.n_gpus`` is the number: of one machine, or whole machines of 8.

    Raises
    ------
    BudgetError
        No number of GPUs is fast enough.
    DataError
        An argument cannot be.

    Examples
    --------
    >>> run = gpus_needed("1B", "20B", 24, gpu="H100 SXM", mfu="40%", price=2.0, overheads="none")
    >>> run.plan.n_gpus, round(run.wall_hours.value, 1)
    (4, 21.1)
    """
    limit = read_hours(hours)
    q = read_quantile(quantile)
    if settings.get("n_gpus") is not None:
        raise DataError("n_gpus is what is looked for: leave it out", column="n_gpus")

    def run_of(n: int) -> RunCost:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cost(**{**settings, "N": N, "D": D, "n_gpus": n})

    def fits(run: RunCost) -> bool:
        return hours_quantile(run, q) <= limit and holds(run)

    low, high = 0, 1
    run: RunCost | None = run_of(1)
    assert run is not None
    fastest, name = hours_quantile(run, q), run.plan.part.name
    while not fits(run):
        low, high = high, high * 2
        try:
            run = run_of(high) if high <= _MOST else None
        except DataError:  # so many that no run survives among them
            run = None
        if run is None:
            raise BudgetError(
                f"no number of {name} ends this run within {duration(limit)}: the fastest takes "
                f"{duration(fastest)}; starting them, and interruptions of many, take the rest.",
                column="hours",
            )
        fastest = min(fastest, hours_quantile(run, q))
    while high - low > (1 if high <= 8 else 8):
        middle = (low + high) // 2 if high <= 8 else 8 * max((low + high) // 16, 1)
        tried = run_of(middle)
        low, high, run = (low, middle, tried) if fits(tried) else (middle, high, run)
    return run


def hours_quantile(run: RunCost, q: float) -> float:
    """Return the hours that a share `q` of the draws stays below."""
    return quantiles(run.outcome.wall_hours, (q,))[0]


def read_hours(value: Any, name: str = "hours") -> float:
    """Read a duration: a number of hours, or text such as "3 d"."""
    from economics.run_numbers import hours

    number = hours(name, value, positive=True)
    if number > _CENTURY:
        raise DataError(
            f"{name} is more than a century: give hours, or '3 d'; got {shown(value)}", column=name
        )
    return number


def read_quantile(value: Any) -> float:
    """Read which quantile of dollars or hours counts."""
    from economics.run_numbers import share

    q = share("quantile", value)
    if not 0.0 < q < 1.0:
        raise DataError(f"quantile must lie between 0 and 1, got {shown(value)}", column="quantile")
    return q


def offers(
    gpus: Sequence[GPU | str] | GPU | str | None,
    markets: Sequence[str] | str | None,
    settings: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the settings of every kind of machine to compare.

    Parameters
    ----------
    gpus : GPU, str or sequence of them, optional
        ``"all"`` for whatever the price book has a price of; the one of the settings if not given.
    markets : str or sequence of str, optional
        ``"all"`` likewise.
    settings : mapping
        Arguments of `cost`.
    """
    from economics.price_book import load_book
    from economics.price_rows import MARKETS

    parts = several("gpus", gpus, settings.get("gpu"))
    kinds = several("markets", markets, settings.get("market", "on-demand"))
    if gpus is not None or markets is not None:  # a name that nothing has is refused, not left out
        parts = [p if isinstance(p, str) and p == "all" else find_gpu(p) for p in parts if p is not None]
        kinds = [m if isinstance(m, str) and m == "all" else market_kind(m) for m in kinds]
    if parts in ([None], []):
        raise DataError("give gpu or gpus: names such as 'H100 SXM', or 'all'", column="gpu")
    if "all" in parts or "all" in kinds:
        priced = sorted({(row.gpu, row.market) for row in load_book(settings.get("book"))})
        chosen = list(dict.fromkeys(g for g, _ in priced)) if "all" in parts else parts
        kinds = list(MARKETS) if "all" in kinds else kinds
        every = [(g, m) for g in chosen for m in kinds if "all" not in parts or (g, m) in priced]
    else:
        every = [(g, m) for g in parts for m in kinds]
    return [{**settings, "gpu": g, "market": m} for g, m in every]


def several(name: str, given: Any, default: Any) -> list[Any]:
    """Read one name or several; `default` for none.

    Raises
    ------
    DataError
        It is neither, or an empty list.
    """
    if given is None:
        return [default]
    if isinstance(given, str | GPU):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, bytes | Mapping):
        raise DataError(f"{name} must be a name or several names, got {shown(given)}", column=name)
    out = list(given)
    if not out:
        raise DataError(f"{name} needs one or more to compare, got none", column=name)
    return out
