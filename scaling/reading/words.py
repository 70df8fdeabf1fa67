"""Words that mark a row as no run."""

from __future__ import annotations

from typing import Any

#: Words that name such a row when they are the whole text of a cell.
SUMMARY_WORDS = frozenset(
    {"total", "totals", "grand total", "subtotal", "sum", "mean", "average", "avg", "median", "min", "max"}
    | {"minimum", "maximum", "std", "stdev", "std dev", "standard deviation", "count"}
)


def is_summary_word(cell: Any) -> bool:
    """Tell whether a cell is nothing but the name of a summary."""
    return isinstance(cell, str) and cell.strip(" \t*_:").lower() in SUMMARY_WORDS
