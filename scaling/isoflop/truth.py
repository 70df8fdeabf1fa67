"""Which law plays the truth when the bias of the curves is worked out, and on which grids."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from scaling.errors import DataError, ScalingError, ScalingWarning
from scaling.findings import Finding
from scaling.isoflop.bias import CurveBias, Surface, as_law, describe, design_bias, grid_slice
from scaling.isoflop.budgets import Slice
from scaling.isoflop.curves import CurveFit, CurveKind
from scaling.isoflop.frontier import Frontier, joint_covariance
from scaling.isoflop.shape import Shape
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw


def bias_of_fit(
    used: Sequence[Slice],
    fitted: Mapping[CurveKind, Sequence[CurveFit | None]],
    frontiers: Mapping[CurveKind, Frontier],
    shape: Shape,
    surface: Surface | Literal["fit"] | None,
    extrapolate_to: float,
    findings: list[Finding],
) -> dict[CurveKind, CurveBias]:
    """Return the bias of each kind of curve on the sizes that were really trained.

    Parameters
    ----------
    used : sequence of K Slice
    fitted : mapping of {"parabola", "law"} to K curves
    frontiers : mapping of {"parabola", "law"} to Frontier
    shape : Shape
        Exponents that stand in for a surface.
    surface : "fit", law or None
    extrapolate_to : float
    findings : list of Finding
        Gets what went wrong with the surface.
    """
    law = _surface(used, surface, findings)
    # Budgets may be named by another FLOP convention; the law knows only N and D.
    products = [float(np.exp(np.mean(np.log(s.params * s.tokens)))) for s in used]
    grids = [
        grid_slice(FLOPS_PER_PARAM_TOKEN * nd, s.params, s.weights)
        for nd, s in zip(products, used, strict=True)
    ]
    out: dict[CurveKind, CurveBias] = {}
    for kind, frontier in frontiers.items():
        # Without a surface the law curves are their own truth, which says nothing.
        if law is None and kind == "law":
            continue
        found = [(i, c) for i, c in enumerate(fitted[kind]) if c is not None]
        # The best guess at each optimum: the law curve's, or the parabola's where that has none.
        best = fitted.get("law", fitted[kind])
        truths = [law or _law_through(shape, grids[i].flops, best[i] or c) for i, c in found]
        known = joint_covariance([c for _, c in found])
        out[kind] = design_bias(
            kind,
            truths,
            [grids[i] for i, _ in found],
            np.array([c.flops for _, c in found]),
            known + frontier.params.between_sd**2 * np.eye(len(found)),
            extrapolate_to,
            describe(law) if law is not None else "the shape shared by the curves",
            shape.total,
        )
    return out


def _surface(
    used: Sequence[Slice], surface: Surface | Literal["fit"] | None, findings: list[Finding]
) -> ChinchillaLaw | None:
    if surface is None:
        return None
    if not isinstance(surface, str):
        return as_law(surface)
    if surface != "fit":
        raise DataError(f"surface is 'fit', a law or None, not {surface!r}", column="surface")
    from scaling.fit import fit_chinchilla

    names = ("params", "tokens", "loss")
    columns: dict[str, Any] = {k: np.concatenate([getattr(s, k) for s in used]) for k in names}
    try:
        # Its doubts concern the surface; here only its exponents and its optimum matter.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScalingWarning)
            return as_law(fit_chinchilla(**columns, n_boot=0))
    except ScalingError as error:
        findings.append(
            Finding(
                "no_surface",
                "warning",
                f"no surface could be fitted to these runs ({error}): the bias is worked out for the shape "
                "the curves share",
            )
        )
        return None


def _law_through(shape: Shape, flops: float, curve: CurveFit) -> ChinchillaLaw:
    """Return a law with the curve's optimum at 6ND = flops: level and depth do not matter to the bias."""
    n = curve.params.value
    d = flops / FLOPS_PER_PARAM_TOKEN / n
    alpha, beta = shape.alpha, shape.beta
    return ChinchillaLaw(E=0.0, A=n**alpha / alpha, B=d**beta / beta, alpha=alpha, beta=beta)
