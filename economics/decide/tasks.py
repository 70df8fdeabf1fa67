"""The two kinds of question: the lowest loss within a limit, and the fewest dollars for a loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from economics.decide.surface import SPACING, Surface
from economics.quantile_draws import Array
from scaling.laws.base import quiet
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.optima.overtrained import tokens_for

#: Loss of a run under a law: ``loss(law, params, tokens)``.
Loss = Callable[[ChinchillaLaw, Any, Any], Any]


def new_tokens(law: ChinchillaLaw, params: Any, tokens: Any) -> Any:
    """Return the loss of a run that sees every token once."""
    return law._loss(np.asarray(params, dtype=float), np.asarray(tokens, dtype=float))


@dataclass(frozen=True)
class Within:
    """The lowest loss within a limit of dollars or hours.

    Parameters
    ----------
    law : ChinchillaLaw
    limit : float
    of : {"usd", "hours"}
        What is limited.
    quantile : float
        Which quantile of what a run takes must equal the limit.
    served : float
        Tokens served, which the dollars pay too.
    loss : callable
        Loss of a run.
    """

    law: ChinchillaLaw
    limit: float
    of: str
    quantile: float
    served: float = 0.0
    loss: Loss = new_tokens
    never: float = 0.0

    @quiet
    def point(self, costs: Surface, x: Array) -> tuple[Array, Array]:
        """Return tokens and loss; a run on D tokens stays within the limit as often as it leaves D or more."""
        tokens = np.quantile(costs.tokens(self.limit, self.of, self.served), 1.0 - self.quantile, axis=0)
        return tokens, self._loss(self.law, x, tokens)

    @quiet
    def drawn(self, costs: Surface, law: ChinchillaLaw, x: Array) -> tuple[Array, Array]:
        """Return the same for each draw of law and cost."""
        tokens = costs.tokens(self.limit, self.of, self.served)
        return tokens, self._loss(law, x, tokens)

    def _loss(self, law: ChinchillaLaw, x: Array, tokens: Array) -> Array:
        enough = tokens >= 1.0
        return np.where(enough, self.loss(law, np.exp(x), np.where(enough, tokens, 1.0)), np.inf)


@dataclass(frozen=True)
class Reaching:
    """The fewest dollars, training and serving, for a loss.

    Parameters
    ----------
    law : ChinchillaLaw
    needed : callable or None
        Tokens that the answer must have at a size, ``needed(params)``, where these are not the law's own.
    wanted : callable
        The loss to reach under a law: ``wanted(law)``, a number or one for each draw.
    quantile : float
        Which quantile of the dollars is made small.
    served : float
        Tokens served.
    """

    law: ChinchillaLaw
    needed: Callable[[float], float] | None
    wanted: Callable[[ChinchillaLaw], Any]
    quantile: float
    served: float = 0.0
    loss: Loss = new_tokens
    never: float = math.inf

    @quiet
    def point(self, costs: Surface, x: Array) -> tuple[Array, Array]:
        """Return tokens and dollars."""
        tokens = np.asarray(tokens_for(self.law, np.exp(x), self.wanted(self.law)))
        if self.needed is not None:  # slow, and nearly in proportion to the law's own
            nodes = np.append(np.arange(x[0], x[-1], SPACING), x[-1])
            own = tokens_for(self.law, np.exp(nodes), self.wanted(self.law))
            more = [
                self.needed(math.exp(n)) / d if math.isfinite(d) else math.inf
                for n, d in zip(nodes, own, strict=True)
            ]
            tokens = tokens * np.exp(np.interp(x, nodes, np.log(more)))
        return tokens, np.quantile(costs.usd(tokens, self.served), self.quantile, axis=0)

    @quiet
    def drawn(self, costs: Surface, law: ChinchillaLaw, x: Array) -> tuple[Array, Array]:
        """Return the same for each draw of law and cost."""
        tokens = tokens_for(law, np.exp(x), self.wanted(law))
        return tokens, costs.usd(tokens, self.served)
