"""A sweep stopped in any way and started again makes the same points, and trains nothing that was finished twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from economics.budget import BudgetExceeded
from reference_trainer.__main__ import app
from reference_trainer.board import Board
from reference_trainer.branch import scratch_config
from reference_trainer.checkpoint import steps
from reference_trainer.errors import ConfigError
from reference_trainer.ladder import read_ladder
from reference_trainer.sweep import sweep
from reference_trainer.sweep_progress import Display, last_step
from reference_trainer.train import train
from tests.reference_trainer.tiny_ladders import LADDER, read_rows, without_times, write_ladder
from tests.reference_trainer.tiny_runs import assert_same

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The ladder that nobody disturbed."""
    plan = read_ladder(write_ladder(tmp_path_factory.mktemp("whole")))
    result = sweep(plan, display=Display(quiet=True))
    assert (result.ended_by, result.ok, result.failed, result.left) == ("done", 8, 0, 0)
    assert result.steps == plan.steps_paid  # each trunk once, each branch from where it leaves
    return plan, result


def again(whole, folder, text=LADDER):
    """The same ladder on the same data in another folder."""
    plan = read_ladder(write_ladder(folder, text), out=folder / "out")
    assert plan.data == whole[0].data
    return plan


def points(plan):
    return without_times(plan.out / "points.csv"), without_times(plan.out / "lr_checks.csv")


def test_a_branch_is_the_run_made_from_scratch(whole, tmp_path):
    plan, result = whole
    for branch in (run for run in plan.runs if run.kind == "branch" and run.seed == 1):
        config = scratch_config(plan, branch, result.rates[branch.size], str(tmp_path / branch.run_id))
        made = train(config)
        assert_same(plan.folder(branch), config.run_dir)  # dropout is on
        row = next(row for row in read_rows(Path(result.points)) if row["run_id"] == branch.run_id)
        assert row["loss"] == repr(made["loss"]) and row["config_hash"] == made["config_hash"]


def test_what_is_finished_is_left_alone(whole):
    plan, _ = whole
    stamps = {p: p.stat().st_mtime_ns for p in plan.out.rglob("*") if p.is_file() and p.parent != plan.out}
    before = points(plan)
    result = sweep(plan, display=Display(quiet=True))
    assert (result.ok, result.steps) == (8, 0)
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps and points(plan) == before


def test_another_ladder_does_not_mix_with_what_is_there(whole):
    plan, _ = whole
    with pytest.raises(ConfigError, match=r"no longer asks for.*lr 0\.01 -> 0\.02"):
        other = write_ladder(plan.path.parent / "b", LADDER.replace("lr = 1e-2", "lr = 2e-2"))
        sweep(read_ladder(other, out=plan.out))
    with pytest.raises(ConfigError, match="eval_tokens 320 -> 64"):
        sweep(read_ladder(plan.path, "eval_tokens=64"))


def test_a_larger_budget_keeps_the_points_that_are_there(whole, tmp_path):
    """What was a trunk is now a branch of a longer one, and finished already."""
    plan, _ = whole
    longer = read_ladder(write_ladder(tmp_path, LADDER.replace("2560]", "2560, 3840]")), out=plan.out)
    board = Board(longer)
    assert {run.run_id for run in board.look()} == {run.run_id for run in longer.runs if run.kind == "trunk"}
    assert len(board.results) == 8 + 3


def test_signals_and_dead_workers_are_survived(whole, tmp_path):
    """SIGTERM saves and stops; a worker that is killed costs its run, not the sweep; the next sweep makes it good."""
    plan = again(whole, tmp_path)
    with after_first_result(plan, lambda: os.kill(os.getpid(), signal.SIGTERM)):
        first = sweep(plan, display=Display(quiet=True))
    assert first.ended_by == "SIGTERM" and first.left > 0 and not first.errors
    with after_first_result(plan, lambda: os.kill(children(os.getpid())[0], signal.SIGKILL), more=3):
        second = sweep(plan, display=Display(quiet=True))
    assert second.ended_by == "done" and next(iter(second.errors.values())).startswith(
        "its worker was killed by signal 9"
    )
    assert {row["status"] for row in read_rows(Path(second.points))} == {"ok", "failed"}
    last = sweep(plan, display=Display(quiet=True))
    assert last.ok == 8 and points(plan) == points(whole[0])
    assert children(os.getpid()) == []


def test_the_cap_holds_for_the_ladder_and_can_be_raised(whole, tmp_path):
    budget = (
        "[budget]\ncap_usd = {}\nusd_per_hour = 3600\nmax_step_s = 1\nfinal_save_s = 10\nshutdown_s = 0\n"
    )
    with pytest.raises(BudgetExceeded):
        sweep(again(whole, tmp_path, LADDER + budget.format(11)), display=Display(quiet=True))
    assert not (tmp_path / "out" / "runs").exists()  # refused before the first step

    plan = again(whole, tmp_path, LADDER + budget.format(10_000))
    late = [0.0]
    with after_first_result(plan, lambda: late.__setitem__(0, 9_950.0)):
        first = sweep(plan, display=Display(quiet=True), clock=lambda: time.time() + late[0])
    assert first.ended_by == "budget" and first.left > 0 and 9_950 < first.spent_usd <= 10_000
    plan = again(whole, tmp_path, LADDER + budget.format(100_000))
    last = sweep(plan, display=Display(quiet=True), clock=lambda: time.time() + late[0])
    assert last.ok == 8 and points(plan) == points(whole[0])
    assert first.steps + last.steps == plan.steps_paid  # stopped in good order: not one step was made twice


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    text = (
        LADDER.replace("lr = 1e-2", "lr = 1e30")
        .replace("[1280, 2560]", "[1280, 5120]")
        .replace("[0, 1]", "[0]")
    )
    plan = read_ladder(write_ladder(tmp_path, text))
    result = sweep(plan, display=Display(quiet=True))
    assert (result.ended_by, result.ok, result.failed) == ("done", 3, 1)
    assert result.errors == {"1x8-seed0-5120": "stopped at step 60: not finite"}
    rows = {row["run_id"]: row for row in read_rows(Path(result.points))}
    assert rows["1x8-seed0-5120"]["error"] == "stopped at step 60: not finite"
    assert [row["status"] for row in rows.values()] == ["ok", "failed", "ok", "ok"]
    assert sweep(plan, display=Display(quiet=True)).steps == 0  # it would go wrong again


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_9_at_any_moment_changes_no_point(whole, tmp_path, kills):
    rng, killed, round_, done = random.Random(kills), 0, 0, True
    while killed < kills or not done:
        if done:  # all points were made in spite of the kills so far: begin anew
            plan, finished, done = again(whole, tmp_path / str(round_)), {}, False
            round_ += 1
        sweeping = start(plan, jobs=1 + killed % 2)
        if killed < kills:
            began = time.monotonic()
            while not children(sweeping.pid) and sweeping.poll() is None:
                time.sleep(0.05)
            time.sleep(rng.uniform(0.0, 2 * (time.monotonic() - began)))  # a worker takes as long to begin
            doomed = (
                children(sweeping.pid) if rng.random() < 0.5 else []
            )  # else the workers find themselves alone
            if sweeping.poll() is None:
                killed += 1
                for pid in (sweeping.pid, *doomed):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        done = sweeping.wait(timeout=120) == 0
        assert all(
            path.stat().st_mtime_ns == stamp for path, stamp in finished.items()
        )  # never trained again
        finished = {path: path.stat().st_mtime_ns for path in results(plan) if '"ok"' in path.read_text()}
        if done:
            assert points(plan) == points(whole[0])
            assert all(steps(plan.folder(run) / "checkpoints")[-1] == run.steps for run in plan.runs)


def start(plan, jobs):
    command = [sys.executable, "-m", "reference_trainer", "sweep", str(plan.path), "--jobs", str(jobs)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_the_command_says_how_it_went(whole, tmp_path, capsys):
    plan, _ = whole
    command = ["sweep", str(plan.path), "--json"]
    assert app(command, standalone_mode=False) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["steps"], told["rates"]) == (8, 0, {"1x8": 0.01, "2x16": 0.03})
    capped = write_ladder(tmp_path, LADDER + "[budget]\ncap_usd = 0.01\nusd_per_hour = 3600\n")
    assert app(["sweep", str(capped), "--json"], standalone_mode=False) == 75
    out = capsys.readouterr()
    assert json.loads(out.out)["ended_by"] == "budget" and "Raise cap_usd" in out.err
    assert app([*command, "learning_rate=3"], standalone_mode=False) == 2


def test_a_log_that_is_being_written_tells_its_step(tmp_path):
    log = tmp_path / "perf.jsonl"
    assert last_step(log, 7) == 7
    log.write_text('{"step": 10}\n{"step": 20}\n{"st')
    assert last_step(log, 7) == 20


def results(plan):
    return list(plan.out.glob("*/*/result.json"))


def children(pid: int) -> list[int]:
    """Processes that a process has started and not yet buried, workers alone."""
    try:
        found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [c for c in found if b"reference_trainer.worker" in _command(c)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


class after_first_result(threading.Thread):
    """Do something once so many runs more have ended, while another is under way."""

    def __init__(self, plan, act, more=1):
        super().__init__(daemon=True)
        self.plan, self.act, self.until = plan, act, len(results(plan)) + more

    def run(self):
        while len(results(self.plan)) < self.until:
            time.sleep(0.01)
        self.act()

    def __enter__(self):
        self.start()

    def __exit__(self, *error):
        self.join(timeout=10)
