"""What makes a rename last: the folder's entry must reach the disk too."""

from __future__ import annotations

import os
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
