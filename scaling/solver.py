"""One batched solver for every law: from start points to certified minima with E >= 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scaling.laws.base import Array
from scaling.newton import Objective, Solution, minimise

#: Cold starts are polished at these multiples of the final delta first: far from the optimum
#: the objective at 1e-3 is nearly flat in curvature, at 3e-2 it is nearly least squares.
_CONTINUATION = (30.0, 8.0, 2.5)


def solve(problem: Objective, starts: Array, *, cold: bool) -> Solution:
    """Take start points, shape (P, q) in plain coefficients, to minima with E >= 0.

    Parameters
    ----------
    problem : Objective
        One data set, or one reweighted data set per start.
    starts : array, shape (P, q)
        Plain coefficients (`Form.plain`).
    cold : bool
        Whether the starts are far away: then smoother objectives come first.

    Returns
    -------
    Solution
        Problems whose minimum lies at E < 0 are solved again along E = 0, and problems that have not
        converged are tried once more through smoother objectives.
    """
    out = _descend(problem, starts, cold)
    crossed = problem.form.outside(out.plain)
    face = problem.form.face()
    if face is not None and crossed.any():
        near = problem.form.onto_face(out.plain[crossed])
        out.put(crossed, _descend(problem.rows(crossed).on(face), near, cold))
    again = ~out.converged
    if again.any():
        retried = problem.rows(again)
        bounded = out.plain[again, 0] == 0.0 if face is not None else np.zeros(int(again.sum()), bool)
        for form, part in ((problem.form, ~bounded), (face, bounded)):
            if form is not None and part.any():
                rows = np.flatnonzero(again)[part]
                second = _descend(retried.rows(part).on(form), out.plain[rows], True)
                better = second.objective < out.objective[rows]
                better &= ~form.outside(second.plain) | (form is face)
                out.put(rows[better], second.rows(better))
    return out


def _descend(problem: Objective, starts: Array, cold: bool) -> Solution:
    """Minimise from plain coefficients to plain coefficients, without minding E >= 0."""
    theta = problem.form.vector(starts)
    if cold:
        # Starts that wander in a flat valley are cut off early in the smooth stages; the last stage
        # judges every one of them by the full tolerance.
        for factor in _CONTINUATION:
            smooth = problem.with_delta(factor * problem.delta)
            theta = minimise(smooth, theta, tolerance=1e-4, max_iterations=40).plain
    end = minimise(problem, theta)
    return Solution(
        problem.form.plain(end.plain), end.objective, end.decrement, end.converged, end.iterations
    )


@dataclass(frozen=True)
class Certificate:
    """How sure one can be that the optimum is the global one.

    Parameters
    ----------
    n_starts : int
        Start points polished.
    share_at_best : float
        Share of them that ended at the best point.
    n_basins : int
        Distinct minima among their ends.
    second_basin_gap : float or None
        Relative height of the second-best minimum above the best; None when there is only one.
    second_basin : array or None
        Plain coefficients there.
    decrement : float
        How much lower, relative to the objective, a quadratic model says the objective could be.
    converged : bool
        Whether the decrement is within tolerance.
    reason : str
        Why the search ended where it did.
    """

    n_starts: int
    share_at_best: float
    n_basins: int
    second_basin_gap: float | None
    second_basin: tuple[float, ...] | None
    decrement: float
    converged: bool
    reason: str


#: Two ends are one minimum when their objectives agree to this relative difference.
_SAME_BASIN = 1e-7


def solve_global(problem: Objective) -> tuple[Array, float, Certificate]:
    """Find the global minimum of one data set from the law's own start points.

    Returns
    -------
    plain : array, shape (q,)
        Plain coefficients at the minimum.
    objective : float
        Objective there.
    certificate : Certificate
        Evidence that it is the global minimum.
    """
    starts = problem.form.starts(problem.log_loss, problem.weights * problem.scale**2)
    ends = solve(problem, starts, cold=True)
    order = np.argsort(ends.objective)
    best = order[0]
    lowest = float(ends.objective[best])
    noise = float(problem.rounding())
    # Below the rounding of the residuals all objectives are zero and all ends are the same.
    heights = np.maximum(ends.objective[order], noise) / max(lowest, noise) - 1.0
    settled = ends.converged[order]
    basins = [0]
    for i in range(1, len(order)):
        if settled[i] and heights[i] - heights[basins[-1]] > _SAME_BASIN * (1 + heights[i]):
            basins.append(i)
    second = basins[1] if len(basins) > 1 else None
    converged = bool(ends.converged[best])
    certificate = Certificate(
        n_starts=len(starts),
        share_at_best=float(np.mean(heights <= _SAME_BASIN)),
        n_basins=len(basins),
        second_basin_gap=None if second is None else float(heights[second]),
        second_basin=None if second is None else tuple(float(v) for v in ends.plain[order[second]]),
        decrement=float(ends.decrement[best]),
        converged=converged,
        reason="Newton decrement within tolerance" if converged else "no further decrease found",
    )
    return ends.plain[best], lowest, certificate
