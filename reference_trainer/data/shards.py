"""Token shards as one long sequence: written in one go, read by memory map.

The format of a file is described in `shard_file`. A set is one file or a folder of them, in the order of
their names.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reference_trainer.data.shard_file import SUFFIX, Header, ShardWriter, dtype_for, read_header
from scaling.errors import DataError

__all__ = ["Header", "ShardWriter", "TokenSet", "dtype_for", "read_header", "write_shard"]

_BLOCK = 1 << 22


def write_shard(
    path: str | Path,
    tokens: npt.ArrayLike | Iterable[npt.ArrayLike],
    *,
    tokenizer: str,
    vocab: int,
    text_bytes: int | None = None,
    source: str = "",
    made: str | None = None,
) -> Path:
    """Write one shard: whole, or not at all.

    Parameters
    ----------
    path : path
        The file; its name ends in ``.tokens``.
    tokens : array_like of int, or iterable of them
        All tokens at once, or piece by piece (a document each, say).
    tokenizer : str
        Name of the tokenizer.
    vocab : int
        Number of token ids; decides the dtype on disk.
    text_bytes : int, optional
        UTF-8 bytes of the text behind the tokens, for losses in bits per byte.
    source : str
        Where the text came from.
    made : str, optional
        ISO date; today (UTC) unless given.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    DataError
        A token is outside the vocabulary, there is none, or the name has another ending.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_shard(f"{folder}/a.tokens", [[1, 2, 3], [4]], tokenizer="byte", vocab=257)
    ...     TokenSet.open(path).slice(1, 4).tolist()
    [2, 3, 4]
    """
    made = datetime.now(UTC).date().isoformat() if made is None else made
    pieces: Iterable[Any] = [tokens] if isinstance(tokens, np.ndarray) else tokens  # type: ignore[assignment]
    writer = ShardWriter(path, tokenizer=tokenizer, vocab=vocab, source=source, made=made)
    try:
        for piece in pieces:
            writer.write(piece)
        writer.finish(text_bytes)
    except BaseException:
        writer.close()
        writer.part.unlink(missing_ok=True)
        raise
    return writer.path


class TokenSet:
    """The tokens of one shard, or of a folder of shards, as one sequence on disk.

    Made by `TokenSet.open`. Reading costs no memory: the shards are memory mapped.

    Parameters
    ----------
    paths : list of pathlib.Path
        The shards in their order.
    headers : list of Header
        Their headers, checked.

    Attributes
    ----------
    tokens : int
        Tokens in all shards.
    vocab : int
        Number of token ids.
    tokenizer : str
        Name of the tokenizer.
    dtype : str
        Of the tokens on disk.
    sha256 : str
        The hash in the header of a single shard; for several, the hash of their hashes in order.
    bytes_per_token : float or None
        UTF-8 bytes of text behind a token, where every shard knows its own.
    """

    def __init__(self, paths: list[Path], headers: list[Header]) -> None:
        first = headers[0]
        self.paths, self.headers = paths, headers
        self.tokenizer, self.vocab, self.dtype = first.tokenizer, first.vocab, first.dtype
        self.sha256 = first.sha256
        if len(headers) > 1:
            self.sha256 = hashlib.sha256("".join(h.sha256 for h in headers).encode()).hexdigest()
        texts = [h.text_bytes for h in headers if h.text_bytes is not None]
        # The first token of each shard in the whole, and the end.
        self._starts = list(accumulate((h.tokens for h in headers), initial=0))
        self.tokens = self._starts[-1]
        self.bytes_per_token = sum(texts) / self.tokens if len(texts) == len(headers) else None
        kind = np.dtype(first.dtype).newbyteorder("<")
        self._maps = [
            # A plain view: slicing a memmap object itself costs ten times as much.
            np.memmap(path, kind, "r", h.start, (h.tokens,)).view(np.ndarray)
            for path, h in zip(paths, headers, strict=True)
        ]

    @classmethod
    def open(cls, path: str | Path) -> TokenSet:
        """Open a shard, or all ``*.tokens`` of a folder in the order of their names.

        Only headers and sizes are read; `verify` reads everything.

        Raises
        ------
        DataError
            There is no shard; one is cut short, damaged, or of another tokenizer than the first.
        """
        path = Path(path)
        paths = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not paths:
            raise DataError(
                f"{path} has no *{SUFFIX} file: prepare the data (python -m reference_trainer.data) or name "
                "the folder with the shards.",
                source=str(path),
            )
        headers = [read_header(p) for p in paths]
        for other, header in zip(paths, headers, strict=True):
            for key in ("tokenizer", "vocab"):
                if getattr(header, key) != getattr(headers[0], key):
                    raise DataError(
                        f"{other} has {key} {getattr(header, key)!r}, {paths[0]} has "
                        f"{getattr(headers[0], key)!r}: keep shards of one tokenizer in a folder.",
                        source=str(other),
                        column=key,
                    )
        return cls(paths, headers)

    def slice(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the tokens from `start` to `stop`, across the borders of shards.

        Parameters
        ----------
        start, stop : int
            0 <= start <= stop <= tokens.

        Returns
        -------
        ndarray, shape (stop - start,)
            In the dtype on disk; not to be written to.

        Raises
        ------
        DataError
            The range leaves the set.
        """
        if not 0 <= start <= stop <= self.tokens:
            raise DataError(f"tokens {start:,} to {stop:,} of a set of {self.tokens:,}", column="stop")
        if start == stop:
            return np.empty(0, self.dtype)
        i = bisect_right(self._starts, start) - 1
        pieces = []
        while start < stop:
            end = min(stop, self._starts[i + 1])
            pieces.append(self._maps[i][start - self._starts[i] : end - self._starts[i]])
            start, i = end, i + 1
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def verify(self) -> None:
        """Read every token and hold it against the hash in its header.

        Raises
        ------
        DataError
            The tokens of a shard are not those that were written.
        """
        for path, header, tokens in zip(self.paths, self.headers, self._maps, strict=True):
            digest = hashlib.sha256()
            for offset in range(0, header.tokens, _BLOCK):
                digest.update(tokens[offset : offset + _BLOCK].data)
            if digest.hexdigest() != header.sha256:
                raise DataError(
                    f"{path} is damaged: its tokens have sha256 {digest.hexdigest()}, the header says "
                    f"{header.sha256}. Copy it or prepare it again.",
                    source=str(path),
                )

    def __repr__(self) -> str:
        return (
            f"TokenSet({self.tokens:,} tokens of {self.tokenizer}, vocabulary {self.vocab:,}, {self.dtype}, "
            f"{len(self.paths)} shards, sha256 {self.sha256[:12]})"
        )
