"""A folder that one call works in at a time, together with the workers it starts."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reference_trainer.errors import ResumeError


@contextmanager
def held(
    path: Path, *, patience_s: float, wait_s: float, busy: str, waiting: Callable[[], None] = lambda: None
) -> Iterator[int]:
    """Hold a lock; workers that inherit it hold it too, so what a killed call left behind is waited for.

    Parameters
    ----------
    path : pathlib.Path
        File of the lock; made if it is missing.
    patience_s, wait_s : float
        Seconds until the wait is given up, and between two looks.
    busy : str
        What the error says then.
    waiting : callable
        Called once, if there is anything to wait for.

    Yields
    ------
    int
        The open file, for workers to inherit.

    Raises
    ------
    ResumeError
        Somebody else holds it for longer than that.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        until, told = time.monotonic() + patience_s, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise ResumeError(busy, source=str(path.parent)) from error
            if not told:
                waiting()
                told = True
            time.sleep(wait_s)
        yield lock
    finally:
        os.close(lock)
