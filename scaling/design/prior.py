"""Laws that a published law, and runs that do not identify one by themselves, leave possible.

A search for runs needs to know how the loss bends where they would be made. Where the runs at hand do not
say, a published law does: with a spread about as wide as that of published laws of text, and drawn to the
runs at hand as far as these speak (a normal approximation around the most likely law).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scaling.design.moments import Known
from scaling.jacobian import log_jacobian
from scaling.laws.base import Array
from scaling.laws.chinchilla import ChinchillaLaw

#: Standard deviation of the logs of A/N^alpha and alpha, B/D^beta and beta, and E. Over the published laws of
#: text in ``data/runs/published_fits.csv`` (Hoffmann, Besiroglu, Muennighoff, Gadre, Gemstones, ml-scalefit) at
#: 50M parameters and 1B tokens they are 0.16, 0.13, 0.26, 0.39 and 0.10; rounded.
SPREAD = (0.15, 0.15, 0.25, 0.4, 0.1)
_STEPS = 60
#: Residuals beyond so many standard deviations count no more than these.
_CLIP = 2.0


@dataclass(frozen=True)
class Belief:
    """Laws held possible.

    Parameters
    ----------
    law : ChinchillaLaw
        The most likely one.
    laws : tuple of ChinchillaLaw
        Draws around it.
    scale : float
        Factor that brought the published law to the level of the runs at hand.
    """

    law: ChinchillaLaw
    laws: tuple[ChinchillaLaw, ...]
    scale: float


def believe(
    law: ChinchillaLaw,
    centre: tuple[float, float],
    known: Known | None = None,
    loss: Array | None = None,
    *,
    sigma: float = 0.01,
    rho: float = 0.0,
    n: int = 24,
    seed: int = 0,
) -> Belief:
    """Return laws around a published one, informed by runs at hand.

    Parameters
    ----------
    law : ChinchillaLaw
        A single published law.
    centre : (float, float)
        Parameters and tokens about which its terms are uncertain by `SPREAD`: the middle of the runs to come.
    known : Known, optional
        Runs at hand, and `loss`, shape (n,), of each. Their level moves the whole law: the unit, the tokenizer
        and the text of a loss are its own.
    sigma, rho : float
        Noise of a log loss, and its correlation among runs of one cluster.
    n, seed : int
        Number of draws, and their seed.
    """
    around = _Around(law, centre)
    mean, precision, scale = np.zeros(5), np.eye(5), 1.0
    if known is not None and loss is not None and len(loss):
        log_loss = np.log(loss)
        off = log_loss - np.log(law.loss(known.params, known.tokens))
        scale = float(np.exp(np.median(off)))
        around = _Around(law.scaled(loss=scale), centre)
        mates = np.bincount(known.cluster)[known.cluster]
        sd = sigma * np.sqrt(1.0 + rho * (mates - 1.0))
        mean, precision = around.most_likely(known, log_loss, sd)
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    drawn = mean + rng.normal(size=(n, 5)) @ root.T
    return Belief(around.at(mean), tuple(around.at(z) for z in drawn), scale)


class _Around:
    """Laws in coordinates of standard deviations of `SPREAD` from one law."""

    def __init__(self, law: ChinchillaLaw, centre: tuple[float, float]) -> None:
        self.law, self.centre = law, (math.log(centre[0]), math.log(centre[1]))

    def at(self, z: Array) -> ChinchillaLaw:
        f = np.exp(np.asarray(SPREAD) * z)
        law, (x, y) = self.law, self.centre
        alpha, beta = law.alpha * f[1], law.beta * f[3]
        a = law.A * math.exp(-law.alpha * x) * f[0] * math.exp(alpha * x)
        b = law.B * math.exp(-law.beta * y) * f[2] * math.exp(beta * y)
        return ChinchillaLaw(float(law.E * f[4]), float(a), float(b), float(alpha), float(beta))

    def jacobian(self, z: Array, known: Known) -> Array:
        """Return derivatives of log predictions in z, shape (n, 5)."""
        law = self.at(z)
        x, y = np.log(known.params) - self.centre[0], np.log(known.tokens) - self.centre[1]
        plain = log_jacobian(law, x, y, known.params, known.tokens)
        return np.asarray(plain * np.array([1.0, law.alpha, 1.0, law.beta, law.E]) * np.asarray(SPREAD))

    def most_likely(self, known: Known, log_loss: Array, sd: Array) -> tuple[Array, Array]:
        """Return the most likely z and the precision around it: damped Gauss-Newton steps."""
        z, damping = np.zeros(5), 1e-3

        def misfit(z: Array) -> tuple[float, Array, Array]:
            r = (log_loss - np.log(self.at(z).loss(known.params, known.tokens))) / sd
            size = np.abs(r)
            value = np.where(size <= _CLIP, r**2 / 2, _CLIP * size - _CLIP**2 / 2).sum() + z @ z / 2
            return float(value), r, np.minimum(1.0, _CLIP / np.maximum(size, 1e-300))

        here, r, w = misfit(z)
        for _ in range(_STEPS):
            j = self.jacobian(z, known) / sd[:, None]
            curvature = j.T @ (j * w[:, None]) + np.eye(5)
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), j.T @ (w * r) - z)
            there, r_new, w_new = misfit(z + step)
            if there <= here:
                done = here - there < 1e-9 * (1 + here)
                z, here, r, w, damping = z + step, there, r_new, w_new, damping / 3
                if done:
                    break
            else:
                damping *= 4
        j = self.jacobian(z, known) / sd[:, None]
        return z, j.T @ (j * w[:, None]) + np.eye(5)
