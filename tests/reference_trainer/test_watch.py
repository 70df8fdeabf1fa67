"""Real runs that are hurt on purpose: with the playbook they end as if nothing had happened, without it they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from reference_trainer import checkpoint
from reference_trainer.metrics import read_log
from reference_trainer.train import train
from tests.reference_trainer.tiny_runs import assert_same, interrupted, tiny

#: 260 steps, hurt at 150; the playbook waits 20 steps, and keeps a state 40 steps before an alarm.
HURT = "weight_noise@150:2"
SHORT = dict(
    tokens=260 * 64, eval_every=0, checkpoint_every=50, keep=1, recovery="auto", recovery_wait=20, recovery_skip=10,
    recovery_margin=40, inject=HURT,
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """The same run: hurt and recovered, hurt and left alone, never hurt."""
    folder = tmp_path_factory.mktemp("runs")
    out = {}
    for name, changes in (("auto", {}), ("off", {"recovery": "off"}), ("plain", {"inject": ""})):
        config = tiny(folder / name, data, **{**SHORT, **changes})
        out[name] = config, train(config)
    return out


def lines(config):
    path = Path(config.run_dir) / "interventions.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ends(config, since):
    """What the steps of a run's last way were."""
    rows = [r for r in read_log(Path(config.run_dir) / "log.jsonl") if r["kind"] == "step"]
    return {row["step"]: row for row in rows if row["step"] > since}


def assert_finite(config):
    saved = checkpoint.load(checkpoint.latest(Path(config.run_dir) / "checkpoints"))
    for part in (saved.model, saved.optimizer):
        assert all(bool(torch.isfinite(tensor).all()) for tensor in part.values())


def test_a_hurt_run_ends_as_its_twin(runs):
    (auto, treated), (_, left), (plain, calm) = runs["auto"], runs["off"], runs["plain"]
    assert treated["status"] == "ok" and treated["steps"] == left["steps"] == calm["steps"] == 260
    assert left["loss"] > calm["loss"] + 1.0  # the damage is real
    assert treated["loss"] == pytest.approx(calm["loss"], rel=0.01)
    assert lines(plain) == []  # and nothing is done to a run that is well
    assert_finite(auto)


def test_what_was_done_is_on_record(runs):
    wait, skip = lines(runs["auto"][0])
    assert (wait["what"], wait["outcome"]) == ("wait", "not over")
    assert skip["what"] == "skip" and skip["outcome"] == "recovered"
    assert wait["first_step"] == skip["first_step"] == 151  # the norms show it in the step of the fault
    assert skip["to_step"] == skip["skip_from"] == 147 and skip["skip"] == 13
    assert any("the norm of the weights moved" in says for says in skip["evidence"])
    assert skip["causes"][0]["cause"] == "numerical"
    assert skip["loss"] > skip["loss_before"] + 1 > skip["loss_after"]


@pytest.mark.parametrize(
    "changes",
    [
        {"snapshot_every": 10, "snapshots": 9},
        {"snapshot_every": 7, "snapshots": 9, "checkpoint_every": 1000},
        {"checkpoint_every": 147},
    ],
    ids=str,
)
def test_where_it_goes_back_to_does_not_matter(tmp_path, data, runs, changes):
    """Memory or disk, near or far: the same weights, bit for bit, and the same record."""
    config, auto = tiny(tmp_path / "run", data, **{**SHORT, **changes}), runs["auto"][0]
    train(config)
    assert_same(config.run_dir, auto.run_dir, but=("log",))
    assert lines(config) == lines(auto) and ends(config, 147) == ends(auto, 147)
    again = [r["step"] for r in read_log(Path(config.run_dir) / "log.jsonl") if r["kind"] == "step"]
    back = again[again.index(180) + 1] - 1  # the state that it went back to
    assert back == {10: 140, 7: 147, 0: 147}[config.snapshot_every]


def test_a_treated_run_resumes_exactly(tmp_path, data, runs, monkeypatch):
    """Stopped before the alarm, while waiting, on the way a second time and before the verdict."""
    config, auto = tiny(tmp_path / "run", data, **SHORT), runs["auto"][0]
    results = interrupted(monkeypatch, config, 120, 165, 140, 185)
    assert [r["ended_by"] for r in results] == ["SIGTERM"] * 4 + ["horizon"]
    assert_same(config.run_dir, auto.run_dir, but=("log",))
    assert ends(config, 147) == ends(auto, 147)
    record = (Path(c.run_dir) / "interventions.jsonl" for c in (config, auto))
    assert len({path.read_bytes() for path in record}) == 1


def test_asking_proposes_and_changes_nothing(tmp_path, data, runs):
    config, off = tiny(tmp_path / "run", data, **{**SHORT, "recovery": "ask"}), runs["off"][0]
    train(config)
    assert_same(config.run_dir, off.run_dir)
    proposed = [line["what"] for line in lines(config) if line["what"] != "wait"]
    assert proposed[0] == "proposed: skip" and "proposed: rollback" in proposed
    assert lines(config)[1]["to_step"] == 147


def test_a_run_that_yields_nothing_finite_goes_back(tmp_path, data, runs):
    """Left alone it ends after 50 withheld updates; the rehearsed overflow is gone once it went back."""
    money = dict(cap_usd=1000.0, usd_per_hour=1.0)
    config = tiny(tmp_path / "run", data, **{**SHORT, **money, "inject": "nan_grad@150x80"})
    assert train(config)["loss"] == pytest.approx(runs["plain"][1]["loss"], rel=0.01)
    assert [(line["what"], line["outcome"]) for line in lines(config)][-1] == ("skip", "recovered")
    assert_finite(config)
    ledger = json.loads((tmp_path / "run" / "budget.json").read_text())["bill"]["ledger"]
    assert [charge["usd"] for charge in ledger if "skip from step" in str(charge)] == [0.0]


def test_what_cannot_be_helped_is_stopped_with_a_report(tmp_path, data):
    """The data are noise from batch 150 on: three rollbacks, then it ends, and says what to change."""
    config = tiny(tmp_path / "run", data, **{**SHORT, "inject": "random_labels@150x5000", "tokens": 600 * 64})
    result = train(config)
    assert (result["ended_by"], result["status"]) == ("observer", "truncated")
    treated = [line for line in lines(config) if line["what"] != "wait"]
    assert [line["what"] for line in treated] == ["skip", "rollback", "rollback", "stop"]
    assert any(text.startswith("another source of data") for text in treated[-1]["proposals"])
    assert_finite(config)
