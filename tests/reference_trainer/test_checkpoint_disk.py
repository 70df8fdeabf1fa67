"""Checkpoints on a disk that is full, or fills up, or is shared with another writer."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from reference_trainer import checkpoint
from reference_trainer.errors import CheckpointError, SpaceError


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    ) if shutil.which("mount") else None  # fmt: skip
    if done is None or done.returncode:
        pytest.skip(
            f"NOT TESTED, a full disk: no file system can be mounted here ({done and done.stderr.strip()})"
        )
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def save_kib(folder: Path, step: int, kib: int) -> Path:
    tensors = {
        "model": {"w": torch.full((kib * 128,), float(step))},
        "optimizer": {"m": torch.ones(kib * 128)},
    }
    return checkpoint.save(folder, step, **tensors, manifest={})


def test_a_full_disk_is_seen_before_anything_is_written(small_disk):
    save_kib(small_disk, 1, 400)
    with pytest.raises(
        SpaceError, match=r"[67]\d\d,\d{3} bytes are needed and [56]\d\d,\d{3} are free"
    ) as caught:
        save_kib(small_disk, 2, 600)
    assert caught.value.needed > caught.value.free > 0
    assert [p.name for p in small_disk.iterdir()] == ["step_00000001"]


@pytest.mark.parametrize("left_kib", [0, 30, 299, 301, 599, 601])
def test_a_disk_that_fills_up_while_a_checkpoint_is_written(small_disk, monkeypatch, left_kib):
    """Somebody else took the room that was there: in the first file, the second, the manifest."""
    first = save_kib(small_disk, 1, 300)
    full = shutil.disk_usage(small_disk)
    (small_disk / "log of somebody else").write_bytes(b"x" * (full.free - left_kib * 1024))
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: full)
        with pytest.raises(
            CheckpointError, match=r"could not be written \(.*No space left.*Earlier checkpoints"
        ):
            save_kib(small_disk, 2, 600)
    assert {p.name for p in small_disk.iterdir()} == {first.name, "log of somebody else"}
    assert checkpoint.latest(small_disk) == first
    (small_disk / "log of somebody else").unlink()
    second = save_kib(small_disk, 2, 500)
    assert checkpoint.latest(small_disk) == second


def test_what_a_dead_writer_left_makes_room_again(small_disk):
    (small_disk / ".writing-step_00000002-dead").mkdir()
    (small_disk / ".writing-step_00000002-dead" / "model.safetensors").write_bytes(b"x" * 700_000)
    assert checkpoint.latest(small_disk) is None
    save_kib(small_disk, 2, 600)
    assert [p.name for p in small_disk.iterdir()] == ["step_00000002"]


def test_a_living_writer_is_left_alone(tmp_path, monkeypatch):
    """Another process's sweep comes while a checkpoint is being written."""
    begun, go_on = threading.Event(), threading.Event()
    write = checkpoint.save_file

    def slowly(content, file):
        write(content, file)
        begun.set()
        assert go_on.wait(20)

    monkeypatch.setattr(checkpoint, "save_file", slowly)
    writer = threading.Thread(target=save_kib, args=(tmp_path, 2, 10))
    writer.start()
    assert begun.wait(20)
    checkpoint.rotate(tmp_path, keep=1)
    assert [p.name[:9] for p in tmp_path.iterdir()] == [".writing-"]
    go_on.set()
    writer.join()
    assert checkpoint.latest(tmp_path) == tmp_path / "step_00000002"


def test_saving_does_not_wait_for_long(tmp_path):
    """4M parameters with their moments, 48 MB: hashing and writing are within a second or so of the disk."""
    tensors = {f"w{i}": torch.randn(1000, 1000) for i in range(4)}
    moments = {f"{n}/{k}": torch.rand(1000, 1000) for n in tensors for k in ("exp_avg", "exp_avg_sq")}
    begin = time.process_time()
    path = checkpoint.save(tmp_path, 1, model=tensors, optimizer=moments, manifest={})
    checkpoint.load(path)
    assert time.process_time() - begin < 2.0
