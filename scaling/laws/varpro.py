"""Start points for sums of powers: given the exponents, the coefficients are a linear problem.

For every node of a grid of exponents the law is linear in its coefficients, so weighted least
squares on relative residuals (weights 1/L^2) gives them in one batched 3x3 solve over all nodes
(variable projection, Golub & Pereyra 1973). The nodes that are local minima of the residual, and
the best node of every coarse block of the grid, are where the solver starts: the first find the
basins, the second show how many of them there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from scaling.errors import DataError
from scaling.laws.base import Array

#: Grid of exponents: below 0.02 a power of N is a logarithm over any range that can be trained, and
#: published exponents stay under 0.75 (facts in data/runs/published_fits.csv); noise reaches above 1.
_LOW, _HIGH = 0.02, 2.0
_NODES = {1: 128, 2: 32}
_BLOCK = {1: 16, 2: 8}
#: Nodes whose residuals agree to this relative difference are one law.
_SAME = 1e-9


def power_sum_starts(
    x: Array,
    exponent_of: tuple[int, ...],
    log_loss: Array,
    weights: Array,
    floor: float | None = None,
    held_coefficients: Mapping[int, float] | None = None,
    held_exponents: Mapping[int, float] | None = None,
) -> Array:
    """Return start points for L = E + sum_k A_k exp(-alpha_k x_k), best first.

    Parameters
    ----------
    x : array, shape (K, n)
        Log variable of each term.
    exponent_of : tuple of int
        Which exponent each term uses.
    log_loss, weights : array, shape (n,)
        Log losses and row weights.
    floor : float, optional
        E held at this value.
    held_coefficients, held_exponents : mapping of int to float, optional
        Coefficients and exponents held at a value.

    Returns
    -------
    array, shape (S, 1 + K + n_exponents)
        Rows (E, A_1..A_K, alpha_1..), all coefficients positive, E >= 0; none where what is held leaves no law
        near these losses (`check_starts`).
    """
    n_terms, n_exponents = len(exponent_of), max(exponent_of) + 1
    nodes, fixed_exponents = _NODES[n_exponents], held_exponents or {}
    grids = [
        np.array([fixed_exponents[e]]) if e in fixed_exponents else np.geomspace(_LOW, _HIGH, nodes)
        for e in range(n_exponents)
    ]
    shape = tuple(len(g) for g in grids)
    # Columns in relative units: one per term, living on one axis of the grid, and the constant.
    inverse = np.exp(-log_loss)
    columns = [
        np.exp(-np.multiply.outer(grids[e], xi)) * inverse for e, xi in zip(exponent_of, x, strict=True)
    ]
    columns.append(inverse[None, :])
    axes: list[int | None] = [*exponent_of, None]
    held = dict(held_coefficients or {})
    if floor is not None:
        held[n_terms] = floor

    def moment(i: int, j: int) -> Array:
        """Weighted inner product of two columns at every node."""
        first, second = axes[i], axes[j]
        if first is not None and second is not None and first != second:
            grid: Array = (columns[i] * weights) @ columns[j].T
            return grid if first == 0 else grid.T
        return _spread((columns[i] * columns[j]) @ weights, second if first is None else first, shape)

    k = n_terms + 1
    gram, target = np.empty((*shape, k, k)), np.empty((*shape, k))
    for i in range(k):
        target[..., i] = _spread(columns[i] @ weights, axes[i], shape)
        for j in range(i, k):
            gram[..., i, j] = gram[..., j, i] = moment(i, j)
    solution, rss = _nonnegative(gram, target, float(weights.sum()), held)
    chosen = _local_minima(rss, _BLOCK[n_exponents])
    # An absent coefficient starts small rather than at zero, so that it can still grow.
    tiny = 1e-4 * float(np.exp(np.median(log_loss)))
    if not chosen:
        return np.empty((0, k + n_exponents))
    at = np.array([solution[node] for node in chosen])
    exponents = np.array([[grid[i] for grid, i in zip(grids, node, strict=True)] for node in chosen])
    return np.column_stack([at[:, n_terms], np.maximum(at[:, :n_terms], tiny), exponents])


def check_starts(starts: Array) -> Array:
    """Return starts of a search; `DataError` where there are none."""
    if not len(starts):
        raise DataError(
            "fixed: no law with these coefficients comes near these losses: hold others, in the units of the table",
            column="fixed",
        )
    return starts


def _nonnegative(gram: Array, target: Array, total: float, held: Mapping[int, float]) -> tuple[Array, Array]:
    """Least squares with non-negative coefficients at every node, some of them held.

    Every face of the positive orthant is tried: a node whose full solution has a negative
    coefficient is still a start with that coefficient left out (E = 0 is common on small sweeps).
    """
    *shape, k = target.shape
    base = np.zeros((*shape, k))
    for i, value in held.items():
        base[..., i] = value
    free = [i for i in range(k) if i not in held]
    rhs = target - np.einsum("...ij,...j->...i", gram, base)
    best, solution = np.full(shape, np.inf), base.copy()
    for size in range(len(free), -1, -1):
        for face in combinations(free, size):
            full = base.copy()
            positive = np.ones(shape, dtype=bool)
            if face:
                block = gram[..., face, :][..., face]
                ridge = 1e-13 * np.einsum("...ii->...i", block)[..., None] * np.eye(size)
                c = np.linalg.solve(block + ridge, rhs[..., face][..., None])[..., 0]
                full[..., face] = c
                positive = np.asarray((c > 0).all(axis=-1))
            fit = np.einsum("...i,...ij,...j->...", full, gram, full)
            rss = total - 2 * np.einsum("...i,...i->...", target, full) + fit
            better = np.logical_and(positive, rss < best)
            best = np.where(better, rss, best)
            solution = np.where(better[..., None], full, solution)
    return solution, best


def _spread(values: Array, axis: int | None, shape: tuple[int, ...]) -> Array:
    """Lay values that live on one axis of the grid (or are constant) out over the whole grid."""
    if axis is None:
        return np.broadcast_to(values.reshape((1,) * len(shape)), shape)
    expand = [1] * len(shape)
    expand[axis] = shape[axis]
    return np.broadcast_to(values.reshape(expand), shape)


def _local_minima(values: Array, block: int) -> list[tuple[int, ...]]:
    """Return the nodes below all their neighbours and the best node of every block, best first."""
    padded = np.pad(values, 1, constant_values=np.inf)
    lowest = np.isfinite(values)
    for shift in np.ndindex(*(3,) * values.ndim):
        if all(s == 1 for s in shift):
            continue
        window = tuple(slice(s, s + n) for s, n in zip(shift, values.shape, strict=True))
        lowest &= values <= padded[window]
    nodes = {tuple(int(i) for i in node) for node in np.argwhere(lowest)}
    for corner in np.ndindex(*(-(-n // block) for n in values.shape)):
        window = tuple(slice(c * block, (c + 1) * block) for c in corner)
        part = values[window]
        if np.isfinite(part).any():
            at = np.unravel_index(int(np.argmin(part)), part.shape)
            nodes.add(tuple(int(c * block + a) for c, a in zip(corner, at, strict=True)))
    # Where a coefficient has left the law its exponent is idle: a whole plateau of nodes is one law.
    kept: list[tuple[int, ...]] = []
    for node in sorted(nodes, key=lambda node: float(values[node])):
        if not kept or values[node] > values[kept[-1]] * (1 + _SAME):
            kept.append(node)
    return kept
