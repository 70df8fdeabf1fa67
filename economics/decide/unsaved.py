"""Costs of runs that save nothing, or seldom: not so much a token, but computed anew for every number of tokens.

Without saves a run of T hours among r interruptions an hour takes (1/r + R)(e^(rT) - 1) of them: a price of a token
from one run says nothing of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from economics.decide.surface import Surface
from economics.quantile_draws import Array
from economics.run_draws import Outcome, Variates, evaluate
from economics.run_result import RunCost

#: The most tokens that are looked at, and halvings of the way to them in the logarithm.
_MOST, _HALVINGS = 1e18, 34


@dataclass(frozen=True, eq=False)
class Unsaved(Surface):
    """Costs over sizes, draw by draw, of runs whose cost is not in proportion to their tokens.

    Parameters
    ----------
    x, usd_fixed, usd_token, hours_fixed, hours_token, usd_served
        As of `Surface`; what a token takes is that of one run, and not used here.
    nodes : array, shape (G,)
        ln N of the runs.
    runs : sequence of RunCost
        One at every node.
    node_served : array, shape (K, G)
        Dollars for each token served, at the nodes.
    draws : array of int or None
        Which draws are meant; None for all.
    """

    nodes: Array
    runs: Sequence[RunCost]
    node_served: Array
    draws: Array | None = None

    @classmethod
    def of(cls, costs: Surface, runs: Sequence[RunCost]) -> Unsaved:
        """Return the costs of runs at the nodes of a surface."""
        return cls(**vars(costs), nodes=costs.x, runs=tuple(runs), node_served=costs.usd_served)

    def at(self, x: Array, draws: Array | None = None) -> Unsaved:
        """Return the same at other sizes, of some of the draws."""
        return replace(self, **vars(super().at(x, draws)), draws=draws)

    def tokens(self, limit: float, of: str, served: float) -> Array:
        """Return the tokens that a limit leaves, as `Surface.tokens`."""
        rows = []
        for g, run in enumerate(self.runs):
            beside = self._picked(self.node_served[:, g]) if of == "usd" and served else np.zeros(1)
            rows.append(self._most(run, limit - served * beside, of))
        place, share = self._between()
        known = np.log(np.maximum(np.stack(np.broadcast_arrays(*rows), axis=1), 1e-300))
        return np.asarray(np.exp(known[:, place] * (1.0 - share) + known[:, place + 1] * share))

    def usd(self, tokens: Array, served: float) -> Array:
        """Return the dollars of training on `tokens`, and of serving, as `Surface.usd`."""
        place, share = self._between()
        reached = np.isfinite(np.atleast_2d(tokens)).any(axis=0)
        count = self.usd_fixed.shape[0]
        ends = [np.full((count, self.x.size), np.inf) for _ in range(2)]
        for side, end in enumerate(ends):
            for g in np.unique(place + side):
                columns = np.flatnonzero((place + side == g) & reached)
                if not columns.size:
                    continue
                # Of the same compute: between nodes its cost changes by the speed alone.
                same = tokens[..., columns] * np.exp(self.x[columns] - self.nodes[g])
                finite = np.where(np.isfinite(same), same, 1.0)
                spent = self._outcome(self.runs[g], finite).total_usd
                end[:, columns] = np.where(np.isfinite(same), spent, np.inf)
        with np.errstate(invalid="ignore"):
            between = np.exp(np.log(ends[0]) * (1.0 - share) + np.log(ends[1]) * share)
        return np.asarray(np.where(np.isfinite(ends[0]), between, np.inf) + served * self.usd_served)

    def _between(self) -> tuple[Any, Array]:
        """Return the node below each size, and how far on the way to the next it lies."""
        place = np.clip(np.searchsorted(self.nodes, self.x, side="right") - 1, 0, self.nodes.size - 2)
        return place, (self.x - self.nodes[place]) / (self.nodes[place + 1] - self.nodes[place])

    def _picked(self, values: Array) -> Array:
        return values if self.draws is None or values.size == 1 else values[self.draws]

    def _outcome(self, run: RunCost, tokens: Array) -> Outcome:
        """Return what a run takes on other tokens, shape (P, M) or (M,)."""
        drawn = Variates(**{name: self._picked(v)[:, None] for name, v in vars(run.variates).items()})
        more: dict[str, Any] = {"tokens": tokens, "flops": run.plan.flops / run.plan.tokens * tokens}
        return evaluate(replace(run.plan, **more), drawn)

    def _most(self, run: RunCost, limit: Array, of: str) -> Array:
        """Return the most tokens of each draw that stay within a limit; 0 where one token does not."""

        def within(logs: Array) -> Any:
            out = self._outcome(run, np.exp(logs)[:, None])
            return (out.total_usd if of == "usd" else out.wall_hours)[:, 0] <= limit

        low = np.zeros(self.usd_fixed.shape[0])
        none, high = ~within(low), low + np.log(_MOST)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            stays = within(middle)
            low, high = np.where(stays, middle, low), np.where(stays, high, middle)
        return np.where(none, 0.0, np.exp(low))
