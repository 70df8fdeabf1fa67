"""Where the public tables lie: a folder the environment names, never the repository."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from scaling import DataWarning, RunTable, load_runs
from scaling.datasets import DATA_DIR_VARIABLE


class NotAtHandError(FileNotFoundError):
    """A public table is not where the environment says."""


def find(name: str) -> Path:
    """Return the path of a table: in the folder that ``SCALING_DATA_DIR`` names, or in the one above it.

    Raises
    ------
    NotAtHandError
        The variable is not set, or neither folder holds the table.
    """
    folder = os.environ.get(DATA_DIR_VARIABLE)
    if not folder:
        raise NotAtHandError(f"{name}: set {DATA_DIR_VARIABLE} to the folder that holds it")
    for place in (Path(folder), Path(folder).resolve().parent):
        if (place / name).is_file():
            return place / name
    raise NotAtHandError(f"{name} is neither in {folder} nor in the folder above it")


def read(path: Path) -> RunTable:
    """Read a table whose doubts are known: repeated data are its subject, checkpoints are clustered."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return load_runs(path)
