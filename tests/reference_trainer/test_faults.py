"""What happens to a run when something breaks: nothing is lost beyond the last checkpoint, and it says what."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from reference_trainer import checkpoint
from reference_trainer.data.order import Batches
from reference_trainer.data.shards import TokenSet
from reference_trainer.errors import CheckpointWarning, ConfigError, ResumeError
from reference_trainer.run_folder import RunFolder
from reference_trainer.train import Config, Decoder, cooldown_start, main, train
from scaling.errors import DataError
from tests.reference_trainer.tiny_runs import assert_same, rows, tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    config = tiny(tmp_path_factory.mktemp("whole") / "run", data)
    train(config)
    return config


def killed(config, after_s):
    """Train in a process of its own and kill it; whether it was still running."""
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            train(config)
            os._exit(0)
        finally:
            os._exit(1)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments_changes_nothing(tmp_path, data, whole, kills):
    """Checkpoints every 2 steps: a kill often falls into a save."""
    config = tiny(tmp_path / "run", data, checkpoint_every=2)
    moments, hit = random.Random(kills), 0
    while hit < kills:
        hit += killed(config, moments.uniform(0.1, 0.6))
        if (tmp_path / "run" / "result.json").exists():  # it came to its end: kill another one
            assert_same(config.run_dir, whole.run_dir)
            shutil.rmtree(config.run_dir)
    assert train(config)["steps"] == 40
    assert_same(config.run_dir, whole.run_dir)


def test_sigterm_during_an_evaluation(tmp_path, data, whole, monkeypatch):
    config = tiny(tmp_path / "run", data)
    with monkeypatch.context() as patch:
        real = TokenSet.slice

        def stopping(self, start, stop):
            if stop - start > 17:  # an evaluation's block; a training window has 17 tokens
                signal.raise_signal(signal.SIGTERM)
            return real(self, start, stop)

        patch.setattr(TokenSet, "slice", stopping)
        result = train(config)
    assert (result["ended_by"], result["steps"], result["status"]) == ("SIGTERM", 15, "truncated")
    assert rows(config, "eval") == []
    train(config)
    assert_same(config.run_dir, whole.run_dir)


def test_a_damaged_checkpoint_is_passed_over(tmp_path, data, whole, monkeypatch):
    config = tiny(tmp_path / "run", data, checkpoint_every=10, keep=3)
    train(config)
    newest = checkpoint.latest(Path(config.run_dir) / "checkpoints") / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[-100] ^= 4
    newest.write_bytes(bytes(content))
    with pytest.warns(CheckpointWarning, match=r"step_00000040.*model\.safetensors"):
        assert train(config)["steps"] == 40
    assert_same(config.run_dir, whole.run_dir)


def test_a_truncated_shard_is_refused(tmp_path, data):
    short = tmp_path / "train.tokens"
    short.write_bytes(Path(data["train_data"]).read_bytes()[:-10])
    with pytest.raises(DataError, match=r"train\.tokens.*bytes"):
        train(tiny(tmp_path / "run", {**data, "train_data": str(short)}))
    assert not (tmp_path / "run").exists()


def poisoned(monkeypatch, steps):
    """Make the loss of the given steps NaN, as an overflow in a forward pass would."""
    real, calls = Decoder.forward, [0]

    def forward(self, tokens, targets, probe=None):
        loss, z = real(self, tokens, targets, probe)
        if self.training:
            calls[0] += 1
            if calls[0] in steps:
                loss = loss * float("nan")
        return loss, z

    monkeypatch.setattr(Decoder, "forward", forward)


def test_an_update_that_is_not_finite_is_withheld(tmp_path, data, monkeypatch):
    config = tiny(tmp_path / "run", data, checkpoint_every=1, keep=100, log_every=7)
    poisoned(monkeypatch, {12})
    assert train(config)["status"] == "ok"
    steps = rows(config, "step")
    assert [row["step"] for row in steps if not row["finite"]] == [12]
    assert steps[11]["update_norm"] == 0 and all(row["update_norm"] > 0 for row in steps[:11] + steps[12:])
    before, after = (
        checkpoint.load(checkpoint.at(Path(config.run_dir) / "checkpoints", s)) for s in (11, 12)
    )
    for part in ("model", "optimizer"):
        for name, tensor in getattr(before, part).items():
            assert torch.equal(tensor, getattr(after, part)[name]), name


def test_a_run_that_yields_nothing_finite_ends(tmp_path, data, monkeypatch):
    config = tiny(tmp_path / "run", data, tokens=200 * 64)
    poisoned(monkeypatch, range(30, 1000))
    result = train(config)
    assert (result["ended_by"], result["status"]) == ("not finite", "failed")
    assert 79 <= result["steps"] <= 90  # 50 in a row, seen when the ring is read


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, data, whole, capsys):
    """A file system of 512 KiB, on which an own file grows until a save does not fit any more."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("NOT TESTED: this user may not mount a tmpfs")
    try:
        settings = tmp_path / "run.toml"
        config = tiny(small / "run", data, checkpoint_every=5, keep=1)
        settings.write_text(str(config))
        interrupted_at = 12
        with pytest.MonkeyPatch.context() as patch:
            interrupted_run(patch, config, interrupted_at)
        (small / "other").write_bytes(b"x" * 300_000)
        assert main([str(settings)]) == 1, capsys.readouterr().err
        assert "bytes are needed" in capsys.readouterr().err
        assert checkpoint.latest(small / "run" / "checkpoints").name == f"step_{interrupted_at + 1:08d}"
        (small / "other").unlink()
        assert main([str(settings)]) == 0, capsys.readouterr().err
        assert_same(config.run_dir, whole.run_dir)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def interrupted_run(patch, config, step):
    """Train up to a SIGTERM inside a step."""
    real = Batches.__call__

    def stopping(self, at):
        if at == step:
            signal.raise_signal(signal.SIGTERM)
        return real(self, at)

    patch.setattr(Batches, "__call__", stopping)
    assert train(config)["ended_by"] == "SIGTERM"


def test_one_writer_a_folder(tmp_path, data):
    config = tiny(tmp_path / "run", data)
    with RunFolder(config.run_dir), pytest.raises(ResumeError, match="another process"):
        train(config)


def test_an_unreachable_server_stops_nothing(tmp_path, data, whole, capfd):
    config = tiny(tmp_path / "run", data, mlflow="http://127.0.0.1:9")
    begin = time.monotonic()
    assert train(config)["status"] == "ok"
    assert time.monotonic() - begin < 12
    assert_same(config.run_dir, whole.run_dir)
    assert "mlflow" in capfd.readouterr().err


def test_exit_statuses(tmp_path, data, seconds, capsys):
    settings = tmp_path / "run.toml"
    settings.write_text(str(tiny(tmp_path / "run", data)))
    capped = [str(settings), "cap_usd=140", "usd_per_hour=3600", "max_step_s=1"]
    assert main(capped) == 75  # stopped on the way
    assert main(capped) == 75  # refused at the start
    assert main([str(settings), "leyers=3"]) == main([]) == main([str(tmp_path / "none.toml")]) == 2
    assert main([str(settings)]) == 0
    out, err = capsys.readouterr()
    assert "hash = " in out and "horizon after step 40" in out
    assert "the same command goes on" in out and "budget: " in err and "did you mean layers" in err
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "ok"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("leyers=2", "did you mean layers"),
        ("layers=2.5", "layers is a whole number"),
        ("tokens=many", "tokens is a number"),
        ("lr", "write key=value"),
        ("lr=0", "lr must be above 0"),
        ("dropout=1", "below 1"),
        ("heads=5", "heads"),
        ("tokens=10", "less than one step"),
        ("vocab=3", "24 tokens"),
        ("seq_len=1000 batch_seqs=1", "window"),
        ("attention=flash", "flash-attn"),
        ("cap_usd=5", "usd_per_hour"),
        ("usd=5", "usd_per_hour"),
        ("batch_seqs=0", "batch_seqs"),
        ("mlflow=runs", "sqlite"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, data, text, says):
    settings = tmp_path / "run.toml"
    settings.write_text(str(tiny(tmp_path / "run", data)))
    with pytest.raises((ConfigError, DataError), match=says):
        train(Config.read(settings, *text.split()))


def test_the_horizon_of_a_run_is_needed(tmp_path, data):
    with pytest.raises(ConfigError, match="tokens, hours or usd"):
        tiny(tmp_path / "run", data, tokens=float("inf"))
    assert cooldown_start(float("inf"), tiny(tmp_path / "run", data)) == float("inf")
