"""The folder a preparation works in: train shards, ledger and one state that says how far they are good.

The state is replaced whole, after everything it speaks of is on the disk. A process that is killed at any
moment leaves files that are longer than the state says, never shorter.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from economics.journal import read_journal, write_journal
from reference_trainer.data.ledger import Ledger
from reference_trainer.data.prepared import MANIFEST
from reference_trainer.data.shard_file import SUFFIX, ShardWriter, dtype_for
from reference_trainer.data.shards import write_shard
from reference_trainer.disk import sync_folder
from scaling.errors import DataError

STATE = "state.json"
#: What is published; everything else in the folder is scaffolding.
_PUBLISHED = ("train", "val", MANIFEST)


def shard_name(number: int) -> str:
    """Return the file name of a shard: names sort as numbers do."""
    return f"{number:05d}{SUFFIX}"


class Work:
    """A preparation in progress.

    Parameters
    ----------
    folder : pathlib.Path
        Made if it is missing.

    Raises
    ------
    DataError
        Another process works in it, or its state is unreadable.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "train").mkdir(parents=True, exist_ok=True)
        self._lock = open(folder / "lock", "w")  # noqa: SIM115 - held until close
        try:
            _lock(self._lock.fileno(), folder)
            self.state = read_journal(folder / STATE)
        except BaseException:
            self._lock.close()
            raise
        self._ledger: Ledger | None = None
        self._writer: ShardWriter | None = None

    def open(self, *, tokenizer: str, vocab: int, source: str, made: str, shard_tokens: int) -> None:
        """Take up the shards and the ledger where the state left them; from nothing where there is none."""
        state = self.state or {}
        self._header: dict[str, Any] = {
            "tokenizer": tokenizer,
            "vocab": vocab,
            "source": source,
            "made": made,
        }
        self._shard_tokens = shard_tokens
        self._ledger = Ledger(self.folder, dtype_for(vocab), state.get("ledger", {}))
        self._number, self._text_bytes = state.get("shard", 0), state.get("shard_text_bytes", 0)
        self.train_tokens = state.get("train_tokens", 0)
        self._recover_shards(state.get("shard_tokens", 0))

    def _recover_shards(self, keep: int) -> None:
        """Undo what was written after the state: shards begun or even finished since."""
        for path in (self.folder / "train").iterdir():
            number = path.name.partition(".")[0]
            if number.isdigit() and int(number) > self._number:
                path.unlink()
        path = self._shard_path()
        if path.exists():  # finished, and the process died before the state said so
            os.replace(path, path.with_name(path.name + ".part"))
        if keep:
            self._writer = ShardWriter(path, **self._header, keep=keep)

    def _shard_path(self) -> Path:
        return self.folder / "train" / shard_name(self._number)

    @property
    def ledger(self) -> Ledger:
        """The documents kept so far."""
        assert self._ledger is not None, "open comes first"
        return self._ledger

    def train(self, tokens: npt.NDArray[Any], text_bytes: int) -> None:
        """Append a training document, ending the shard where it is full."""
        if self._writer is None:
            self._writer = ShardWriter(self._shard_path(), **self._header)
        self._writer.write(tokens)
        self.train_tokens += tokens.size
        self._text_bytes += text_bytes
        if self._writer.tokens >= self._shard_tokens:
            self._end_shard()

    def _end_shard(self) -> None:
        if self._writer is not None:
            self._writer.finish(self._text_bytes)
            self._writer, self._text_bytes = None, 0
            self._number += 1

    def save(self, state: Mapping[str, Any]) -> None:
        """Bring everything to the disk, then the state: its own part and `state`."""
        if self._writer is not None:
            self._writer.flush()
        own = {
            "ledger": self.ledger.state_dict(),
            "shard": self._number,
            "shard_tokens": 0 if self._writer is None else self._writer.tokens,
            "shard_text_bytes": self._text_bytes,
            "train_tokens": self.train_tokens,
        }
        self.state = {**state, **own}
        write_journal(self.folder / STATE, self.state)

    def end_shards(self, val_tokens: int | None) -> int:
        """Finish the last train shard and write the held-out block.

        Parameters
        ----------
        val_tokens : int or None
            As in `settings.Settings`.

        Returns
        -------
        int
            Documents held out and not used.
        """
        self._end_shard()
        documents, text_bytes, left = self.ledger.held_out(val_tokens)
        if documents:
            (self.folder / "val").mkdir(exist_ok=True)
            path = self.folder / "val" / shard_name(0)
            write_shard(path, documents, **self._header, text_bytes=text_bytes)
        return left

    def publish(self, out: Path) -> None:
        """Remove the scaffolding and give the folder its name, in one step."""
        self.close()
        for path in self.folder.iterdir():
            if path.name not in _PUBLISHED:
                path.unlink() if path.is_file() else shutil.rmtree(path)
        for folder in (self.folder / "train", self.folder / "val", self.folder):
            if folder.is_dir():
                sync_folder(folder)
        os.replace(self.folder, out)
        sync_folder(out.parent)

    def close(self) -> None:
        """Close all files; what the state says stays good."""
        closing: list[Callable[[], None]] = [self._lock.close]
        closing += [part.close for part in (self._writer, self._ledger) if part is not None]
        for close in closing:
            close()


def _lock(handle: int, folder: Path) -> None:
    """Hold a lock that ends with the process, however it ends."""
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(f"another process is preparing {folder}: wait for it", source=str(folder)) from error
