"""Rows that sum up the other rows (Total, Mean, Std): they are no runs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaling.cells import is_missing
from scaling.errors import DataError
from scaling.reading.columns import read_header
from scaling.reading.draft import Draft
from scaling.reading.words import is_summary_word
from scaling.units import parse_count

#: A column of names has this many names for every summary word, where the words stand between the names.
_NAMES_PER_WORD = 2
_ROW_NAMES = ("seed", "run_id", "trunk_id")
_PERCENTILE = re.compile(r"\d+(\.\d+)?%")


def check_summaries(draft: Draft) -> None:
    """Mark summary rows among the kept rows as bad, or warn where ``allow`` names "summary_rows".

    A row is one when a single cell is a summary word, its other cells are numbers or empty, and the
    column of that cell names rows: a column ``pooling`` with ``mean`` and ``max`` tells how runs were
    made and stays.
    """
    found: dict[int, str] = {}
    for name, cells in draft.raw.columns.items():
        if cells.dtype.kind not in "iuf":
            found |= _in_column(draft, name, cells[draft.kept])
    if not found:
        return
    if "summary_rows" in draft.allow:
        mask = np.isin(np.arange(len(draft.kept)), list(found))
        draft.note(
            "summary_rows",
            "warning",
            f"{draft.rows_text(mask)} may be summaries of other rows; kept because allow= says so",
            rows=draft.row_numbers(mask),
        )
        return
    for i, word in found.items():
        # A reason of its own: that a mean lacks its token count is no news.
        draft.bad[int(draft.kept[i])] = [f"a summary of other rows ({word!r}), not a run"]


def _in_column(draft: Draft, name: str, cells: NDArray[Any]) -> dict[int, str]:
    """Return position among the kept rows -> word, for the summary rows that a column names."""
    texts = ["" if is_missing(cell) else str(cell).strip() for cell in cells.tolist()]
    words = {i: text for i, text in enumerate(texts) if is_summary_word(text)}
    header = read_header(name)
    if words and header is not None and header.role in _ROW_NAMES:
        names = [text for i, text in enumerate(texts) if text and i not in words]
        if names and all(_is_number_or_empty(text, draft.decimal) for text in names):
            return words  # seeds 0, 1, Mean: whatever else the row repeats of its group
    words = {i: text for i, text in words.items() if _else_numeric(draft, name, i)}
    if words:
        # The quartiles that describe() of pandas writes between min and max.
        words |= {i: text for i, text in enumerate(texts) if _PERCENTILE.fullmatch(text)}
    if not words or len(words) == len(texts):
        return {}
    names = [text for i, text in enumerate(texts) if text and i not in words]
    once = len({text.lower() for text in words.values()}) == len(words)
    last = min(words) == len(texts) - len(words)
    distinct = len(set(names)) == len(names)
    if distinct and ((once and last) or len(names) >= _NAMES_PER_WORD * len(words)):
        return words
    return words if once and last and _agrees(draft, words) else {}


def _else_numeric(draft: Draft, name: str, i: int) -> bool:
    """Tell whether all other cells of a row are numbers or empty."""
    position = int(draft.kept[i])
    return all(
        other == name or cells.dtype.kind in "iuf" or _is_number_or_empty(cells[position], draft.decimal)
        for other, cells in draft.raw.columns.items()
    )


def _is_number_or_empty(cell: Any, decimal: str) -> bool:
    if is_missing(cell):
        return True
    try:
        parse_count(cell, decimal=decimal)
    except DataError:
        return False
    return True


def _agrees(draft: Draft, words: dict[int, str]) -> bool:
    """Tell whether a total or mean is that of the rows above it, in params, tokens or loss."""
    above = np.setdiff1d(np.arange(len(draft.kept)), list(words))
    for role in ("params", "tokens", "loss"):
        values = draft.values[role][draft.kept]
        rows = values[above][np.isfinite(values[above])]
        if len(rows) < 2 or np.ptp(rows) == 0.0:
            continue
        summaries = (rows.sum(), rows.mean(), np.median(rows), rows.std(), rows.std(ddof=1))
        given = values[list(words)]
        if any(np.any(np.abs(given - value) <= 1e-3 * value) for value in summaries):
            return True
    return False
