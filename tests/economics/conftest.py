"""Every test here sees the shipped price book alone, never that of the person who runs it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of the user's own price book, which does not exist until a test writes it."""
    path = tmp_path / "own" / "prices.csv"
    monkeypatch.setenv("ISOFLOP_PRICES", str(path))
    return path
