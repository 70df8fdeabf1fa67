"""File formats: whatever holds a table becomes names, cells and row numbers. Nothing is interpreted here."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaling.cells import names_text
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.reading.csvtext import decode, read_csv_text
from scaling.reading.shapes import flatten, reshape, tell_apart
from scaling.reading.words import is_summary_word


@dataclass(frozen=True)
class Raw:
    """A table before anything in it was understood.

    Parameters
    ----------
    columns : dict of str to ndarray, (n,)
        Cells by column name: float64 or int where a binary format said so, else objects; text stays
        text, a missing cell is None.
    row : ndarray, int, (n,)
        Row numbers for people.
    row_word : str
        ``"line"`` of a file or ``"row"`` (position from 0).
    source : str
        Name for messages.
    bad : dict of int to str
        Positions of rows that are broken as rows (too few cells), with the reason.
    findings : list of Finding
        What had to be assumed to read it.
    frame : pandas.DataFrame or None
        The frame it came from.
    delimiter : str
        Cell separator of a text table, or empty.
    constants : dict of str to object
        Facts the container states about the whole table.
    """

    columns: dict[str, NDArray[Any]]
    row: NDArray[np.int64]
    row_word: str = "row"
    source: str = "table"
    bad: dict[int, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    frame: Any = None
    delimiter: str = ""
    constants: dict[str, Any] = field(default_factory=dict)


def read_raw(source: Any) -> Raw:
    """Read any accepted source.

    Parameters
    ----------
    source : str, Path, file object, DataFrame, list of dict, or dict of columns
        A path (``"-"`` is standard input) to CSV, TSV, Parquet, JSON lines or JSON, plain or
        compressed by gzip, bzip2 or xz; the content decides, not the ending.

    Raises
    ------
    DataError
        There is no such file, or it is no table.
    """
    if hasattr(source, "to_pandas"):
        source = source.to_pandas()
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _from_frame(source, "DataFrame")
    if isinstance(source, Mapping):
        table = reshape(source, "dict of columns")
        return _from_shaped(source if table is None else table, "dict of columns")
    if isinstance(source, str | Path):
        return _from_bytes(*_load_path(source))
    if hasattr(source, "read"):
        content = source.read()
        name = str(getattr(source, "name", "file object"))
        return _from_bytes(content.encode() if isinstance(content, str) else bytes(content), name)
    if isinstance(source, Sequence) and not isinstance(source, bytes | bytearray):
        return _from_records(list(source), list(range(len(source))), "row", "list of records")
    raise DataError(
        f"cannot read a table from {type(source).__name__}: give a path, a DataFrame, a list of dicts or a dict of "
        "columns"
    )


def _load_path(source: str | Path) -> tuple[bytes, str]:
    if str(source) == "-":
        return sys.stdin.buffer.read(), "standard input"
    text = str(source)
    if "\n" in text or "\0" in text:
        raise DataError("the source is text, not a path: wrap it in io.StringIO to read a table from text")
    if "://" in text:
        raise DataError(
            f"{text} is an address, not a file: download it first (scaling.datasets.fetch for public tables)"
        )
    path = Path(text).expanduser()
    try:
        return path.read_bytes(), text
    except IsADirectoryError:
        raise DataError(f"{path} is a folder: give the file in it", source=text) from None
    except FileNotFoundError:
        raise DataError(f"no such file: {path}", source=text) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", source=text) from error


def _from_bytes(content: bytes, source: str) -> Raw:
    content = decompress(content, source)
    if content[:4] == b"PAR1":
        return _from_parquet(content, source)
    if content[:4] == b"PK\x03\x04":
        raise DataError(f"{source} is a zip archive or a spreadsheet: save the sheet as CSV", source=source)
    text, findings = decode(content, source)
    start = text.lstrip()[:1]
    if not start:
        raise DataError(f"{source} is empty", source=source)
    if start == "[":
        return _from_json(text, source)
    if start == "{":
        return _from_json_lines(text, source)
    columns, lines, bad, delimiter, more = read_csv_text(text, source)
    row = np.array(lines, dtype=np.int64)
    return Raw(columns, row, "line", source, bad, findings + more, delimiter=delimiter)


def decompress(content: bytes, source: str) -> bytes:
    """Return content unpacked, if it is packed by gzip, bzip2 or xz; the content decides, not a name.

    Raises
    ------
    DataError
        It is packed and damaged.
    """
    import bz2
    import gzip
    import lzma
    import zlib

    openers = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ": lzma.decompress}
    for magic, opener in openers.items():
        if content.startswith(magic):
            try:
                return opener(content)
            except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
                raise DataError(f"{source} is damaged: {error}", source=source) from error
    return content


def _from_parquet(content: bytes, source: str) -> Raw:
    import io

    import pandas as pd

    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except Exception as error:  # pyarrow raises many types; all of them mean the same here
        raise DataError(f"{source} is not a readable Parquet file: {error}", source=source) from error
    return _from_frame(frame, source)


def _from_json(text: str, source: str) -> Raw:
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source} is not valid JSON: {error}", source=source) from error
    return _from_records(records, list(range(len(records))), "row", source)


def _from_json_lines(text: str, source: str) -> Raw:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict):
        table = reshape(whole, source)
        if table is None:
            return _from_records([whole], [1 + text[: text.index("{")].count("\n")], "line", source)
        return _from_shaped(table, source)
    records, lines = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{source}, line {number}: not valid JSON ({error})", source=source, rows=[number]
                ) from error
            lines.append(number)
    return _from_records(records, lines, "line", source)


def _from_records(records: list[Any], rows: list[int], word: str, source: str) -> Raw:
    wrong = [rows[i] for i, record in enumerate(records) if not isinstance(record, Mapping)]
    if wrong:
        raise DataError(
            f"{source}: {word} {wrong[0]} is no record (a mapping of column names to values)",
            source=source,
            rows=wrong,
        )
    if not records:
        raise DataError(f"{source} holds no rows", source=source)
    flat = [flatten(record) for record in records]
    names = dict.fromkeys(name for record in flat for name in record)
    columns = {name: _objects([record.get(name) for record in flat]) for name in names}
    return Raw(columns, np.array(rows, dtype=np.int64), word, source)


def _from_shaped(table: list[Any] | Mapping[Any, Any], source: str) -> Raw:
    if isinstance(table, Mapping):
        return _from_columns(table, source)
    return _from_records(table, list(range(len(table))), "row", source)


def _from_columns(source: Mapping[Any, Any], title: str) -> Raw:
    columns: dict[str, NDArray[Any]] = {}
    for name, values in source.items():
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise DataError(
                f"{title}: column {name!r} must be a sequence of values, not {type(values).__name__}",
                source=title,
                column=str(name),
            )
        if isinstance(values, np.ma.MaskedArray):  # .tolist() writes a masked value as None
            values = values.tolist()
        array = values if isinstance(values, np.ndarray) and values.dtype.kind in "iuf" else None
        columns[str(name)] = _objects(list(values)) if array is None else array
    lengths = {name: len(values) for name, values in columns.items()}
    if not columns or max(lengths.values()) == 0:
        raise DataError(f"{title} holds no rows", source=title)
    if len(set(lengths.values())) > 1:
        listed = names_text(f"{name} has {length}" for name, length in lengths.items())
        raise DataError(f"{title}: the columns differ in length: {listed}", source=title)
    return Raw(columns, np.arange(max(lengths.values())), source=title)


def _from_frame(frame: Any, source: str) -> Raw:
    import pandas as pd

    # A named index is a column that was set aside; an index without a name is only a position, unless
    # rows such as "Total" were written into it.
    named = any(name is not None and name not in frame.columns for name in frame.index.names)
    if named or any(is_summary_word(label) for label in frame.index):
        frame = frame.reset_index(allow_duplicates=True)
    columns: dict[str, NDArray[Any]] = {}
    labels = [" ".join(map(str, x)).strip() if isinstance(x, tuple) else str(x) for x in frame.columns]
    names, findings = tell_apart(labels, source)
    for j, name in enumerate(names):
        series = frame.iloc[:, j]
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
            columns[name] = series.to_numpy()
        else:
            cells = series.astype(object).to_numpy(dtype=object, copy=True)
            cells[pd.isna(series).to_numpy()] = None
            columns[name] = cells
    if len(frame) == 0 or not columns:
        raise DataError(f"{source} holds no rows; columns: {names_text(columns) or 'none'}", source=source)
    constants = {"tokens_kind": frame.attrs["tokens_kind"]} if "tokens_kind" in frame.attrs else {}
    plain = frame.reset_index(drop=True)
    if findings:
        plain.columns = names
    rows = np.arange(len(frame))
    return Raw(columns, rows, source=source, findings=findings, frame=plain, constants=constants)


def _objects(values: list[Any]) -> NDArray[np.object_]:
    cells = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        # NaN and pandas.NA are no value; NA refuses the comparison, lists compare to themselves.
        try:
            cells[i] = None if value is not value or bool(value != value) else value
        except (TypeError, ValueError):
            cells[i] = None if type(value).__name__ == "NAType" else value
    return cells
