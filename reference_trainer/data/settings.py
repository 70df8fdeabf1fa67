"""What decides the bytes of a preparation: compared before one is taken up again, and kept in its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reference_trainer.data.corpus import Source
from reference_trainer.data.quality import rules
from scaling.errors import DataError

FORMAT = 1
_SHOWN = 5


@dataclass(frozen=True)
class Settings:
    """How a text becomes shards.

    Parameters
    ----------
    source : Source
        The text.
    tokenizer : str
        As in `tokenizers.load_tokenizer`.
    val_share : float
        Share of documents held out, chosen by the hash of each: 0 for none.
    tokenizer_path : path, optional
        Its files.
    rules : tuple of str
        Sets of quality rules (`quality.RULE_SETS`); empty for none.
    min_score : float, optional
        Least score of its own (``source.score``) that keeps a document.
    train_tokens : int, optional
        Stop after the document that reaches this many; all of the source unless given.
    val_tokens : int, optional
        Keep the held-out documents of lowest hash up to the one that reaches this many; all unless given.
    shard_tokens : int
        A shard ends with the document that reaches this many.
    window : int
        Documents shuffled together, in memory; 1 keeps the order of the source.
    seed : int
        Names the shuffle. It moves no document from one side of the split to the other.

    Raises
    ------
    DataError
        A setting is out of range, or one of `min_score` and ``source.score`` is missing.
    """

    source: Source
    tokenizer: str
    val_share: float
    tokenizer_path: str | Path | None = None
    rules: tuple[str, ...] = ("gopher", "gopher_repetition")
    min_score: float | None = None
    train_tokens: int | None = None
    val_tokens: int | None = None
    shard_tokens: int = 100_000_000
    window: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.val_share < 1:
            raise DataError(
                f"val_share = {self.val_share}: give a share from 0 to below 1", column="val_share"
            )
        for name in ("train_tokens", "val_tokens", "shard_tokens", "window"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"{name} = {value}: give at least 1", column=name)
        if self.val_tokens is not None and self.val_share == 0:
            raise DataError(
                "val_tokens without val_share: nothing is held out to take them from", column="val_share"
            )
        if not 0 <= self.seed < 1 << 64:
            raise DataError(f"seed = {self.seed}: give 0 to 2^64 - 1", column="seed")
        if (self.min_score is None) != (self.source.score is None):
            raise DataError(
                "the data set's own score needs both its column (score=) and the least value kept (min_score=)",
                column="min_score" if self.min_score is None else "score",
            )
        rules(*self.rules)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON types."""
        fields = asdict(self)
        fields.pop("tokenizer_path")  # where its files lie decides nothing; their hash does, and is added
        source = {f"source.{key}": value for key, value in fields.pop("source").items()}
        return {"format": FORMAT, **source, **fields, "rules": list(self.rules)}


def refuse_change(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a preparation, or to take one for done, that was begun differently.

    Parameters
    ----------
    folder : pathlib.Path
        Where it is.
    before, now : mapping
        What decides the bytes, as it was and as it is.

    Raises
    ------
    DataError
        Something differs; names it.
    """
    old, new = _flat(before), _flat(now)
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if changed:
        shown = "; ".join(
            f"{key} was {old.get(key)!r:.200}, is {new.get(key)!r:.200}" for key in changed[:_SHOWN]
        )
        if len(changed) > _SHOWN:
            shown += f"; and {len(changed) - _SHOWN} more"
        raise DataError(
            f"{folder} was begun differently: {shown}. Use the settings it was begun with, or another folder.",
            source=str(folder),
            column=changed[0],
        )


def _flat(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with ``{"a": {"b": 1}}`` as ``{"a b": 1}``: each difference by its own name."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        flat |= (
            {f"{key} {k}": v for k, v in _flat(value).items()} if isinstance(value, Mapping) else {key: value}
        )
    return flat
