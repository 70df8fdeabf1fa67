"""What files need beyond writing: names that last, and errors that say which file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def sync_folder(folder: str | Path) -> None:
    """Bring the names in a folder to the disk, so that a rename survives a loss of power.

    Does nothing where folders cannot be opened (Windows).
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def errors_name(path: str | Path) -> Iterator[None]:
    """Give errors of the system inside the block the name of a file: a full disk does not say which."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
