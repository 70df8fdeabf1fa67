"""Runs worth making next: a table of them, what they buy, and what to know; for people and for programs."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from economics.next_runs.goal import Precision
from economics.run_estimates import dollars, plain_number
from economics.run_text import preformatted
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.storage import write_atomically
from scaling.units import format_count

if TYPE_CHECKING:
    from os import PathLike

_WIDTH = 118
_MARK = {"error": "x", "warning": "!", "info": "-"}


@dataclass(frozen=True)
class NextRun:
    """One run of a suggestion.

    Parameters
    ----------
    trunk : int
        Number of the trunk (a size and a seed), from 1.
    kind : {"trunk", "branch"}
        The longest run of a trunk, which pays for all its steps; or one that leaves it early and pays for its
        cooldown alone.
    params, tokens : float
        N, counted as the runs at hand count it, and D.
    hours, usd : float
        Medians of what it adds to the bill.
    shape : str
        Layers, width and heads.
    """

    trunk: int
    kind: str
    params: float
    tokens: float
    hours: float
    usd: float
    shape: str


@dataclass(frozen=True)
class PlainGrid:
    """The best plain grid for no more dollars, one trunk a size.

    Parameters
    ----------
    params, tokens : tuple of float
        Its sizes and token counts.
    usd : float
        Median cost.
    precision : Precision
        What it would reach.
    """

    params: tuple[float, ...]
    tokens: tuple[float, ...]
    usd: float
    precision: Precision

    def __str__(self) -> str:
        sizes = "/".join(format_count(n) for n in self.params)
        return (
            f"{self.precision.text}: {len(self.params)} sizes x {len(self.tokens)} token counts for "
            f"{dollars(self.usd)}, {sizes} on {format_count(self.tokens[0])} to {format_count(self.tokens[-1])}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class NextRuns:
    """Runs worth making next. Made by `suggest`.

    Parameters
    ----------
    target : str
        What is to be known better.
    runs : tuple of NextRun
        The runs, trunk by trunk, the longest of each first.
    usd, hours : Estimate
        Cost and machine time of all together, one after another, machine start included in the dollars.
    budget_usd : float or None
        The most that could be spent.
    wanted : float or None
        Half-width asked for: a factor, or a difference.
    before, after : Precision
        Predicted half-width without and with the runs.
    grid : PlainGrid or None
        For comparison; None where no grid is that cheap.
    machine, basis, noise : str
        On what; where the laws and the noise come from.
    by_rho : mapping of float to Precision
        What these runs reach under other correlations within a trunk than the one in `noise`; empty without branches.
    findings : tuple of Finding
        What to know.
    """

    target: str
    runs: tuple[NextRun, ...]
    usd: Estimate
    hours: Estimate
    budget_usd: float | None
    wanted: float | None
    before: Precision
    after: Precision
    grid: PlainGrid | None
    machine: str
    basis: str
    noise: str
    by_rho: Mapping[float, Precision] = field(default_factory=dict)
    findings: tuple[Finding, ...] = field(default=())

    @property
    def reached(self) -> bool:
        """Whether the wanted precision is reached; True where none was asked for."""
        return self.wanted is None or self.after.value <= self.wanted * (1 + 1e-9)

    def __repr__(self) -> str:
        trunks = len({run.trunk for run in self.runs})
        plural = "s" * (len(self.runs) != 1), "s" * (trunks != 1)
        limit = "" if self.budget_usd is None else f" of {dollars(self.budget_usd)}"
        lines = [
            f"{len(self.runs)} run{plural[0]} on {trunks} trunk{plural[1]} for {self.target}: "
            f"{dollars(self.usd.value)}{limit} on {self.machine}",
        ]
        facts = {
            "now": self.before.text,
            "with these": self.after.text + ("" if self.reached else " - not what was asked for"),
            "plain grid": "none is that cheap" if self.grid is None else str(self.grid),
            "cost": str(self.usd),
            "hours": f"{self.hours}, one run after another",
            "laws": self.basis,
            "noise": self.noise + self._other_rho(),
        }
        for name, text in facts.items():
            lines += textwrap.wrap(f"  {name:<11} {text}", _WIDTH, subsequent_indent=" " * 14)
        lines.append(f"  {'trunk':<6} {'N':>7} {'D':>7}  {'what':<7} {'hours':>7} {'dollars':>9}  shape")
        for run in self.runs:
            trunk, shape = (str(run.trunk), run.shape) if run.kind == "trunk" else ("", "")
            lines.append(
                f"  {trunk:<6} {format_count(run.params):>7} {format_count(run.tokens):>7}  {run.kind:<7} "
                f"{plain_number(run.hours):>7} {dollars(run.usd):>9}  {shape}".rstrip()
            )
        if any(run.kind == "branch" for run in self.runs):
            lines.append(
                "  a branch leaves its trunk before the end and cools down by itself: 20% of its tokens"
            )
        for f in self.findings:
            lines += textwrap.wrap(f"  {_MARK[f.severity]} {f.message}", _WIDTH, subsequent_indent="    ")
        return "\n".join(lines)

    def _other_rho(self) -> str:
        """Say what these runs reach under other correlations."""
        if not self.by_rho:
            return ""
        widths = ", ".join(f"{p.text.split(' at ')[0]} were it {r:g}" for r, p in self.by_rho.items())
        return f": these runs reach {widths}"

    def _repr_html_(self) -> str:
        return preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "target": self.target,
            "runs": [asdict(run) for run in self.runs],
            "usd": self.usd.to_dict(),
            "hours": self.hours.to_dict(),
            "budget_usd": self.budget_usd,
            "wanted": self.wanted,
            "reached": self.reached,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "plain_grid": None
            if self.grid is None
            else {**asdict(self.grid), "precision": self.grid.precision.to_dict()},
            "machine": self.machine,
            "laws": self.basis,
            "noise": self.noise,
            "by_rho": [{"rho": r, "precision": p.to_dict()} for r, p in self.by_rho.items()],
            "findings": [f.to_dict() for f in self.findings],
        }

    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """Return the runs as CSV, and write them to a file where one is named; counts at full precision."""
        text = io.StringIO()
        names = list(NextRun.__dataclass_fields__)
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(run) for run in self.runs)
        if path is not None:
            write_atomically(Path(path), text.getvalue())
        return text.getvalue()
