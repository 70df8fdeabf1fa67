"""kill -9 in the middle of a save: the last checkpoint that was saved is always there, whole and right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="NOT TESTED, kills: no fork here")
ROOT = Path(__file__).parents[2]


def kills(folder: Path, *how: str) -> list[dict]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("kill_saves.py")), str(folder), *how],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(found: list[dict]) -> None:
    for kill in found:
        # What save() returned for is there; so is, if nothing was, what there was before. At most the step that
        # was under way is there too. Nothing damaged ever stands under a checkpoint's name.
        last = max(kill["said"], kill["before"])
        assert kill["found"] in (last, last + 1) and kill["right"] and not kill["damaged"], kill


def test_killed_at_random(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    found = kills(folder, "random", "10", "1")
    assert len(found) == 10
    check(found)
    assert sum(kill["leftovers"] > 0 for kill in found) >= 3, "hardly a kill came in the middle of a save"


@pytest.mark.slow
def test_killed_at_random_a_hundred_times(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    found = kills(folder, "random", "100", "2")
    assert len(found) == 100
    check(found)
    assert sum(kill["leftovers"] > 0 for kill in found) >= 30


def test_killed_at_every_operation_on_a_file(tmp_path):
    """Before each open, mkdir, rename, unlink and rmdir of a save that is followed by a rotation."""
    found = kills(tmp_path, "each")
    check(found)
    assert len(found) > 20 and [kill["killed"] for kill in found] == [True] * (len(found) - 1) + [False]
    assert {kill["found"] for kill in found} == {1, 2} and any(kill["leftovers"] for kill in found)
