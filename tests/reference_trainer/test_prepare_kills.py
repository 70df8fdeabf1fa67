"""Preparation that is killed: at any moment, by any means, it goes on to the same bytes or says why not."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from economics.journal import read_journal
from reference_trainer.data import prepare as module
from reference_trainer.data.prepare import prepare
from reference_trainer.data.work import Work
from scaling.errors import DataError
from tests.reference_trainer.corpora import ROWS, hashes, prepare_slowly, write_hub_folder


class Killed(BaseException):
    """Stands for SIGKILL at a chosen system call."""


@pytest.fixture
def killing(monkeypatch):
    """``killing(n)``: die at the n-th flush or rename from now; ``killing(None)``: live."""
    left = [None]
    real = {name: getattr(os, name) for name in ("fsync", "replace")}

    def call(name):
        def dying(*args):
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
            return real[name](*args)

        return dying

    for name in real:
        monkeypatch.setattr(os, name, call(name))

    def arm(n):
        left[0] = n

    return arm


def test_death_at_every_flush_and_rename(settings, tmp_path, monkeypatch, killing):
    """Die at each of the moments when something becomes final, several times in one preparation."""
    monkeypatch.setattr(module, "BATCH", 32)
    prepare(settings, tmp_path / "whole", made="2026-01-02")
    expected = hashes(tmp_path / "whole")
    deaths = 0
    for first in range(0, 99, 18):
        out = tmp_path / f"out{first}"
        moment = first
        while not out.exists():
            # Another day: what was begun keeps its date.
            made = "2027-07-07" if (tmp_path / f"{out.name}.work" / "state.json").exists() else "2026-01-02"
            killing(moment)
            try:
                prepare(settings, out, made=made, save_seconds=0)
            except Killed:
                deaths += 1
            moment = 17 + deaths % 11
            killing(None)
        assert hashes(out) == expected, f"first death at call {first}"
    assert deaths > 20


def test_death_while_the_last_things_are_written(settings, tmp_path, killing):
    """Every single moment of the end: last shard, held-out block, manifest, name."""
    quick = dataclasses.replace(settings, rules=(), shard_tokens=30_000)
    prepare(quick, tmp_path / "whole", made="2026-01-02")
    expected = hashes(tmp_path / "whole")
    for moment in range(60):
        out = tmp_path / f"out{moment}"
        killing(moment)
        try:
            prepare(quick, out, made="2026-01-02", save_seconds=1e9)
        except Killed:
            pass
        else:
            assert moment > 25
            break
        finally:
            killing(None)
        prepare(quick, out, made="2026-01-02", save_seconds=1e9)
        assert hashes(out) == expected, moment
    else:
        pytest.fail("the preparation never came to its end")


@pytest.mark.parametrize("room", [3000, 12_000, 19_000])
def test_full_disk_and_go_on(settings, tmp_path, room):
    """No file may grow beyond the limit: an error that names the file, and nothing lost once there is room."""
    resource = pytest.importorskip("resource")
    prepare(settings, tmp_path / "whole", made="2026-01-02")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError, match="too large") as error:
            prepare(settings, tmp_path / "out", made="2026-01-02", save_seconds=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert Path(error.value.filename).parent.is_relative_to(tmp_path / "out.work")
    prepare(settings, tmp_path / "out", made="2026-01-02")
    assert hashes(tmp_path / "out") == hashes(tmp_path / "whole")


def interrupted(settings, out, killing):
    killing(30)
    with pytest.raises(Killed):
        prepare(settings, out, save_seconds=0)
    killing(None)
    assert (out.parent / f"{out.name}.work" / "state.json").exists()


@pytest.fixture
def begun(settings, tmp_path, monkeypatch, killing):
    """A preparation that was killed on the way."""
    monkeypatch.setattr(module, "BATCH", 32)
    interrupted(settings, tmp_path / "out", killing)
    return tmp_path / "out"


def test_other_settings_do_not_mix(settings, begun):
    with pytest.raises(
        DataError, match=r"out\.work was begun differently: seed was 0, is 1; val_share|val_share was"
    ):
        prepare(dataclasses.replace(settings, seed=1, val_share=0.2), begun)
    prepare(settings, begun)
    with pytest.raises(DataError, match="out was begun differently: rules was"):
        prepare(dataclasses.replace(settings, rules=("c4",)), begun)


def test_changed_files_do_not_mix(settings, begun):
    write_hub_folder(Path(settings.source.path) / "sample" / "more", ROWS[:5])  # changes nothing that is read
    data = Path(settings.source.path) / "sample" / "10BT"
    (data / "001_00000.parquet").write_bytes((data / "000_00000.parquet").read_bytes())
    with pytest.raises(DataError, match=r"files .*/001_00000\.parquet was \d+, is \d+\. Use"):
        prepare(settings, begun)


def test_lost_files_are_not_made_up(settings, begun):
    log = begun.parent / "out.work" / "seen.log"
    os.truncate(log, log.stat().st_size // 2)
    with pytest.raises(DataError, match=r"seen\.log is cut short: .* Delete .*out\.work and begin again"):
        prepare(settings, begun)


def test_truncated_shard_stops_the_work(settings, begun):
    shard = begun.parent / "out.work" / "train" / "00000.tokens"
    os.truncate(shard, shard.stat().st_size - 1)
    with pytest.raises(DataError, match=r"00000\.tokens is cut short: .* bytes expected"):
        prepare(settings, begun)


def test_one_process_at_a_time(settings, begun):
    work = Work(begun.parent / "out.work")
    try:
        with pytest.raises(DataError, match="another process is preparing"):
            prepare(settings, begun)
    finally:
        work.close()
    prepare(settings, begun)


@pytest.fixture(scope="module")
def processes():
    """A server that has the libraries loaded, so that each process to kill starts at once."""
    context = multiprocessing.get_context("forkserver")
    # datasets itself loads torch, where it is installed, when a stream is opened.
    context.set_forkserver_preload(["torch", "datasets.packaged_modules", "tests.reference_trainer.corpora"])
    return context


def documents_read(out: Path) -> int:
    """How far the state on the disk says it is."""
    state = read_journal(out.parent / f"{out.name}.work" / "state.json")
    return 0 if state is None else sum(state["counts"].values())


def killed_and_resumed(processes, settings, tmp_path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    prepare(settings, tmp_path / "whole", made="2026-01-02")
    expected, done = hashes(tmp_path / "whole"), 0
    number = 0
    while done < kills:
        number += 1
        out = tmp_path / f"out{number}"
        while not out.exists():
            child = processes.Process(target=prepare_slowly, args=(settings, out))
            child.start()
            aim = documents_read(out) + rng.randrange(1, 250)
            while child.is_alive() and documents_read(out) < aim:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.01)
            child.kill()
            child.join()
            assert child.exitcode in (0, -signal.SIGKILL)
            done += child.exitcode != 0
        assert hashes(out) == expected


def test_kill_9_and_go_on(processes, settings, tmp_path):
    """SIGKILL at random moments of real processes; whoever goes on ends with the same bytes."""
    killed_and_resumed(processes, settings, tmp_path, kills=5, seed=0)


@pytest.mark.slow
def test_kill_9_a_hundred_times(processes, settings, tmp_path):
    """The same, a hundred times."""
    killed_and_resumed(processes, settings, tmp_path, kills=100, seed=1)
