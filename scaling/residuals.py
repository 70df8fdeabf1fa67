"""What the residuals still know: trends the law cannot bend to, and covariates mixed into the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scaling.findings import Finding
from scaling.laws.base import Array, Index
from scaling.resample import LEVEL, levels
from scaling.runs import RunTable

#: Significance below which a pattern in the residuals is reported.
_SIGNIFICANT = 0.01
#: Fewest independent units among which patterns are looked for, and among which cubics are.
_FEWEST, _CUBIC = 12, 24
#: Robust standard deviations from which a run is named; a Gaussian one never gets there.
_GROSS = 8.0
#: Scatter below this is rounding of the table: four digits of a loss.
_ROUNDED = 1e-4
#: Muennighoff et al. 2023 (arXiv 2305.16264): to 4 epochs repeated data are nearly as good as new.
MANY_EPOCHS = 4.0
#: Share of copied rows that digitising and rounding explain.
_COPIES = 0.05
#: Share of the residual variance a pattern must explain to be worth a word.
_WORTHWHILE = 0.10


def clipped(residuals: Array) -> Array:
    """Return residuals drawn in to 4 robust standard deviations, so that outliers do not make trends."""
    centre = float(np.median(residuals))
    spread = 1.4826 * float(np.median(np.abs(residuals - centre)))
    if spread == 0:
        return residuals - centre
    return np.clip(residuals - centre, -4 * spread, 4 * spread)


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

    both = np.column_stack([base, extra])
    small, large = rss(base), rss(both)
    rank = int(np.linalg.matrix_rank(both))
    q, rest = rank - int(np.linalg.matrix_rank(base)), len(target) - rank
    if rest <= 0 or q <= 0 or small <= 0:
        return 0.0, 1.0
    f = (small - large) / q / max(large / rest, 1e-300)
    return 1 - large / small, float(fdtrc(q, rest, max(f, 0.0)))


@dataclass(frozen=True)
class _Units:
    """Residuals of independent units with their ln N and ln D: rows, or the means of runs of several rows."""

    residual: Array
    x: Array
    y: Array

    def plane(self) -> Array:
        """Return what the law takes up by itself, very nearly: a constant and a slope in each variable."""
        return np.column_stack([np.ones_like(self.x), self.x, self.y])

    def patterns(self) -> dict[str, Array]:
        """Regressors of the patterns looked for, by name."""
        x, y = _standard(self.x), _standard(self.y)
        bends = [x * x, x * y, y * y]
        if len(x) >= _CUBIC:
            # A step between small and large runs looks like a cubic once the law has bent to it.
            bends += [x**3, y**3]
        out = {"bend": np.column_stack(bends)}
        for name, log in (("size", self.x), ("tokens", self.y)):
            group = levels(np.exp(log), LEVEL)
            n_groups = int(group.max()) + 1
            if 4 <= n_groups <= len(x) // 3:
                out[name] = (group[:, None] == np.arange(1, n_groups)).astype(float)
        return out


def _standard(values: Array) -> Array:
    centred = values - values.mean()
    spread = float(np.std(centred))
    return centred / spread if spread > 1e-9 else np.zeros_like(centred)


def _mean_by(cluster: Index, values: Array) -> Array:
    return np.asarray(np.bincount(cluster, values) / np.bincount(cluster))


def noise_sd(residuals: Array, n_free: int) -> float:
    """Return a robust standard deviation of the residuals, in log loss.

    A fit close to least absolute deviations passes through about as many runs as it has coefficients;
    their residuals are zero whatever the noise, so that many of the smallest are left out.
    """
    size = np.sort(np.abs(residuals))
    left = size[min(n_free, len(size) - 1) :]
    return 1.4826 * float(np.median(left))


def outlier_findings(runs: RunTable, residuals: Array, n_free: int) -> tuple[Finding, ...]:
    """Report runs that lie many robust standard deviations from the law."""
    noise = noise_sd(residuals, n_free)
    size = np.abs(residuals)
    gross = np.flatnonzero(size > _GROSS * max(noise, _ROUNDED))
    if not gross.size:
        return ()
    gross = gross[np.argsort(-size[gross])]
    shown = ", ".join(f"{runs.named(int(i))}: {100 * np.expm1(residuals[i]):+.3g}%" for i in gross[:5])
    more = f" and {gross.size - 5} more" if gross.size > 5 else ""
    return (
        Finding(
            "gross_outlier",
            "warning",
            f"{gross.size} run{'s' * (gross.size > 1)} far from the law, by more than {_GROSS:g} times the scatter of "
            f"the others ({100 * noise:.2g}%): {shown}{more}. The fit resists a few; check those runs.",
            {
                "rows": [int(r) for r in runs.row[gross]],
                "residuals": residuals[gross].tolist(),
                "noise": noise,
            },
        ),
    )


def copy_findings(runs: RunTable) -> tuple[Finding, ...]:
    """Report rows that repeat N, D and loss to the last digit: copies make intervals too narrow."""
    triples = np.stack([runs.params, runs.tokens, runs.loss], axis=1)
    copies = len(runs) - len(np.unique(triples, axis=0))
    if copies <= _COPIES * len(runs):
        return ()
    return (
        Finding(
            "copied_rows",
            "warning",
            f"{copies} of {len(runs)} rows repeat another's parameters, tokens and loss to the last digit. Seeds "
            "differ in their losses: if these are copies of one run, drop them (load_runs does), since intervals "
            "count each.",
            {"copies": copies, "rows": len(runs)},
        ),
    )


def repeat_findings(runs: RunTable) -> tuple[Finding, ...]:
    """Report data seen so often that a law of new tokens counts them too high."""
    if runs.unique_tokens is None:
        return ()
    epochs = runs.tokens / runs.unique_tokens
    many = epochs > MANY_EPOCHS
    if not many.any():
        return ()
    return (
        Finding(
            "repeated_data",
            "warning",
            f"{int(many.sum())} of {len(runs)} runs see their data more than {MANY_EPOCHS:g} times (up to "
            f"{epochs.max():.3g}): this law counts every repeated token as a new one. fit_data_constrained does not.",
            {"rows": int(many.sum()), "epochs": float(epochs.max())},
        ),
    )


def residual_findings(runs: RunTable, residuals: Array, cluster: Index) -> tuple[Finding, ...]:
    """Return findings on curvature over N and D, and on covariates that explain the residuals.

    Rows of one run are no independent witnesses: where `cluster` repeats, its means are looked at.
    """
    r, x, y = clipped(residuals), np.log(runs.params), np.log(runs.tokens)
    units = _Units(*(_mean_by(cluster, v) for v in (r, x, y)))
    if len(units.x) < _FEWEST:
        return ()
    return (*_curvature_findings(units), *_covariate_findings(runs, units, cluster))


_PATTERNS = {
    "bend": "a smooth bend over ln N and ln D explains",
    "size": "which size a run has explains",
    "tokens": "which token count a run has explains",
}


def _curvature_findings(units: _Units) -> list[Finding]:
    """Report the clearest pattern over N and D, if any is clear."""
    found = [
        (name, *added_variance(units.plane(), extra, units.residual))
        for name, extra in units.patterns().items()
    ]
    name, share, p = min(found, key=lambda f: f[2])
    p = min(p * len(found), 1.0)
    if p >= _SIGNIFICANT or share <= _WORTHWHILE:
        return []
    size = float(np.sqrt(share) * np.std(units.residual))
    return [
        Finding(
            "curvature_in_residuals",
            "warning",
            f"Curvature in the residuals: {_PATTERNS[name]} {100 * share:.0f}% of them (p = {p:.1e}; "
            f"{100 * size:.2f}% of the loss, root mean square). One power law per variable does not bend this way: "
            "fit a sub-range, or look for a change of recipe between small and large runs.",
            {"pattern": name, "share": share, "p_value": p, "rms": size},
        )
    ]


def _covariate_findings(runs: RunTable, units: _Units, cluster: Index) -> list[Finding]:
    """Test every covariate that is not just another name for N, D or C."""
    sizes, plane = levels(np.exp(units.x), LEVEL), units.plane()
    candidates: list[tuple[str, Array, Array]] = []
    for name, values in runs.covariates.items():
        if not np.isfinite(values).all():
            continue
        raw = _mean_by(cluster, values)
        if np.unique(raw).size < 2:
            continue
        v = np.log(raw) if raw.min() > 0 and raw.max() / raw.min() > 3 else raw
        constant = all(np.ptp(v[sizes == s]) == 0 for s in range(int(sizes.max()) + 1))
        left = v - plane @ np.linalg.lstsq(plane, v, rcond=None)[0]
        if constant or float(left @ left) < 0.02 * float(np.sum((v - v.mean()) ** 2)):
            continue
        candidates.append((name, v, raw))
    out = []
    for name, v, raw in candidates:
        share, p = added_variance(plane, v[:, None], units.residual)
        if p * len(candidates) < _SIGNIFICANT and share > _WORTHWHILE:
            low, high = raw <= np.median(raw), raw > np.median(raw)
            if not high.any():
                low, high = raw < np.median(raw), raw >= np.median(raw)
            gap = float(np.mean(units.residual[high]) - np.mean(units.residual[low]))
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
