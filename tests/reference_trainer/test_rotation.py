"""Old checkpoints go; the last whole one, those asked for, and the one before an alarm stay."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
import torch

from reference_trainer import checkpoint
from scaling.errors import DataError


def save(folder: Path, *steps: int) -> None:
    for step in steps:
        tensors = {"model": {"w": torch.full((8,), float(step))}, "optimizer": {}}
        checkpoint.save(folder, step, **tensors, manifest={})


def damage(folder: Path, step: int, *, seen_by_size: bool = False) -> None:
    file = checkpoint.at(folder, step) / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data[:-1] if seen_by_size else data)


@pytest.mark.parametrize(
    ("options", "stay"),
    [
        ({"keep": 1}, {5000}),
        ({"keep": 2}, {4500, 5000}),
        ({"keep": 100}, {*range(500, 5001, 500)}),
        ({"keep": 1, "protect": (1500, 2000)}, {1500, 2000, 5000}),
        ({"keep": 1, "protect": (7,)}, {5000}),
        # An alarm at 4700 with the margin of 1,000: 3500 is the newest that is old enough.
        ({"keep": 1, "before_alarm": 4700}, {3500, 5000}),
        ({"keep": 1, "before_alarm": 4500}, {3500, 5000}),
        ({"keep": 1, "before_alarm": 4499}, {3000, 5000}),
        ({"keep": 1, "before_alarm": 4700, "margin": 100}, {4500, 5000}),
        # None is old enough: the oldest there is.
        ({"keep": 1, "before_alarm": 900}, {500, 5000}),
    ],
)
def test_what_stays(tmp_path, options, stay):
    save(tmp_path, *range(500, 5001, 500))
    gone = checkpoint.rotate(tmp_path, **options)
    assert set(checkpoint.steps(tmp_path)) == stay
    assert gone == [tmp_path / f"step_{s:08d}" for s in range(500, 5001, 500) if s not in stay]
    assert len(list(tmp_path.iterdir())) == len(stay)


def test_the_alarm_stays_open_over_many_rotations(tmp_path):
    """The state to go back to survives, however long the alarm stays open; then it goes."""
    for step in range(500, 9001, 500):
        save(tmp_path, step)
        checkpoint.rotate(tmp_path, keep=2, before_alarm=2600 if step >= 3000 else None, margin=500)
    assert checkpoint.steps(tmp_path) == [2000, 8500, 9000]
    checkpoint.rotate(tmp_path, keep=2)
    assert checkpoint.steps(tmp_path) == [8500, 9000]


@pytest.mark.parametrize("seen_by_size", [False, True])
def test_the_last_whole_one_is_never_removed(tmp_path, seen_by_size):
    save(tmp_path, 1, 2, 3, 4, 5)
    for step in (3, 4, 5):
        damage(tmp_path, step, seen_by_size=seen_by_size)
    checkpoint.rotate(tmp_path, keep=1)
    assert checkpoint.steps(tmp_path) == [2, 3, 4, 5]
    damage(tmp_path, 2)
    save(tmp_path, 6)
    checkpoint.rotate(tmp_path, keep=1)
    assert checkpoint.steps(tmp_path) == [6]


def test_damaged_ones_do_not_count_among_those_kept(tmp_path):
    save(tmp_path, 1, 2, 3, 4, 5)
    damage(tmp_path, 5, seen_by_size=True)
    checkpoint.rotate(tmp_path, keep=2)
    assert checkpoint.steps(tmp_path) == [3, 4, 5]


def test_nothing_is_removed_where_nothing_is_whole(tmp_path):
    save(tmp_path, 1, 2)
    damage(tmp_path, 1), damage(tmp_path, 2)
    assert checkpoint.rotate(tmp_path, keep=1) == [] and checkpoint.steps(tmp_path) == [1, 2]


def test_before_an_alarm_only_a_whole_one_counts(tmp_path):
    save(tmp_path, 1000, 2000, 3000, 4000)
    damage(tmp_path, 2000)
    checkpoint.rotate(tmp_path, keep=1, before_alarm=3000)
    assert checkpoint.steps(tmp_path) == [1000, 4000]


def test_a_run_that_went_back_does_not_find_the_way_it_left(tmp_path):
    save(tmp_path, 1000, 2000, 3000)
    aside = checkpoint.abandon(tmp_path, after=1000)
    assert [path.name[:23] for path in aside] == ["abandoned_step_00003000", "abandoned_step_00002000"]
    assert checkpoint.latest(tmp_path) == checkpoint.at(tmp_path, 1000)
    save(tmp_path, 1500)
    checkpoint.rotate(tmp_path, keep=2)
    assert all(path.is_dir() for path in aside)  # evidence, until the run has passed that step again
    save(tmp_path, 2000)
    checkpoint.abandon(tmp_path, after=1500)  # a second time back
    save(tmp_path, 2000)
    checkpoint.rotate(tmp_path, keep=2)
    assert sorted(p.name[:23] for p in tmp_path.iterdir()) == [
        "abandoned_step_00003000", "step_00001500", "step_00002000",
    ]  # fmt: skip


def test_leftovers_are_swept(tmp_path):
    for name in (".writing-step_00000001-aa", ".trash-step_00000001-bb"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "model.safetensors").write_bytes(b"half")
    assert checkpoint.rotate(tmp_path, keep=1) == [] and not list(tmp_path.iterdir())
    assert checkpoint.rotate(tmp_path / "nowhere", keep=1) == []


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    """There age decides: what was being written a day ago is not any more."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    for name, hours in ((".writing-step_00000001-aa", 23), (".writing-step_00000001-bb", 25)):
        (tmp_path / name).mkdir()
        then = time.time() - hours * 3600
        os.utime(tmp_path / name, (then, then))
    save(tmp_path, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".writing-step_00000001-aa", "step_00000001"]


@pytest.mark.parametrize("options", [{"keep": 0}, {"keep": 1, "margin": -1}])
def test_arguments(tmp_path, options):
    with pytest.raises(DataError, match="keep must be 1 or more"):
        checkpoint.rotate(tmp_path, **options)
