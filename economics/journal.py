"""A guard's state on disk, so that a machine that dies before its next checkpoint is not forgotten."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from economics.file_lock import FileLock
from scaling.errors import DataError


class Journal:
    """The file of one guard; nobody else may write it.

    A lock of the operating system keeps other processes out. It ends with the process, however that ends. In one
    process a newer guard takes the file over, as when a cell of a notebook runs again, and the older one is refused.

    Parameters
    ----------
    path : path
        The file; the lock is beside it, ``NAME.lock``, and stays there.

    Raises
    ------
    DataError
        Another process keeps the file, or its folder cannot be written.
    """

    #: Real path -> the journal of this process that writes it.
    _keepers: ClassVar[weakref.WeakValueDictionary[str, Journal]] = weakref.WeakValueDictionary()

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or not str(path).strip() or "\0" in str(path):
            raise DataError(f"journal must be the path of a file, got {path!r:.80}", column="journal")
        self.path = Path(path)
        self._key = os.path.realpath(path)
        older = self._keepers.get(self._key)
        self._lock: FileLock = FileLock(Path(f"{self._key}.lock")) if older is None else older._lock
        self._released: tuple[int, int] | None = None  # what the file was when it was released
        self._acquire()
        self._keepers[self._key] = self

    def read(self) -> dict[str, Any] | None:
        """Return the state in the file, or None where there is none yet; see `read_journal`."""
        return read_journal(self.path)

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state, as `write_journal` does.

        Raises
        ------
        DataError
            The file belongs to another guard by now (or, after a fork, to the parent), or cannot be written.
        """
        keeper = self._keepers.setdefault(self._key, self)
        self._acquire()
        if keeper is not self or self._released not in (None, self._stamp()):
            raise DataError(
                f"{self.path} was taken over by a newer guard, which counts on: this one would undo that.",
                column="journal",
            )
        self._released = None
        try:
            write_journal(Path(self._key), state)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def release(self) -> None:
        """Let others keep the file; it can still be written as long as nobody else has."""
        if self._keepers.get(self._key) is self:
            self._released = self._stamp()
            del self._keepers[self._key]
            self._lock.release()

    def _stamp(self) -> tuple[int, int]:
        try:
            state = os.stat(self._key)
        except OSError:
            return 0, 0
        return state.st_ino, state.st_mtime_ns

    def _acquire(self) -> None:
        try:
            held = self._lock.acquire()
        except OSError as error:
            raise _unwritable(self.path, error) from error
        if not held:
            raise DataError(
                f"{self.path} is kept by another process ({self._lock.owner}): two guards of one bill would spend its "
                "money twice. End that process, or give each run a journal and a cap of its own.",
                column="journal",
            )


def write_journal(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the file by `state` as JSON: whole or not at all, and on the disk when this returns.

    Parameters
    ----------
    path : pathlib.Path
        The file. It is written beside itself, flushed and renamed.
    state : mapping
        From `economics.budget.BudgetGuard.state_dict`.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    if os.name == "posix":  # the new name must reach the disk too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_journal(path: Path) -> dict[str, Any] | None:
    """Return the state in the file, or None where there is no file yet.

    Raises
    ------
    DataError
        The file is no JSON object: money may have been spent that nobody can count.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _unreadable(path) from error
    if not isinstance(state, dict):
        raise _unreadable(path)
    return state


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"the journal {path} cannot be written: {error.strerror or error}", column="journal")


def _unreadable(path: Path) -> DataError:
    return DataError(
        f"{path} is no state of a budget guard: look up what was spent so far, move the file away and pass "
        f"spent_usd=.",
        column="journal",
    )
