"""A recovered run is a function of its configuration and of what was done, not of how it got there."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_trainer.errors import ResumeError
from reference_trainer.hooks import Action, Silent
from reference_trainer.metrics import read_log
from reference_trainer.train import train
from tests.reference_trainer.tiny_runs import assert_same, interrupted, tiny


class Once(Silent):
    """Ask for one action after a step, and never again."""

    def __init__(self, step, action):
        self.step, self.action, self.done, self.seen = step, action, False, 0

    def observe(self, step, metrics):
        self.seen = step
        if step != self.step or self.done:
            return Action()
        self.done = True
        return self.action

    def state_dict(self):
        return {"done": self.done, "seen": self.seen}

    def load_state_dict(self, state):
        self.done, self.seen = state["done"], state["seen"]

    def go_back(self, state):
        self.seen = state["seen"]


SKIP = Action("skip", to_step=16, skip_from=17, skip=3, lr_factor=0.5, why="for the test")


@pytest.fixture(scope="module")
def recovered(tmp_path_factory, data):
    """Goes back from step 30 (where the ring is read) to 15, skips batches 17 to 19, at half the rate from 16 on."""
    config = tiny(tmp_path_factory.mktemp("recovered") / "run", data, checkpoint_every=5, keep=9)
    assert train(config, Once(23, SKIP))["steps"] == 40
    return config


def steps(config):
    return [row for row in read_log(Path(config.run_dir) / "log.jsonl") if row["kind"] == "step"]


def test_steps_go_back_and_the_rate_is_lower(recovered, data, tmp_path):
    plain = tiny(tmp_path / "plain", data)
    train(plain)
    rows, before = steps(recovered), steps(plain)
    assert [row["step"] for row in rows] == [*range(1, 31), *range(16, 41)]
    again = rows[30:]
    assert again[0] == before[15]  # step 16 is what it was
    assert [row["lr"] for row in again[1:]] == [row["lr"] / 2 for row in before[16:]]
    assert again[1]["loss"] == before[16]["loss"]  # batch 16 still; then 20 in place of 17
    assert again[2]["loss"] != before[17]["loss"]


@pytest.mark.parametrize("every", [3, 8, 16])
def test_the_checkpoint_gone_back_to_does_not_matter(tmp_path, data, recovered, every):
    config = tiny(tmp_path / "run", data, checkpoint_every=every, keep=20)
    train(config, Once(23, SKIP))
    assert_same(config.run_dir, recovered.run_dir, but=("log",))
    assert steps(config)[-24:] == steps(recovered)[-24:]


@pytest.mark.parametrize("stops", [(12,), (22,), (31,), (18, 35)], ids=str)
def test_a_recovered_run_resumes_exactly(tmp_path, data, recovered, monkeypatch, stops):
    config = tiny(tmp_path / "run", data, checkpoint_every=5, keep=9)
    import tests.reference_trainer.tiny_runs as runs

    monkeypatch.setattr(runs, "train", lambda c: train(c, Once(23, SKIP)))
    interrupted(monkeypatch, config, *stops)
    assert_same(config.run_dir, recovered.run_dir, but=("log",))
    assert steps(config)[-24:] == steps(recovered)[-24:]


def test_going_back_where_nothing_was_saved_is_refused(tmp_path, data):
    config = tiny(tmp_path / "run", data)
    with pytest.raises(ResumeError, match="no checkpoint at or before step 16"):
        train(config, Once(23, SKIP))


def test_a_run_that_recovers_by_itself_can_begin_again(tmp_path, data):
    """With recovery = "auto" the very first state is kept: going back is always possible."""
    config = tiny(tmp_path / "run", data, recovery="auto")
    train(config, Once(23, Action("rollback", to_step=7, why="for the test")))
    plain = tiny(tmp_path / "plain", data)
    train(plain)
    assert_same(config.run_dir, plain.run_dir, but=("log",))
    assert [row["step"] for row in steps(config)] == [*range(1, 31), *range(1, 41)]


def test_an_observer_can_end_a_run(tmp_path, data):
    result = train(tiny(tmp_path / "run", data), Once(14, Action("stop", why="seen enough")))
    assert (result["ended_by"], result["status"], result["steps"]) == ("observer", "truncated", 20)
