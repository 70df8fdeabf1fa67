"""IsoFLOP analysis (Approach 2 of Hoffmann et al. 2022): checks, curves, frontier, bias."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError, TooFewRunsError
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.isoflop.bias import Surface
from scaling.isoflop.budgets import Runs, Slice, as_runs, group_budgets
from scaling.isoflop.checks import QualityRules
from scaling.isoflop.curves import CurveFit, CurveKind, fit_curve
from scaling.isoflop.frontier import Frontier, fit_frontier
from scaling.isoflop.noise import moderated_variances, t_quantile
from scaling.isoflop.quality import Screened, screen
from scaling.isoflop.result import Budget, IsoflopFit
from scaling.isoflop.shape import EXPONENT_SUM, EXPONENT_SUM_SD, Shape, fit_shape, pinned_shape
from scaling.isoflop.truth import bias_of_fit
from scaling.isoflop.verdict import doubts, nothing_left, one_left
from scaling.runs import RunTable

if TYPE_CHECKING:
    import pandas as pd

#: Where nothing else is asked, the bias is extrapolated to this many times the largest budget.
_EXTRAPOLATE = 100.0


def fit_isoflop(
    runs: RunTable | Runs | pd.DataFrame | str | Path | None = None,
    *,
    params: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    loss: ArrayLike | None = None,
    flops: ArrayLike | None = None,
    sigma: ArrayLike | None = None,
    budgets: Sequence[float] | None = None,
    group_tol: float = 0.1,
    rules: QualityRules | None = None,
    curve: Literal["both", "law", "parabola"] = "both",
    exponents: tuple[float, float] | None = None,
    exponent_sum: float = EXPONENT_SUM,
    surface: Surface | Literal["fit"] | None = "fit",
    extrapolate_to: float | None = None,
    level: float = 0.95,
) -> IsoflopFit:
    """Find the compute-optimal size of each budget and the power laws through them.

    Rows are sorted into budgets of equal compute, checked (`QualityRules`; everything left out is named
    with its reason), and each budget gets two curves of loss against ln N: the customary parabola, and one
    with the asymmetric shape the law implies (`scaling.isoflop.shape`), which is what `frontier` and
    `optimal` use. No random numbers are involved.

    Parameters
    ----------
    runs : RunTable, file, DataFrame or object with columns, optional
        The runs; or give the arrays.
    params, tokens, loss : array_like, (n,), optional
        Parameters N, tokens D, and loss.
    flops, sigma : array_like, (n,), optional
        Training FLOPs as designed, and the run-to-run sd of each loss (only its relative size matters:
        losses are weighted by 1/sigma^2).
    budgets : sequence of float, optional
        The compute budgets; by default found by `group_tol`.
    group_tol : float
        A new budget starts where ln C jumps by more than this.
    rules : QualityRules, optional
        Thresholds of the checks.
    curve : {"both", "law", "parabola"}
        Which curves to fit.
    exponents : (float, float), optional
        (alpha, beta) of the law-shaped curve, taken as exactly known; by default their difference is
        estimated from all budgets together.
    exponent_sum : float
        alpha + beta of the law-shaped curve, which IsoFLOP curves hardly determine; known to within
        0.15, and the intervals include that.
    surface : "fit", law or None
        The law L = E + A/N^alpha + B/D^beta that plays the truth when the bias of the curves on this
        design is worked out: fitted to the same runs by `fit_chinchilla`, or given (a law or a fit), or
        None for the shape shared by the curves themselves. The curves do not depend on it.
    extrapolate_to : float, optional
        Compute at which the bias is also reported; 100 times the largest budget by default.
    level : float
        Coverage of the intervals.

    Returns
    -------
    IsoflopFit

    Raises
    ------
    DataError
        An argument or a column cannot be used.
    TooFewRunsError
        Fewer than three runs.
    NotIdentifiedError
        No budget passes the checks, or only one: its curves are then in ``partial``, a tuple of
        `Budget`. The message has the reason for each budget dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from scaling.laws.chinchilla import ChinchillaLaw
    >>> law = ChinchillaLaw(E=1.82, A=482.0, B=2085.0, alpha=0.348, beta=0.366)
    >>> C = np.repeat([1e18, 1e19, 1e20], 9)
    >>> N = law.optimal(C).params * np.tile(10 ** np.linspace(-0.5, 0.5, 9), 3)
    >>> D = C / 6 / N
    >>> rng = np.random.default_rng(0)
    >>> fit = fit_isoflop(params=N, tokens=D, loss=law.loss(N, D) + 0.003 * rng.normal(size=27), surface=law)
    >>> fit.frontier.params.exponent
    a: 0.5143, 95% [0.4833, 0.5454]
    >>> fit.optimal(1e20)  # doctest: +ELLIPSIS
    C=1e20: N* 852M params, 95% [723M, 1B]; D* 19.6B tokens, 95% [16.6B, 23.1B]; loss 2.552, ...
    """
    if not 0 < level < 1:
        raise DataError(f"level is a coverage between 0 and 1, not {level!r}", column="level")
    if curve not in ("both", "law", "parabola"):
        raise DataError(f"curve is 'both', 'law' or 'parabola', not {curve!r}", column="curve")
    arrays = {"params": params, "tokens": tokens, "loss": loss, "flops": flops, "sigma": sigma}
    table = as_runs(runs, arrays)
    if len(table) < 3:
        raise TooFewRunsError(
            f"{len(table)} runs: one IsoFLOP curve needs at least 3 sizes at one compute budget, and the "
            "frontier two such budgets",
            n_runs=len(table),
            needed=3,
        )
    slices, findings = group_budgets(table, budgets=budgets, group_tol=group_tol)
    screened = screen(slices, rules or QualityRules())
    used = [s.used for s in screened if s.dropped is None]
    if not used:
        raise nothing_left(screened)
    shape = _shape(used, curve, exponents, exponent_sum, findings)
    fitted: dict[CurveKind, list[CurveFit | None]] = {}
    if curve != "law" or shape is None:
        fitted["parabola"] = _parabolas(used, level)
    if shape is not None and curve != "parabola":
        noise = zip(used, shape.noise, shape.dof, strict=True)
        fitted["law"] = [fit_curve(s, float(v), float(d), level, shape) for s, v, d in noise]
    result = _budgets(screened, fitted)
    frontiers: dict[CurveKind, Frontier] = {}
    whole = shape or pinned_shape(used, exponent_sum / 2, exponent_sum / 2, "assumed equal")
    for kind, fits in fitted.items():
        found = [c for c in fits if c is not None]
        if len(found) >= 2:
            frontiers[kind] = fit_frontier(found, whole, level)
    if not frontiers:
        raise one_left(result)
    reach = _EXTRAPOLATE * max(s.flops for s in used) if extrapolate_to is None else float(extrapolate_to)
    bias = bias_of_fit(used, fitted, frontiers, whole, surface, reach, findings)
    findings += doubts(fitted, used, frontiers, bias)
    return IsoflopFit(
        budgets=result,
        frontiers=frontiers,
        skew=_skew(shape, level) if "law" in fitted else None,
        exponents=(shape.alpha, shape.beta) if shape is not None and "law" in fitted else None,
        bias=bias,
        findings=tuple(findings),
        level=level,
        runs=table,
    )


def _shape(
    used: list[Slice],
    curve: str,
    exponents: tuple[float, float] | None,
    exponent_sum: float,
    findings: list[Finding],
) -> Shape | None:
    """Return the shape of the law curves; None where the runs leave it no degree of freedom."""
    if exponents is not None:
        alpha, beta = (float(v) for v in exponents)
        if not (np.isfinite([alpha, beta]).all() and alpha > 0 and beta > 0):
            raise DataError(f"exponents are two positive numbers, not {exponents!r}", column="exponents")
        return pinned_shape(used, alpha, beta, "given")
    if not (np.isfinite(exponent_sum) and exponent_sum > 0):
        raise DataError(f"exponent_sum must be positive, not {exponent_sum!r}", column="exponent_sum")
    spare = sum(len(s) - 3 for s in used) - 1
    if spare < 1:
        if curve != "parabola":
            findings.append(
                Finding(
                    "no_shape",
                    "warning",
                    f"{sum(map(len, used))} runs in {len(used)} budgets leave nothing to estimate the "
                    "asymmetry of the curves from: only parabolas were fitted; give exponents=(alpha, beta), "
                    "or more runs",
                    {"n_runs": sum(map(len, used)), "n_budgets": len(used)},
                )
            )
        return None
    shape = fit_shape(used, total=exponent_sum, total_sd=EXPONENT_SUM_SD, source="estimated")
    if shape.at_bound:
        findings.append(
            Finding(
                "skew_at_bound",
                "warning",
                f"the asymmetry of the curves is at its bound (beta - alpha = {shape.skew:.2f} with a sum of "
                f"{shape.total:g}): one side is steeper than the law can be, as where models were too large "
                "for the steps they got; look at the curves, or give a larger exponent_sum",
                {"skew": shape.skew, "exponent_sum": shape.total},
            )
        )
    return shape


def _parabolas(used: list[Slice], level: float) -> list[CurveFit | None]:
    squares, dof = [], []
    for s in used:
        z, root = s.x - s.x.mean(), np.sqrt(s.weights)
        rest = root * (s.loss - np.polyval(np.polyfit(z, s.loss, 2, w=root), z))
        squares.append(float(rest @ rest) if rest @ rest > 1e-22 * np.ptp(s.loss) ** 2 else 0.0)
        dof.append(len(s) - 3)
    variance, own = moderated_variances([q / max(d, 1) for q, d in zip(squares, dof, strict=True)], dof)
    noise = zip(used, variance, own, strict=True)
    return [fit_curve(s, float(v), float(d), level, None) for s, v, d in noise]


def _budgets(screened: list[Screened], fitted: dict[CurveKind, list[CurveFit | None]]) -> tuple[Budget, ...]:
    out, k = [], 0
    for s in screened:
        used = s.used if s.keep.any() else s.slice
        curves: dict[CurveKind, CurveFit] = {}
        if s.dropped is None:
            curves = {kind: c for kind, fits in fitted.items() if (c := fits[k]) is not None}
            k += 1
        out.append(
            Budget(
                flops=s.slice.flops,
                rows=tuple(s.slice.rows.tolist()),
                rows_used=tuple(used.rows.tolist()) if s.dropped is None else (),
                params_range=(float(used.params.min()), float(used.params.max())),
                curves=curves,
                dropped=s.dropped,
                points=s.points,
            )
        )
    return tuple(out)


def _skew(shape: Shape | None, level: float) -> Estimate | None:
    if shape is None:
        return None
    half = t_quantile(level, max(float(np.max(shape.dof)), 1.0)) * float(np.sqrt(shape.covariance[0, 0]))
    return Estimate(shape.skew, shape.skew - half, shape.skew + half, level, "optimum", "beta - alpha")
