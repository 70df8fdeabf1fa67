"""How far a parabola's minimum is from the truth on a given grid, without any noise.

At fixed C = 6ND the law L = E + A/N^alpha + B/D^beta, written with u = ln(N/N*), is

    L - L* = K(C) [ (exp(-alpha u) - 1)/alpha + (exp(beta u) - 1)/beta ],  K = alpha A N*^-alpha.

E, A, B and C enter through K alone, a factor that leaves the vertex of a least-squares parabola where it
is. So the error of ln N* depends on alpha, beta and the grid of u, and on nothing else; on equal grids it
is the same at every budget: N* is off by one factor, and the exponent a is exact. For many points spread
evenly over ±w in ln N around the optimum that factor is, to leading order, exp((alpha - beta) w^2 / 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError
from scaling.isoflop.budgets import Floats, Slice, flops_text
from scaling.isoflop.curves import CurveKind, fit_curve
from scaling.isoflop.regression import weighted_line
from scaling.isoflop.shape import EXPONENT_SUM, fit_shape
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw


class Surface(Protocol):
    """Anything with the five coefficients of L = E + A/N^alpha + B/D^beta."""

    E: Any
    A: Any
    B: Any
    alpha: Any
    beta: Any


@dataclass(frozen=True, eq=False, repr=False)
class CurveBias:
    """Error of the N* that a kind of curve finds where there is no noise.

    Parameters
    ----------
    kind : {"parabola", "law"}
        The curve.
    source : str
        The surface that played the truth.
    budgets : ndarray, (K,)
        Compute C, in FLOPs.
    relative : ndarray, (K,)
        N*(curve)/N*(true) - 1 at each budget.
    exponent : float
        Error of a in N* = G C^a; 0 when all grids lie alike around their optima.
    extrapolate_to : float
        Compute of the extrapolation.
    relative_extrapolated, tokens_relative_extrapolated : float
        Relative error of N* and D* there, from the power law through the minima.
    """

    kind: CurveKind
    source: str
    budgets: Floats
    relative: Floats
    exponent: float
    extrapolate_to: float
    relative_extrapolated: float
    tokens_relative_extrapolated: float

    def __repr__(self) -> str:
        low, high = 100 * self.relative.min(), 100 * self.relative.max()
        n, d = 100 * self.relative_extrapolated, 100 * self.tokens_relative_extrapolated
        span = f"{low:+z.1f}%" if high - low < 0.05 else f"{low:+z.1f}% to {high:+z.1f}%"
        return (
            f"bias of the {self.kind} curve: N* {span} at the budgets, {n:+z.1f}% (D* {d:+z.1f}%) at "
            f"C={flops_text(self.extrapolate_to)}, exponent a {self.exponent:+z.4f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain types."""
        return {
            "kind": self.kind,
            "source": self.source,
            "budgets": self.budgets.tolist(),
            "relative": self.relative.tolist(),
            "exponent": self.exponent,
            "extrapolate_to": self.extrapolate_to,
            "relative_extrapolated": self.relative_extrapolated,
            "tokens_relative_extrapolated": self.tokens_relative_extrapolated,
        }


def parabola_bias(
    law: Surface,
    budgets: ArrayLike,
    width_decades: float,
    n_points: int,
    *,
    centre_offset: float | Sequence[float] = 0.0,
    extrapolate_to: float = 1e24,
) -> CurveBias:
    """Return the error a parabola would make on a planned IsoFLOP design, without any noise.

    Parameters
    ----------
    law : ChinchillaLaw or anything with E, A, B, alpha, beta
        The surface. E, A and B do not move the relative error.
    budgets : array_like, (K,)
        Compute budgets, FLOPs; at least two.
    width_decades : float
        Half-width of every grid of N, in decades.
    n_points : int
        Sizes per budget, evenly spaced in ln N; at least 3.
    centre_offset : float or sequence of K floats
        Centre of the grid minus the true optimum, in decades of N. One number per budget makes a grid
        that drifts with compute, which also biases the exponent.
    extrapolate_to : float
        Compute to which the power law through the minima is continued.

    Returns
    -------
    CurveBias

    Raises
    ------
    DataError
        An argument is out of range.

    Notes
    -----
    Reproduces the noise-free experiments of Open-Athena's "Problems with Chinchilla Approach 2"
    (arXiv 2603.22339).

    Examples
    --------
    >>> law = ChinchillaLaw(E=1.69, A=400.0, B=400.0, alpha=0.31, beta=0.50)
    >>> parabola_bias(law, [1e18, 1e19, 1e20, 1e21], width_decades=1.0, n_points=15)
    bias of the parabola curve: N* -10.7% at the budgets, -10.7% (D* +12.0%) at C=1e24, exponent a +0.0000
    """
    c = np.atleast_1d(np.asarray(budgets, dtype=float))
    if c.ndim != 1 or len(c) < 2 or not (np.isfinite(c).all() and (c > 0).all()) or np.ptp(c) == 0:
        raise DataError(
            f"budgets must be at least two different positive numbers, not {budgets!r}", column="budgets"
        )
    if not (np.isfinite(width_decades) and width_decades > 0):
        raise DataError(f"width_decades must be positive, not {width_decades!r}", column="width_decades")
    if n_points < 3:
        raise DataError(f"n_points must be at least 3 for a parabola, not {n_points!r}", column="n_points")
    offsets = np.atleast_1d(np.asarray(centre_offset, dtype=float))
    if offsets.shape not in ((1,), c.shape) or not np.isfinite(offsets).all():
        raise DataError(
            f"centre_offset is one number or one per budget ({len(c)}), not {centre_offset!r}",
            column="centre_offset",
        )
    surface = as_law(law)
    best = np.asarray(surface.optimal(c).params)
    steps = np.linspace(-width_decades, width_decades, int(n_points))
    slices = []
    for flops, n, offset in zip(c, best, np.broadcast_to(offsets, c.shape), strict=True):
        sizes = n * 10 ** (steps + offset)
        slices.append(grid_slice(float(flops), sizes, np.ones_like(sizes)))
    return design_bias("parabola", [surface] * len(c), slices, c, None, extrapolate_to, describe(surface))


def as_law(law: Any) -> ChinchillaLaw:
    """Return a single law from a law, a fit that has one, or an object with the five coefficients."""
    found = getattr(law, "law", law)
    try:
        values = {k: np.asarray(getattr(found, k), dtype=float) for k in ("E", "A", "B", "alpha", "beta")}
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"surface must have the coefficients E, A, B, alpha, beta; {type(law).__name__} has not",
            column="surface",
        ) from error
    if any(v.ndim for v in values.values()):
        raise DataError("surface must be one law, not an array of draws", column="surface")
    if not all(np.isfinite(v) for v in values.values()) or not all(
        values[k] > 0 for k in ("A", "B", "alpha", "beta")
    ):
        numbers = {k: float(v) for k, v in values.items()}
        raise DataError(f"A, B, alpha and beta of the surface must be positive: {numbers}", column="surface")
    return ChinchillaLaw(**{k: float(v) for k, v in values.items()})


def grid_slice(flops: float, sizes: Floats, weights: Floats) -> Slice:
    """Return a budget without losses: sizes on the line 6ND = C."""
    n = len(sizes)
    tokens = flops / FLOPS_PER_PARAM_TOKEN / sizes
    return Slice(flops, np.arange(n), sizes, tokens, np.ones(n), np.full(n, flops), weights)


def design_bias(
    kind: CurveKind,
    laws: Sequence[ChinchillaLaw],
    slices: Sequence[Slice],
    flops: Floats,
    covariance: Floats | None,
    extrapolate_to: float,
    source: str,
    total: float = EXPONENT_SUM,
) -> CurveBias:
    """Return the bias of a kind of curve on given grids.

    Parameters
    ----------
    kind : {"parabola", "law"}
    laws : sequence of K laws
        The truth at each budget: one surface throughout, or curves known only up to their exponents and
        optimum, which is all that matters.
    slices : sequence of K Slice
        The grids, on 6ND = C (`grid_slice`).
    flops : ndarray, (K,)
        What the frontier calls these budgets (a flops column need not be 6ND).
    covariance : ndarray, (K, K), or None
        Of ln N* in the fit, to weight the power law as its frontier is weighted; equal weights by default.
    extrapolate_to : float
        In the units of `flops`.
    source : str
        Name of the truth.
    total : float
        alpha + beta held by a law curve.
    """
    pairs = list(zip(laws, slices, strict=True))
    clean = [replace(s, loss=np.asarray(law.loss(s.params, s.tokens))) for law, s in pairs]
    truth = np.array([np.log(law.optimal(s.flops).params) for law, s in pairs])
    shape = None if kind == "parabola" else fit_shape(clean, total=total, total_sd=0.0, source="")
    curves = [fit_curve(s, 0.0, 1.0, 0.95, shape) for s in clean]
    found = np.array([np.nan if c is None else np.log(c.params.value) for c in curves])
    log_ratio = found - truth
    middle = float(np.mean(np.log(flops)))
    design = np.stack([np.ones_like(flops), np.log(flops) - middle], axis=1)
    known = np.zeros((len(flops), len(flops))) if covariance is None else covariance
    theta = weighted_line(design, log_ratio, known)
    there = float(theta[0] + theta[1] * (np.log(extrapolate_to) - middle))
    return CurveBias(
        kind,
        source,
        np.array(flops, dtype=float),
        np.expm1(log_ratio),
        float(theta[1]),
        float(extrapolate_to),
        float(np.expm1(there)),
        float(np.expm1(-there)),
    )


def describe(law: ChinchillaLaw) -> str:
    """Write a law in one line."""
    return f"E {law.E:.4g}, A {law.A:.4g}, B {law.B:.4g}, alpha {law.alpha:.4g}, beta {law.beta:.4g}"
