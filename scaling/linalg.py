"""Small dense linear algebra over a batch."""

from __future__ import annotations

import numpy as np

from scaling.laws.base import Array, Mask, quiet


@quiet
def solve_spd(matrices: Array, rhs: Array) -> tuple[Array, Mask]:
    """Solve a batch of small symmetric systems by Cholesky, telling which were positive definite.

    Written over the batch because numpy's own Cholesky raises for the whole batch when a single
    matrix is indefinite, and indefinite ones are ordinary here.

    Parameters
    ----------
    matrices : array, shape (P, p, p)
        Symmetric matrices.
    rhs : array, shape (P, p)
        Right-hand sides.

    Returns
    -------
    solution : array, shape (P, p)
        Solutions; zeros where the matrix is not positive definite.
    definite : bool array, shape (P,)
        Which were.
    """
    p = matrices.shape[1]
    a = np.moveaxis(matrices, 0, -1).copy()  # (p, p, P): each scalar of the algorithm is a row
    definite = np.ones(len(matrices), dtype=bool)
    for j in range(p):
        for k in range(j):
            a[j:, j] -= a[j:, k] * a[j, k]
        pivot = a[j, j]
        # A pivot that cancelled to rounding is a null direction, not a definite one.
        definite &= pivot > 1e-14 * np.abs(matrices[:, j, j])
        a[j:, j] /= np.sqrt(np.where(definite, pivot, 1.0))
    x = np.where(definite, rhs.T, 0.0)
    for j in range(p):
        x[j] = (x[j] - (a[j, :j] * x[:j]).sum(axis=0)) / a[j, j]
    for j in range(p - 1, -1, -1):
        x[j] = (x[j] - (a[j + 1 :, j] * x[j + 1 :]).sum(axis=0)) / a[j, j]
    x = np.where(definite, x, 0.0)
    return np.ascontiguousarray(x.T), definite
