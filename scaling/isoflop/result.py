"""What an IsoFLOP analysis returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaling.errors import DataError
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.isoflop.bias import CurveBias
from scaling.isoflop.budgets import flops_text
from scaling.isoflop.curves import CurveFit, CurveKind
from scaling.isoflop.frontier import Frontier, FrontierPoint
from scaling.runs import RunTable
from scaling.units import format_count

#: Dropped budgets spelled out one by one before they are only counted.
SHOWN = 10

_TITLES = {"law": "law-shaped curve", "parabola": "parabola"}


@dataclass(frozen=True, eq=False, repr=False)
class Budget:
    """One compute budget: its runs, its curves, or why it was dropped.

    Parameters
    ----------
    flops : float
        The budget C.
    rows, rows_used : tuple of int
        Row numbers of all its runs and of those behind the curves.
    params_range : (float, float)
        Smallest and largest N among the runs used.
    curves : mapping of {"parabola", "law"} to CurveFit
        Empty for a dropped budget.
    dropped : Finding or None
        The reason the budget was dropped.
    points : tuple of Finding
        The runs left out, each with its reason.
    """

    flops: float
    rows: tuple[int, ...]
    rows_used: tuple[int, ...]
    params_range: tuple[float, float]
    curves: Mapping[CurveKind, CurveFit] = field(default_factory=dict)
    dropped: Finding | None = None
    points: tuple[Finding, ...] = ()

    @property
    def parabola(self) -> CurveFit | None:
        """The quadratic in ln N, if fitted."""
        return self.curves.get("parabola")

    @property
    def law(self) -> CurveFit | None:
        """The asymmetric curve, if fitted."""
        return self.curves.get("law")

    def __repr__(self) -> str:
        head = f"C={flops_text(self.flops)}, {len(self.rows_used)} of {len(self.rows)} runs"
        if self.dropped is not None:
            return f"Budget({head}, dropped: {self.dropped.code})"
        optima = ", ".join(f"N* {format_count(c.params.value)} ({k})" for k, c in self.curves.items())
        return f"Budget({head}, {optima})"

    def to_dict(self) -> dict[str, Any]:
        """Return the budget as plain types."""
        return {
            "flops": self.flops,
            "rows": list(self.rows),
            "rows_used": list(self.rows_used),
            "params_range": list(self.params_range),
            "curves": {kind: c.to_dict() for kind, c in self.curves.items()},
            "dropped": None if self.dropped is None else self.dropped.to_dict(),
            "points": [p.to_dict() for p in self.points],
        }


@dataclass(frozen=True, eq=False, repr=False)
class IsoflopFit:
    """Curves per budget, the frontier through their minima, and what the parabola costs.

    Parameters
    ----------
    budgets : tuple of Budget
        Every budget, by rising compute, dropped ones included.
    frontiers : mapping of {"parabola", "law"} to Frontier
        Power laws N* = G C^a and D* = H C^b, and L*(C).
    skew : Estimate or None
        beta - alpha, shared by the law-shaped curves; None where they were not fitted.
    exponents : (float, float) or None
        (alpha, beta) of the law-shaped curves; their sum was given, not estimated (`scaling.isoflop.shape`).
    bias : mapping of {"parabola", "law"} to CurveBias
        Error of each kind of curve on this design where there is no noise.
    findings : tuple of Finding
        What a reader should know or doubt; reasons of dropped budgets and points are on the budgets.
    level : float
        Coverage of every interval.
    runs : RunTable
        The table analysed.
    """

    budgets: tuple[Budget, ...]
    frontiers: Mapping[CurveKind, Frontier]
    skew: Estimate | None
    exponents: tuple[float, float] | None
    bias: Mapping[CurveKind, CurveBias]
    findings: tuple[Finding, ...]
    level: float
    runs: RunTable = field(repr=False)

    @property
    def used(self) -> tuple[Budget, ...]:
        """Budgets with curves."""
        return tuple(b for b in self.budgets if b.dropped is None)

    @property
    def dropped(self) -> tuple[Budget, ...]:
        """Budgets that failed a check; ``budget.dropped`` has the reason."""
        return tuple(b for b in self.budgets if b.dropped is not None)

    @property
    def dropped_points(self) -> tuple[Finding, ...]:
        """Every single run left out, with its reason."""
        return tuple(p for b in self.budgets for p in b.points)

    @property
    def frontier(self) -> Frontier:
        """The frontier of the law-shaped curves where they were fitted, else of the parabolas."""
        return self.frontiers["law" if "law" in self.frontiers else "parabola"]

    def finding(self, code: str) -> Finding | None:
        """Return the first finding with this code, or None."""
        return next((f for f in self.findings if f.code == code), None)

    def optimal(
        self, flops: float, *, curve: CurveKind | None = None, level: float | None = None
    ) -> FrontierPoint:
        """Return N*, D* and L* for a compute budget.

        Parameters
        ----------
        flops : float
            Training FLOPs.
        curve : {"law", "parabola"}, optional
            Which frontier; the law-shaped one by default.
        level : float, optional
            Coverage; by default the level of the fit.

        Returns
        -------
        FrontierPoint

        Raises
        ------
        DataError
            `flops` is not positive, or that curve was not fitted.
        """
        if curve is not None and curve not in self.frontiers:
            raise DataError(f"no {curve!r} frontier here, only {sorted(self.frontiers)}", column="curve")
        frontier = self.frontier if curve is None else self.frontiers[curve]
        return frontier.optimal(flops, level=level)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the runs as plain types."""
        return {
            "level": self.level,
            "source": self.runs.source,
            "budgets": [b.to_dict() for b in self.budgets],
            "frontiers": {kind: f.to_dict() for kind, f in self.frontiers.items()},
            "skew": None if self.skew is None else self.skew.to_dict(),
            "exponents": None if self.exponents is None else list(self.exponents),
            "bias": {kind: b.to_dict() for kind, b in self.bias.items()},
            "findings": [f.to_dict() for f in self.findings],
        }

    def summary(self) -> str:
        """Return the whole result as one block of text."""
        n_used = sum(len(b.rows_used) for b in self.used)
        lines = [
            f"IsoFLOP analysis of {len(self.runs)} runs ({self.runs.source}): {len(self.used)} of "
            f"{len(self.budgets)} budgets and {n_used} runs used, intervals {100 * self.level:g}%"
        ]
        best: CurveKind = self.frontier.kind
        other: CurveKind | None = next((k for k in self.frontiers if k != best), None)
        lines.append(f"  {'C':>8} {'runs':>6}  N* by {_TITLES[best]}")
        for b in self.used:
            c = b.curves.get(best)
            text = "no minimum" if c is None else _phrase(c.params)
            rest = "" if c is None else f"  D* {format_count(c.tokens.value)}, loss {c.loss.value:.4g}"
            plain = b.curves.get(other) if other else None
            if plain is not None:
                rest += f"  ({_TITLES[plain.kind]}: {format_count(plain.params.value)})"
            lines.append(f"  {flops_text(b.flops):>8} {f'{len(b.rows_used)}/{len(b.rows)}':>6}  {text}{rest}")
        for kind, law in self.frontiers.items():
            lines.append(
                f"  {_TITLES[kind]}: N* ~ C^a, {law.params.exponent!r}; D* ~ C^b, {law.tokens.exponent!r}; "
                f"a + b = {law.exponent_sum.value:.3f}"
            )
        if self.skew is not None and self.exponents is not None:
            total = sum(self.exponents)
            lines.append(f"  shape: {self.skew!r} with alpha + beta held at {total:.3g}")
        lines += [f"  {b!r}" for b in self.bias.values()]
        dropped = [b.dropped for b in self.dropped if b.dropped is not None]
        lines += [f"  dropped, {text}" for text in dropped_lines(dropped)]
        counts = Counter(p.code for p in self.dropped_points)
        if counts:
            lines.append("  runs left out: " + ", ".join(f"{n} {code}" for code, n in counts.items()))
        lines += [f"  {f}" for f in self.findings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()


def _phrase(e: Estimate) -> str:
    return f"{format_count(e.value):>6} [{format_count(e.low)}, {format_count(e.high)}]"


def dropped_lines(dropped: Sequence[Finding]) -> list[str]:
    """Return a line per dropped budget, those with most runs first, and a count of what is not shown."""
    order = sorted(dropped, key=lambda f: -int(f.evidence["n_points"]))
    lines = [f"{f.code}: {f.message}" for f in order[:SHOWN]]
    rest = Counter(f.code for f in order[SHOWN:])
    if rest:
        counts = ", ".join(f"{n} {code}" for code, n in rest.items())
        lines.append(f"and {sum(rest.values())} budgets with fewer runs: {counts}")
    return lines
