"""What is asked: the money, the machines that may be rented, and what else decides; read and checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from economics.decide.machines import offers, read_hours, read_quantile, read_settings, several
from economics.decide.serving import read_serving, served_tokens
from economics.hardware import gpu as find_gpu
from economics.next_runs.goal import Goal, read_goal
from economics.next_runs.grid import MOST_VOCAB, read_range
from economics.price_rows import market_kind
from economics.run_numbers import money, positive, share, whole
from scaling.errors import DataError, shown
from scaling.intervals import check_level
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.targets import Target

#: Markets that are looked at where none is named: those whose quotes are offers to anybody.
MARKETS = ("on-demand", "spot")
#: Multiples of the money that the table of money against loss has.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Shares of the money that are weighed as spent on learning first.
SPLITS = (0.2, 0.5)


@dataclass(frozen=True, eq=False)
class Question:
    """A question, read. Made by `read_question`.

    Parameters
    ----------
    usd : float
        The money: the cap.
    quantile, risk : float
        Which quantile of the cost equals the cap; and the probability of breaking it that the safe run has.
    level : float or None
        Coverage of the intervals of losses and sizes; None is that of the fit.
    goal : Goal
        The quantity that next runs are to narrow.
    machines : tuple of dict
        Arguments of `cost` for each kind of machine.
    settings : mapping
        Those that all share.
    hours : float or None
        Deadline.
    served, unique, loss : float or None
        Tokens of the lifetime, distinct tokens there are, a loss that is wanted.
    serving : mapping or None
        Arguments of `inference_cost`.
    factors, splits : tuple of float
        Multiples of the money, and shares of it for learning, that are looked at.
    prior : str, ChinchillaLaw or None
        A published law that is asked as such.
    search : mapping
        Arguments of `suggest` about where to look: vocab, sizes, token_counts.
    """

    usd: float
    quantile: float
    risk: float
    level: float | None
    goal: Goal
    machines: tuple[dict[str, Any], ...]
    settings: Mapping[str, Any]
    hours: float | None
    served: float | None
    serving: Mapping[str, Any] | None
    unique: float | None
    loss: float | None
    factors: tuple[float, ...]
    splits: tuple[float, ...]
    prior: str | ChinchillaLaw | None
    search: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        from economics.run_text import plain_value

        kinds = dict.fromkeys(
            (str(getattr(m["gpu"], "name", m["gpu"])), str(m["market"])) for m in self.machines
        )
        return {
            "budget_usd": self.usd,
            "quantile": self.quantile,
            "risk": self.risk,
            "target": self.goal.name,
            "width": "factor" if self.goal.by_factor else "difference",
            "machines": [{"gpu": gpu, "market": market} for gpu, market in kinds],
            "settings": {k: plain_value(v) for k, v in self.settings.items() if v is not None},
            "deadline_hours": self.hours,
            "serve_tokens": self.served,
            "unique_tokens": self.unique,
            "loss": self.loss,
            "prior": None if self.prior is None else str(self.prior),
        }


def read_question(
    budget: Any,
    gpu: Any,
    markets: Any,
    *,
    target: Target,
    deadline_hours: Any,
    serve_tokens: Any,
    serving: Mapping[str, Any] | None,
    unique_tokens: Any,
    loss: Any,
    quantile: Any,
    risk: Any,
    level: float | None,
    factors: Sequence[float],
    splits: Sequence[float],
    prior: Any,
    search: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Question:
    """Read and check what `economics.plan` was asked.

    Raises
    ------
    DataError
        An argument cannot be. UnknownGPU, AmbiguousGPU and PriceError (a market) are such.
    """
    usd = money("budget", budget)
    allowed = share("risk", risk)
    if not 0.0 < allowed < 1.0:
        raise DataError(f"risk, of breaking the cap, lies between 0 and 1, got {shown(risk)}", column="risk")
    for name in ("market", "gpus"):
        if name in settings:
            raise DataError(f"give {'markets' if name == 'market' else 'gpu'}, not {name}", column=name)
    shared = read_settings(dict(settings), gpu=False)
    machines = _machines(gpu, markets, shared)
    wanted = None if loss is None else positive("loss", loss, "a loss to reach")
    return Question(
        usd, read_quantile(quantile), allowed, None if level is None else check_level(level),
        read_goal(target, 0.95 if level is None else level), machines, shared,
        None if deadline_hours is None else read_hours(deadline_hours, "deadline_hours"),
        served_tokens(serve_tokens, "serve_tokens") or None, read_serving(serve_tokens, serving),
        None if unique_tokens is None else positive("unique_tokens", unique_tokens, "tokens, such as '10B'"),
        wanted, _shares("factors", factors, 1e3, 1.0), _shares("splits", splits, 1.0, None), prior,
        _where(search),
    )  # fmt: skip


def _where(search: Mapping[str, Any]) -> dict[str, Any]:
    """Check where next runs are looked for, as `economics.suggest` does: what is no number is no reason to look on."""
    given = {k: v for k, v in search.items() if v is not None}
    if "vocab" in given:
        given["vocab"] = whole("vocab", given["vocab"], least=2, most=MOST_VOCAB)
    ranges: dict[str, Any] = {
        name: read_range(name, given[name]) for name in ("sizes", "token_counts") if name in given
    }
    return {**given, **ranges}


def _machines(gpu: Any, markets: Any, shared: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the kinds of machine; a name that nothing has is refused here, not left out of a table."""
    names = several("gpu", gpu, "all")
    own_price = shared.get("price") is not None
    if markets is None:
        markets = ("on-demand",) if own_price else MARKETS
    markets = "all" if isinstance(markets, str) and markets == "all" else several("markets", markets, None)
    parts = [name if name == "all" else find_gpu(name) for name in names]
    kinds = markets if markets == "all" else [m if m == "all" else market_kind(m) for m in markets]
    unique = list(dict.fromkeys(parts)) if "all" not in names else ["all"]
    one = len(unique) == 1 and "all" not in unique and len(kinds) == 1 and kinds != "all"
    if own_price and not one:
        raise DataError(
            "price is that of one kind of machine: give one gpu and one market with it, or leave it out",
            column="price",
        )
    every = offers(unique, list(dict.fromkeys(kinds)) if kinds != "all" else "all", shared)
    if not every:
        raise DataError("the price book has no quote in these markets: give others", column="markets")
    return tuple(every)


def _shares(name: str, values: Any, most: float, always: float | None) -> tuple[float, ...]:
    """Read numbers between 0 and a limit; `always` is added."""
    try:
        read = [float(v) for v in values]
    except (TypeError, ValueError):
        read = [-1.0]
    if any(not 0.0 < v <= most or (v == most and always is None) for v in read):
        raise DataError(f"{name} are numbers above 0, below {most:g}, got {shown(values)}", column=name)
    return tuple(sorted({*read, *(() if always is None else (always,))}))
