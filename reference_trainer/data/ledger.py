"""What a preparation must remember beside the shards: the hash of every document kept, and the held-out ones.

Both are files that only grow. A state on disk knows how far they were good; what a killed process wrote
after that is cut off.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reference_trainer.disk import errors_name
from scaling.errors import DataError

_KEY = 16
_RECORD = np.dtype([("key", np.uint8, _KEY), ("tokens", "<u8"), ("text_bytes", "<u8")])


def document_key(text: str) -> bytes:
    """Return the 128-bit hash that stands for a document.

    Documents that differ only in white space have one key: copies that were wrapped differently are
    copies.

    Examples
    --------
    >>> document_key("one  two") == document_key(" one two") != document_key("one Two")
    True
    """
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=_KEY).digest()


def is_held_out(key: bytes, share: float) -> bool:
    """Tell whether a document is in the held-out set: a matter of its key alone.

    Parameters
    ----------
    key : bytes
        From `document_key`.
    share : float
        Share of documents to hold out.
    """
    return int.from_bytes(key[:8], "big") < share * 2.0**64


class Log:
    """A file of bytes that only grows.

    Parameters
    ----------
    path : pathlib.Path
        The file; made if it is missing.
    keep : int
        Bytes that are good; the rest is cut off.

    Raises
    ------
    DataError
        The file is shorter than that.
    """

    def __init__(self, path: Path, keep: int) -> None:
        self.path, self.size = path, keep
        self._file = open(path, "a+b")  # noqa: SIM115 - closed by close
        seen = self._file.seek(0, os.SEEK_END)
        if seen < keep:
            self._file.close()
            raise DataError(
                f"{path} is cut short: {keep:,} bytes expected, {seen:,} seen. Delete {path.parent} and begin again.",
                source=str(path),
            )
        self._file.truncate(keep)

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        with errors_name(self.path):
            self._file.write(data)
        self.size += len(data)

    def read(self) -> bytes:
        """Return everything in the file."""
        self._file.flush()
        return self.path.read_bytes()

    def flush(self) -> None:
        """Bring everything to the disk."""
        with errors_name(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # what a full disk did not take was never counted on
            self._file.close()


class Ledger:
    """The documents kept so far.

    About 90 bytes of memory a document: 0.9 GB for ten million.

    Parameters
    ----------
    folder : pathlib.Path
        Where its files are.
    dtype : str
        Of the tokens.
    state : dict of str to int
        From `state_dict`, or empty.
    """

    def __init__(self, folder: Path, dtype: str, state: dict[str, int]) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._logs = {
            name: Log(folder / f"{name}.log", state.get(name, 0))
            for name in ("seen", "held_out_index", "held_out_tokens")
        }
        seen = self._logs["seen"].read()
        self._seen = {seen[i : i + _KEY] for i in range(0, len(seen), _KEY)}
        self.held_out_tokens = self._logs["held_out_tokens"].size // self._dtype.itemsize

    def __contains__(self, key: bytes) -> bool:
        return key in self._seen

    def add(self, key: bytes) -> None:
        """Remember a document."""
        self._seen.add(key)
        self._logs["seen"].append(key)

    def hold_out(self, key: bytes, tokens: npt.NDArray[Any], text_bytes: int) -> None:
        """Set a document aside for the held-out block."""
        record = np.zeros(1, _RECORD)
        record["key"], record["tokens"], record["text_bytes"] = (
            np.frombuffer(key, np.uint8),
            tokens.size,
            text_bytes,
        )
        self._logs["held_out_index"].append(record.tobytes())
        self._logs["held_out_tokens"].append(tokens.astype(self._dtype).tobytes())
        self.held_out_tokens += tokens.size

    def held_out(self, limit: int | None) -> tuple[list[npt.NDArray[Any]], int, int]:
        """Return the held-out block: documents in the order of their keys, whatever order they came in.

        Parameters
        ----------
        limit : int or None
            Stop after the document that reaches this many tokens.

        Returns
        -------
        documents : list of ndarray
            Their tokens.
        text_bytes : int
            UTF-8 bytes of their text.
        left : int
            Documents held out and not used.
        """
        index = np.frombuffer(self._logs["held_out_index"].read(), _RECORD)
        tokens = np.frombuffer(self._logs["held_out_tokens"].read(), self._dtype)
        starts = np.cumsum(index["tokens"]) - index["tokens"]
        order = sorted(range(len(index)), key=lambda i: index["key"][i].tobytes())
        documents: list[npt.NDArray[Any]] = []
        size = text_bytes = 0
        for i in order:
            if limit is not None and size >= limit:
                break
            start, count = int(starts[i]), int(index["tokens"][i])
            documents.append(tokens[start : start + count])
            size, text_bytes = size + count, text_bytes + int(index["text_bytes"][i])
        return documents, text_bytes, len(order) - len(documents)

    def state_dict(self) -> dict[str, int]:
        """Bring everything to the disk and return how far each file is good, bytes."""
        for log in self._logs.values():
            log.flush()
        return {name: log.size for name, log in self._logs.items()}

    def close(self) -> None:
        """Close the files."""
        for log in self._logs.values():
            log.close()
