"""What a plan needs to know of the data, read from their headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reference_trainer.errors import ConfigError

#: Settings that are paths of data.
PATHS = ("train_data", "val_data")


@dataclass(frozen=True)
class Data:
    """The data of a ladder.

    Parameters
    ----------
    vocab : int
        Vocabulary of the models.
    tokens, bytes : int
        Training tokens, and what they take on the disk.
    eval_tokens : int
        Validation tokens that every point is evaluated on.
    train_hash, val_hash : str
        sha256 of the tokens.
    """

    vocab: int
    tokens: int
    bytes: int
    eval_tokens: int
    train_hash: str
    val_hash: str


def read_data(common: Mapping[str, Any], source: str) -> Data:
    """Open the data of a ladder and return what the plan needs of them.

    Raises
    ------
    ConfigError
        The vocabulary is too small, both sets are one, or there is no whole window to evaluate on.
    """
    import numpy as np

    from reference_trainer.data.shards import TokenSet

    train, val = (TokenSet.open(common[key]) for key in PATHS)
    if 0 < common["vocab"] < train.vocab:
        raise ConfigError(
            f"{source}: vocab = {common['vocab']}, but the data have {train.vocab} tokens", column="vocab"
        )
    if train.sha256 == val.sha256:
        raise ConfigError(
            f"{source}: val_data holds the tokens of train_data: give tokens that were held out",
            column="val_data",
        )
    windows = (
        int(min(common["eval_tokens"], val.tokens - 1)) // common["seq_len"]
    )  # as `train.evaluate` counts
    if windows < 1:
        raise ConfigError(
            f"{source}: {val.tokens} validation tokens and eval_tokens = {common['eval_tokens']:g} hold no window of "
            f"seq_len + 1 = {common['seq_len'] + 1}",
            column="eval_tokens",
        )
    vocab = common["vocab"] or train.vocab
    size = train.tokens * np.dtype(train.dtype).itemsize
    return Data(vocab, train.tokens, size, windows * common["seq_len"], train.sha256, val.sha256)
