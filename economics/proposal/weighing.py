"""One recommendation against another: over what the costs may be, and over the laws held possible."""

from __future__ import annotations

import math

import numpy as np

from economics.decide.surface import Surface
from economics.proposal.offer import Offer
from economics.proposal.yard import Yard
from economics.quantile_draws import Array
from scaling.laws.chinchilla import ChinchillaLaw

#: Between sizes that are compared, in ln N.
_STEP = 0.02


def share_better(yard: Yard, one: Offer, other: Offer, usd: float) -> float:
    """Return the share of the draws of the costs in which an offer reaches the lower loss for the money.

    The draws share what both have in common (the luck of the code base, say), so this is a statement about the two
    kinds of machine.
    """
    losses = []
    for offer in (one, other):
        at = yard.costs_of(offer).at(np.array([math.log(offer.params)]))
        tokens = at.tokens(usd, "usd", 0.0)[:, 0]
        losses.append(yard.law.loss(offer.params, np.maximum(tokens, 1.0)))
    first, second = (np.asarray(loss, dtype=float) for loss in losses)
    return float(np.mean(first < second) + 0.5 * np.mean(first == second))


def share_cheaper(one: Offer, other: Offer) -> float:
    """Return the share of the draws of the costs in which an offer pays less for a FLOP."""
    each = [
        np.atleast_1d(offer.cost.outcome.total_usd) / (offer.params * offer.tokens) for offer in (one, other)
    ]
    return float(np.mean(each[0] < each[1]) + 0.5 * np.mean(each[0] == each[1]))


def regret(offer: Offer, costs: Surface, law: ChinchillaLaw, quantile: float, usd: float) -> Array:
    """Return what the recommended size loses against the best one, for each law held possible.

    Parameters
    ----------
    offer : Offer
        The recommendation.
    costs : Surface
        On its machines.
    law : ChinchillaLaw
        Draws, arrays of shape (R,).

    Returns
    -------
    array, shape (R,)
        Loss at the recommended size less the lowest loss for the same money, both under the same draw.
    """
    # Tokens at the nodes, and between them in the logarithm; the recommended size is one of those compared, so that
    # no difference between a cost and its interpolation is taken for a regret.
    known = np.quantile(costs.tokens(usd, "usd", 0.0), 1.0 - quantile, axis=0)
    x = np.append(np.arange(costs.x[0], costs.x[-1], _STEP), math.log(offer.params))
    tokens = np.exp(np.interp(x, costs.x, np.log(np.maximum(known, 1e-300))))
    each = ChinchillaLaw(*(np.asarray(v)[:, None] for v in vars(law).values()))
    losses = np.asarray(each.loss(np.exp(x)[None, :], np.maximum(tokens, 1.0)[None, :]))
    return np.asarray(losses[:, -1] - losses.min(axis=1))
