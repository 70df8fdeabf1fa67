"""Tokenizers behind one small interface: bytes, GPT-2 from its files or ranks, or any ``tokenizer.json``.

Text is always encoded as text: ``<|endoftext|>`` inside a document becomes ordinary tokens, so that no
document can fake the border between two.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scaling.errors import DataError

GPT2_VOCAB = 50_257
_HELLO = ("Hello world", [15496, 995])
_END = "<|endoftext|>"
#: Names under which the two files of GPT-2 are published: vocabulary, merges.
_FILES = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))

Ids = npt.NDArray[np.integer[Any]]


class Tokenizer(Protocol):
    """What the preparation needs of a tokenizer.

    Attributes
    ----------
    name : str
        For headers and tables.
    vocab : int
        Number of ids.
    separator : int
        Id that ends every document.
    sha256 : str
        Hash of everything that decides the ids.
    """

    name: str
    vocab: int
    separator: int
    sha256: str

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, without separator, special tokens or truncation."""


class ByteTokenizer:
    """The UTF-8 bytes themselves.

    The separator is byte 0xFF, which no UTF-8 text contains: the vocabulary stays at 256 and the tokens at
    one byte each. (A 257th id would double the files; byte 0 does occur in texts.)

    Examples
    --------
    >>> ByteTokenizer().encode_batch(["Hi é"])[0].tolist()
    [72, 105, 32, 195, 169]
    """

    name = "bytes"
    vocab = 256
    separator = 0xFF
    sha256 = hashlib.sha256(b"utf-8 bytes, separator 0xff").hexdigest()

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the bytes of each text."""
        return [np.frombuffer(text.encode(), np.uint8) for text in texts]


class FastTokenizer:
    """A tokenizer of the ``tokenizers`` library, by way of ``transformers``.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerFast
        The tokenizer; its truncation and padding are switched off.
    name : str
        For headers and tables.

    Raises
    ------
    DataError
        It has no end-of-text token to separate documents with, or an empty vocabulary.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()  # a saved tokenizer may cut every document at its context
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        ids = self._backend.get_vocab(with_added_tokens=True)
        separator = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else ids.get(_END)
        if separator is None:
            raise DataError(
                f"tokenizer {name} has no end-of-text token to separate documents with: add {_END} to it.",
                column="tokenizer",
            )
        self.name, self.separator = name, int(separator)
        self.vocab = max(ids.values()) + 1
        self.sha256 = hashlib.sha256(self._backend.to_str().encode()).hexdigest()
        if len(ids) < 3:
            raise DataError(
                f"tokenizer {name} has {len(ids)} tokens: its files were not read", column="tokenizer"
            )

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text; several threads share the work."""
        found = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int64) for encoding in found]


def load_tokenizer(name: str, path: str | Path | None = None) -> Tokenizer:
    """Return a tokenizer by name.

    Parameters
    ----------
    name : str
        ``"bytes"``; ``"gpt2"``; or any other name with a `path`; or a name on the Hub.
    path : path, optional
        For ``gpt2`` a folder with ``encoder.json`` and ``vocab.bpe`` (or ``vocab.json`` and ``merges.txt``;
        the merges alone are enough), or a file ``gpt2.tiktoken`` of ranks. For others a ``tokenizer.json``.
        Without it the name is asked of the Hub.

    Raises
    ------
    DataError
        Files are missing, or they are not the tokenizer that the name says: GPT-2 has 50,257 tokens and
        reads "Hello world" as 15496, 995.
    """
    if name == "bytes":
        if path is not None:
            raise DataError("the byte tokenizer has no files: leave the path out", column="tokenizer_path")
        return ByteTokenizer()
    path = None if path is None else Path(path)
    try:
        tokenizer = FastTokenizer(_open(name, path), name)
    except DataError:
        raise
    except Exception as error:  # the libraries raise their own, the file system's and the network's
        raise DataError(
            f"tokenizer {name} cannot be read from {path or 'the Hub'}: {type(error).__name__}: {error}",
            source=str(path or name),
            column="tokenizer",
        ) from error
    if name == "gpt2":
        _check_gpt2(tokenizer, path)
    return tokenizer


def _open(name: str, path: Path | None) -> Any:
    transformers: Any = import_module("transformers")  # lazy at its own door: nothing for a type checker
    if path is None:
        return transformers.AutoTokenizer.from_pretrained(name)
    if not path.exists():
        raise DataError(f"{path} does not exist", source=str(path), column="tokenizer_path")
    if name == "gpt2" and path.suffix != ".json":
        vocab, merges = _gpt2_from_ranks(path) if path.is_file() else _gpt2_from_folder(path)
        # transformers 5 ignores vocab_file= and merges_file= and then builds an empty vocabulary.
        return transformers.GPT2TokenizerFast(vocab=vocab, merges=merges)
    file = path / "tokenizer.json" if path.is_dir() else path
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))


def _check_gpt2(tokenizer: FastTokenizer, path: Path | None) -> None:
    text, expected = _HELLO
    found = tokenizer.encode_batch([text])[0].tolist()
    if tokenizer.vocab != GPT2_VOCAB or found != expected or tokenizer.separator != GPT2_VOCAB - 1:
        raise DataError(
            f"{path or 'the Hub'} is not the GPT-2 tokenizer: {tokenizer.vocab:,} tokens (expected {GPT2_VOCAB:,}), "
            f"{text!r} is {found} (expected {expected}), separator {tokenizer.separator}.",
            source=str(path),
            column="tokenizer",
        )


def _gpt2_from_folder(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    for vocab_name, merges_name in _FILES:
        if (folder / merges_name).is_file():
            lines = (folder / merges_name).read_text(encoding="utf-8").split("\n")
            merges = [tuple(line.split()) for line in lines if line and not line.startswith("#version")]
            vocab = _gpt2_vocab([a + b for a, b in merges])
            if (folder / vocab_name).is_file():
                vocab = json.loads((folder / vocab_name).read_text(encoding="utf-8"))
            return vocab, [(a, b) for a, b in merges]
    raise DataError(
        f"{folder} has neither {_FILES[0][1]} nor {_FILES[1][1]}, the merges of GPT-2.",
        source=str(folder),
        column="tokenizer_path",
    )


def _byte_symbols() -> list[str]:
    """Return the printable character that GPT-2 writes for each byte 0 to 255 (Radford et al. 2019)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(byte if byte in shown else next(hidden)) for byte in range(256)]


def _gpt2_vocab(merged: Sequence[str]) -> dict[str, int]:
    """Return the ids as GPT-2 gives them: bytes (printable ones first), merges in order, end of text."""
    symbols = _byte_symbols()
    first = sorted(range(256), key=lambda byte: (ord(symbols[byte]) > 255, byte))
    return {token: i for i, token in enumerate([*(symbols[byte] for byte in first), *merged, _END])}


def _gpt2_from_ranks(path: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Read a file of ranks (``base64 rank`` a line): each token is the merge of its two best parts."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_text(encoding="ascii").split("\n"), 1):
        try:
            token, rank = line.split() or (b"", -1)
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            raise DataError(
                f"{path} line {number} is no rank: {line!r:.60}", source=str(path), rows=[number]
            ) from error
    ranks.pop(b"", None)
    symbols = _byte_symbols()
    written = {token: "".join(symbols[byte] for byte in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            left, right = _parts(token, rank, ranks)
            merges.append((written[left], written[right]))
    vocab = {written[token]: rank for token, rank in ranks.items()}
    return {**vocab, _END: len(vocab)}, merges


def _parts(token: bytes, rank: int, ranks: dict[bytes, int]) -> list[bytes]:
    """Merge the bytes of a token, best rank first, with the merges before it: the two parts that are left."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [ranks.get(a + b, rank) for a, b in pairwise(parts)]
        best = min(range(len(pairs)), key=pairs.__getitem__)
        if pairs[best] >= rank:
            break
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    if len(parts) != 2:
        raise DataError(f"rank {rank}: {token!r} is no merge of two tokens before it", rows=[rank])
    return parts
