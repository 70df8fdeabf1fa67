"""Synthetic tables of runs with a known truth, for tests of fits."""

from __future__ import annotations

import numpy as np

from scaling.laws.base import Array
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.runs import RunTable

#: The truth behind the toy tables of the list of cases: D*(1e9) = 2.265e10.
T = ChinchillaLaw(E=1.82, A=482.0, B=2085.0, alpha=0.348, beta=0.366)
#: Optimum of the 240 points of Besiroglu et al. 2024 (arXiv 2404.10102).
BESIROGLU = ChinchillaLaw(E=1.817218, A=477.826, B=2143.417, alpha=0.347310, beta=0.367172)


def crossed(
    sizes: int = 6,
    counts: int = 4,
    *,
    noise: float = 0.0,
    seed: int = 0,
    law: ChinchillaLaw = T,
    params: tuple[float, float] = (2e7, 2e9),
    tokens: tuple[float, float] = (1e9, 1e11),
) -> tuple[Array, Array, Array]:
    """Return params, tokens, loss of every size at every token count; `noise` is the sd of log loss."""
    mesh = np.meshgrid(np.geomspace(*params, sizes), np.geomspace(*tokens, counts))
    n, d = (a.ravel() for a in mesh)
    wiggle = np.random.default_rng(seed).normal(0, noise, n.size) if noise else 0.0
    return n, d, np.asarray(law.loss(n, d) * np.exp(wiggle))


def table(*args: int, **kwargs: object) -> RunTable:
    """Return `crossed` as a table of runs."""
    n, d, loss = crossed(*args, **kwargs)  # type: ignore[arg-type]
    return RunTable.from_arrays(params=n, tokens=d, loss=loss)


def scattered(n: int, seed: int, noise: float = 0.01) -> tuple[Array, Array, Array]:
    """Return runs scattered over sizes and tokens per parameter, with heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    params = 10 ** rng.uniform(7.5, 10, n)
    tokens = params * 10 ** rng.uniform(0.3, 2.7, n)
    return params, tokens, np.asarray(T.loss(params, tokens) * np.exp(noise * rng.standard_t(3, n)))
