"""What the light set-up (without torch) leaves out, said loudly."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_TORCH = importlib.util.find_spec("torch") is not None
_NEED_TORCH = ("reference_trainer", "tests/reference_trainer", "tests/experiments/test_x1_run")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the trainer where torch is not installed."""
    if _TORCH or not collection_path.is_relative_to(config.rootpath):
        return None
    here = collection_path.relative_to(config.rootpath).as_posix()
    return True if here.startswith(_NEED_TORCH) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that the trainer was not tested."""
    if not _TORCH:
        terminalreporter.section("NOT TESTED: reference_trainer", sep="!", red=True, bold=True)
        terminalreporter.line(
            "torch is not installed: make test EXTRAS=train,dev tests the trainer too.", red=True
        )
