"""L(N, D) = [(Nc/N)^(aN/aD) + Dc/D]^aD (Kaplan et al. 2020, arXiv 2001.08361, eq. 1.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from scaling.laws.base import Array, DenseTape, Mask, quiet

#: Grid of aD and of aN/aD for starts; Kaplan's joint fit has aN 0.076 and aD 0.103.
_AD_GRID = np.geomspace(0.02, 1.0, 24)
_RATIO_GRID = np.geomspace(0.2, 5.0, 24)


@dataclass(frozen=True)
class KaplanLaw:
    """Kaplan's joint law: without a floor, and with one exponent outside the sum.

    Parameters
    ----------
    Nc, Dc : float or array
        Scales of parameters and tokens.
    alpha_N, alpha_D : float or array
        Exponents.
    """

    COEFFICIENTS: ClassVar[tuple[str, ...]] = ("Nc", "Dc", "alpha_N", "alpha_D")

    Nc: Any
    Dc: Any
    alpha_N: Any
    alpha_D: Any

    @quiet
    def loss(self, params: ArrayLike, tokens: ArrayLike) -> Any:
        """Return the predicted loss at (params, tokens)."""
        n, d = np.asarray(params, dtype=float), np.asarray(tokens, dtype=float)
        inner = (self.Nc / n) ** (np.asarray(self.alpha_N) / self.alpha_D) + self.Dc / d
        value = inner**self.alpha_D
        return float(value) if np.ndim(value) == 0 else value


class KaplanForm:
    """The law attached to runs, in (log level, logit-free share, ratio, aD) made linear in logs.

    With p = aN/aD and centred logs x and y, f = k log(exp(u - p x) + exp(v - y)); the parameters are
    (u, v, p, k). Plain coefficients are the same four numbers.
    """

    cold_starts = None

    def __init__(self, x: Array, y: Array) -> None:
        self._x, self._y = x, y
        self.lower = np.array([-400.0, -400.0, 1e-2, 1e-3])
        self.upper = np.array([400.0, 400.0, 50.0, 4.0])
        self.fixed: dict[int, float] = {}

    def tape(self, theta: Array) -> DenseTape:
        """Evaluate at a batch of parameter vectors, shape (P, 4)."""
        u, v, p, k = (theta[:, i, None] for i in range(4))
        first, second = u - p * self._x, v - self._y
        inner = np.logaddexp(first, second)
        share = np.exp(first - inner)  # of the parameter term
        rest = 1.0 - share
        # g = d inner / d(u, v, p); its Hessian is share * rest * (difference of the two gradients)^2.
        g = np.stack([share, rest, -share * self._x, np.zeros_like(share)], axis=1)
        ones = np.ones_like(share)
        apart = np.stack([ones, -ones, -self._x * ones, np.zeros_like(share)], axis=1)
        hessian = k[:, :, None, None].transpose(0, 2, 3, 1) * (
            (share * rest)[:, None, None, :] * apart[:, :, None, :] * apart[:, None, :, :]
        )
        jacobian = k[:, None, :] * g
        jacobian[:, 3] = inner
        for i in range(3):
            hessian[:, i, 3] += g[:, i]
            hessian[:, 3, i] += g[:, i]
        return DenseTape(k * inner, jacobian, hessian)

    def plain(self, theta: Array) -> Array:
        """Return the parameters themselves."""
        return theta.copy()

    def vector(self, plain: Array) -> Array:
        """Return the parameters themselves."""
        return plain.copy()

    def starts(self, log_loss: Array, weights: Array) -> Array:
        """Return starts by variable projection: given p and k, L^(1/k) is linear in two coefficients."""
        rows = []
        for k in _AD_GRID:
            target = np.exp(log_loss / k - np.max(log_loss / k))
            # Weights that make errors of L^(1/k) relative ones.
            w = weights / target**2
            d = np.exp(-self._y)
            for p in _RATIO_GRID:
                n = np.exp(-p * self._x)
                gram = np.array([[w @ (n * n), w @ (n * d)], [w @ (n * d), w @ (d * d)]])
                rhs = np.array([w @ (n * target), w @ (d * target)])
                c = np.linalg.solve(gram + 1e-12 * np.trace(gram) * np.eye(2), rhs)
                c = np.maximum(c, 1e-8 * np.abs(c).max())
                rss = float(w @ (target - c[0] * n - c[1] * d) ** 2) * k * k
                rows.append((rss, *(np.log(c) + np.max(log_loss / k)), p, k))
        table = np.array(sorted(rows))
        # The best node of every exponent k: distinct starts, not the neighbours of one.
        best = [table[table[:, 4] == k][0] for k in _AD_GRID]
        return np.array(sorted(best, key=lambda r: float(r[0])))[:12, 1:]

    def face(self) -> None:
        """Return None: this law has no boundary to cross."""
        return None

    def outside(self, plain: Array) -> Mask:
        """Tell that nothing is outside."""
        return np.zeros(len(plain), dtype=bool)

    def onto_face(self, plain: Array) -> Array:
        """Return the coefficients unchanged."""
        return plain


@dataclass(frozen=True)
class AttachedKaplan:
    """The law attached to runs: see `scaling.laws.chinchilla.Attached`."""

    form: KaplanForm
    centre: tuple[float, float]

    @quiet
    def law(self, plain: Array) -> KaplanLaw:
        """Turn the solver's plain coefficients, shape (4,) or (R, 4), into a law."""
        u, v, p, k = (plain[..., i] for i in range(4))
        values = (np.exp(u / p + self.centre[0]), np.exp(v + self.centre[1]), p * k, k)
        return KaplanLaw(*(float(a) if np.ndim(a) == 0 else a for a in values))


def attach_kaplan(params: Array, tokens: Array) -> AttachedKaplan:
    """Attach the law to runs."""
    x, y = np.log(params), np.log(tokens)
    centre = (float(x.mean()), float(y.mean()))
    return AttachedKaplan(KaplanForm(x - centre[0], y - centre[1]), centre)
