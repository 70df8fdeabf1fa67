"""Runs that could not become the point they would claim to be are refused, in words that say what to do."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import time
from dataclasses import replace

import pytest

from reference_trainer.data.shards import write_shard
from reference_trainer.errors import ConfigError, LogError, ResumeError
from reference_trainer.run_folder import write_whole
from reference_trainer.train import Config, main, train
from tests.reference_trainer.tiny_runs import tiny


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("depth=2", "no key 'depth'; the keys are attention"),
        ("layers=inf", "layers is a whole number"),
        ("precision=fp16", "auto, fp32 or bf16"),
        ("heads=5", "d_model = 16 is not a multiple of heads = 5"),
        ("kv_heads=3", "heads = 4 is not a multiple of kv_heads = 3"),
        ("device=tpu", "one of auto, cpu, cuda"),
        ("lr=inf", "lr must be finite"),
        ("eps=inf", "eps must be finite"),
        ("eval_tokens=inf", "eval_tokens must be finite"),
        ("log_every=1e8", "log_every must be at most 10,000"),
        ("checkpoint_at=-1", "checkpoint_at must be steps above 0"),
        (
            "checkpoint_at=40,41",
            "checkpoint_at = 41 is never reached: tokens = 2560 are 40 steps. Leave it out",
        ),
        ("started_at=1e9", "started_at is of the bill that cap_usd is a cap on, and there is none"),
        ("gone_after_s=900", "give cap_usd, or gone_after_s=inf"),
        ("mlflow=mlruns", "mlflow no longer writes into folders"),
        ("run_dir=", "run_dir is empty"),
        ("run_dir=run.toml", "run.toml.*File exists"),
        ("run_dir=run.toml/x", "Not a directory"),
        ("warmup_tokens=1e6", "last 15,625: lr would never be reached"),
        ("warmup_tokens=inf", "warmup_tokens must be finite"),
    ],
)
def test_settings_that_would_end_in_no_honest_point(tmp_path, monkeypatch, data, text, says):
    settings = tmp_path / "run.toml"
    settings.write_text(str(tiny(tmp_path / "run", data)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=says):
        train(Config.read(settings, text))


def test_a_loss_is_never_given_for_other_tokens_than_it_was_measured_on(tmp_path, data):
    config = tiny(tmp_path / "run", data, tokens=20 * 64)
    before = train(config)
    other = write_shard(tmp_path / "other.tokens", [[1, 2] * 300], tokenizer="none", vocab=24)
    with pytest.raises(ResumeError, match=r"evaluations of .* are on other tokens"):
        train(replace(config, val_data=str(other)))
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == before
    with pytest.raises(ConfigError, match="holds the tokens of train_data"):
        train(tiny(tmp_path / "same", {**data, "val_data": data["train_data"]}))


def test_a_checkpoint_away_from_its_log_starts_no_branch(tmp_path, data):
    train(tiny(tmp_path / "trunk", data, tokens=20 * 64, checkpoint_at=(10,)))
    alone = tmp_path / "alone" / "step_00000010"
    shutil.copytree(tmp_path / "trunk" / "checkpoints" / "step_00000010", alone)
    with pytest.raises(ResumeError, match="leave checkpoints in the folder of their run"):
        train(tiny(tmp_path / "branch", data, start_from=str(alone)))


def test_a_trunk_that_is_not_there_is_bad_input(tmp_path, data):
    with pytest.raises(ConfigError, match=r"start_from = .*give a checkpoint of the trunk") as caught:
        train(tiny(tmp_path / "branch", data, start_from=str(tmp_path / "trunk" / "step_00000010")))
    assert caught.value.column == "start_from"


def test_a_run_without_a_step_of_cooldown_is_no_point(tmp_path, data):
    short = {"tokens": 20 * 64, "warmup_tokens": 64}
    assert train(tiny(tmp_path / "none", data, cooldown=0.02, **short))["status"] == "truncated"
    assert train(tiny(tmp_path / "one", data, cooldown=0.03, **short))["status"] == "ok"


def test_a_full_disk_leaves_the_files_of_a_run_as_they_were(tmp_path, monkeypatch):
    (tmp_path / "run.json").write_text("before")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LogError, match=r"run.json: cannot be written \(No space left on device\). Make room"):
        write_whole(tmp_path / "run.json", b"after")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert (tmp_path / "run.json").read_text() == "before"


def test_help_is_no_configuration(capsys):
    assert main(["--help"]) == 0
    assert "CONFIG.toml [key=value ...]" in capsys.readouterr().out


def test_a_clock_that_is_set_back_gives_back_neither_time_nor_money(tmp_path, monkeypatch, data):
    now = time.time
    calls = itertools.count()
    monkeypatch.setattr(time, "time", lambda: now() - (86_400 if next(calls) > 60 else 0))
    dear = {"usd_per_hour": 1.0, "hours": 1.0, "usd": 5.0}
    for name, cap in (("free", {}), ("capped", {"cap_usd": 100.0})):
        result = train(tiny(tmp_path / name, data, tokens=20 * 64, **dear, **cap))
        assert result["status"] == "ok" and 0 < result["wall_s"] < 600 and 0 < result["usd"] < 0.2
