"""What a set of runs costs and how precise it is: the bill draw by draw, and the errors at every law possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.next_runs.goal import Goal, Precision
from economics.next_runs.grid import Pool
from economics.next_runs.known import Knowledge
from economics.run_estimates import dollars
from economics.run_search import BudgetError
from scaling.design import Candidates, predicted_se
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.quantile_draws import Array

#: Correlations within a trunk for which the width is given besides that of the one assumed or given.
OTHER_RHO = (0.0, 0.8)


class Bill:
    """What sets of candidates cost together, the machine started once.

    Parameters
    ----------
    pool : Pool
        The candidates, and what a token of each costs.
    start : array, shape (draws,) or (1,)
        Dollars paid before the first token.
    """

    def __init__(self, pool: Pool, start: Array) -> None:
        self.pool, self._start = pool, start
        c = pool.candidates
        self.start = float(np.median(start))
        self.cheapest = int(np.argmin(c.rate * c.tokens))
        self.least = float(c.rate[self.cheapest] * c.tokens[self.cheapest])

    def usd(self, positions: Sequence[int] | Any) -> Array:
        """Return draws of the dollars of a set."""
        return np.asarray(self._start + self._sum(positions, "usd"))

    def hours(self, positions: Sequence[int] | Any) -> Array:
        """Return draws of the hours of a set, one run after another."""
        return self._sum(positions, "hours")

    def median(self, positions: Sequence[int] | Any) -> float:
        """Return the larger of the median of the dollars and the sum of the medians of its runs."""
        return max(float(np.median(self.usd(positions))), self.start + self.pool.candidates.cost(positions))

    def require(self, limit: float) -> None:
        """Refuse money that does not pay for the smallest run.

        Raises
        ------
        BudgetError
            `needed_usd` is what would.
        """
        needed = self.median([self.cheapest])
        if limit < needed:
            c = self.pool.candidates
            size, tokens = (format_count(x[self.cheapest]) for x in (c.params, c.tokens))
            raise BudgetError(
                f"{dollars(limit)} do not pay for the smallest run: {size} parameters on {tokens} tokens take "
                f"{dollars(needed)}, {dollars(self.start)} of it to start the machine. Give more, a cheaper GPU or "
                "market, or smaller sizes= and token_counts=.",
                needed_usd=needed,
            )

    def _sum(self, positions: Sequence[int] | Any, of: str) -> Array:
        at, c = np.asarray(positions, dtype=np.int64), self.pool.candidates
        total: Any = 0.0
        for i, paid in zip(at, c.shares(at) / c.rate[at], strict=True):
            total = total + getattr(self.pool.sizes[self.pool.size_of[i]].token, of) * paid
        return np.asarray(total)


class Errors:
    """Predicted standard errors at every law held possible: the sandwich form, with nothing taken as known."""

    def __init__(self, goal: Goal, known: Knowledge, quantile: float | None) -> None:
        self.goal, self.known, self.quantile = goal, known, quantile

    def of(
        self, candidates: Candidates, positions: Sequence[int] | Any, rho: float | None = None
    ) -> Precision:
        """Return the precision of a set beside the runs at hand; under another correlation, if one is given."""
        held = self.known.rho if rho is None else rho
        at, k = np.asarray(positions, dtype=np.int64), self.known
        params = np.concatenate([k.known.params, candidates.params[at]])
        tokens = np.concatenate([k.known.tokens, candidates.tokens[at]])
        above = int(k.known.cluster.max()) + 1 if len(k.known.cluster) else 0
        groups = np.concatenate([k.known.cluster, above + candidates.trunk[at]])
        se = [
            predicted_se(
                (params, tokens), self.goal.function, law=law, sigma=k.sigma, rho=held, groups=groups,
                delta=k.delta, fixed=tuple(k.fixed), tied=k.tied,
            )
            for law in k.laws
        ]  # fmt: skip
        return Precision.of(self.goal, se, self.quantile)

    def before(self) -> Precision:
        """Return the precision of the runs at hand alone."""
        k = self.known
        if not len(k.known.params):
            return Precision.of(self.goal, [math.inf], self.quantile)
        nothing = Candidates.of(k.known.params[:1], k.known.tokens[:1], [1.0])
        return self.of(nothing, [])
