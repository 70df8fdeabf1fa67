"""The file of a token shard: raw tokens under a header that says what they are.

A file ``NAME.tokens`` is the magic ``ISOTOK01``, the length of the header as a little-endian unsigned
64-bit integer, the header as JSON padded with spaces, and from the next multiple of 64 bytes on the raw
little-endian tokens. The header has ``tokenizer, vocab, dtype, sha256`` (of the token bytes), ``tokens``,
``text_bytes`` (UTF-8 bytes of the text behind them, or null), ``source`` and ``made`` (an ISO date).
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reference_trainer.disk import errors_name, sync_folder
from scaling.errors import DataError

MAGIC = b"ISOTOK01"
SUFFIX = ".tokens"
_ALIGN = 64
_LONGEST_HEADER = 1 << 20
_BLOCK = 1 << 22
_KEYS = {
    "tokenizer": str,
    "vocab": int,
    "dtype": str,
    "sha256": str,
    "tokens": int,
    "source": str,
    "made": str,
}


def dtype_for(vocab: int) -> str:
    """Return the smallest unsigned dtype that holds every id of a vocabulary.

    Parameters
    ----------
    vocab : int
        Number of ids: the largest one is ``vocab - 1``.

    Returns
    -------
    str
        ``"uint8"`` to 256 ids, ``"uint16"`` to 65,536, else ``"uint32"``.

    Raises
    ------
    DataError
        No vocabulary has this many ids.

    Examples
    --------
    >>> dtype_for(256), dtype_for(257), dtype_for(50_257), dtype_for(65_537)
    ('uint8', 'uint16', 'uint16', 'uint32')
    """
    if isinstance(vocab, bool) or not isinstance(vocab, int) or not 1 <= vocab <= 1 << 32:
        raise DataError(f"vocab = {vocab!r}: give the number of token ids, 1 to 2^32", column="vocab")
    return "uint8" if vocab <= 1 << 8 else "uint16" if vocab <= 1 << 16 else "uint32"


@dataclass(frozen=True)
class Header:
    """What a shard says of itself.

    Parameters
    ----------
    tokenizer : str
        Name of the tokenizer.
    vocab : int
        Number of token ids.
    dtype : str
        Of the tokens on disk, by `dtype_for`.
    sha256 : str
        Of the token bytes.
    tokens : int
        How many tokens.
    text_bytes : int or None
        UTF-8 bytes of the text they stand for, where that is known.
    source : str
        Where the text came from.
    made : str
        When the preparation began (ISO date).
    start : int
        Offset of the first token, bytes.
    """

    tokenizer: str
    vocab: int
    dtype: str
    sha256: str
    tokens: int
    text_bytes: int | None
    source: str
    made: str
    start: int = 0


def read_header(path: str | Path) -> Header:
    """Read the header of one shard and hold it against the size of the file.

    Raises
    ------
    DataError
        The file is no shard, its header contradicts itself, or bytes are missing (or too many).
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            head = file.read(16)
            length = int.from_bytes(head[8:16], "little")
            if head[:8] != MAGIC or len(head) < 16 or length > _LONGEST_HEADER:
                raise _no_shard(path, f"it begins with {head[:8]!r}, not {MAGIC!r} and a length")
            text = file.read(length)
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", source=str(path)) from error
    if len(text) < length:
        raise _cut(path, 16 + length, size)
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise _no_shard(path, f"its header is no JSON ({error})") from error
    header = _checked(path, fields, _round_up(16 + length))
    expected = header.start + header.tokens * np.dtype(header.dtype).itemsize
    if size != expected:
        raise _cut(path, expected, size)
    return header


def _checked(path: Path, fields: Any, start: int) -> Header:
    if not isinstance(fields, dict):
        raise _no_shard(path, "its header is no JSON object")
    for key, kind in _KEYS.items():
        if not isinstance(fields.get(key), kind) or isinstance(fields.get(key), bool):
            raise _no_shard(path, f"its header has {key} = {fields.get(key)!r}, expected {kind.__name__}")
    text_bytes = fields.get("text_bytes")
    if text_bytes is not None and (not isinstance(text_bytes, int) or text_bytes < 0):
        raise _no_shard(path, f"its header has text_bytes = {text_bytes!r}, expected a count or null")
    needed = dtype_for(fields["vocab"])
    if fields["dtype"] != needed:
        raise _no_shard(path, f"a vocabulary of {fields['vocab']:,} needs {needed}, not {fields['dtype']!r}")
    if fields["tokens"] < 1:
        raise _no_shard(path, f"its header has tokens = {fields['tokens']}")
    return Header(**{key: fields[key] for key in _KEYS}, text_bytes=text_bytes, start=start)


def _no_shard(path: Path, why: str) -> DataError:
    return DataError(f"{path} is no token shard: {why}. Prepare the data again.", source=str(path))


def _cut(path: Path, expected: int, seen: int) -> DataError:
    word = "is cut short" if seen < expected else "is too long"
    return DataError(
        f"{path} {word}: {expected:,} bytes expected from its header, {seen:,} seen. Copy it or prepare it again.",
        source=str(path),
    )


def _round_up(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


class ShardWriter:
    """Write one shard token by token, so that a killed writer can go on where it was.

    Tokens go to ``NAME.tokens.part`` behind room for the header; `finish` fills in the header, flushes and
    renames. A reader never sees a file that is not whole.

    Parameters
    ----------
    path : path
        The shard; its name ends in ``.tokens``.
    tokenizer, vocab, source, made
        As in `Header`.
    keep : int
        Tokens of an unfinished ``.part`` file to go on from; whatever is behind them is dropped.

    Raises
    ------
    DataError
        The name does not end in ``.tokens``, or the ``.part`` file is shorter than `keep` tokens.
    """

    def __init__(
        self, path: str | Path, *, tokenizer: str, vocab: int, source: str, made: str, keep: int = 0
    ) -> None:
        self.path = Path(path)
        if self.path.suffix != SUFFIX:
            raise DataError(f"{self.path}: the name of a shard ends in {SUFFIX}", column="path")
        self.dtype = np.dtype(dtype_for(vocab)).newbyteorder("<")
        self.vocab, self.tokens = vocab, keep
        self._fields = {"tokenizer": tokenizer, "vocab": vocab, "dtype": dtype_for(vocab)}
        self._origin = {"source": source, "made": made}
        self._start = _round_up(16 + len(self._json("0" * 64, 10**18, 10**18)))
        self._hash = hashlib.sha256()
        self.part = self.path.with_name(self.path.name + ".part")
        self._file = open(self.part, "r+b" if keep else "w+b")  # noqa: SIM115 - closed by finish or close
        try:
            self._rejoin(keep)
        except BaseException:
            self._file.close()
            raise

    def _json(self, sha256: str, tokens: int, text_bytes: int | None) -> bytes:
        counted = {"sha256": sha256, "tokens": tokens, "text_bytes": text_bytes}
        return json.dumps({**self._fields, **counted, **self._origin}, ensure_ascii=False).encode()

    def _rejoin(self, keep: int) -> None:
        """Hash what is kept and cut the rest; a new file gets an empty header, which no reader accepts."""
        end = self._start + keep * self.dtype.itemsize
        if keep == 0:
            self._file.write(bytes(self._start))
            return
        seen = self._file.seek(0, os.SEEK_END)
        if seen < end:
            raise _cut(self.part, end, seen)
        self._file.truncate(end)
        self._file.seek(self._start)
        for offset in range(self._start, end, _BLOCK):
            self._hash.update(self._file.read(min(_BLOCK, end - offset)))

    def write(self, tokens: npt.ArrayLike) -> None:
        """Append tokens.

        Parameters
        ----------
        tokens : array_like of int
            Ids from 0 to ``vocab - 1``.

        Raises
        ------
        DataError
            An id is outside the vocabulary, or no integer: it would be stored as another one.
        """
        array = np.asarray(tokens)
        if array.size == 0:
            return
        if array.dtype.kind not in "iu":
            raise DataError(f"{self.path}: tokens are integers, not {array.dtype}", source=str(self.path))
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= self.vocab:
            raise DataError(
                f"{self.path}: token {high if high >= self.vocab else low} is outside the vocabulary "
                f"(0 to {self.vocab - 1:,}). Give the vocabulary of the tokenizer that made it.",
                source=str(self.path),
                column="tokens",
            )
        data = array.astype(self.dtype).tobytes()
        with errors_name(self.part):
            self._file.write(data)
        self._hash.update(data)
        self.tokens += array.size

    def flush(self) -> None:
        """Bring everything written so far to the disk: `keep` may count on it from now on."""
        with errors_name(self.part):
            self._file.flush()
            os.fsync(self._file.fileno())

    def finish(self, text_bytes: int | None) -> Header:
        """Fill in the header and give the file its name.

        Parameters
        ----------
        text_bytes : int or None
            UTF-8 bytes of the text behind all its tokens, if known.

        Raises
        ------
        DataError
            Nothing was written: an empty shard is a mistake upstream.
        """
        if self.tokens == 0:
            self.close()
            raise DataError(f"{self.path}: no tokens to write", source=str(self.path))
        text = self._json(self._hash.hexdigest(), self.tokens, text_bytes).ljust(self._start - 16)
        self._file.seek(0)
        self._file.write(MAGIC + len(text).to_bytes(8, "little") + text)
        self.flush()
        self._file.close()
        os.replace(self.part, self.path)
        sync_folder(self.path.parent)
        return read_header(self.path)

    def close(self) -> None:
        """Close an unfinished shard; its ``.part`` file stays for a later writer."""
        with suppress(OSError):  # what a full disk did not take was never counted on
            self._file.close()
