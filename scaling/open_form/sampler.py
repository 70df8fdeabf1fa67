"""Draws from a posterior: particles moved from the prior to it, letting the likelihood in by steps.

Sequential Monte Carlo (Del Moral, Doucet & Jasra 2006, J. R. Stat. Soc. B 68, 411-436): each
step is as large as leaves half the particles' weight effective; after every step the particles are resampled
and moved by Metropolis steps whose proposal has the particles' own covariance (scale 2.38 / sqrt(p), Roberts, Gelman
& Gilks 1997). Unlike a chain it needs no start, no burn-in and finds more than one mode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scaling.laws.base import Array

#: Metropolis moves after every step; moves at the end, of which every third gives draws.
MOVES, LAST_MOVES, KEPT = 4, 12, 3
#: Share of the particles' weight left effective by a step.
_EFFECTIVE = 0.5
#: Steps after which the search is given up: a likelihood that never comes in is not one.
_MOST_STEPS = 200

LogDensity = Callable[[Array], Array]


def sample(n_coefficients: int, log_likelihood: LogDensity, particles: int = 1024, seed: int = 0) -> Array:
    """Draw from the posterior of coefficients whose prior is standard normal.

    Parameters
    ----------
    n_coefficients : int
        How many there are, p.
    log_likelihood : callable
        Takes coefficients, shape (m, p), and returns m numbers; what is not finite counts as impossible.
    particles : int
        How many are moved: four times as many draws are returned.
    seed : int
        Of the random numbers: the same draws every time.

    Returns
    -------
    array, shape (4 particles, p)
        The draws, equally weighted.

    Raises
    ------
    FloatingPointError
        The likelihood is impossible wherever the prior puts its draws, or too narrow to be found from there.

    Examples
    --------
    >>> draws = sample(2, lambda u: -2.0 * np.sum((u - 1.0) ** 2, axis=1))
    >>> bool(np.abs(draws.mean(axis=0) - 0.8).max() < 0.05), bool(np.abs(draws.std(axis=0) - 0.2**0.5).max() < 0.05)
    (True, True)
    """
    rng = np.random.default_rng(seed)
    at = rng.normal(size=(particles, n_coefficients))
    value, share = _finite(log_likelihood(at)), 0.0
    if not np.isfinite(value).any():
        raise FloatingPointError("no draw of the prior has a likelihood")
    for _ in range(_MOST_STEPS):
        step = _step(value, 1.0 - share)
        share += step
        at, value = _resampled(rng, at, value, step)
        for _ in range(MOVES):
            at, value = _moved(rng, at, value, share, log_likelihood)
        if share >= 1.0:
            break
    else:
        raise FloatingPointError(f"the likelihood is too narrow: not let in after {_MOST_STEPS} steps")
    kept = []
    for move in range(1, LAST_MOVES + 1):
        at, value = _moved(rng, at, value, 1.0, log_likelihood)
        if move % KEPT == 0:
            kept.append(at)
    return np.concatenate(kept)


def _finite(value: Array) -> Array:
    return np.where(np.isfinite(value), value, -np.inf)


def _weights(value: Array, step: float) -> Array:
    """Return what the next step makes of equal weights; what is impossible stays so."""
    weights = np.exp(step * (value - value.max()))
    return np.asarray(weights / weights.sum())


def _step(value: Array, most: float) -> float:
    """Return the largest step that leaves the share of weight wanted effective."""

    def effective(step: float) -> float:
        return float(1.0 / (len(value) * np.sum(_weights(value, step) ** 2)))

    if effective(most) >= _EFFECTIVE:
        return most
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle) > _EFFECTIVE else (low, middle)
    # Where impossible draws alone take more than the share allowed no step is small enough: any sheds them.
    return high


def _resampled(rng: np.random.Generator, at: Array, value: Array, step: float) -> tuple[Array, Array]:
    """Draw the particles anew by weight, at evenly spaced quantiles of the weights (systematic resampling)."""
    places = (np.arange(len(at)) + rng.random()) / len(at)
    chosen = np.searchsorted(np.cumsum(_weights(value, step)), places).clip(max=len(at) - 1)
    return at[chosen], value[chosen]


def _moved(
    rng: np.random.Generator, at: Array, value: Array, share: float, log_likelihood: LogDensity
) -> tuple[Array, Array]:
    """Move every particle by one Metropolis step towards prior times likelihood to the power `share`."""
    m, p = at.shape
    spread = np.linalg.cholesky(np.cov(at.T).reshape(p, p) + 1e-12 * np.eye(p))
    # One step in eight is three times as short: it still moves where the posterior is a thin shell.
    scale = 2.38 / np.sqrt(p) * np.where(rng.random((m, 1)) < 0.125, 1 / 3, 1.0)
    proposed = at + scale * (rng.normal(size=(m, p)) @ spread.T)
    found = _finite(log_likelihood(proposed))
    gain = share * (found - value) + (np.sum(at**2, axis=1) - np.sum(proposed**2, axis=1)) / 2
    taken = np.log(rng.random(m)) < gain
    return np.where(taken[:, None], proposed, at), np.where(taken, found, value)
