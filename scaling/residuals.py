"""What the residuals still know: trends the law cannot bend to, and covariates mixed into the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from scaling.findings import Finding
from scaling.laws.base import Array
from scaling.resample import model_sizes
from scaling.runs import RunTable

#: Significance below which a pattern in the residuals is reported.
_SIGNIFICANT = 0.01
#: Share of the residual variance a covariate must explain to be worth a word.
_WORTHWHILE = 0.10


def clipped(residuals: Array) -> Array:
    """Return residuals drawn in to 4 robust standard deviations, so that outliers do not make trends."""
    centre = float(np.median(residuals))
    spread = 1.4826 * float(np.median(np.abs(residuals - centre)))
    if spread == 0:
        return residuals - centre
    return np.clip(residuals - centre, -4 * spread, 4 * spread)


def drift(runs: RunTable, residuals: Array) -> float:
    """Return the residual trend per decade of compute that the data cannot exclude, in log loss.

    Root sum of squares of the slope of the residuals on log10 C and of its standard error.
    """
    c = np.log10(runs.compute)
    c = c - c.mean()
    sxx = float(c @ c)
    if sxx == 0 or len(runs) < 3:
        return 0.0
    r = clipped(residuals)
    slope = float(c @ r) / sxx
    rest = r - r.mean() - slope * c
    error = float(rest @ rest) / (len(runs) - 2) / sxx
    return float(np.sqrt(slope**2 + error))


def added_variance(base: Array, extra: Array, target: Array) -> tuple[float, float]:
    """Compare two nested linear regressions.

    Parameters
    ----------
    base : array, shape (n, p)
        Regressors of the smaller model.
    extra : array, shape (n, q)
        Regressors added.
    target : array, shape (n,)
        What is explained.

    Returns
    -------
    share : float
        Share of the smaller model's residual sum of squares that the added regressors explain.
    p_value : float
        Of the F test that they explain nothing.
    """
    from scipy.special import fdtrc

    def rss(design: Array) -> float:
        fit = design @ np.linalg.lstsq(design, target, rcond=None)[0]
        return float(np.sum((target - fit) ** 2))

    small, large = rss(base), rss(np.column_stack([base, extra]))
    q, rest = extra.shape[1], len(target) - base.shape[1] - extra.shape[1]
    if rest <= 0 or small <= 0:
        return 0.0, 1.0
    f = (small - large) / q / max(large / rest, 1e-300)
    return 1 - large / small, float(fdtrc(q, rest, max(f, 0.0)))


def residual_findings(runs: RunTable, residuals: Array) -> tuple[Finding, ...]:
    """Return findings on curvature over N and D, and on covariates that explain the residuals."""
    if len(runs) < 12:
        return ()
    r = clipped(residuals)
    x, y = np.log(runs.params), np.log(runs.tokens)
    x, y = x - x.mean(), y - y.mean()
    plane = np.column_stack([np.ones_like(x), x, y])
    out = []
    bends = np.column_stack([x * x, x * y, y * y])
    share, p = added_variance(plane, bends, r)
    size = float(np.sqrt(share) * np.std(r))
    if p < _SIGNIFICANT and share > _WORTHWHILE:
        out.append(
            Finding(
                "curvature_in_residuals",
                "warning",
                f"Curvature in the residuals: quadratics in ln N and ln D explain {100 * share:.0f}% of them "
                f"(p = {p:.1e}; {100 * size:.2f}% of the loss, root mean square). One power law per variable does "
                "not bend this way: fit a sub-range, or look for a change of recipe between small and large runs.",
                {"share": share, "p_value": p, "rms": size},
            )
        )
    return (*out, *_covariate_findings(runs, r, plane))


def _covariate_findings(runs: RunTable, r: Array, plane: Array) -> list[Finding]:
    """Test every covariate that is not just another name for N, D or C."""
    sizes = model_sizes(runs.params)
    candidates: list[tuple[str, Array]] = []
    for name, values in runs.covariates.items():
        v = np.asarray(values, dtype=float)
        if not np.isfinite(v).all() or np.unique(v).size < 2:
            continue
        if v.min() > 0 and v.max() / v.min() > 3:
            v = np.log(v)
        constant = all(np.ptp(v[sizes == s]) == 0 for s in range(int(sizes.max()) + 1))
        left = v - plane @ np.linalg.lstsq(plane, v, rcond=None)[0]
        if constant or float(left @ left) < 0.02 * float(np.sum((v - v.mean()) ** 2)):
            continue
        candidates.append((name, v))
    out = []
    for name, v in candidates:
        share, p = added_variance(plane, v[:, None], r)
        if p * len(candidates) < _SIGNIFICANT and share > _WORTHWHILE:
            raw = runs.covariates[name]
            low, high = raw <= np.median(raw), raw > np.median(raw)
            if not high.any():
                low, high = raw < np.median(raw), raw >= np.median(raw)
            gap = float(np.mean(r[high]) - np.mean(r[low]))
            evidence: dict[str, Any] = {"covariate": name, "share": share, "p_value": p, "gap": gap}
            out.append(
                Finding(
                    "covariate_explains_residuals",
                    "warning",
                    f"{name} explains {100 * share:.0f}% of the residuals (p = {p:.1e}): runs with {name} above "
                    f"{np.median(raw):g} lie {100 * abs(gap):.1f}% {'higher' if gap > 0 else 'lower'} in loss. "
                    f"The table mixes recipes; fit one of them with where=.",
                    evidence,
                )
            )
    return out
