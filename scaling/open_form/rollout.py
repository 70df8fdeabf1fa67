"""How far larger runs lay off a law fitted to the smaller ones, on these very runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from scaling.laws.base import Array, Index, Mask
from scaling.laws.coupled import CoupledLaw
from scaling.open_form.posterior import PUBLISHED, Evidence, Prior, posterior

#: Shares of the runs, in order of compute, that predict the rest.
SHARES = (0.5, 0.7)
#: Fewest runs that predict, and that are predicted; and how far away in decades these begin.
FEWEST, FEWEST_BEYOND, BEYOND = 8, 2, 0.05
#: Particles of the posterior below a cut: a mean of many runs is asked of it, no ends of an interval.
_PARTICLES = 256
#: The median of draws, and the ends of their central 68%: half of what lies between them is a standard error.
CENTRAL = (0.15866, 0.5, 0.84134)
#: Standard error below which the draws are one law: all its coefficients are held.
_EXACT = 1e-6


def effective_units(weights: Array, cluster: Index) -> float:
    """Return how many units rows of these weights are worth: units times (sum w)^2 / (n sum w^2) (Kish 1965, 11.7).

    Examples
    --------
    >>> effective_units(np.array([1.0, 1.0, 1.0, 0.0]), np.arange(4))
    3.0
    """
    alike = float(weights.sum()) ** 2 / (len(weights) * float(weights @ weights))
    return alike * len(np.unique(cluster))


def usable_cuts(compute: Array, weights: Array) -> list[tuple[Mask, Mask]]:
    """Return the cuts of a table by compute that leave enough runs on both sides.

    Parameters
    ----------
    compute : array, shape (n,)
        FLOPs of the runs.
    weights : array, shape (n,)
        Their weights; a run without weight does not count.

    Returns
    -------
    list of (bool array, bool array)
        The runs below and the runs beyond; cuts that give the same runs are given once.
    """
    decade = np.log10(compute)
    out: list[tuple[Mask, Mask]] = []
    for share in SHARES:
        inside = decade <= np.quantile(decade, share)
        beyond = decade > decade[inside].max() + BEYOND
        if np.sum(weights[inside] > 0) < FEWEST or np.sum(weights[beyond] > 0) < FEWEST_BEYOND:
            continue
        if not out or inside.sum() != out[-1][0].sum():
            out.append((inside, beyond))
    return out


def rollouts(evidence: Evidence, cluster: Index, prior: Prior = PUBLISHED) -> tuple[float, ...]:
    """Return how far the runs beyond every usable cut lay off the law of those below, in its standard errors.

    Parameters
    ----------
    evidence : Evidence
        All the runs.
    cluster : int array, shape (n,)
        Unit each row belongs to.
    prior : Prior
        As in `scaling.open_form.posterior`.

    Returns
    -------
    tuple of float
        Mean error of log loss over the root mean square standard error, for every cut; positive where
        larger runs came out worse than foreseen.
    """
    out = []
    for inside, beyond in usable_cuts(evidence.params * evidence.tokens, evidence.weights):
        below = replace(
            evidence,
            params=evidence.params[inside],
            tokens=evidence.tokens[inside],
            loss=evidence.loss[inside],
            weights=evidence.weights[inside],
            n_units=effective_units(evidence.weights[inside], cluster[inside]),
        )
        draws = posterior(below, prior, _PARTICLES)
        low, middle, high = log_quantiles(draws, evidence.params[beyond], evidence.tokens[beyond], CENTRAL)
        error = (high - low) / 2
        counts = evidence.weights[beyond]
        missed = float(np.average(np.log(evidence.loss[beyond]) - middle, weights=counts))
        out.append(missed / max(math.sqrt(float(np.average(error**2, weights=counts))), _EXACT))
    return tuple(out)


def log_quantiles(draws: CoupledLaw, params: Array, tokens: Array, shares: tuple[float, ...]) -> Array:
    """Return quantiles over draws of log losses at every run, shape (len(shares), n)."""
    each = CoupledLaw(*(np.asarray(v)[:, None] for v in vars(draws).values()))
    return np.asarray(np.quantile(np.log(np.asarray(each.loss(params, tokens))), shares, axis=0))
