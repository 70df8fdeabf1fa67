"""Synthetic IsoFLOP tables with a known truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scaling.laws.chinchilla import ChinchillaLaw

#: Optimum of the 240 points of Besiroglu et al. 2024 (arXiv 2404.10102).
BESIROGLU = ChinchillaLaw(E=1.817218, A=477.826, B=2143.417, alpha=0.347310, beta=0.367172)
#: Steeper towards large models: the parabola is too small.
SKEWED = ChinchillaLaw(E=1.8, A=482.0, B=2085.0, alpha=0.31, beta=0.50)
BUDGETS = (1e18, 1e19, 1e20, 1e21)


def world(
    law: ChinchillaLaw = BESIROGLU,
    budgets: Sequence[float] = BUDGETS,
    *,
    n: int = 9,
    width: float = 0.6,
    offset: float = 0.0,
    noise: float | Sequence[float] = 0.0,
    rng: np.random.Generator | None = None,
) -> dict[str, Any]:
    """Return params, tokens, loss of `n` sizes per budget over ±`width` decades around the optimum."""
    c = np.repeat(np.asarray(budgets, dtype=float), n)
    steps = np.tile(np.linspace(-width, width, n) + offset, len(budgets))
    params = np.asarray(law.optimal(c).params) * 10**steps
    tokens = c / 6 / params
    sd = np.repeat(np.broadcast_to(noise, len(budgets)), n)
    wiggle = 0.0 if rng is None else sd * rng.standard_normal(len(c))
    return {"params": params, "tokens": tokens, "loss": np.asarray(law.loss(params, tokens)) + wiggle}
