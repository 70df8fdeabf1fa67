"""The best size on one kind of machine, for the law and for every draw of law and cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from economics.decide.costs import surface
from economics.decide.surface import SPACING, Surface
from economics.quantile_draws import Array
from economics.run_search import BudgetError
from scaling.laws.base import quiet
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.optima.subject import RunPoint, Subject
from scaling.units import format_count

#: Sizes that are looked at; half the width of a search around a first guess, in ln N, and by what it grows.
SMALLEST, LARGEST, _REACH = 1e6, 1e14, 2.4
#: The most tokens a search begins with: more than anybody has.
MOST_TOKENS = 1e17
#: Smaller than this hardly a shape has the vocabulary that the cost of serving assumes.
_SMALLEST_SERVED = 1e7
#: Steps of the search in ln N: of the law itself, and of its draws; a parabola goes on from there.
_FINE, _COARSE = 0.02, 0.08
#: Pairs of a draw of the law and one of the cost.
_PAIRS = 2000
#: Share of the draws that may lie at an edge of the search before it is widened.
_AT_EDGE = 0.005


@dataclass(frozen=True, eq=False)
class Found:
    """The best size on one kind of machine.

    Parameters
    ----------
    best : RunPoint
        For the law and the quantile of the cost asked for.
    drawn : RunPoint
        For each pair of draws, arrays of shape (P,); empty without draws.
    losses : array, shape (P,)
        Loss of each of these.
    law_draws : array of int, shape (P,)
        Which draws of the law they belong to.
    surface : Surface
        What it was looked for on.
    at_edge : bool
        Whether the best size is the smallest or largest that was looked at.
    value : float
        What was made as small as possible: the loss, or the dollars.
    """

    best: RunPoint
    drawn: RunPoint
    losses: Array
    law_draws: Array
    surface: Surface
    value: float
    at_edge: bool


class Task(Protocol):
    """What is made as small as possible: see `economics.decide.tasks`."""

    @property
    def never(self) -> float:
        """N and D of a draw in which nothing is within reach: 0 where a limit buys none, else infinity."""
        ...

    def point(self, costs: Surface, x: Array) -> tuple[Array, Array]:
        """Return tokens and values of all sizes, shape (M,), of the law and the quantile asked for."""
        ...

    def drawn(self, costs: Surface, law: ChinchillaLaw, x: Array) -> tuple[Array, Array]:
        """Return tokens and values of all sizes for each draw, shape (P, M)."""
        ...

    def loss(self, law: ChinchillaLaw, params: Any, tokens: Any) -> Any:
        """Return the loss of a run."""
        ...


@quiet
def find(
    s: Subject,
    task: Task,
    settings: Mapping[str, Any],
    guess: float,
    near: Callable[[float], float],
    serving: Mapping[str, Any] | None,
    *,
    drawn: bool = True,
) -> Found:
    """Return the best size, searched around `guess` and further where it lies at an edge.

    Parameters
    ----------
    s : Subject
    task : Task
    settings, serving : mapping
        As in `surface`.
    guess : float
        A size.
    near : callable
        Tokens near which a size will be asked for.
    drawn : bool
        Whether the draws are wanted too.
    """
    least = SMALLEST if serving is None else _SMALLEST_SERVED
    guess = min(max(guess, least), LARGEST)
    low, high = max(guess * math.exp(-_REACH), least), min(guess * math.exp(_REACH), LARGEST)
    pairs = None
    for _ in range(8):
        costs = surface(settings, low, high, near, serving)
        x = np.arange(costs.x[0], costs.x[-1], _FINE)
        tokens, values = task.point(costs.at(x), x)
        place = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
        if not math.isfinite(values[place]):
            raise BudgetError(
                f"no size from {format_count(least)} to {format_count(LARGEST)} parameters is within reach with these "
                f"settings: give more{'' if serving is None else ', or fewer tokens served'}."
            )
        margin = SPACING / _FINE
        at_edge = place < 2 or place > x.size - 3
        if place < margin and low > least:
            low, high = max(low * math.exp(-2 * _REACH), least), high * math.exp(-_REACH)
        elif place > x.size - margin and high < LARGEST:
            low, high = low * math.exp(_REACH), min(high * math.exp(2 * _REACH), LARGEST)
        else:
            pairs = _pairs(s, task, costs) if drawn and s.has_draws else None
            edge = (0.0, 0.0) if pairs is None else pairs[3]
            if max(edge) <= _AT_EDGE:
                break
            before = low, high
            low = max(low * math.exp(-_REACH * (edge[0] > _AT_EDGE)), least)
            high = min(high * math.exp(_REACH * (edge[1] > _AT_EDGE)), LARGEST)
            if (low, high) == before:  # those draws have their optimum beyond what is looked at
                break
    n, _ = vertex(x, values[None, :])
    best = RunPoint(float(np.exp(n[0])), float(np.exp(np.interp(n[0], x, np.log(tokens)))))
    empty = np.zeros(0)
    points, losses, which = (RunPoint(empty, empty), empty, empty.astype(int)) if pairs is None else pairs[:3]
    return Found(best, points, losses, which, costs, float(values[place]), at_edge)


def _pairs(s: Subject, task: Task, costs: Surface) -> tuple[RunPoint, Array, Any, tuple[float, float]]:
    """Return the optimum of each pair of draws, its loss, which draw of the law it has, and shares at the edges."""
    laws, k = int(np.size(s.draws.E)), costs.usd_token.shape[0]
    count = max(laws, _PAIRS)
    j = np.arange(count) % laws
    chosen = np.random.default_rng([0, 31]).permutation(np.arange(count) % k)
    x = np.arange(costs.x[0], costs.x[-1], _COARSE)
    here = costs.at(x, chosen)
    law = ChinchillaLaw(*(np.asarray(v)[j][:, None] for v in vars(s.draws).values()))
    tokens, values = task.drawn(here, law, x)
    at, place = vertex(x, values)
    n = np.exp(at)
    never = ~np.isfinite(values[np.arange(count), place])
    low, high = place == 0, place == x.size - 1
    d = np.exp(_between(x, np.log(tokens), at))
    plain = ChinchillaLaw(*(np.asarray(v)[j] for v in vars(s.draws).values()))
    losses = np.asarray(np.where(never, np.inf, task.loss(plain, n, np.maximum(d, 1e-300))))
    low, high = (place == 0) & ~never, (place == x.size - 1) & ~never
    n = np.where(low, 0.0, np.where(high, np.inf, n))  # at the edge of what was looked at: an open end
    found = RunPoint(np.where(never, task.never, n), np.where(never, task.never, d))
    return found, losses, j, (float(np.mean(low)), float(np.mean(high)))


def vertex(x: Array, values: Array) -> tuple[Array, Any]:
    """Return where rows of values over an even grid are least, by a parabola, and the node nearest to it.

    Parameters
    ----------
    x : array, shape (M,)
    values : array, shape (P, M)
    """
    known = np.where(np.isnan(values), np.inf, values)
    place = np.argmin(known, axis=1)
    middle = np.clip(place, 1, x.size - 2)
    rows = np.arange(values.shape[0])
    left, here, right = (known[rows, middle + i] for i in (-1, 0, 1))
    with np.errstate(all="ignore"):
        shift = 0.5 * (left - right) / (left - 2.0 * here + right)
    inside = (place == middle) & np.isfinite(shift)
    return x[place] + np.where(inside, np.clip(shift, -1.0, 1.0), 0.0) * (x[1] - x[0]), place


def _between(x: Array, values: Array, at: Array) -> Array:
    """Interpolate each row of values at a place of its own."""
    place = np.clip(np.searchsorted(x, at, side="right") - 1, 0, x.size - 2)
    share = (at - x[place]) / (x[1] - x[0])
    rows = np.arange(values.shape[0])
    with np.errstate(invalid="ignore"):
        low, high = values[rows, place], values[rows, place + 1]
        return np.where(share <= 0, low, np.where(share >= 1, high, low + share * (high - low)))
