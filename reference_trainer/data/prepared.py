"""A finished preparation: its folder, its manifest and how the making went."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference_trainer.data.shards import TokenSet
from scaling.errors import DataError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Progress:
    """How far a preparation is.

    Parameters
    ----------
    read : int
        Documents read, in this run and before.
    train_tokens : int
        Training tokens written, in this run and before.
    aim : int or None
        Training tokens asked for.
    seconds : float
        Of this run.
    tokens_per_s : float
        Training and held-out tokens per second of this run.
    """

    read: int
    train_tokens: int
    aim: int | None
    seconds: float
    tokens_per_s: float


@dataclass(frozen=True)
class Prepared:
    """A finished preparation.

    Parameters
    ----------
    folder : pathlib.Path
        Where it is.
    manifest : dict
        What is in ``manifest.json``.
    progress : Progress or None
        Of the run that finished it; None where it was there already.
    """

    folder: Path
    manifest: dict[str, Any]
    progress: Progress | None = None

    @property
    def train(self) -> TokenSet:
        """The training tokens."""
        return TokenSet.open(self.folder / "train")

    @property
    def val(self) -> TokenSet | None:
        """The held-out tokens, None where nothing was held out."""
        return TokenSet.open(self.folder / "val") if self.manifest["val"] else None


def open_prepared(folder: str | Path) -> Prepared:
    """Open a finished preparation.

    Raises
    ------
    DataError
        There is none, or its shards are not those of its manifest.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    prepared = Prepared(folder, manifest)
    for part in ("train", "val"):
        tokens = getattr(prepared, part)
        if tokens is not None and tokens.sha256 != manifest[part]["sha256"]:
            raise DataError(
                f"{folder / part}: the shards are not those of {MANIFEST}", source=str(folder / part)
            )
    return prepared


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a preparation.

    Raises
    ------
    DataError
        There is none, or it is unreadable.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} is no prepared data: {MANIFEST} is missing or unreadable", source=str(folder)
        ) from error
    return dict(manifest)


def described(folder: Path) -> dict[str, Any] | None:
    """Return what a manifest says of a folder of shards; None where there is none."""
    if not folder.is_dir():
        return None
    tokens = TokenSet.open(folder)
    return {
        "tokens": tokens.tokens,
        "text_bytes": sum(h.text_bytes or 0 for h in tokens.headers),
        "shards": len(tokens.paths),
        "tokenizer": tokens.tokenizer,
        "vocab": tokens.vocab,
        "dtype": tokens.dtype,
        "sha256": tokens.sha256,
    }
