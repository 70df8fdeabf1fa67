"""Sums of powers, L = E + sum_k A_k exp(-alpha_k x_k): Chinchilla, tied exponents and L(C) alike.

When E is free the obvious parameters are a trap. On small sweeps alpha is small, A/N^alpha is nearly
a straight line in ln N, and E and A trade against each other along a curved valley a thousand times
longer than it is wide; Newton's method creeps along it. The solver therefore moves the *level* of
the loss at the centre of the data, the *slope* of each term there, and the exponents:

    L = M + sum_k S_k h(alpha_k, x_k),   h(a, x) = (exp(-a x) - 1) / a,

with A_k = S_k / alpha_k and E = M - sum_k A_k. The valley is then a straight line. E may come out
negative on the way; `PowerSum.outside` says so and the solver goes on along the face E = 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scaling.laws.base import Array, Mask, contract, outer
from scaling.laws.varpro import check_starts, power_sum_starts

#: Exponents stay in this box. Published ones lie in 0.02-0.75; beyond 4 a term is a step function.
EXPONENT_BOX = (1e-3, 4.0)


class PowerSum:
    """A sum of powers tied to its runs: a `Form` for the solver.

    Parameters
    ----------
    x : array, shape (K, n)
        Log variable of each term, centred unless its coefficient is held.
    exponent_of : tuple of int
        Which exponent each term uses: (0, 1) for two, (0, 0) for tied exponents.
    log_loss : array, shape (n,)
        Log losses; their range bounds the coefficients.
    floor : float, optional
        E held at this value; None leaves it free.
    held_coefficients, held_exponents : mapping of int to float, optional
        Coefficients A_k (by term) and exponents (by exponent) held at a value.

    Notes
    -----
    Parameter order: log M first when the floor is free, then one log coefficient per term (log S_k,
    or log A_k where the floor or that coefficient is held), then the exponents.
    """

    cold_starts = None

    def __init__(
        self,
        x: Array,
        exponent_of: tuple[int, ...],
        log_loss: Array,
        *,
        floor: float | None = None,
        held_coefficients: Mapping[int, float] | None = None,
        held_exponents: Mapping[int, float] | None = None,
    ) -> None:
        self._x, self._exponent_of, self._log_loss, self._floor = x, exponent_of, log_loss, floor
        self._held_coefficients = dict(held_coefficients or {})
        self._held_exponents = dict(held_exponents or {})
        k, n_exponents = len(exponent_of), max(exponent_of) + 1
        self._level = int(floor is None)
        self._plain = [floor is not None or i in self._held_coefficients for i in range(k)]
        self._slope = [self._level + k + e for e in exponent_of]
        low, high = float(log_loss.min()), float(log_loss.max())
        a, b = EXPONENT_BOX
        # exp(-20) of the smallest loss is nothing: a coefficient there has left the law.
        self.lower = np.array([low - 4.0] * self._level + [low - 20.0] * k + [a] * n_exponents)
        self.upper = np.array([high + 4.0] * self._level + [high + 12.0] * k + [b] * n_exponents)
        self.fixed = {self._level + i: float(np.log(v)) for i, v in self._held_coefficients.items()}
        self.fixed |= {self._level + k + e: float(v) for e, v in self._held_exponents.items()}

    def tape(self, theta: Array) -> PowerSumTape:
        """Evaluate at a batch of parameter vectors, shape (P, p)."""
        floor = np.exp(theta[:, 0]) if self._floor is None else np.full(len(theta), self._floor)
        blocks = []
        for i, x in enumerate(self._x):
            log_coefficient, a = theta[:, self._level + i, None], theta[:, self._slope[i], None]
            power = np.exp(-a * x)
            if self._plain[i]:
                u = np.exp(log_coefficient) * power
                blocks.append((u, -x * u, x * x * u))
            else:
                s = np.exp(log_coefficient)
                h = (power - 1.0) / a
                power *= x
                first = (power + h) / -a
                power *= x
                blocks.append((s * h, s * first, s * (power - 2.0 * first) / a))
        return PowerSumTape(floor, blocks, self._level, self._slope, theta.shape[1])

    def plain(self, theta: Array) -> Array:
        """Return (E, A_1..A_K, alpha_1..), shape (P, q); E is negative where the batch has crossed 0."""
        k = len(self._x)
        coefficient = np.exp(theta[:, self._level : self._level + k])
        coefficient = np.where(self._plain, coefficient, coefficient / theta[:, self._slope])
        for i, value in self._held_coefficients.items():
            coefficient[:, i] = value  # to the last bit, not through its logarithm
        if self._floor is None:
            floor = np.exp(theta[:, 0]) - coefficient @ ~np.array(self._plain)
        else:
            floor = np.full(len(theta), self._floor)
        return np.column_stack([floor, coefficient, theta[:, self._level + k :]])

    def vector(self, plain: Array) -> Array:
        """Inverse of `plain`."""
        k = len(self._x)
        coefficient, exponent = plain[:, 1 : k + 1], plain[:, k + 1 :]
        theta = np.empty((len(plain), self._level + k + exponent.shape[1]))
        if self._floor is None:
            level = plain[:, 0] + coefficient @ ~np.array(self._plain)
            # With every coefficient held and E at 0 nothing is left of it; the box has a floor.
            theta[:, 0] = np.log(np.maximum(level, 1e-300))
        scale = np.where(self._plain, 1.0, exponent[:, list(self._exponent_of)])
        theta[:, self._level : self._level + k] = np.log(coefficient * scale)
        theta[:, self._level + k :] = exponent
        return theta

    def starts(self, log_loss: Array, weights: Array) -> Array:
        """Return cold starts by variable projection, in plain coefficients, shape (S, q)."""
        found = power_sum_starts(
            self._x,
            self._exponent_of,
            log_loss,
            weights,
            self._floor,
            self._held_coefficients,
            self._held_exponents,
        )
        return check_starts(found)

    def face(self) -> PowerSum | None:
        """Return the law with E = 0, or None when E is held already."""
        if self._floor is not None:
            return None
        return PowerSum(
            self._x,
            self._exponent_of,
            self._log_loss,
            floor=0.0,
            held_coefficients=self._held_coefficients,
            held_exponents=self._held_exponents,
        )

    def outside(self, plain: Array) -> Mask:
        """Tell which plain coefficients have E < 0."""
        return np.asarray(plain[:, 0] < 0.0)

    def onto_face(self, plain: Array) -> Array:
        """Return coefficients with E = 0 near ones with E < 0: same level and slopes at the centre.

        Raising every exponent by the factor sum(A)/(E + sum(A)) and lowering every coefficient by it
        keeps the loss at the centre and its slope in each variable; only the curvature changes.
        """
        k = len(self._x)
        out = plain.copy()
        total = plain[:, 1 : k + 1].sum(axis=1)
        factor = (total / (plain[:, 0] + total))[:, None]
        out[:, 0] = 0.0
        out[:, 1 : k + 1] /= factor
        out[:, k + 1 :] *= factor
        return out


class PowerSumTape:
    """Derivatives of ``f = log L`` with L linear in one block per term.

    ``H_f = H_L / L - J J'``, and H_L is block diagonal: only a term's own coefficient and exponent
    meet in it. So the curvature is one weighted product of J with itself plus a few row sums.
    """

    def __init__(
        self,
        floor: Array,
        blocks: list[tuple[Array, Array, Array]],
        level: int,
        slope: list[int],
        n_params: int,
    ) -> None:
        total = blocks[0][0] + floor[:, None]
        for u, _, _ in blocks[1:]:
            total += u
        # A trial step may leave the region where the law is positive: nan, never accepted.
        with np.errstate(invalid="ignore", divide="ignore"):
            self.f = np.where(total > 0, np.log(total), np.nan)
            inverse = 1.0 / total
        self._floor, self._blocks, self._level, self._slope = floor, blocks, level, slope
        self._inverse = inverse
        jacobian = np.zeros((len(floor), n_params, total.shape[1]))
        if level:
            np.multiply(floor[:, None], inverse, out=jacobian[:, 0])
        for i, (u, first, _) in enumerate(blocks):
            np.multiply(u, inverse, out=jacobian[:, level + i])
            jacobian[:, slope[i]] += first * inverse
        self._jacobian = jacobian

    def jacobian(self) -> Array:
        """Return J, shape (P, p, n)."""
        return self._jacobian

    def gradient(self, c: Array) -> Array:
        """Return ``sum_i c_i J_i``."""
        return contract(self._jacobian, c)

    def curvature(self, c: Array, d: Array) -> Array:
        """Return ``sum_i (c_i J_i J_i' + d_i H_i)``."""
        out = outer(self._jacobian, c - d)
        q = d * self._inverse
        if self._level:
            out[:, 0, 0] += self._floor * q.sum(axis=1)
        for i, (u, first, second) in enumerate(self._blocks):
            j, s = self._level + i, self._slope[i]
            cross = np.einsum("pn,pn->p", q, first)
            out[:, j, j] += np.einsum("pn,pn->p", q, u)
            out[:, j, s] += cross
            out[:, s, j] += cross
            out[:, s, s] += np.einsum("pn,pn->p", q, second)
        return out
