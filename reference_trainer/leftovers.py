"""Folders on their way in and out: written beside the checkpoints, renamed when whole, swept when orphaned."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HAS_LOCKS = os.name == "posix"
if _HAS_LOCKS:
    import fcntl

#: Names begin with a dot, so that nobody takes them for checkpoints.
_WRITING, _TRASH = ".writing-", ".trash-"
#: Where a file system knows no locks, a writer that old is taken for dead, seconds.
_STALE_S = 24 * 3600.0


@contextmanager
def workshop(folder: Path, name: str) -> Iterator[Path]:
    """Make a folder to write a checkpoint in; what is still there at the end is removed.

    It is locked while its writer lives. The kernel drops the lock with the process, however that ends, so
    `sweep` can tell the living from the dead.
    """
    path, lock = _locked_folder(folder, name)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def sweep(folder: Path) -> None:
    """Remove what dead writers left, and what was on its way out when a process died."""
    for path in folder.iterdir():
        if path.name.startswith(_TRASH):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(_WRITING):
            with suppress(FileNotFoundError):  # its writer finished meanwhile
                lock = _lock(path)
                if lock is None:
                    continue
                if lock >= 0 or time.time() - path.stat().st_mtime > _STALE_S:
                    shutil.rmtree(path, ignore_errors=True)
                if lock >= 0:
                    os.close(lock)


def discard(path: Path) -> None:
    """Remove a checkpoint, so that a kill in the middle leaves no half of it under its name."""
    trash = path.with_name(f"{_TRASH}{path.name}-{secrets.token_hex(4)}")
    path.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def _locked_folder(folder: Path, name: str) -> tuple[Path, int]:
    """Make a folder and lock it; another `sweep` may come between the two, so look again and try again."""
    for _ in range(100):
        path = folder / f"{_WRITING}{name}-{secrets.token_hex(4)}"
        path.mkdir()
        with suppress(FileNotFoundError):
            lock = _lock(path)
            if lock is not None and path.is_dir():
                return path, lock
            if lock is not None and lock >= 0:
                os.close(lock)
    raise OSError(f"{folder}: another process removes what is being written here")


def _lock(path: Path) -> int | None:
    """Lock a folder; return its handle, -1 where there are no locks, None where another process has it."""
    if not _HAS_LOCKS:
        return -1
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        return -1
    return handle
