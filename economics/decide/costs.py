"""Costs of runs of every size, computed: what `economics.decide.surface` interpolates.

The costs of an answer itself are computed anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from economics.decide.endless import unsaved
from economics.decide.surface import SPACING, Surface, serve
from economics.decide.unsaved import Unsaved
from economics.quantile_draws import Array
from economics.run_cost import cost
from economics.run_result import RunCost


def surface(
    settings: Mapping[str, Any],
    low: float,
    high: float,
    tokens: Callable[[float], float],
    serving: Mapping[str, Any] | None = None,
) -> Surface:
    """Return the costs of all sizes between two: from two runs of each size, or anew where saves are rare or none.

    Parameters
    ----------
    settings : mapping
        Arguments of `cost`, with `n_gpus`.
    low, high : float
        Sizes.
    tokens : callable
        Tokens near which a size will be asked for.
    serving : mapping, optional
        Arguments of `inference_cost` beyond those shared with training; None where nothing is served.
    """
    first, last = int(np.ceil(np.log(low) / SPACING - 1e-9)), int(np.ceil(np.log(high) / SPACING))
    x = SPACING * np.arange(first, last + 1)
    rows: list[list[Array]] = []
    runs: list[RunCost] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are findings of the answer
        for n in np.exp(x):
            start, run = (
                cost(**{**settings, "N": float(n), "D": d}) for d in (1.0, max(tokens(float(n)), 2.0))
            )
            rows.append([*_parts(start, run), _served(float(n), settings, serving)])
            runs.append(run)
    k = max(part.size for row in rows for part in row)
    columns = [np.stack([np.broadcast_to(row[i], k) for row in rows], axis=1) for i in range(len(rows[0]))]
    found = Surface(x.astype(np.float64), *columns)
    return Unsaved.of(found, runs) if any(unsaved(run) for run in runs) else found


def _parts(start: RunCost, run: RunCost) -> list[Array]:
    more = run.plan.tokens - start.plan.tokens
    parts = []
    for of in ("total_usd", "wall_hours"):
        fixed, spent = getattr(start.outcome, of), getattr(run.outcome, of)
        parts += [fixed, np.maximum(spent - fixed, 1e-12 * spent) / more]
    return parts


def _served(n: float, settings: Mapping[str, Any], serving: Mapping[str, Any] | None) -> Array:
    if serving is None:
        return np.zeros(1)
    return serve(n, settings, serving).token_usd_draws
