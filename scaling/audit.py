"""What reading a table understood, dropped and doubted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scaling.findings import Finding

SHOWN_ROWS = 10  # rows spelled out one by one before they are only counted


@dataclass(frozen=True)
class Audit:
    """The record of how a table of runs was read.

    Parameters
    ----------
    columns : mapping of str to (str, str)
        Quantity -> (the column or argument it was taken from, what was done to it), for instance
        ``{"params": ("n_params_M", "x 1e6")}``.
    n_read, n_kept : int
        Rows seen and rows kept.
    dropped : tuple of (int, str)
        Every row left out, by row number, and why.
    findings : tuple of Finding
        What a reader should know or doubt.
    unused : tuple of str
        Columns that were seen and not recognised as a quantity of a run.
    source : str
        Where the table came from.
    row_word : str
        What a row number counts: ``"line"`` of a file (its header is line 1) or ``"row"`` (position
        from 0).
    """

    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    n_read: int = 0
    n_kept: int = 0
    dropped: tuple[tuple[int, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    unused: tuple[str, ...] = ()
    source: str = ""
    row_word: str = "row"

    def finding(self, code: str) -> Finding | None:
        """Return the first finding with this code, or None."""
        return next((f for f in self.findings if f.code == code), None)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that doubt the data (severity ``warning`` or ``error``)."""
        return tuple(f for f in self.findings if f.severity != "info")

    def __str__(self) -> str:
        lines = [f"Audit of {self.source or 'runs'}: {self.n_read} rows read, {self.n_kept} kept"]
        if self.columns:
            quantity = max(len(name) for name in self.columns)
            lines.append("  understood")
            for name, (seen, done) in self.columns.items():
                lines.append(f"    {name:<{quantity}} <- {seen}{f'  ({done})' if done else ''}")
        if self.unused:
            lines.append(f"  not used: {', '.join(self.unused)}")
        if self.dropped:
            lines.append(f"  dropped {len(self.dropped)} row{'s' * (len(self.dropped) > 1)}")
            lines += [f"    {self.row_word} {row}: {reason}" for row, reason in self.dropped[:SHOWN_ROWS]]
            if len(self.dropped) > SHOWN_ROWS:
                lines.append(f"    ... and {len(self.dropped) - SHOWN_ROWS} more (audit.dropped)")
        if self.findings:
            lines.append("  findings")
            ordered = sorted(self.findings, key=lambda f: ("error", "warning", "info").index(f.severity))
            lines += [f"    [{f.severity}] {f.code}: {f.message}" for f in ordered]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain types, ready for JSON."""
        return {
            "source": self.source,
            "n_read": self.n_read,
            "n_kept": self.n_kept,
            "row_word": self.row_word,
            "columns": {name: list(pair) for name, pair in self.columns.items()},
            "unused": list(self.unused),
            "dropped": [[row, reason] for row, reason in self.dropped],
            "findings": [f.to_dict() for f in self.findings],
        }
