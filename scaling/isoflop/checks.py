"""The checks that look at one IsoFLOP budget alone, and their thresholds."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scaling.errors import DataError
from scaling.findings import Finding
from scaling.isoflop.budgets import Slice, flops_text
from scaling.units import format_count


@dataclass(frozen=True)
class QualityRules:
    """Thresholds of the checks. None switches a check off, except `min_points`.

    Parameters
    ----------
    min_points : int
        Distinct sizes a budget needs, before and after the checks; at least 3. Three determine a
        parabola, four its fit, five leave one to spare when one turns out bad.
    near_duplicate : float
        Runs of one budget whose ln N differ by no more than this are one point entered twice, unless
        a seed column tells them apart; the one with 6ND nearest to the budget stays.
    outlier_z : float
        A run is an outlier when its loss is off the local quadratic through its neighbours by this
        many robust standard errors and by 5% of the depth of the curve. Of clean runs with Gaussian
        noise 6 leaves out 1 in 2,000 where budgets have 9 sizes or more, 1 in 500 where they have 6.
    off_center_ratio : float
        Runs further from the minimum than this many times the shorter arm of the curve are left out:
        a lopsided grid drags a parabola towards its long arm.
    curvature_level : float
        Level of the two-sided interval of the curvature, which must lie above zero.
    max_spread : float
        Largest ratio of the highest to the lowest compute inside a budget.
    """

    min_points: int = 5
    near_duplicate: float | None = 0.01
    outlier_z: float | None = 6.0
    off_center_ratio: float | None = 2.5
    curvature_level: float | None = 0.95
    max_spread: float | None = 1.5

    def __post_init__(self) -> None:
        for rule in fields(self):
            value = getattr(self, rule.name)
            if value is not None and not value > 0:
                raise DataError(f"{rule.name} is positive (or None), not {value!r}", column=rule.name)
        if self.min_points < 3:
            raise DataError(
                "min_points is at least 3: a parabola has three coefficients", column="min_points"
            )
        if self.curvature_level is not None and not self.curvature_level < 1:
            raise DataError("curvature_level is a level below 1, such as 0.95", column="curvature_level")


class Check:
    """The checks of one budget; its state is the mask of runs still in."""

    def __init__(self, slice_: Slice, rules: QualityRules) -> None:
        self.slice, self.rules = slice_, rules
        self.keep = np.ones(len(slice_), dtype=bool)
        self.points: list[Finding] = []
        self.dropped: Finding | None = None

    @property
    def alive(self) -> bool:
        """Whether the budget is still in."""
        return self.dropped is None

    @property
    def used(self) -> Slice:
        """The runs still in."""
        return self.slice.take(self.keep)

    def drop(self, code: str, message: str, **evidence: float | int) -> None:
        """Drop the budget; the first reason stands."""
        if self.alive:
            numbers = {"flops": self.slice.flops, "n_points": int(self.keep.sum()), **evidence}
            self.dropped = Finding(code, "warning", message, numbers)

    def leave_out(self, i: int, code: str, why: str, **evidence: float | int) -> None:
        """Leave out the run at position i."""
        self.keep[i] = False
        s = self.slice
        numbers = {"flops": s.flops, "row": int(s.rows[i]), "params": float(s.params[i])}
        numbers |= {"tokens": float(s.tokens[i]), "loss": float(s.loss[i]), **evidence}
        message = f"row {s.rows[i]} (N={format_count(s.params[i])}, C={s.flops_text}): {why}"
        self.points.append(Finding(code, "warning", message, numbers))

    def compute_spread(self) -> None:
        """Refuse a budget that is no curve of equal compute."""
        limit = self.rules.max_spread
        low, high = float(self.slice.compute.min()), float(self.slice.compute.max())
        if limit is not None and high > limit * low:
            self.drop(
                "mixed_compute",
                f"6ND runs from {flops_text(low)} to {flops_text(high)} inside the budget C="
                f"{self.slice.flops_text}, more than a factor {limit:g}: no curve of equal compute. "
                "Name the budgets with budgets=, or lower group_tol",
                compute_low=low,
                compute_high=high,
            )

    def duplicates(self) -> None:
        """Leave out rows entered twice."""
        s = self.slice
        seen: dict[tuple[object, ...], int] = {}
        for i in range(len(s)):
            key = (s.params[i], s.tokens[i], s.loss[i], None if s.seeds is None else s.seeds[i])
            if key in seen:
                first = int(s.rows[seen[key]])
                self.leave_out(i, "exact_duplicate", f"same N, D and loss as row {first}", first_row=first)
            else:
                seen[key] = i
        if self.rules.near_duplicate is None:
            return
        group: list[int] = []
        for i in [*np.flatnonzero(self.keep).tolist(), -1]:  # rows are in order of N
            if i >= 0 and group and s.x[i] - s.x[group[0]] <= self.rules.near_duplicate:
                group.append(i)
                continue
            self._thin(group)
            group = [i]

    def _thin(self, group: list[int]) -> None:
        s = self.slice
        if len(group) < 2 or (s.seeds is not None and len({s.seeds[i] for i in group}) == len(group)):
            return
        nearest = min(group, key=lambda i: (abs(np.log(s.compute[i] / s.flops)), s.loss[i]))
        for i in group:
            if i != nearest:
                self.leave_out(
                    i,
                    "near_duplicate_params",
                    f"N within {100 * abs(np.expm1(s.x[i] - s.x[nearest])):.2g}% of row {s.rows[nearest]} "
                    "and no seed to tell them apart",
                    first_row=int(s.rows[nearest]),
                )

    def monotone(self) -> None:
        """Drop a budget whose losses fall, or rise, all the way."""
        s = self.used
        if not self.alive or len(np.unique(s.params)) < 3:
            return
        steps = np.diff(s.loss)
        if (steps < 0).all() or (steps > 0).all():
            falls = bool(steps[0] < 0)
            self.drop(
                "minimum_not_bracketed",
                f"minimum not bracketed at C={s.flops_text}: losses {'fall' if falls else 'rise'} "
                f"monotonically from N={format_count(s.params[0])} ({s.loss[0]:.4g}) to "
                f"N={format_count(s.params[-1])} "
                f"({s.loss[-1]:.4g}); add {'larger' if falls else 'smaller'} models",
                params_low=float(s.params[0]),
                params_high=float(s.params[-1]),
            )

    def too_few(self, code: str) -> None:
        """Drop a budget with too few distinct sizes, before or after the other checks."""
        s, need = self.used, self.rules.min_points
        distinct = len(np.unique(s.params))
        if distinct < need:
            after = " after the checks" if code == "too_few_post_qc" else ""
            self.drop(
                code,
                f"{distinct} distinct sizes left at C={s.flops_text}{after} ({len(self.slice)} rows given): "
                f"at least {need} are needed",
                needed=need,
            )

    def bracket(self) -> None:
        """Drop a budget whose parabola has its minimum outside the sampled sizes."""
        if not self.alive:
            return
        s = self.used
        vertex, curvature = vertex_of(s)
        if curvature > 0 and not s.x[0] < vertex < s.x[-1]:
            side = "larger" if vertex >= s.x[-1] else "smaller"
            self.drop(
                "minimum_not_bracketed",
                f"minimum not bracketed at C={s.flops_text}: the parabola has it at N="
                f"{format_count(float(np.exp(np.clip(vertex, -700, 700))))}, outside the sampled "
                f"{format_count(s.params[0])} to {format_count(s.params[-1])}; add {side} models",
                params_low=float(s.params[0]),
                params_high=float(s.params[-1]),
                vertex=float(np.exp(np.clip(vertex, -700, 700))),
            )

    def off_center(self) -> None:
        """Leave out runs far beyond the shorter arm of the curve."""
        ratio = self.rules.off_center_ratio
        if ratio is None or not self.alive or len(self.used) < 3:
            return
        vertex, curvature = vertex_of(self.used)
        x = self.used.x
        arm = min(vertex - x[0], x[-1] - vertex)
        if curvature <= 0 or arm <= 0:
            return
        # Once only: leaving points out moves the vertex, and repeating would eat into the curve.
        for i in np.flatnonzero(self.keep & (np.abs(self.slice.x - vertex) > ratio * arm)):
            distance = float(abs(self.slice.x[i] - vertex) / np.log(10))
            self.leave_out(
                int(i),
                "off_center",
                f"{distance:.2g} decades from the minimum, more than {ratio:g} times the other arm "
                f"({arm / np.log(10):.2g})",
                decades_from_minimum=distance,
            )


def vertex_of(s: Slice) -> tuple[float, float]:
    """Return the vertex (ln N) and the curvature of the weighted parabola through a slice."""
    centre = float(s.x.mean())
    c, b, _ = np.polyfit(s.x - centre, s.loss, 2, w=np.sqrt(s.weights))
    return (centre - b / (2 * c) if c != 0 else np.inf), float(c)
