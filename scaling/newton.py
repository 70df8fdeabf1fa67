"""Damped Newton on the Huber objective of log residuals, for a batch of problems at once.

The objective is ``sum_i w_i Huber_delta(s_i (log L_i - f_i(theta)))``. At delta = 1e-3 it is close to
least absolute deviations and worth about 1e-3 in all, so general optimisers, whose tolerances are absolute, stop
early on it and their answer depends on where they began. Here convergence is judged relative to the
objective itself, so multiplying it by any factor changes nothing.

Cost: each iteration is O(P n) for P problems on n runs; problems that have converged leave the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scaling.laws.base import Array, Form, Index, Mask, Tape
from scaling.linalg import solve_spd

#: Newton decrement, relative to the objective, at which a problem counts as solved.
TOLERANCE = 1e-11
#: Rounding of one log residual: below n times its square an objective is zero.
_ROUNDING = 4e-16
_MAX_ITERATIONS = 200


@dataclass(frozen=True)
class Objective:
    """What is minimised, for one data set or for a batch of reweighted ones.

    Parameters
    ----------
    form : Form
        The law tied to its runs.
    log_loss : array, shape (n,) or (P, n)
        Log of the measured losses.
    weights : array, shape (n,) or (P, n)
        Multipliers of the loss term; integer weights are copies of rows.
    scale : array, shape (n,)
        Multipliers of the residual before Huber (sigma0 / sigma_i); 1 when noise is even.
    delta : float
        Huber threshold in log loss (1e-3 in Hoffmann et al. 2022).
    """

    form: Form
    log_loss: Array
    weights: Array
    scale: Array
    delta: float

    def rows(self, keep: Mask | Index) -> Objective:
        """Return the objective of a subset of the problems."""
        return Objective(
            self.form,
            self.log_loss[keep] if self.log_loss.ndim == 2 else self.log_loss,
            self.weights[keep] if self.weights.ndim == 2 else self.weights,
            self.scale,
            self.delta,
        )

    def on(self, form: Form) -> Objective:
        """Return the same objective for another form of the law."""
        return Objective(form, self.log_loss, self.weights, self.scale, self.delta)

    def with_delta(self, delta: float) -> Objective:
        """Return the objective with another Huber threshold."""
        return Objective(self.form, self.log_loss, self.weights, self.scale, delta)

    def rounding(self) -> Array:
        """Objective that rounding alone leaves behind, shape () or (P,): zero, for all that can be seen."""
        return np.asarray((self.weights * self.scale**2).sum(axis=-1) * _ROUNDING**2)

    def residuals(self, tape: Tape) -> Array:
        """Scaled log residuals, shape (P, n)."""
        r: Array = self.log_loss - tape.f
        r *= self.scale
        return r

    def value(self, z: Array) -> tuple[Array, Array]:
        """Return the objective, shape (P,), and the clipped residuals, shape (P, n)."""
        c = np.clip(z, -self.delta, self.delta)
        # Huber(z) = c z - c^2/2 with c the clipped residual, on both of its branches.
        t = z - 0.5 * c
        t *= c
        t *= self.weights
        value = t.sum(axis=1)
        return np.where(np.isnan(value), np.inf, value), c


@dataclass(frozen=True)
class Solution:
    """Minima of a batch of problems.

    Parameters
    ----------
    plain : array, shape (P, q)
        Plain coefficients (`Form.plain`).
    objective : array, shape (P,)
        Objective there.
    decrement : array, shape (P,)
        Newton decrement relative to the objective: how much lower a quadratic model says it could be.
    converged : bool array, shape (P,)
        Whether the decrement is within tolerance.
    iterations : int array, shape (P,)
        Newton iterations used.
    """

    plain: Array
    objective: Array
    decrement: Array
    converged: Mask
    iterations: Index

    def rows(self, keep: Mask | Index) -> Solution:
        """Return the solutions of a subset of the problems."""
        return Solution(*(getattr(self, f.name)[keep] for f in fields(self)))

    @classmethod
    def join(cls, parts: list[Solution]) -> Solution:
        """Put batches behind one another."""
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def put(self, at: Mask | Index, other: Solution) -> None:
        """Overwrite the solutions at some problems (the batch is this module's own scratch)."""
        for field in fields(self):
            getattr(self, field.name)[at] = getattr(other, field.name)


def minimise(
    problem: Objective,
    theta: Array,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = _MAX_ITERATIONS,
) -> Solution:
    """Polish a batch of start points, shape (P, p), each to a local minimum of its own problem.

    Newton's method with Levenberg damping per problem, steps accepted only when the objective falls.
    The second-order term of the law is kept, since residuals outside delta pull with constant force
    and Gauss-Newton would ignore how the law bends under it.

    Parameters
    ----------
    problem : Objective
        One data set, or one reweighted data set per start.
    theta : array, shape (P, p)
        Start points; clipped to the law's box.
    tolerance : float
        Newton decrement, relative to the objective, at which a problem leaves the batch.
    max_iterations : int
        Iterations after which it leaves unconverged.

    Returns
    -------
    Solution
        With the solver's own parameters in place of plain coefficients.
    """
    movable = np.ones(theta.shape[1], dtype=bool)
    movable[list(problem.form.fixed)] = False
    theta = np.where(movable, np.clip(theta, problem.form.lower, problem.form.upper), theta)
    for index, value in problem.form.fixed.items():
        theta[:, index] = value
    n_problems = len(theta)
    out = Solution(
        theta.copy(),
        np.full(n_problems, np.inf),
        np.full(n_problems, np.inf),
        np.zeros(n_problems, dtype=bool),
        np.zeros(n_problems, dtype=np.int64),
    )
    floor = np.broadcast_to(problem.rounding(), n_problems)
    live, sub = np.arange(n_problems), problem
    damping, small = np.full(n_problems, 1e-3), np.zeros(n_problems, dtype=np.int64)
    tape = sub.form.tape(theta)
    here, metric = _Point.of(sub, theta, tape), _metric(sub, tape)
    del tape
    for iteration in range(1, max_iterations + 1):
        step, decrement, definite = _newton_step(problem.form, here, movable, damping, metric)
        relative = decrement / np.maximum(here.value, floor)
        trial = np.clip(here.theta + step, problem.form.lower, problem.form.upper)
        trial = np.where(movable, trial, here.theta)
        there = _Point.of(sub, trial, sub.form.tape(trial))
        accept = definite & (there.value < here.value)
        gain = (here.value - there.value) / np.maximum(decrement, 1e-300)
        tight = definite & (relative <= tolerance)
        solved = tight & (damping <= 1e-6)
        small = np.where(tight, small + 1, 0)
        # How well the quadratic model foretold the fall decides how far to trust the next step; a
        # step too small to be seen is no evidence against the model, so it loosens the damping.
        trust = np.where(gain > 0.5, 0.05, np.where(gain > 0.1, 0.5, 2.0))
        damping = damping * np.where(tight, 1e-2, np.where(accept, trust, 8.0))
        damping = np.maximum(damping, 1e-12)
        here = here.updated(accept, there)
        leave = solved | (small >= 8) | (damping > 1e12) | (iteration == max_iterations)
        if leave.any():
            at = live[leave]
            out.plain[at] = here.theta[leave]
            out.objective[at] = here.value[leave]
            out.decrement[at] = relative[leave]
            out.converged[at] = tight[leave] | (relative[leave] <= 1e3 * tolerance)
            out.iterations[at] = iteration
            stay = ~leave
            if not stay.any():
                break
            live, floor, damping, small, metric = (a[stay] for a in (live, floor, damping, small, metric))
            here, sub = here.rows(stay), sub.rows(stay)
    return out


@dataclass(frozen=True)
class _Point:
    """Objective and its first two derivatives at a batch of parameter vectors."""

    theta: Array
    value: Array
    gradient: Array
    hessian: Array

    @classmethod
    def of(cls, problem: Objective, theta: Array, tape: Tape) -> _Point:
        z = problem.residuals(tape)
        value, clipped = problem.value(z)
        inside = np.abs(z) <= problem.delta
        pull = clipped
        pull *= problem.weights
        pull *= problem.scale
        gauss = inside * (problem.weights * problem.scale**2)
        np.negative(pull, out=pull)
        return cls(theta, value, tape.gradient(pull), tape.curvature(gauss, pull))

    def rows(self, keep: Mask) -> _Point:
        return _Point(self.theta[keep], self.value[keep], self.gradient[keep], self.hessian[keep])

    def updated(self, accept: Mask, other: _Point) -> _Point:
        column = accept[:, None]
        return _Point(
            np.where(column, other.theta, self.theta),
            np.where(accept, other.value, self.value),
            np.where(column, other.gradient, self.gradient),
            np.where(column[..., None], other.hessian, self.hessian),
        )


def _metric(problem: Objective, tape: Tape) -> Array:
    """Diagonal of J'WJ over all runs: the size of each parameter's effect, to damp in equal parts."""
    weights = np.broadcast_to(problem.weights * problem.scale**2, tape.f.shape)
    diagonal: Array = np.einsum("ijj->ij", tape.curvature(weights, np.zeros_like(tape.f)))
    floor: Array = 1e-12 * diagonal.max(axis=1, keepdims=True)
    return np.asarray(np.maximum(diagonal, floor))


def _newton_step(
    form: Form, here: _Point, movable: Mask, damping: Array, metric: Array
) -> tuple[Array, Array, Mask]:
    """Return the damped Newton step, its decrement, and whether the damped Hessian was definite."""
    # A parameter pressed against its bound is held there for this step.
    pressed = (here.theta <= form.lower) & (here.gradient > 0)
    pressed |= (here.theta >= form.upper) & (here.gradient < 0)
    held = pressed | ~movable
    p = held.shape[1]
    gradient = np.where(held, 0.0, here.gradient)
    hessian = here.hessian + (damping[:, None] * metric)[:, :, None] * np.eye(p)
    hessian = np.where(held[:, :, None] | held[:, None, :], np.eye(p), hessian)
    step, definite = solve_spd(hessian, -gradient)
    return step, -0.5 * np.einsum("ij,ij->i", gradient, step), definite
