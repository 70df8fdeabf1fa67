"""A guard's state on disk, so that a machine that dies before its next checkpoint is not forgotten."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaling.errors import DataError


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
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        state = json.loads(text)
    except ValueError as error:
        raise _unreadable(path) from error
    if not isinstance(state, dict):
        raise _unreadable(path)
    return state


def _unreadable(path: Path) -> DataError:
    return DataError(
        f"{path} is no state of a budget guard: look up what was spent so far, move the file away and pass "
        f"spent_usd=.",
        column="journal",
    )
