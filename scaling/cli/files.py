"""Writing results to disk: folders made, files whole or not at all, refusals before the work starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
    if path.exists() and not path.is_file():
        return path  # a pipe or a device: its folder does not matter
    folder = Path(os.path.realpath(path)).parent  # a link stays where it is, and its file is written
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise DataError(f"cannot write {path}: a folder in its path is a file", source=str(path)) from error
    except OSError as error:
        raise _unwritable(path, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"cannot write {path}: no permission for the folder {folder}", source=str(path))
    return path


def outputs(paths: Iterable[Path], source: str | None = None) -> None:
    """Check all files that a command is to write, as `writable` does, and that none of them is its input.

    Parameters
    ----------
    paths : iterable of Path
        Every file to come, those beside the one that was named included.
    source : str, optional
        What the command reads: a path, or "-" for standard input.

    Raises
    ------
    DataError
        One cannot be written, is the input, or is another one.
    """
    from scaling.storage import refuse_overlap

    every = [writable(path) for path in paths]
    refuse_overlap(every, [] if source is None else [_path(source)])


def _path(source: str) -> str:
    """Return the path of an input; standard input may be a file too (``scaling fit - < runs.csv``)."""
    return "/dev/stdin" if source == "-" else os.path.expanduser(source)


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
