"""Bootstrap of any law on the shared solver: draws, failures counted, searches audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scaling.laws.base import Array, Index, Mask
from scaling.newton import Objective, Solution
from scaling.resample import Plan
from scaling.solver import solve

Progress = Callable[[int, int], None]

#: Points evaluated at once: chunks of this many doubles stay in a core's cache.
_CHUNK_POINTS = 32_000
#: Replicates that are also searched from their own cold starts, to audit the warm ones.
_AUDITED = 20
#: Starts of such a search: those of least residual, where other basins begin.
_AUDIT_STARTS = 8
#: A cold search must be lower by this much, relatively, to count as having found another basin.
_LOWER = 1e-6


@dataclass(frozen=True)
class Draws:
    """Bootstrap draws of a law's plain coefficients.

    Parameters
    ----------
    plain : array, shape (R, q)
        One row per successful replicate.
    n_failed : int
        Replicates without a usable optimum.
    failures : tuple of (str, int)
        Why, and how many.
    n_audited, n_missed : int
        Replicates searched again from cold starts, and those where that found a lower optimum (if any
        did, every replicate was searched from the law's cold starts, `Form.cold_starts` of them).
    """

    plain: Array
    n_failed: int
    failures: tuple[tuple[str, int], ...]
    n_audited: int
    n_missed: int


def bootstrap(
    problem: Objective,
    best: Array,
    plan: Plan,
    n_boot: int,
    seed: int,
    *,
    axes: tuple[Index, ...] = (),
    min_levels: tuple[int, ...] = (),
    progress: Progress | None = None,
) -> Draws:
    """Refit the law on `n_boot` resamples.

    Parameters
    ----------
    problem : Objective
        The data set; its weights multiply the resampling weights.
    best : array, shape (q,) or (S, q)
        Plain coefficients at the optimum, where replicates start; further rows are other minima, from
        which every replicate is searched as well.
    plan : Plan
        What is resampled.
    n_boot, seed : int
        Number of replicates and seed; replicate r depends on (seed, r) alone.
    axes : tuple of int array, shape (n,)
        Level of each row on each variable, and with `min_levels` the number of distinct levels a
        resample needs for its coefficients to be determined.
    min_levels : tuple of int
        See `axes`.
    progress : callable, optional
        Called with (done, total).

    Returns
    -------
    Draws

    Notes
    -----
    Cost O(n_boot n) with about 8 Newton iterations per replicate; memory O(n) beyond the draws.
    """
    kept: list[Array] = []
    thin = unconverged = done = n_audited = n_missed = 0
    starts = problem.form.starts(problem.log_loss, problem.weights * problem.scale**2)
    warm = np.atleast_2d(best)
    fitted = np.exp(problem.form.tape(problem.form.vector(warm[:1])).f[0]) if n_boot else None
    for units in plan.blocks(n_boot, seed):
        if plan.method == "wild":
            assert fitted is not None
            centre = np.log(fitted)
            logs = centre + units * (problem.log_loss - centre)
            replicates = Objective(problem.form, logs, problem.weights, problem.scale, problem.delta)
            usable = np.ones(len(units), dtype=bool)
        else:
            replicates = Objective(
                problem.form, problem.log_loss, units * problem.weights, problem.scale, problem.delta
            )
            usable = _enough_levels(units, axes, min_levels)
        if n_audited < _AUDITED and not n_missed:
            rows = np.flatnonzero(usable)[: _AUDITED - n_audited]
            n_audited += len(rows)
            n_missed = _audit(replicates, warm, starts[:_AUDIT_STARTS], rows) if len(rows) else 0
        ends = search(replicates, warm, cold=False)
        if n_missed:
            elsewhere = search(replicates, starts[: problem.form.cold_starts], cold=True)
            lower = elsewhere.objective < ends.objective
            ends.put(lower, elsewhere.rows(lower))
        thin += int((~usable).sum())
        unconverged += int((usable & ~ends.converged).sum())
        kept.append(ends.plain[usable & ends.converged])
        done += len(units)
        if progress is not None:
            progress(done, n_boot)
    reasons = (("too few distinct N or D in the resample", thin), ("not converged", unconverged))
    return Draws(
        np.concatenate(kept) if kept else np.empty((0, warm.shape[1])),
        thin + unconverged,
        tuple((why, count) for why, count in reasons if count),
        n_audited,
        n_missed,
    )


def search(problem: Objective, starts: Array, *, cold: bool) -> Solution:
    """Solve every problem of a batch from every start, shape (S, q), and keep the best end of each.

    Chunks are sized to stay in a core's cache, so memory does not grow with the batch.
    """
    n_starts, (n_problems, n) = len(starts), _shape(problem)
    chunk = max(1, _CHUNK_POINTS // (n * n_starts))
    parts = []
    for first in range(0, n_problems, chunk):
        rows = np.arange(first, min(first + chunk, n_problems))
        ends = solve(problem.rows(np.repeat(rows, n_starts)), np.tile(starts, (len(rows), 1)), cold=cold)
        lowest = np.argmin(ends.objective.reshape(len(rows), n_starts), axis=1)
        parts.append(ends.rows(np.arange(len(rows)) * n_starts + lowest))
    return Solution.join(parts)


def _audit(problem: Objective, warm: Array, starts: Array, rows: Index) -> int:
    """Count the replicates for which cold starts find a lower optimum than the warm one."""
    part = problem.rows(rows)
    found = search(part, warm, cold=False).objective
    above = np.flatnonzero(found > part.rounding())  # below it nothing can be lower: exact data
    if not above.size:
        return 0
    part, found = part.rows(above), found[above]
    lowest = search(part, starts, cold=True).objective
    return int((found > lowest * (1 + _LOWER) + part.rounding()).sum())


def _enough_levels(units: Array, axes: tuple[Index, ...], min_levels: tuple[int, ...]) -> Mask:
    """Tell which resamples hold enough distinct levels of every variable."""
    usable = np.ones(len(units), dtype=bool)
    present = units > 0
    for axis, needed in zip(axes, min_levels, strict=True):
        n_levels = int(axis.max()) + 1
        # With this many levels a resample of fewer than `needed` has no chance worth checking for.
        if n_levels > 60:
            continue
        seen = np.stack([present[:, axis == level].any(axis=1) for level in range(n_levels)])
        usable &= seen.sum(axis=0) >= needed
    return usable


def _shape(problem: Objective) -> tuple[int, int]:
    """Return the number of replicates and of runs."""
    rows, runs = problem.weights.shape if problem.weights.ndim == 2 else problem.log_loss.shape
    return rows, runs
