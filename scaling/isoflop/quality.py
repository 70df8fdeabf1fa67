"""Quality checks of IsoFLOP curves: what is left out, by which named reason, on which numbers.

Of 947 points in the public collection of eight IsoFLOP experiments, 197 fail checks of this kind.
Nothing is left out silently: every point and every budget that goes is a `Finding` whose code is one of

``exact_duplicate``, ``near_duplicate_params``, ``outlier``, ``off_center`` (a point), ``mixed_compute``,
``minimum_not_bracketed``, ``too_few_points``, ``weak_curvature``, ``too_few_post_qc`` (a budget).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaling.findings import Finding
from scaling.isoflop.budgets import Floats, Slice
from scaling.isoflop.checks import Check, QualityRules
from scaling.isoflop.noise import moderated_variances, t_quantile

#: Points whose neighbours predict one of them: enough for a local quadratic with a spare one.
_NEIGHBOURS = 5
#: Weight, in degrees of freedom, of the typical budget's noise in each budget's own robust noise.
_NOISE_PRIOR = 8.0
#: A run further from its neighbours than this share of their range is not judged by them.
_EXTRAPOLATION = 0.5
#: Largest share of a budget's runs that may be outliers.
_OUTLIER_LIMIT = 0.25
#: A departure smaller than this share of the curve's depth is no outlier, however smooth the rest is.
_OUTLIER_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Screened:
    """A budget after the checks: the runs left, or the reason it was dropped."""

    slice: Slice
    keep: NDArray[np.bool_]
    points: tuple[Finding, ...] = ()
    dropped: Finding | None = None

    @property
    def used(self) -> Slice:
        """The runs left."""
        return self.slice.take(self.keep)


def screen(slices: list[Slice], rules: QualityRules) -> list[Screened]:
    """Run every check on every budget.

    Parameters
    ----------
    slices : list of Slice
    rules : QualityRules

    Returns
    -------
    list of Screened
        One per slice, in order.
    """
    checks = [Check(s, rules) for s in slices]
    for check in checks:
        check.compute_spread()
        check.duplicates()
        check.monotone()
        check.too_few("too_few_points")
    _outliers([c for c in checks if c.alive], rules)
    for check in checks:
        check.bracket()
        check.off_center()
        check.too_few("too_few_post_qc")
    _curvature([c for c in checks if c.alive], rules)
    return [Screened(c.slice, c.keep, tuple(c.points), c.dropped) for c in checks]


def _outliers(checks: list[Check], rules: QualityRules) -> None:
    """Leave out, one per budget and round, the run that its neighbours predict worst, if badly enough.

    The noise it is compared with is what the rest of its budget shows once that run is gone (a bad run
    spoils the predictions of its neighbours too), pulled towards the typical budget.
    """
    if rules.outlier_z is None:
        return
    left = {id(c): max(1, int(_OUTLIER_LIMIT * c.keep.sum())) for c in checks}
    suspects = {id(c): _suspect(c) for c in checks}
    while True:
        known = [s.noise for s in suspects.values() if s is not None and s.n_noise]
        typical = float(np.median(known)) if known else 0.0
        changed = False
        for c in checks:
            s = suspects[id(c)]
            if s is None or left[id(c)] == 0:
                continue
            scale = np.sqrt((_NOISE_PRIOR * typical**2 + s.n_noise * s.noise**2) / (_NOISE_PRIOR + s.n_noise))
            if s.gap <= rules.outlier_z * scale or s.share <= _OUTLIER_SHARE or not (known or s.n_noise):
                continue
            z = float(s.gap / scale) if scale > 0 else np.inf
            why = f"loss {c.slice.loss[s.at]:.4g} is {z:.1f} robust standard errors off its neighbours"
            c.leave_out(s.at, "outlier", why, z=z)
            left[id(c)] -= 1
            suspects[id(c)] = _suspect(c)
            changed = True
        if not changed:
            return


class _Suspect(NamedTuple):
    """The run worst predicted by its neighbours, and the noise of its budget without it."""

    at: int
    gap: float
    share: float
    noise: float
    n_noise: int


def _suspect(c: Check) -> _Suspect | None:
    s = c.used
    z, share = _neighbour_scores(s)
    if not len(z):
        return None
    worst = int(np.argmax(np.abs(z)))
    rest, _ = _neighbour_scores(s.take(np.delete(np.arange(len(s)), worst)))
    noise = 1.4826 * float(np.median(np.abs(rest))) if len(rest) else 0.0
    at = int(np.flatnonzero(c.keep)[worst])
    # Scores of neighbours overlap: they are worth the degrees of freedom of a parabola through them.
    return _Suspect(at, float(abs(z[worst])), float(share[worst]), noise, max(len(rest) - 3, 0))


def _neighbour_scores(s: Slice) -> tuple[Floats, Floats]:
    """Return each run's departure from its neighbours in units of the noise, and as a share of the depth."""
    n = len(s)
    if len(np.unique(s.params)) < _NEIGHBOURS:
        return np.empty(0), np.empty(0)
    x, y, w = s.x, s.loss, s.weights
    z, share = np.zeros(n), np.zeros(n)
    for i in range(n):
        others = np.delete(np.arange(n), i)
        near = others[np.argsort(np.abs(x[others] - x[i]), kind="stable")]
        m = min(len(near), _NEIGHBOURS)
        while m < len(near) and len(np.unique(x[near[:m]])) < 4:
            m += 1
        near = near[:m]
        low, high = x[near].min(), x[near].max()
        if max(low - x[i], x[i] - high) > _EXTRAPOLATION * (high - low):
            continue  # out on its own: no neighbour can say
        design = np.vander(x[near] - x[i], 3, increasing=True) * np.sqrt(w[near])[:, None]
        influence = np.linalg.pinv(design)[0] * np.sqrt(w[near])
        gap = y[i] - influence @ y[near]
        z[i] = gap / np.sqrt(1 / w[i] + np.sum(influence**2 / w[near]))
        depth = np.ptp(y[others])
        share[i] = abs(gap) / depth if depth > 0 else np.inf
    return z, share


def _curvature(checks: list[Check], rules: QualityRules) -> None:
    """Drop budgets whose curve is not convincingly a valley."""
    if rules.curvature_level is None or not checks:
        return
    fits = []
    for c in checks:
        s = c.used
        root = np.sqrt(s.weights)
        design = np.vander(s.x - s.x.mean(), 3, increasing=True) * root[:, None]
        theta, *_ = np.linalg.lstsq(design, s.loss * root, rcond=None)
        rest = s.loss * root - design @ theta
        unit = float(np.linalg.inv(design.T @ design)[2, 2])
        fits.append((float(theta[2]), unit, float(rest @ rest), len(s) - 3))
    dof = np.array([d for *_, d in fits], dtype=float)
    variance, dof_used = moderated_variances([r / max(d, 1) for *_, r, d in fits], dof)
    for c, (curvature, unit, *_), v, d in zip(checks, fits, variance, dof_used, strict=True):
        margin = t_quantile(rules.curvature_level, d) * float(np.sqrt(v * unit)) if d > 0 else 0.0
        # Equal losses curve by rounding alone, and without noise no margin would say so.
        rise = curvature * float(np.ptp(c.used.x)) ** 2
        if curvature - margin <= 0 or rise < 1e-9 * float(c.used.loss.mean()):
            shape = "curves downwards" if curvature <= 0 else "hardly curves"
            c.drop(
                "weak_curvature",
                f"the curve at C={c.slice.flops_text} {shape}: curvature {curvature:.2g} ± {margin:.2g} "
                f"per squared unit of ln N ({100 * rules.curvature_level:g}%) does not exclude zero; sample "
                "a wider range of N or repeat runs",
                curvature=curvature,
                margin=margin,
            )
