"""Which mark is the decimal one in a text table: decided from all cells together, never cell by cell."""

from __future__ import annotations

import re
from collections.abc import Collection

from scaling.errors import DataError
from scaling.findings import Finding
from scaling.reading.formats import Raw

_TAIL = r"(?:[eE][+-]?\d+)?\s?[A-Za-z]{0,2}"


def _only_decimal(mark: str, other: str) -> re.Pattern[str]:
    """Cells in which `mark` can only be a decimal mark: not three digits behind it, a 0 before it, ..."""
    m, o = re.escape(mark), re.escape(other)
    body = rf"\d*{m}(?!\d{{3}}(?!\d))\d+|0{m}\d+|\d{{4,}}{m}\d+|\d{{1,3}}(?:{o}\d{{3}})+{m}\d*"
    return re.compile(rf"[+-]?(?:(?:{body}){_TAIL}|\d+{m}\d+[eE][+-]?\d+)")


_COMMA_DECIMAL = _only_decimal(",", ".")
_POINT_DECIMAL = _only_decimal(".", ",")
_COMMA_GROUPS = re.compile(rf"[+-]?\d{{1,3}}(?:,\d{{3}}){{2,}}{_TAIL}")
#: One comma and three digits: either.
_EITHER = re.compile(rf"[+-]?[1-9]\d{{0,2}},\d{{3}}{_TAIL}")


def decimal_mark(
    raw: Raw, number_columns: Collection[str], loss_columns: Collection[str]
) -> tuple[str, list[Finding]]:
    """Decide between 3.41 and 3,41.

    Parameters
    ----------
    raw : Raw
        The table.
    number_columns : collection of str
        Columns whose cells count as evidence.
    loss_columns : collection of str
        Those of them that hold a loss: ``3,412`` there is no three thousand.

    Returns
    -------
    decimal : {".", ","}
    findings : list of Finding
        What was decided, where there was something to decide.

    Raises
    ------
    DataError
        Some cells use the comma as decimal mark and others the point, or the comma between thousands.
    """
    comma, point, either = [], [], []
    for name in number_columns:
        for i, cell in enumerate(raw.columns[name].tolist()):
            if not isinstance(cell, str):
                continue
            text = cell.strip()
            if _COMMA_DECIMAL.fullmatch(text) or (name in loss_columns and _EITHER.fullmatch(text)):
                comma.append(i)
            elif _POINT_DECIMAL.fullmatch(text) or _COMMA_GROUPS.fullmatch(text):
                point.append(i)
            elif _EITHER.fullmatch(text):
                either.append(i)
    if comma and point:
        rows = [int(raw.row[i]) for i in (comma[0], point[0])]
        raise DataError(
            f"{raw.source}: the comma is the decimal mark in {raw.row_word} {rows[0]} and is not in {raw.row_word} "
            f"{rows[1]}: write one way, or pass decimal='.' or decimal=','",
            source=raw.source,
            rows=rows,
        )
    if comma or (either and not point and raw.delimiter == ";"):
        message = "the comma was read as the decimal mark (3,41 is 3.41); pass decimal='.' if it is not"
        return ",", [Finding("decimal_comma", "info", message)]
    if either and not point:
        rows = [int(raw.row[i]) for i in either[:10]]
        message = (
            "commas were read as separators of thousands (1,300 is 1300), which no cell of the table proves; pass "
            "decimal=',' if they are decimal"
        )
        return ".", [Finding("thousands_comma", "warning", message, {"rows": rows})]
    return ".", []
