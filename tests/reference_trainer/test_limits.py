"""When a run has to end: money and time, over several machines too, and a cooldown that ends inside them."""

from __future__ import annotations

import signal

import pytest

from economics.budget import BudgetExceeded
from reference_trainer.data.order import Batches
from reference_trainer.errors import ConfigError
from reference_trainer.state import State
from reference_trainer.train import train
from tests.reference_trainer.tiny_runs import assert_same, rows, tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    config = tiny(tmp_path_factory.mktemp("whole") / "run", data)
    train(config)
    return config


def test_the_cap_holds_and_a_higher_one_goes_on(tmp_path, data, whole, seconds):
    """$1 a second; two steps, the save and the shutdown are held back."""
    money = dict(usd_per_hour=3600.0, max_step_s=1.0, instance="a")
    config = tiny(tmp_path / "run", data, cap_usd=140.0, **money)
    result = train(config)
    assert (result["ended_by"], result["status"]) == ("budget", "truncated")
    assert 10 <= result["steps"] < 20 and result["usd"] + 120 <= 140
    with pytest.raises(BudgetExceeded, match="140"):
        train(config)  # not one more step fits
    assert train(tiny(tmp_path / "run", data, cap_usd=1000.0, **money))["ended_by"] == "horizon"
    assert_same(config.run_dir, whole.run_dir)


def test_the_bill_begins_with_the_machine(tmp_path, data, seconds):
    """Ten seconds of installation before the first step are ten dollars."""
    money = dict(cap_usd=1000.0, usd_per_hour=3600.0, max_step_s=1.0)
    late = train(tiny(tmp_path / "late", data, **money, started_at=seconds[0] - 10))
    begin = seconds[0]
    assert train(tiny(tmp_path / "now", data, **money))["usd"] == pytest.approx(seconds[0] - begin, abs=1)
    assert late["usd"] == pytest.approx(begin - 1_000_000 + 10, abs=1)


def test_waiting_for_another_machine_is_not_spent(tmp_path, data, whole, seconds, monkeypatch):
    """$1 a second: the first machine is taken away at step 12, the next one is there 5,000 s later."""
    about = dict(cap_usd=1000.0, usd_per_hour=3600.0, max_step_s=1.0)
    slow = Batches.__call__

    def taken(self, step):
        if step == 12:
            signal.raise_signal(signal.SIGTERM)
        return slow(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "__call__", taken)
        first = train(tiny(tmp_path / "run", data, **about, instance="spot-1"))
    assert first["ended_by"] == "SIGTERM" and first["usd"] == 13
    seconds[0] += 5000
    with pytest.raises(BudgetExceeded, match="1000"):  # for all that is known the first was up all the time
        train(tiny(tmp_path / "run", data, **about, instance="spot-2"))
    with pytest.raises(ConfigError, match="gone_after_s must be at least 0"):
        tiny(tmp_path / "run", data, **about, gone_after_s=-1)
    again = train(tiny(tmp_path / "run", data, **about, instance="spot-2", gone_after_s=100))
    assert again["ended_by"] == "horizon" and 13 + 27 + 50 < again["usd"] <= 13 + 27 + 105
    assert_same(tmp_path / "run", whole.run_dir)


def test_a_run_that_cannot_begin_under_its_cap_is_refused(tmp_path, data, seconds):
    config = tiny(tmp_path / "run", data, cap_usd=100.0, usd_per_hour=3600.0, max_step_s=1.0)
    with pytest.raises(BudgetExceeded, match="100"):
        train(config)
    assert not (tmp_path / "run" / "log.jsonl").exists()


@pytest.mark.parametrize("horizon", [{"hours": 100 / 3600}, {"usd": 100.0, "usd_per_hour": 3600.0}], ids=str)
def test_a_cooldown_ends_inside_a_horizon_of_time_or_money(tmp_path, data, seconds, horizon, capsys):
    config = tiny(tmp_path / "run", data, tokens=float("inf"), checkpoint_at=(50, 300, 400), **horizon)
    result = train(config)
    assert result["status"] == "ok" and 90 <= result["steps"] <= 100
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == f"checkpoint_at: the run was over after step {result['steps']}, before 300, 400"
    rates = [row["lr"] for row in rows(config, "step")]
    falling = sum(rate < config.lr for rate in rates[10:])
    assert falling == pytest.approx(0.2 * result["steps"], abs=2) and rates[-1] < 0.1 * config.lr


def test_a_cooldown_that_time_has_cut_makes_no_point(tmp_path, data, seconds, monkeypatch):
    """A node that turns five times slower at step 60 of a run of 100 seconds."""
    real = Batches.__call__

    def slower(self, step):
        seconds[0] += 4.0 if step >= 60 else 0.0
        return real(self, step)

    monkeypatch.setattr(Batches, "__call__", slower)
    result = train(tiny(tmp_path / "run", data, tokens=float("inf"), hours=100 / 3600))
    assert result["steps"] < 75 and result["cooled"] < 0.18 and result["status"] == "truncated"


def test_the_share_cooled_is_that_of_the_steps():
    state = State(step=80)
    state.end_at(90)
    state.step = 90
    assert state.cooled(0.2) == pytest.approx(10 / 90) and state.ends_at == 90
    assert State(step=90).cooled(0.2) == 0.2 and State(step=2).cooled(0.2) == State().cooled(0.2) == 0.0


def test_tokens_end_a_run_before_its_hours_do(tmp_path, data, whole, seconds):
    config = tiny(tmp_path / "run", data, hours=1.0)
    assert train(config)["steps"] == 40
    assert [r["loss"] for r in rows(config, "step")] == [r["loss"] for r in rows(whole, "step")]
