"""The journal of a guard: ahead of the bill between writings, and of one process at a time."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time as real_time

import pytest

from economics.budget import AHEAD_S, BudgetExceeded, BudgetGuard
from scaling.errors import DataError

#: A process that keeps a journal until it is told to end.
KEEPER = """
import sys
from economics.budget import BudgetGuard
guard = BudgetGuard(10, 1.0, instance="a", journal=sys.argv[1])
guard.step()
print("kept", flush=True)
sys.stdin.readline()
if "close" in sys.argv:
    guard.close()
    print("closed", flush=True)
    sys.stdin.readline()
"""


class Time:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def make(time: Time, path, **more) -> BudgetGuard:
    return BudgetGuard(1000.0, 3600.0, clock=time, journal=path, **more)  # a dollar a second


def keeper(path, *words) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(path), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "kept\n"
    return process


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()


# --- written ahead -------------------------------------------------------------------------------


def test_short_steps_write_every_few_seconds(tmp_path):
    """10,000 steps of 10 ms are 100 s: a writing for each `AHEAD_S`, not for each step."""
    time, path = Time(), tmp_path / "bill.json"
    guard, written = make(time, path), []
    for _ in range(10_000):
        assert guard.step()
        if (stamp := path.stat().st_ino) not in written[-1:]:
            written.append(stamp)
        time.now += 0.01
    assert 100 / AHEAD_S - 2 <= len(written) <= 100 / AHEAD_S + 2


@pytest.mark.parametrize("granularity", ["second", "minute"])
@pytest.mark.parametrize("clock", ["right", "behind", "reset"])
@pytest.mark.parametrize("told", [False, True])
def test_an_instance_that_died_between_writings_is_never_billed_too_little(
    tmp_path, granularity, clock, told
):
    """Killed at any moment; then another machine counts on, its clock right, behind, or set back by an hour.

    The truth is the time until the last sign of life, which only the dead machine knew.
    """
    for steps in range(0, 40, 3):
        time, path = Time(), tmp_path / f"{steps}.json"
        guard = make(time, path, billing_granularity=granularity, instance="a")
        truth = 0.0
        for _ in range(steps):
            truth = guard.step().spent
            time.now += 0.7
        died = time.now
        del guard
        time.now += {"right": 20.0, "behind": -2.0, "reset": -3600.0}[clock]
        if told and clock != "right":
            continue  # such an end lies in the future of the clock, which is refused
        again = make(time, path, instance="b", previous_ended_at=died if told else None)
        extra = again.spent - truth
        unit = 60 if granularity == "minute" else 1
        assert extra >= -1e-6, (steps, extra)
        if (
            clock == "right"
        ):  # told the end, right but for what was written ahead; without, until now is assumed
            assert extra <= (AHEAD_S if told else time.now - died) + 3 * unit


def test_an_end_before_the_last_writing_is_refused(tmp_path):
    time, path = Time(), tmp_path / "bill.json"
    guard = make(time, path, instance="a")
    time.now += 60
    guard.step()
    time.now += 60
    with pytest.raises(DataError, match="last sign"):
        make(time, path, instance="b", previous_ended_at=time.now - 90)


def test_a_longer_step_and_a_refusal_are_written_at_once(tmp_path):
    time, path = Time(), tmp_path / "bill.json"
    guard = make(time, path, max_step_s=0.1, final_save_s=0.0, shutdown_s=0.0)
    guard.step()
    time.now += 1.0
    guard.step()
    assert json.loads(path.read_text())["longest_step_s"] == 1.0
    assert make(time, path)._step_bound() >= 1.25
    guard = BudgetGuard(
        3.0, 3600.0, clock=time, journal=tmp_path / "b.json", max_step_s=0.1, final_save_s=0, shutdown_s=0
    )
    while guard.step():
        time.now += 0.1
    assert json.loads((tmp_path / "b.json").read_text())["refused"] is True


def test_a_state_without_until_is_read(tmp_path):
    """As the first version wrote it."""
    time, path = Time(), tmp_path / "bill.json"
    make(time, path, instance="a")
    state = json.loads(path.read_text())
    del state["bill"]["until"]
    path.write_text(json.dumps(state))
    time.now += 60
    assert make(time, path, instance="b", previous_ended_at=time.now).spent == pytest.approx(60)


# --- one writer ----------------------------------------------------------------------------------


def test_two_processes_do_not_count_on_one_journal(tmp_path):
    path = tmp_path / "bill.json"
    process = keeper(path)
    before = path.read_bytes()
    try:
        for name in (path, tmp_path / "." / "bill.json"):
            with pytest.raises(
                DataError, match=rf"kept by another process \(process {process.pid} on"
            ) as caught:
                BudgetGuard(10, 1.0, instance="b", journal=name)
            assert caught.value.column == "journal"
        link = tmp_path / "link.json"
        link.symlink_to(path)
        with pytest.raises(DataError, match="another process"):
            BudgetGuard(10, 1.0, instance="b", journal=link)
        assert path.read_bytes() == before
    finally:
        end(process)


def test_the_lock_ends_with_the_process_however_it_ends(tmp_path):
    """kill -9 leaves the lock file, and no lock."""
    path = tmp_path / "bill.json"
    process = keeper(path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert (tmp_path / "bill.json.lock").exists()
    guard = BudgetGuard(10, 1.0, instance="b", journal=path)
    assert {s.instance for s in guard._bill.sessions} == {"a", "b"}


def test_a_closed_guard_lets_others_in_and_writes_no_more_over_them(tmp_path):
    path = tmp_path / "bill.json"
    guard = BudgetGuard(10, 1.0, instance="mine", journal=path)
    guard.close()
    guard.charge("a bill that came later", 0.5)  # nobody else has counted on
    process = keeper(path)
    try:
        with pytest.raises(DataError, match="another process"):
            guard.charge("too late", 0.5)
    finally:
        end(process)
    with pytest.raises(DataError, match="taken over"):
        guard.charge("too late", 0.5)
    state = json.loads(path.read_text())
    assert [c["usd"] for c in state["bill"]["ledger"]] == [0.5]
    assert {s["instance"] for s in state["bill"]["sessions"]} == {"mine", "a"}


def test_another_process_goes_on_after_close(tmp_path):
    path = tmp_path / "bill.json"
    process = keeper(path, "close")
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closed\n"
        assert BudgetGuard(10, 1.0, instance="b", journal=path).step()
    finally:
        end(process)


def test_in_one_process_the_newer_guard_counts_on(tmp_path):
    """A cell of a notebook that runs again."""
    time, path = Time(), tmp_path / "bill.json"
    older = make(time, path)
    newer = make(time, path)
    time.now += 10
    assert newer.step()
    with pytest.raises(DataError, match="taken over by a newer guard"):
        older.step()
    assert json.loads(path.read_text())["bill"]["latest"] == time.now


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_neither_writes_nor_keeps_the_lock(tmp_path):
    """Workers that load data are forks: killed with -9, the parent leaves no lock behind with them."""
    path = tmp_path / "bill.json"
    code = """
import os, sys, time
from economics.budget import BudgetGuard
from scaling.errors import DataError
guard = BudgetGuard(10, 1.0, instance="a", journal=sys.argv[1])
child = os.fork()
if child == 0:
    try:
        guard.charge("twice", 1.0)
    except DataError as error:
        print("refused" if "another process" in str(error) else error, flush=True)
    time.sleep(60)
    os._exit(0)
guard.charge("once", 1.0)
print(child, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    said = {process.stdout.readline().strip() for _ in range(2)}
    (child,) = [int(word) for word in said if word.isdigit()]
    assert "refused" in said
    try:
        process.kill()
        process.wait()
        guard = BudgetGuard(10, 1.0, instance="b", journal=path)
        assert [c.usd for c in guard.ledger if c.reason in ("once", "twice")] == [1.0]
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_a_journal_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "no" / "folder.json", tmp_path / "file" / "bill.json"):
        with pytest.raises(DataError, match="cannot be written") as caught:
            BudgetGuard(10, 1.0, journal=path)
        assert caught.value.column == "journal"


def test_a_step_with_a_journal_is_cheap(tmp_path):
    """About 7 microseconds; a flush to the disk takes a hundred times as long."""
    guard = BudgetGuard(1e6, 2.0, journal=tmp_path / "bill.json")
    for _ in range(50):
        guard.charge("disk", 0.01)
    best = 1.0
    for _ in range(5):
        begin = real_time.perf_counter()
        for _ in range(200):
            guard.step()
        best = min(best, (real_time.perf_counter() - begin) / 200)
    assert best < 200e-6


# --- the promise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_cap_holds_over_machines_that_die_at_any_moment(tmp_path, seed, monkeypatch):
    """Random steps, deaths, waits, ends told and untold: what the provider bills stays within."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # thousands of simulated seconds, no power cut
    rng = random.Random(seed)
    time, path = Time(), tmp_path / "bill.json"
    unit = rng.choice([1.0, 60.0])
    price, cap, step_s = rng.uniform(1, 100), rng.uniform(1, 20), rng.uniform(0.05, 20)
    bill, told = 0.0, None
    for machine in range(12):
        began = time.now
        settings = {"clock": time, "instance": f"m{machine}", "billing_granularity": unit, "max_step_s": step_s,
                    "final_save_s": 5, "shutdown_s": 5}  # fmt: skip
        launcher = BudgetGuard(cap, price, **settings)  # asks before the machine is started
        if path.exists():
            launcher.load_state_dict(json.loads(path.read_text()), previous_ended_at=told)
        try:
            launcher.check()
        except BudgetExceeded:
            break
        guard = BudgetGuard(cap, price, journal=path, previous_ended_at=told, **settings)
        steps = rng.randrange(0, 200)
        alive = bool(guard.step())
        while alive and steps:
            time.now += rng.uniform(0, step_s)
            steps -= 1
            if rng.random() < 0.02 and guard.status().committed + 0.01 <= cap:
                guard.charge("disk", 0.01)
                bill += 0.01
            alive = bool(guard.step())
        if not alive:
            time.now += 5
            guard.close()
        end = time.now + (0 if alive else 5)
        bill += math.ceil((end - began) / unit - 1e-9) * unit / 3600 * price
        assert bill <= cap + 1e-6, (machine, bill, cap)
        if not alive:
            break
        told = end if rng.random() < 0.5 else None
        time.now += rng.uniform(0, 30)
        del guard
    assert bill > 0 or price > 60
