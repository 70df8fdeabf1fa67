"""Curvature and score variance of a set of runs over draws of the law, and what one run more would do.

The standard error of a quantity with gradient g is sqrt(u' M u), u = H^-1 g, with H the curvature and M the
variance of the scores (`scaling.sandwich`). A run with Jacobian row j adds c j j' to H and v j j' to M, and
where it shares noise with the runs of its trunk s (t j' + j t') besides, t the sum of their scores. So with
the inverse of H at hand, the standard errors with each of n candidates take O(n p^2) together
(Sherman & Morrison 1950), for all draws at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scaling.design.candidates import Candidates
from scaling.jacobian import free_columns, gradient, log_jacobian
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.sandwich import planned, score_correlation

#: What the search takes as known of every direction before the first run: this share of what an average
#: candidate tells. It lets a search begin where nothing is identified; no number that is shown contains it.
_KNOWN = 1e-3


@dataclass(frozen=True, eq=False)
class Moments:
    """What runs at hand and candidates tell about a quantity, at every draw of the law.

    Parameters
    ----------
    candidates : Candidates
        The runs that could be made, n of them.
    rows : array, shape (r, n, p)
        Jacobian of log predictions at each of r draws, in coordinates in which an average candidate has the
        identity as curvature.
    curvature, variance : array, shape (r, n)
        Expected curvature and variance of the score of each.
    shared : float
        Correlation of scores within a trunk.
    bread, meat : array, shape (r, p, p)
        Curvature and score variance of the runs at hand, and of what is taken as known.
    gradient : array, shape (r, p)
        Of the quantity.
    """

    candidates: Candidates
    rows: Array
    curvature: Array
    variance: Array
    shared: float
    bread: Array
    meat: Array
    gradient: Array

    def log_se(self, chosen: Sequence[int] | Index) -> Array:
        """Return the log standard error with a set of candidates, shape (r,)."""
        state = _State(self, chosen)
        variance = np.einsum("rp,rpq,rq->r", state.u, state.meat, state.u)
        return np.asarray(0.5 * np.log(np.maximum(variance, 1e-300)))

    def log_se_with_each(self, chosen: Sequence[int] | Index) -> Array:
        """Return the log standard error with a set and each candidate in turn, shape (r, n)."""
        return self._with(chosen, 1.0)

    def log_se_without_each(self, chosen: Sequence[int] | Index) -> Array:
        """Return the log standard error of a set less each candidate in turn, shape (r, n): for members alone."""
        return self._with(chosen, -1.0)

    def _with(self, chosen: Sequence[int] | Index, sign: float) -> Array:
        """Add (1) or take away (-1) each candidate."""
        s = _State(self, chosen, all_trunks=True)
        mu = (s.inverse @ (s.meat @ s.u[:, :, None]))[..., 0]
        both = np.stack([s.inverse, s.inverse @ s.meat @ s.inverse])[:, :, self._upper[0], self._upper[1]]
        q, r = np.moveaxis(self._squares @ np.moveaxis(both, 0, 2), 2, 0)  # j' H^-1 j, j' H^-1 M H^-1 j
        ju, jmu = np.moveaxis(self.rows @ np.stack([s.u, mu], axis=2), 2, 0)
        # With the candidate u becomes u - step H^-1 j. What is no member may make nonsense when taken away.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = sign * self.curvature * ju / (1.0 + sign * self.curvature * q)
            after = ju - step * q
            base = np.sum(s.u * (s.meat @ s.u[:, :, None])[..., 0], axis=1)[:, None]
            variance = base - 2.0 * step * jmu + step**2 * r + sign * self.variance * after**2
            if self.shared and len(chosen):
                trunk = self.candidates.trunk
                tu = (s.sums @ s.u[:, :, None])[..., 0]
                ta = np.sum(self.rows * (s.sums @ s.inverse)[:, trunk], axis=2)
                mates = tu[:, trunk] - step * ta
                if sign < 0:
                    mates = mates - np.sqrt(self.variance) * after  # a member is no mate of its own
                variance += sign * 2.0 * self.shared * np.sqrt(self.variance) * mates * after
            return np.asarray(0.5 * np.log(np.maximum(variance, 1e-300)))

    @cached_property
    def _upper(self) -> tuple[Index, Index]:
        return np.triu_indices(self.rows.shape[2])

    @cached_property
    def _squares(self) -> Array:
        """Products of the entries of each row, those off the diagonal twice: j' S j is linear in S."""
        i, k = self._upper
        return np.asarray(self.rows[:, :, i] * self.rows[:, :, k] * np.where(i == k, 1.0, 2.0))


class _State:
    """Inverse curvature, score variance and H^-1 g of a set."""

    def __init__(self, m: Moments, chosen: Sequence[int] | Index, *, all_trunks: bool = False) -> None:
        at = np.asarray(chosen, dtype=np.int64)
        rows = m.rows[:, at]
        bread = m.bread + np.swapaxes(rows, 1, 2) @ (rows * m.curvature[:, at, None])
        scores = rows * np.sqrt(m.variance[:, at, None])
        own = np.swapaxes(scores, 1, 2) @ scores
        self.sums = np.zeros((len(rows), 0, rows.shape[2]))
        if m.shared:
            present, mine = np.unique(m.candidates.trunk[at], return_inverse=True)
            sums = (np.arange(len(present))[:, None] == mine).astype(float) @ scores
            own = (1 - m.shared) * own + m.shared * (np.swapaxes(sums, 1, 2) @ sums)
            if all_trunks:
                self.sums = np.zeros((len(rows), m.candidates.n_trunks, rows.shape[2]))
                self.sums[:, present] = sums
        self.meat = m.meat + own
        self.inverse = np.linalg.inv(bread)
        self.u = (self.inverse @ m.gradient[:, :, None])[..., 0]


@dataclass(frozen=True, eq=False)
class Known:
    """Runs at hand.

    Parameters
    ----------
    params, tokens : array, shape (n,)
        The runs; both empty where there are none.
    cluster : int array, shape (n,)
        Which share noise.
    """

    params: Array
    tokens: Array
    cluster: Index

    @classmethod
    def nothing(cls) -> Known:
        """Return no runs at all."""
        return cls(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))


def moments(
    laws: Sequence[ChinchillaLaw],
    function: Callable[[ChinchillaLaw], float],
    known: Known,
    candidates: Candidates,
    *,
    sigma: float,
    rho: float,
    delta: float,
    fixed: Collection[str] = (),
    tied: bool = False,
) -> Moments:
    """Return the moments of a quantity at each of several laws.

    Parameters
    ----------
    laws : sequence of ChinchillaLaw
        Single laws: draws of a fit, or of a prior.
    function : callable
        The quantity, a function of a law.
    known, candidates
        Runs at hand and runs that could be made.
    sigma, rho, delta
        Noise of a log loss, its correlation within a trunk, and the Huber threshold.
    fixed, tied
        Coefficients that the fit will hold, and whether alpha = beta.
    """
    free = free_columns(fixed, tied)
    params = np.concatenate([known.params, candidates.params])
    tokens = np.concatenate([known.tokens, candidates.tokens])
    # Centred, an exponent is told from its coefficient; a coefficient that is held stays where it is.
    x0 = 0.0 if "A" in fixed else float(np.log(candidates.params).mean())
    y0 = 0.0 if "B" in fixed else float(np.log(candidates.tokens).mean())
    x, y, n_known = np.log(params) - x0, np.log(tokens) - y0, len(known.params)
    inside, meat_of = planned(np.full(1, sigma), 0.0, np.zeros(1, dtype=np.int64), delta)
    c, v = float(inside[0]), float(meat_of(np.ones((1, 1)))[0, 0])
    _, meat_known = planned(np.full(n_known, sigma), rho, known.cluster, delta)
    rows, breads, meats, slopes = [], [], [], []
    for law in laws:
        jacobian = log_jacobian(law, x, y, params, tokens) @ free
        slope = gradient(function, law)
        slope[1] += x0 * slope[0]
        slope[3] += y0 * slope[2]
        average = c * jacobian[n_known:].T @ jacobian[n_known:] / len(candidates)
        length = np.sqrt(np.diag(average))
        length = np.where(length > 0, length, 1.0)  # of one size or one token count alone: an exponent unseen
        values, vectors = np.linalg.eigh(average / np.outer(length, length))
        white = vectors / np.sqrt(np.maximum(values, 1e-12 * values.max())) / length[:, None]
        jacobian = jacobian @ white
        own, ridge = jacobian[:n_known], _KNOWN * np.eye(free.shape[1])
        rows.append(jacobian[n_known:])
        slopes.append(white.T @ (slope @ free))
        breads.append(ridge + c * own.T @ own)
        meats.append((v / c) * ridge + (meat_known(own) if n_known else 0.0))
    shape = (len(laws), len(candidates))
    return Moments(
        candidates, np.array(rows), np.full(shape, c), np.full(shape, v), score_correlation(rho),
        np.array(breads), np.array(meats), np.array(slopes),
    )  # fmt: skip
