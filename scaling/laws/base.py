"""What the solver needs of a law: log predictions, and contractions of their first two derivatives.

The solver never sees a law's formula. It asks a `Form` for the log prediction at a batch of
parameter vectors and then, through the returned `Tape`, for two sums over runs: the gradient
``sum_i c_i J_i`` and the curvature ``sum_i (c_i J_i J_i' + d_i H_i)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

#: Decorator. Draws of a law that the runs do not determine run off to infinity: an answer, no accident.
quiet = np.errstate(over="ignore", divide="ignore", invalid="ignore")


class Tape(Protocol):
    """Log predictions of one batch of parameter vectors, with their derivatives on demand."""

    f: Array  # (P, n) log predictions; nan where the law is not positive

    def gradient(self, c: Array) -> Array:
        """Return ``sum_i c_i J_i``, shape (P, p), for weights `c` of shape (P, n)."""
        ...

    def curvature(self, c: Array, d: Array) -> Array:
        """Return ``sum_i (c_i J_i J_i' + d_i H_i)``, shape (P, p, p)."""
        ...

    def jacobian(self) -> Array:
        """Return J, shape (P, p, n)."""
        ...


class Form(Protocol):
    """A law tied to the runs it is fitted on, in the parameters the solver moves."""

    lower: Array  # (p,) box the solver keeps parameters in
    upper: Array  # (p,)

    @property
    def cold_starts(self) -> int | None:
        """Cold starts a bootstrap replicate is searched from where warm ones miss; None for all."""
        ...

    @property
    def fixed(self) -> Mapping[int, float]:
        """Parameters held at a value, by position."""
        ...

    def tape(self, theta: Array) -> Tape:
        """Evaluate at a batch of parameter vectors, shape (P, p)."""
        ...

    def plain(self, theta: Array) -> Array:
        """Return the coefficients a person would write, shape (P, q)."""
        ...

    def vector(self, plain: Array) -> Array:
        """Inverse of `plain`."""
        ...

    def starts(self, log_loss: Array, weights: Array) -> Array:
        """Return cold starts in plain coefficients, shape (S, q), for one data set."""
        ...

    def face(self) -> Form | None:
        """Return the law on the boundary of what is allowed (E = 0), if this form can cross it."""
        ...

    def outside(self, plain: Array) -> Mask:
        """Tell which plain coefficients have crossed that boundary."""
        ...

    def onto_face(self, plain: Array) -> Array:
        """Return coefficients on the boundary near ones that have crossed it."""
        ...


class DenseTape:
    """Derivatives of a batch held in full: for laws where nothing cheaper is to be had.

    Parameters
    ----------
    f : array, shape (P, n)
        Log predictions.
    first : array, shape (P, p, n)
        Derivatives of f.
    second : array, shape (P, p, p, n)
        Second derivatives of f.
    """

    def __init__(self, f: Array, first: Array, second: Array) -> None:
        self.f, self._first, self._second = f, first, second

    def gradient(self, c: Array) -> Array:
        """Return ``sum_i c_i J_i``."""
        return contract(self._first, c)

    def curvature(self, c: Array, d: Array) -> Array:
        """Return ``sum_i (c_i J_i J_i' + d_i H_i)``."""
        out: Array = outer(self._first, c) + np.einsum("pijn,pn->pij", self._second, d)
        return out

    def jacobian(self) -> Array:
        """Return J, shape (P, p, n)."""
        return self._first


def contract(first: Array, c: Array) -> Array:
    """Return ``sum_n first[p, :, n] c[p, n]``."""
    return np.asarray(np.matmul(first, c[:, :, None])[:, :, 0])


def outer(first: Array, c: Array) -> Array:
    """Return ``sum_n c[p, n] first[p, :, n] first[p, :, n]'``."""
    return np.asarray(np.matmul(first * c[:, None, :], first.transpose(0, 2, 1)))
