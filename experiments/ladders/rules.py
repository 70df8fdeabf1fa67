"""Which rows of a ladder the law is fitted to. Written before any fit; the other rules are shown beside it.

A law fitted to small runs moves with the choice of rows by more than its interval, so the choice must not be made by
looking at what it gives. `RULE` is the one that counts, for every ladder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scaling.runs import RunTable

Mask = npt.NDArray[np.bool_]

#: A budget is met to within one step, so a run of "1M tokens" may have a few hundred fewer.
_NEARLY = 0.995


@dataclass(frozen=True)
class Rule:
    """A choice of rows.

    Parameters
    ----------
    name : str
        In words, for a table.
    rows : callable
        Table -> which of its rows.
    """

    name: str
    rows: Callable[[RunTable], Mask]


def _least(tokens: float) -> Callable[[RunTable], Mask]:
    return lambda runs: np.asarray(runs.tokens >= tokens * _NEARLY)


RULE = Rule("D >= 1M tokens, all sizes, all seeds", _least(1e6))
OTHERS = (
    Rule("all rows", _least(0.0)),
    Rule("D >= 2M tokens", _least(2e6)),
    Rule("D >= 4M tokens", _least(4e6)),
    Rule("without the smallest size", lambda t: _least(1e6)(t) & (t.params > t.params.min())),
    Rule("without the largest size", lambda t: _least(1e6)(t) & (t.params < t.params.max())),
    Rule("at most 100 tokens per parameter", lambda t: _least(1e6)(t) & (t.tokens <= 100 * t.params)),
    Rule("at least 20 tokens per parameter", lambda t: _least(1e6)(t) & (t.tokens >= 20 * t.params)),
)
