"""Numbers that carry their first and second derivatives: a law is then its formula, and nothing else.

Forward differentiation, exact to rounding, over a batch of parameter vectors and all runs at once. A jet
knows which parameters it depends on and carries no others: most of a law is a sum of terms of a few each.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from scaling.laws.base import Array, Index, Mask, contract, outer

Active = tuple[int, ...]


@cache
def _pairs(p: int) -> tuple[Index, Index, Index]:
    """Return the pairs i <= j, and for every (i, j) the position of its pair."""
    i, j = np.triu_indices(p)
    full = np.empty((p, p), dtype=np.int64)
    full[i, j] = full[j, i] = np.arange(len(i))
    return i, j, full


@cache
def _places(some: Active, all_: Active) -> tuple[list[int], list[int]]:
    """Return where the parameters of one jet, and their pairs, stand among those of a larger one."""
    at = [all_.index(i) for i in some]
    i, j, _ = _pairs(len(some))
    full = _pairs(len(all_))[2]
    return at, [int(full[at[a], at[b]]) for a, b in zip(i, j, strict=True)]


class Jet:
    """A value with its gradient and Hessian in the parameters it depends on.

    Parameters
    ----------
    active : tuple of int
        Positions of those parameters, ascending; a of them.
    v : array, shape (P, n) or (P, 1)
        Values; one column where they are the same for all runs.
    g : array, shape (P, a, n) or (P, a, 1)
        First derivatives.
    h : array, shape (P, a(a+1)/2, n) or (P, a(a+1)/2, 1)
        Second derivatives, one for each pair i <= j.
    """

    __array_ufunc__ = None  # an array on the left lets the jet on the right do the work

    def __init__(self, active: Active, v: Array, g: Array, h: Array) -> None:
        self.active, self.v, self.g, self.h = active, v, g, h

    @classmethod
    def parameters(cls, theta: Array) -> list[Jet]:
        """Return every column of a batch of parameter vectors, shape (P, p), as a jet."""
        one, zero = np.ones((len(theta), 1, 1)), np.zeros((len(theta), 1, 1))
        return [cls((i,), theta[:, i : i + 1], one, zero) for i in range(theta.shape[1])]

    def alone(self, position: int) -> Jet:
        """Return the same values as if they were a parameter of their own: see `compose`."""
        n = (len(self.v), 1, 1)
        return Jet((position,), self.v, np.ones(n), np.zeros(n))

    def __add__(self, other: Jet | Array | float) -> Jet:
        if not isinstance(other, Jet):
            return Jet(self.active, self.v + other, self.g, self.h)
        a, b = _aligned(self, other)
        return Jet(a.active, a.v + b.v, a.g + b.g, a.h + b.h)

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet(self.active, -self.v, -self.g, -self.h)

    def __sub__(self, other: Jet | Array | float) -> Jet:
        return self + (-other)

    def __rsub__(self, other: Array | float) -> Jet:
        return -self + other

    def __mul__(self, other: Jet | Array | float) -> Jet:
        if not isinstance(other, Jet):
            return Jet(self.active, self.v * other, self.g * other, self.h * other)
        a, b = _aligned(self, other)
        i, j, _ = _pairs(len(a.active))
        h = a.v[:, None] * b.h + b.v[:, None] * a.h
        h = h + a.g[:, i] * b.g[:, j]
        h += a.g[:, j] * b.g[:, i]
        return Jet(a.active, a.v * b.v, a.v[:, None] * b.g + b.v[:, None] * a.g, h)

    __rmul__ = __mul__

    def __truediv__(self, other: Jet | float) -> Jet:
        return self * (other.inverse() if isinstance(other, Jet) else 1.0 / other)

    def __rtruediv__(self, other: Array | float) -> Jet:
        return self.inverse() * other

    def inverse(self) -> Jet:
        """Return 1 / self."""
        r = 1.0 / self.v
        return self._through(r, -r * r, 2.0 * r**3)

    def exp(self) -> Jet:
        """Return the exponential."""
        e = np.exp(self.v)
        return self._through(e, e, e)

    def expm1(self) -> Jet:
        """Return exp(self) - 1 without loss near 0."""
        e = np.exp(self.v)
        return self._through(np.expm1(self.v), e, e)

    def log(self) -> Jet:
        """Return the natural logarithm; nan where there is none."""
        r = 1.0 / self.v
        return self._through(np.log(self.v), r, -r * r)

    def where(self, mask: Mask, other: Array | float) -> Jet:
        """Return self where `mask` holds and the constant `other` elsewhere."""
        on = np.atleast_2d(mask)
        m = on[:, None]
        return Jet(
            self.active, np.where(on, self.v, other), np.where(m, self.g, 0.0), np.where(m, self.h, 0.0)
        )

    def over(self, active: Active) -> Jet:
        """Return the same jet with further parameters, on which it does not depend."""
        if active == self.active:
            return self
        at, pairs = _places(self.active, active)
        n_problems, _, n = self.g.shape
        g = np.zeros((n_problems, len(active), n))
        h = np.zeros((n_problems, len(active) * (len(active) + 1) // 2, n))
        g[:, at], h[:, pairs] = self.g, self.h
        return Jet(active, self.v, g, h)

    def _through(self, value: Array, first: Array, second: Array) -> Jet:
        """Chain rule for a function of one variable."""
        i, j, _ = _pairs(len(self.active))
        h = self.g[:, i] * self.g[:, j] * second[:, None]
        h += first[:, None] * self.h
        return Jet(self.active, value, first[:, None] * self.g, h)


def compose(outside: Jet, inside: list[Jet]) -> Jet:
    """Return a function of a few quantities as one of the parameters: the chain rule.

    Parameters
    ----------
    outside : Jet
        The function, in positions 0, 1, .. of `inside` as if they were parameters.
    inside : list of Jet
        Those quantities in the parameters.
    """
    active = tuple(sorted({i for jet in inside for i in jet.active}))
    i, j, _ = _pairs(len(active))
    shape = (outside.v.shape[0], len(active), outside.v.shape[1])
    g = np.zeros(shape)
    h = np.zeros((shape[0], len(i), shape[2]))
    first = {k: outside.g[:, at : at + 1] for at, k in enumerate(outside.active)}
    wide = {k: inside[k].over(active).g for k in outside.active}
    for k, slope in first.items():
        at, pairs = _places(inside[k].active, active)
        g[:, at] += slope * inside[k].g
        if inside[k].h.any():
            h[:, pairs] += slope * inside[k].h
    for pair, (a, b) in enumerate(zip(*_pairs(len(outside.active))[:2], strict=True)):
        k, m = outside.active[a], outside.active[b]
        cross = wide[k][:, i] * wide[m][:, j]
        if a != b:
            cross = cross + wide[k][:, j] * wide[m][:, i]
        h += outside.h[:, pair : pair + 1] * cross
    return Jet(active, outside.v, g, h)


def _aligned(a: Jet, b: Jet) -> tuple[Jet, Jet]:
    """Return two jets in the parameters of both."""
    if a.active == b.active:
        return a, b
    union = tuple(sorted({*a.active, *b.active}))
    return a.over(union), b.over(union)


def exp(x: Any) -> Any:
    """Return the exponential of a jet, an array or a number."""
    return x.exp() if isinstance(x, Jet) else np.exp(x)


def expm1(x: Any) -> Any:
    """Return exp(x) - 1 of a jet, an array or a number."""
    return x.expm1() if isinstance(x, Jet) else np.expm1(x)


def log(x: Any) -> Any:
    """Return the natural logarithm of a jet, an array or a number."""
    return x.log() if isinstance(x, Jet) else np.log(x)


def where(mask: Mask, x: Any, other: Array | float) -> Any:
    """Return `x` where `mask` holds and the constant `other` elsewhere."""
    return x.where(mask, other) if isinstance(x, Jet) else np.where(mask, x, other)


def value(x: Any) -> Array:
    """Return what a jet, an array or a number is worth."""
    return np.asarray(x.v if isinstance(x, Jet) else x, dtype=float)


class JetTape:
    """What the solver asks of a law (`scaling.laws.base.Tape`), of a loss that is a sum of terms.

    ``f = log L`` has ``H_f = H_L / L - J J'``, and the Hessian of L is that of each term in its own
    parameters.

    Parameters
    ----------
    terms : list of Jet, array or float
        Their sum is the loss.
    n_problems, n_params, n : int
        P, p and the number of runs.
    """

    def __init__(self, terms: list[Any], n_problems: int, n_params: int, n: int) -> None:
        total = np.zeros((n_problems, n))
        jacobian = np.zeros((n_problems, n_params, n))
        self._moved = [t for t in terms if isinstance(t, Jet)]
        for term in terms:
            total += value(term)
        smooth = np.ones((n_problems, n), dtype=bool)
        inverse = 1.0 / total
        for term in self._moved:
            jacobian[:, list(term.active)] += term.g
            smooth &= np.isfinite(term.g).all(axis=1) & np.isfinite(term.h).all(axis=1)
        jacobian *= inverse[:, None]
        # A trial step may leave the region where the law is positive, or overflow: nan, never accepted.
        self.f = np.where(smooth & (total > 0), np.log(total), np.nan)
        self._jacobian, self._inverse = jacobian, inverse

    def gradient(self, c: Array) -> Array:
        """Return ``sum_i c_i J_i``."""
        return contract(self._jacobian, c)

    def curvature(self, c: Array, d: Array) -> Array:
        """Return ``sum_i (c_i J_i J_i' + d_i H_i)``."""
        out = outer(self._jacobian, c - d)
        q = d * self._inverse
        for term in self._moved:
            bent = contract(term.h, q) if term.h.shape[2] > 1 else term.h[:, :, 0] * q.sum(axis=1)[:, None]
            at = list(term.active)
            out[:, np.array(at)[:, None], at] += bent[:, _pairs(len(at))[2]]
        return out

    def jacobian(self) -> Array:
        """Return J, shape (P, p, n)."""
        return self._jacobian
