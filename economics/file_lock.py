"""A lock that one process holds and that ends with it, even by ``kill -9``; standard library alone."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """An exclusive lock on a file, of this process as a whole.

    POSIX record locks (Windows: byte locks), which belong to a process: a forked child, such as a worker that loads
    data, neither holds nor prolongs them. The file is never removed, as another process may be waiting to lock it.

    Parameters
    ----------
    path : pathlib.Path
        The file; made where it is not there. Its text says who locked it last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        self._pid = 0

    def acquire(self) -> bool:
        """Take the lock, and return whether this process has it; it does not wait.

        Raises
        ------
        OSError
            The file cannot be opened, or its disk has no locks.
        """
        if self._handle is not None and self._pid == os.getpid():
            return True
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle)
        except (BlockingIOError, PermissionError):
            os.close(handle)
            return False
        except OSError:
            os.close(handle)
            raise
        self._handle, self._pid = handle, os.getpid()
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, f"process {self._pid} on {socket.gethostname()}".encode())
        return True

    @property
    def owner(self) -> str:
        """Who locked it last, in words."""
        try:
            return self.path.read_text(encoding="utf-8", errors="replace").strip() or "unknown"
        except OSError:
            return "unknown"

    def release(self) -> None:
        """Give the lock back."""
        if self._handle is not None and self._pid == os.getpid():
            os.close(self._handle)  # which ends the lock too
        self._handle = None

    def __del__(self) -> None:
        self.release()


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        os.lseek(handle, 1000, os.SEEK_SET)  # behind the text, which can then still be read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
