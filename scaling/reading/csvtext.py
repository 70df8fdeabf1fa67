"""Text tables: encoding, separator, lines. Cells stay text; line numbers are those an editor shows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaling.cells import names_text
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.reading.shapes import tell_apart

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_SNIFFED_LINES = 50
_SEPARATOR_LINE = re.compile(r"\A\"?sep=.\"?\r?\n", re.IGNORECASE)
_NUMBER_LIKE = re.compile(r"\s*[+-]?[\d.,_]+(e[+-]?\d+)?\s*[kmbt]?\s*", re.IGNORECASE)

CsvTable = tuple[dict[str, NDArray[Any]], list[int], dict[int, str], str, list[Finding]]


def decode(content: bytes, source: str) -> tuple[str, list[Finding]]:
    """Return the text of a file, without a byte order mark."""
    encoding = next((name for mark, name in _BOMS if content.startswith(mark)), "utf-8")
    findings: list[Finding] = []
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        if b"\0" in content or encoding != "utf-8":
            raise DataError(f"{source} is not a text table (binary content)", source=source) from None
        text = content.decode("latin-1")
        message = "the file is not UTF-8; read as Latin-1, which may garble names but no numbers"
        findings.append(Finding("encoding", "info", message))
    if "\0" in text:
        raise DataError(f"{source} is not a text table (binary content)", source=source)
    return text.removeprefix("\ufeff"), findings


def read_csv_text(text: str, source: str) -> CsvTable:
    """Split a text table into columns of cells.

    Parameters
    ----------
    text : str
        The table; its first line that is neither empty nor a ``#`` comment names the columns.
    source : str
        Name for messages.

    Returns
    -------
    columns : dict of str to ndarray of object, (n,)
    lines : list of int
        Line number of each row.
    bad : dict of int to str
        Rows that do not fit the header, by position.
    delimiter : str
    findings : list of Finding

    Raises
    ------
    DataError
        No header, no rows, or two columns of one name.
    """
    # Spreadsheets write their separator into a first line of its own; its number is kept.
    text = _SEPARATOR_LINE.sub("\n", text, count=1)
    delimiter = _sniff(text)
    rows = list(_rows(text, delimiter, source))
    if not rows:
        raise DataError(f"{source} is empty", source=source)
    (header_line, header), body = rows[0], rows[1:]
    if header and header[0].startswith("#"):
        header = [header[0].lstrip("# "), *header[1:]] if header[0].strip() != "#" else header[1:]
    names, findings = tell_apart(_names(header, source, header_line), source)
    width = len(header)
    if not body:
        raise DataError(f"{source} has a header and no rows: {names_text(names)}", source=source)
    bad: dict[int, str] = {}
    cells = np.full((len(body), width), None, dtype=object)
    for i, (_, row) in enumerate(body):
        while len(row) > width and not row[-1].strip():
            row = row[:-1]
        if len(row) != width:
            bad[i] = f"has {len(row)} cells, the header has {width}"
        elif [cell.strip() for cell in row] == [cell.strip() for cell in header]:
            bad[i] = "repeats the header (files pasted together?)"
        cells[i, : min(len(row), width)] = row[:width]
    columns = {name: cells[:, j] for j, name in enumerate(names)}
    return columns, [line for line, _ in body], bad, delimiter, findings


def _rows(
    text: str, delimiter: str, source: str, limit: int | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of rows that are not empty; comments before the header are passed over."""
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=delimiter != "\t"
    )
    started, line = False, 1
    try:
        for row in reader:
            first, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if not started and row[0].startswith("#") and not _is_header(row, text, delimiter, line):
                continue
            started = True
            yield first, row
            if limit is not None and first >= limit:
                return
    except csv.Error as error:
        raise DataError(
            f"{source}, line {reader.line_num}: not readable as CSV ({error})",
            source=source,
            rows=[reader.line_num],
        ) from error


def _is_header(row: list[str], text: str, delimiter: str, next_line: int) -> bool:
    """Tell a header written as a comment (``# params,tokens,loss``) from a remark."""
    following = text.split("\n", next_line)[next_line - 1 : next_line]
    width = len(following[0].split(delimiter)) if following else 0
    return width > 1 and width in (len(row), len(row) - 1) and not following[0].startswith("#")


def _sniff(text: str) -> str:
    """Return the separator under which most lines have the same number of cells, more than one."""
    best, best_score = ",", (0.0, 0)
    for delimiter in (",", ";", "\t", "|", " "):
        try:
            widths = [len(row) for _, row in _rows(text, delimiter, "", _SNIFFED_LINES)]
        except DataError:
            continue
        if not widths or widths[0] < 2:
            continue
        share = sum(width == widths[0] for width in widths) / len(widths)
        if (share, widths[0]) > best_score and (delimiter != " " or best_score[0] == 0):
            best, best_score = delimiter, (share, widths[0])
    return best


def _names(header: list[str], source: str, line: int) -> list[str]:
    names = [name.strip() for name in header]
    if all(_NUMBER_LIKE.fullmatch(name) for name in names):
        raise DataError(
            f"{source}, line {line}: the first line holds only numbers ({', '.join(names[:5])}): add a line with the "
            "column names, e.g. params,tokens,loss",
            source=source,
            rows=[line],
        )
    return [name or f"column {j + 1}" for j, name in enumerate(names)]
