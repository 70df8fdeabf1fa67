"""Runs that could be made next: real shapes at a grid of token counts, what each costs, and plain grids of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.run_estimates import duration
from economics.run_inputs import MOST_TOKENS
from economics.token_cost import TokenCost, token_cost
from scaling.architecture import Arch, Count
from scaling.design import COOLDOWN, Candidates, grid_candidates
from scaling.errors import DataError, shown
from scaling.shapes import ShapeError, solve_shape
from scaling.units import format_count, parse_count

if TYPE_CHECKING:
    from economics.quantile_draws import Array
    from scaling.runs import RunTable

#: Sizes that are tried, and the ratio of neighbouring token counts.
_SIZES, _STEP = 8, 1.5
#: Where no runs say it: smallest size and token count, and tokens per parameter that count as ordinary.
_SMALLEST, _FEWEST = 10e6, 100e6
_RATIO = (2.0, 1000.0)
#: Nobody trains a larger one.
_LARGEST = 1e14
#: How far above the runs at hand to look, as a factor of size and of tokens.
_REACH = 4.0
#: Of a budget that one run may take.
_ONE_RUN = 0.5
#: How to look for shapes: as people build them, then with ever narrower widths and heads.
_NARROW: tuple[dict[str, Any], ...] = ({}, {"multiple": 16, "head_dim": 16}, {"multiple": 8, "head_dim": 8})
#: More entries than any vocabulary has.
MOST_VOCAB = 10_000_000
#: A plain grid: sizes x token counts.
PLAIN = (3, 5)


@dataclass(frozen=True, eq=False)
class Size:
    """A shape that could be trained.

    Parameters
    ----------
    arch : Arch
        The shape.
    params : float
        Its parameters, counted as the runs at hand count theirs.
    token : TokenCost
        Cost of a token.
    """

    arch: Arch
    params: float
    token: TokenCost

    @cached_property
    def usd(self) -> float:
        """Median dollars of a token."""
        return float(np.median(self.token.usd))

    @cached_property
    def hours(self) -> float:
        """Median hours of a token."""
        return float(np.median(self.token.hours))


@dataclass(frozen=True, eq=False)
class Pool:
    """Sizes, token counts and the candidates made of them.

    Parameters
    ----------
    sizes : tuple of Size
        Ascending.
    counts : array, shape (t,)
        Token counts, ascending.
    candidates : Candidates
        Costs in dollars; `size_of` says which size each has.
    size_of : int array, shape (n,)
        See `candidates`.
    ratio : (float, float)
        Tokens per parameter that were looked at.
    """

    sizes: tuple[Size, ...]
    counts: Array
    candidates: Candidates
    size_of: Any
    ratio: tuple[float, float]

    @property
    def longest_hours(self) -> float:
        """Median hours of the longest run."""
        pace = np.array([size.hours for size in self.sizes])
        return float((pace[self.size_of] * self.candidates.tokens).max())


def count_of(table: RunTable | None) -> Count:
    """Return how the runs at hand count parameters: total where they do not say."""
    kind = "total" if table is None else table.params_kind
    return kind if kind in ("matmul", "non_embedding") else "total"  # type: ignore[return-value]


def read_range(name: str, value: Any) -> tuple[float, float] | None:
    """Read a pair of counts, the smaller first."""
    if value is None:
        return None
    parts = value.split(",") if isinstance(value, str) else value
    try:
        low, high = (parse_count(p) for p in parts)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a pair, smallest and largest, got {shown(value)}", column=name
        ) from error
    most = _LARGEST if name == "sizes" else MOST_TOKENS
    if not 1 <= low <= high <= most:
        raise DataError(
            f"{name} must be a pair from 1 to {most:.0e}, smallest and largest, got {shown(value)}",
            column=name,
        )
    return low, high


def make_pool(
    table: RunTable | None,
    budget: float | None,
    *,
    vocab: int,
    sizes: tuple[float, float] | None,
    tokens: tuple[float, float] | None,
    trunks: int,
    max_hours: float | None,
    settings: dict[str, Any],
) -> Pool:
    """Return what could be trained within a budget.

    Parameters
    ----------
    table : RunTable, optional
        Runs at hand: the pool reaches from half their smallest to four times their largest size and tokens.
    budget : float, optional
        Dollars: a single run takes half of them at most.
    vocab : int
        Vocabulary of the shapes.
    sizes, tokens : (float, float), optional
        Smallest and largest.
    trunks : int
        Seeds of each size.
    max_hours : float, optional
        Longest a single run may take.
    settings : dict
        Arguments of `economics.cost`.

    Raises
    ------
    DataError
        No shape exists in the range, or no run is short enough.
    """
    low, high = sizes or _span(None if table is None else table.params, _SMALLEST, 100 * _SMALLEST)
    made = [
        Size(arch, float(arch.params(count_of(table))), token_cost(arch, **settings))
        for arch in _shapes(low, high, vocab, count_of(table))
    ]
    fewest, most = tokens or _span(None if table is None else table.tokens, _FEWEST, 1000 * _FEWEST)
    counts: Any = fewest * _STEP ** np.arange(math.floor(math.log(most / fewest, _STEP) + 1e-9) + 1)
    ratio = _RATIO
    if table is not None:
        own = table.tokens / table.params
        ratio = (min(ratio[0], float(own.min())), max(ratio[1], float(own.max())))
    if sizes or tokens:
        ratio = (0.0, math.inf)  # the range is the asker's own
    n = np.array([s.params for s in made])[:, None]
    rate, pace = (np.array([getattr(s, name) for s in made])[:, None] for name in ("usd", "hours"))
    kept: Any = (counts >= ratio[0] * n) & (counts <= ratio[1] * n)
    if max_hours is not None:
        kept &= pace * counts <= max_hours
        if not kept.any():
            shortest = duration(float((pace * counts).min()))
            raise DataError(
                f"no run ends within {duration(max_hours)}: the shortest takes {shortest}. "
                "Give more hours, more GPUs, or smaller sizes= or token_counts=.",
                column="max_hours",
            )
    if not kept.any():
        raise DataError(
            "no size and token count lie within the ratios looked at: give sizes= and token_counts=",
            column="token_counts",
        )
    if budget is not None and (affordable := kept & (rate * counts <= _ONE_RUN * budget)).any():
        kept = affordable
    rows: Any = kept.any(axis=1)
    made = [s for s, some in zip(made, rows, strict=True) if some]
    grid = np.where(kept, counts, np.nan)[rows]
    candidates = grid_candidates([s.params for s in made], grid, [s.usd for s in made], trunks=trunks)
    columns = kept.any(axis=0)
    return Pool(tuple(made), counts[columns], candidates, candidates.trunk % len(made), ratio)


def _span(values: Array | None, low: float, high: float) -> tuple[float, float]:
    """Return where to look: from half the least of the runs at hand to four times the most."""
    if values is None:
        return low, high
    return float(values.min()) / 2.0, _REACH * float(values.max())


def _shapes(low: float, high: float, vocab: int, count: Count) -> list[Arch]:
    """Return shapes near sizes spaced evenly in the log; narrow heads where nothing else exists."""
    found: dict[int, Arch] = {}
    refused: ShapeError | None = None
    options: dict[str, Any] = {"count": count, "tolerance": 0.1}
    if count != "total":
        options["max_embedding_share"] = 0.95  # said openly: these counts leave embeddings out
    wanted = np.geomspace(low, high, _SIZES) if high > low else np.array([low])
    for size in wanted.tolist():
        for narrow in _NARROW:
            try:
                arch = solve_shape(size, vocab, **(options | narrow)).arch
            except ShapeError as error:
                refused = refused or error
                continue
            found.setdefault(arch.params(count), arch)
            break
    if not found:
        raise DataError(
            f"no shape of {format_count(low)} to {format_count(high)} parameters has a vocabulary of {vocab:,}: give "
            f"vocab= as it is, or other sizes=. {refused}",
            column="vocab",
        )
    return [found[n] for n in sorted(found)]


def plain_grids(
    pool: Pool, spent: float
) -> tuple[Candidates, list[tuple[int, ...]], list[tuple[int, ...]]] | None:
    """Return the plain grids that a sum of money buys, one trunk a size: sizes and counts evenly spaced in the log.

    Returns
    -------
    (Candidates, list of positions, list of sizes) or None
        Every grid as positions among the candidates, and which sizes it has; None where the money buys none.
    """
    n_sizes, n_counts = PLAIN
    params: list[float] = []
    tokens: list[float] = []
    rate: list[float] = []
    trunk: list[int] = []
    sets: list[tuple[int, ...]] = []
    which: list[tuple[int, ...]] = []
    total = len(pool.sizes)
    ends = np.geomspace(pool.counts[0], pool.counts[-1], 2 * len(pool.counts) - 1)
    for i in range(total):
        for step in range(1, (total - 1 - i) // (n_sizes - 1) + 1):
            mine = tuple(i + step * k for k in range(n_sizes))
            for a in range(len(ends)):
                fitting = None
                for b in range(a + 1, len(ends)):
                    d = np.geomspace(ends[a], ends[b], n_counts)
                    paid = d[-1] + COOLDOWN * d[:-1].sum()
                    if paid * sum(pool.sizes[k].usd for k in mine) > spent:
                        break
                    fitting = d
                if fitting is None:
                    continue
                first = len(params)
                for k in mine:
                    params += [pool.sizes[k].params] * n_counts
                    tokens += fitting.tolist()
                    rate += [pool.sizes[k].usd] * n_counts
                    trunk += [len(sets) * total + k] * n_counts
                sets.append(tuple(range(first, len(params))))
                which.append(mine)
    if not sets:
        return None
    return Candidates.of(params, tokens, rate, trunk), sets, which
