"""Writing results to disk: folders made, files whole or not at all, refusals before the work starts."""

from __future__ import annotations

import os
from pathlib import Path

from scaling.errors import DataError


def writable(path: Path) -> Path:
    """Make the folder of a file to come, and check that it can be written, before minutes are spent on it.

    Raises
    ------
    DataError
        The path is a folder, a part of it is a file, or it may not be written.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder: name a file in it", source=str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise DataError(f"cannot write {path}: a folder in its path is a file", source=str(path)) from error
    except OSError as error:
        raise _unwritable(path, error) from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(f"cannot write {path}: no permission for the folder {path.parent}", source=str(path))
    return path


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises
    ------
    DataError
        It cannot be written: no permission, disk full.
    """
    from scaling.storage import write_atomically

    writable(path)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"cannot write {path}: {error.strerror or error}", source=str(path))
