"""The table while it is being read: values, doubts and rows to leave out, collected in one place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaling.cells import SHOWN, Floats, Objects, read_cells, spell_out, why_bad
from scaling.errors import DataError, UnitError
from scaling.findings import Finding
from scaling.reading.columns import COUNTS, Header
from scaling.reading.formats import Raw

#: Suspicions that stop the reading unless ``allow=`` names them; then they are warnings.
SUSPICIONS = {
    "duplicates": "keep rows that are equal in every cell",
    "implausible_scale": "counts far below or above any model or data set",
    "loss_high": "losses above 12 whose unit is not stated",
    "mixed_groups": "runs on different data, whose losses are not comparable",
    "mixed_magnitudes": "counts in one column that look written in two magnitudes",
    "mixed_tokenizers": "losses per token under different tokenizers",
    "mixed_units": "losses in one column that look measured in two units",
    "summary_rows": "rows that look like a total or a mean of the others",
    "tokens_disagree": "tokens that are not steps x batch x sequence length",
}


class Draft:
    """A table half read.

    Attributes
    ----------
    values : dict of str to ndarray, float64, (n,)
        Quantities, in plain counts; ``nan`` where there is none.
    labels : dict of str to ndarray of object, (n,)
    columns : dict of str to (str, str)
        For the audit: quantity -> (seen, done).
    findings : list of Finding
    bad : dict of int to list of str
        Position in the raw table -> what is wrong there.
    """

    def __init__(self, raw: Raw, allow: Collection[str] = ()) -> None:
        unknown = sorted(set(allow) - set(SUSPICIONS))
        if unknown:
            raise DataError(
                f"allow={unknown[0]!r} is not known: give some of {', '.join(SUSPICIONS)}", column="allow"
            )
        self.raw = raw
        self.decimal = "."
        self.allow = frozenset(allow)
        self.values: dict[str, Floats] = {}
        self.labels: dict[str, Objects] = {}
        self.columns: dict[str, tuple[str, str]] = {}
        self.findings: list[Finding] = list(raw.findings)
        self.bad: dict[int, list[str]] = {i: [why] for i, why in raw.bad.items()}
        self.kept: NDArray[np.int64] = np.arange(len(raw.row))
        self.dropped: list[tuple[int, str]] = []
        self._cache: dict[tuple[str, bool], tuple[Floats, dict[int, str]]] = {}

    # -- reading ---------------------------------------------------------------------------------

    def read(self, name: str, header: Header) -> Floats:
        """Return a column in plain counts, (n,): logarithm undone, scale applied."""
        values, _ = self.cells(name, header)
        with np.errstate(over="ignore"):
            if header.log:
                values = {"10": 10.0, "2": 2.0, "e": np.e}[header.log] ** values
            return np.asarray(values * header.scale)

    def cells(self, name: str, header: Header) -> tuple[Floats, dict[int, str]]:
        """Return the numbers of a column as written, and the cells that are none with the reason."""
        suffixes = header.role in COUNTS and not header.log
        if (name, suffixes) not in self._cache:
            cells = self.raw.columns[name]
            self._cache[name, suffixes] = read_cells(cells, decimal=self.decimal, suffixes=suffixes)
        return self._cache[name, suffixes]

    def mark_bad(self, name: str, header: Header, values: Floats, *, required: bool) -> None:
        """Note every cell of a column that is no finite positive number."""
        _, problems = self.cells(name, header)
        for i, reason in problems.items():
            if required or reason != "empty":
                self.bad.setdefault(i, []).append(
                    f"{name} is empty" if reason == "empty" else f"{name}: {reason}"
                )
        self.mark_not_positive(name, values, skip=problems)

    def mark_not_positive(self, name: str, values: Floats, skip: Collection[int] = ()) -> None:
        """Note values that are infinite, zero or negative (``nan`` is a missing value, noted elsewhere)."""
        for i in np.flatnonzero(~np.isnan(values) & ~(np.isfinite(values) & (values > 0))).tolist():
            if i not in skip:
                self.bad.setdefault(i, []).append(f"{name}: {why_bad(float(values[i]))}")

    # -- saying ----------------------------------------------------------------------------------

    def note(self, code: str, severity: Any, message: str, **evidence: Any) -> None:
        """Add a finding."""
        self.findings.append(Finding(code, severity, message, evidence))

    def suspect(self, code: str, message: str, rows: Iterable[int] = (), **evidence: Any) -> None:
        """Stop, unless the caller has allowed this; then warn."""
        numbers = [int(r) for r in rows]
        if code in self.allow:
            self.note(code, "warning", message, rows=numbers, **evidence)
            return
        kind = (
            UnitError
            if "unit" in code or "scale" in code or "magnitude" in code or "loss" in code
            else DataError
        )
        raise kind(
            f"{self.raw.source}: {message} If the numbers are right as they are, pass allow=[{code!r}].",
            source=self.raw.source,
            rows=numbers,
        )

    def row_numbers(self, positions: Any) -> list[int]:
        """Return the row numbers of kept rows, by position among them or as a mask."""
        return [int(r) for r in self.raw.row[self.kept[np.asarray(positions)]]]

    def rows_text(self, positions: Any, verb: str = "") -> str:
        """Write rows as "line 3", "rows 0, 4, 8 and 3 more"; with a verb as "line 3 has", "rows 0, 4 have"."""
        numbers = self.row_numbers(positions)
        word = self.raw.row_word + ("s" if len(numbers) != 1 else "")
        more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
        if verb and len(numbers) == 1:
            verb = {"have": "has", "are": "is"}.get(verb, f"{verb}s")
        return f"{word} {', '.join(map(str, numbers[:SHOWN]))}{more}{' ' * bool(verb)}{verb}"

    # -- leaving rows out ------------------------------------------------------------------------

    def keep(self, mask: NDArray[np.bool_], reason: Callable[[int], str] | None) -> None:
        """Keep only the rows of the mask, (n kept,); with a reason, the others are recorded as dropped."""
        for i in np.flatnonzero(~mask).tolist() if reason else ():
            position = int(self.kept[i])
            self.dropped.append((int(self.raw.row[position]), reason(position) if reason else ""))
        self.kept = self.kept[mask]

    def settle_bad(self, on_bad: str) -> None:
        """Raise for the bad rows among those kept, or leave them out.

        Raises
        ------
        DataError
            ``on_bad="raise"`` and there are bad rows, or nothing is left.
        """
        positions = [int(p) for p in self.kept if int(p) in self.bad]
        if not positions:
            return
        listed = [(int(self.raw.row[p]), " and ".join(self.bad[p])) for p in positions]
        text = (
            f"{len(listed)} of {len(self.kept)} rows cannot be used: {spell_out(listed, self.raw.row_word)}"
        )
        rows = [row for row, _ in listed]
        if on_bad == "raise":
            raise DataError(
                f"{self.raw.source}: {text}. Correct them, or pass on_bad='drop' to leave them out",
                source=self.raw.source,
                rows=rows,
            )
        if len(positions) == len(self.kept):
            raise DataError(f"{self.raw.source}: no usable rows: {text}", source=self.raw.source, rows=rows)
        self.note("rows_dropped", "warning", f"{text}; left out", rows=rows)
        self.keep(~np.isin(self.kept, positions), lambda p: " and ".join(self.bad[p]))

    def column(self, role: str) -> Floats | None:
        """Return the values of a quantity at the kept rows, or None where the table has none."""
        values = self.values.get(role)
        return None if values is None else values[self.kept]

    def label(self, role: str) -> Objects | None:
        """Return the labels of a kind at the kept rows, or None where the table has none."""
        labels = self.labels.get(role)
        return None if labels is None else labels[self.kept]
