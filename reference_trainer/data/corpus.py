"""Text as a stream of documents: the Hub by name, or local files, through the same call.

Everything is read by ``datasets.load_dataset(..., streaming=True)``. The shuffle is our own: documents are
permuted inside windows, and a window is a pure function of seed and number, so the stream can be left and
taken up anywhere. The shuffle buffer of the library cannot: after a resume it loses some documents and
gives others twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from reference_trainer.data.order import permuted
from scaling.errors import DataError

Unit = Literal["line", "paragraph", "document"]

_FORMATS = {".jsonl": "json", ".json": "json", ".ndjson": "json", ".parquet": "parquet", ".txt": "text"}
_PACKED = {".gz", ".bz2", ".xz", ".zst"}


class Document(NamedTuple):
    """One document: its text, None where the row has none, and its own score, None where it has none."""

    text: str | None
    score: float | None


@dataclass(frozen=True)
class Source:
    """Where the text is.

    Parameters
    ----------
    path : str
        Name of a data set on the Hub (``HuggingFaceFW/fineweb-edu``), a local folder laid out like one or
        holding files of one kind, or a file (``.jsonl``, ``.parquet``, ``.txt``, packed or not; ``*`` for
        several).
    name : str, optional
        Which configuration of the data set, such as ``sample-10BT``.
    split : str
        Which split of it.
    text : str
        Column with the text.
    score : str, optional
        Column with the data set's own quality score, such as ``int_score``.
    unit : {"line", "paragraph", "document"}, optional
        What a document of a text file is; must be said for ``.txt`` and is refused elsewhere.
    revision : str, optional
        Commit of a data set on the Hub.
    """

    path: str
    name: str | None = None
    split: str = "train"
    text: str = "text"
    score: str | None = None
    unit: Unit | None = None
    revision: str | None = None

    def __str__(self) -> str:
        return ", ".join([self.path, *filter(None, (self.name, self.split, self.revision))])

    def arguments(self) -> dict[str, Any]:
        """Return what `datasets.load_dataset` is called with, without ``split`` and ``streaming``."""
        arguments: dict[str, Any] = {"path": self.path, "name": self.name}
        local = Path(self.path)
        if local.is_file() or "*" in self.path:
            arguments = {"path": _format_of(self.path), "data_files": {self.split: self.path}}
        elif not local.is_dir() and (
            self.path.count("/") > 1
            or self.path[:1] in ("/", ".", "~")
            or {suffix.lower() for suffix in local.suffixes[-2:]} & {*_FORMATS, *_PACKED}
        ):
            # A typo in a path must not become a search on the Hub.
            raise DataError(f"{self.path} does not exist", source=self.path, column="path")
        if self.unit is not None:
            arguments["sample_by"] = self.unit
        if self.revision is not None:
            arguments["revision"] = self.revision
        return arguments


def _format_of(path: str) -> str:
    suffixes = [s.lower() for s in Path(path).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _FORMATS:
        raise DataError(
            f"{path} is of no known format: give {', '.join(_FORMATS)} (or one packed as {', '.join(_PACKED)}).",
            source=path,
            column="path",
        )
    return _FORMATS[suffixes[-1]]


def source_files(source: Source) -> dict[str, int | None]:
    """Return the files behind a source and their sizes: what must not change under a preparation.

    Returns
    -------
    dict of str to int or None
        Size in bytes of each local file; None for a remote one, whose address names its commit.

    Raises
    ------
    DataError
        The source cannot be opened, or `unit` is missing or too much.
    """
    from datasets import load_dataset_builder

    builder = _called(load_dataset_builder, source, source.arguments())
    is_text = type(builder).__name__ == "Text"
    if is_text and source.unit is None:
        raise DataError(
            f"{source.path} is plain text: say with unit= what a document of it is (line, paragraph, document).",
            source=source.path,
            column="unit",
        )
    files = dict(builder.config.data_files or {}).get(source.split)
    if not files:
        found = ", ".join(map(str, builder.config.data_files or {})) or "none"
        raise DataError(f"{source} has no split {source.split!r}: found {found}", column="split")
    return {f: Path(f).stat().st_size if Path(f).is_file() else None for f in sorted(map(str, files))}


def open_stream(source: Source) -> Any:
    """Return the `datasets.IterableDataset` of a source.

    Raises
    ------
    DataError
        It cannot be opened: no such data set, configuration or split, or no network.
    """
    from datasets import load_dataset

    return _called(load_dataset, source, {**source.arguments(), "split": source.split, "streaming": True})


def _called(function: Any, source: Source, arguments: Mapping[str, Any]) -> Any:
    try:
        return function(**arguments)
    except Exception as error:  # the library raises its own, the file system's and the network's
        hint = " Is the name right, and is there a network?" if isinstance(error, ConnectionError) else ""
        message = f"{source} cannot be opened: {type(error).__name__}: {error}{hint}"
        if isinstance(error, StopIteration):
            message = f"{source.path} holds no document: it is empty."
        if "sample_by" in str(error):
            message = f"{source.path} is no plain text: leave unit= out."
        raise DataError(message, source=source.path, column="path") from error


class Documents:
    """The documents of a source, shuffled inside windows, resumable anywhere.

    Parameters
    ----------
    source : Source
        Where they are.
    window : int
        Documents permuted together and held in memory; 1 keeps the order of the source.
    seed : int
        Names the permutations.
    state : mapping, optional
        From `state_dict`: go on from there.

    Attributes
    ----------
    columns : tuple of str
        Columns of the first document read, empty before.

    Raises
    ------
    DataError
        The source cannot be opened, or while iterating: it breaks, or has no such column.
    """

    def __init__(
        self, source: Source, *, window: int, seed: int, state: Mapping[str, Any] | None = None
    ) -> None:
        if window < 1:
            raise DataError(f"window = {window}: give at least 1 (no shuffle)", column="window")
        self.source, self._window_size, self._seed = source, window, seed
        self._stream = open_stream(source)
        self._window, self._position, self._read = 0, 0, 0
        self.columns: tuple[str, ...] = ()
        self._start = self._stream.state_dict()
        if state is not None:
            self._window, self._position = state["window"], state["position"]
            self._read = self._window * window
            self._start = state[
                "stream"
            ]  # until it is read from, the stream does not give back what it loads
            self._stream.load_state_dict(state["stream"])
        self._rows = iter(self._stream)

    def __iter__(self) -> Iterator[Document]:
        while rows := self._fill():
            order = permuted(np.arange(len(rows)), len(rows), self._seed, self._window)
            while self._position < len(rows):
                self._position += 1
                yield rows[order[self._position - 1]]
            self._start, self._window, self._position = self._stream.state_dict(), self._window + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream is after the documents given so far; plain JSON types."""
        return {"stream": self._start, "window": self._window, "position": self._position}

    def close(self) -> None:
        """End the reading: a stream of Parquet left open can abort the interpreter at exit."""
        self._rows.close()

    def _fill(self) -> list[Document]:
        rows: list[Document] = []
        try:
            while len(rows) < self._window_size and (row := next(self._rows, None)) is not None:
                rows.append(self._document(row))
                self._read += 1
        except DataError:
            raise
        except Exception as error:
            raise DataError(
                f"{self.source} broke after {self._read:,} documents: {type(error).__name__}: {error}. "
                "Mend the file, or go on from there when the network is back.",
                source=self.source.path,
                rows=[self._read],
            ) from error
        return rows

    def _document(self, row: Mapping[str, Any]) -> Document:
        self.columns = self.columns or tuple(map(str, row))
        for column in filter(None, (self.source.text, self.source.score)):
            if column not in row:
                shown = ", ".join(map(str, row))  # of this row: JSON lines may differ
                raise DataError(
                    f"document {self._read:,} of {self.source} has no column {column!r}: it has {shown}.",
                    source=self.source.path,
                    column=column,
                    rows=[self._read],
                )
        text = row[self.source.text]
        if text is not None and not isinstance(text, str):
            raise DataError(
                f"document {self._read:,} of {self.source}: column {self.source.text!r} holds "
                f"{type(text).__name__} {text!r:.60}, expected text.",
                source=self.source.path,
                column=self.source.text,
                rows=[self._read],
            )
        return Document(text, self._score(row))

    def _score(self, row: Mapping[str, Any]) -> float | None:
        column = self.source.score
        if column is None or row[column] is None:
            return None
        try:
            score = float(row[column])
        except (TypeError, ValueError) as error:
            raise DataError(
                f"document {self._read:,} of {self.source}: score {row[column]!r:.60} in {column!r} is no number.",
                source=self.source.path,
                column=column,
                rows=[self._read],
            ) from error
        return None if math.isnan(score) else score
