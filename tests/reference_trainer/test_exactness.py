"""A run is a function of its configuration: stopping, watching, splitting and branching change no bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reference_trainer import checkpoint
from reference_trainer.errors import ResumeError
from reference_trainer.metrics import read_log
from reference_trainer.train import Config, cooldown_start, lr_at, train
from tests.reference_trainer.tiny_runs import assert_same, interrupted, state_of, tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """The run that nobody disturbed."""
    config = tiny(tmp_path_factory.mktemp("whole") / "run", data)
    result = train(config)
    assert result["ended_by"] == "horizon" and result["steps"] == 40
    losses = [row["loss"] for row in read_log(Path(config.run_dir) / "log.jsonl") if row["kind"] == "step"]
    assert losses[-1] < losses[0] - 0.3  # it learns: what is compared below is not noise
    return config


@pytest.mark.parametrize("step", [0, 1, 9, 10, 15, 31, 32, 38, 39])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, data, whole, monkeypatch, step):
    config = tiny(tmp_path / "run", data)
    results = interrupted(monkeypatch, config, step)
    assert [r["ended_by"] for r in results] == ["SIGTERM", "horizon"]
    assert results[0]["steps"] == step + 1  # the step under way is finished
    assert_same(config.run_dir, whole.run_dir)


def test_resuming_again_and_again_changes_nothing(tmp_path, data, whole, monkeypatch):
    config = tiny(tmp_path / "run", data)
    results = interrupted(monkeypatch, config, 3, 4, 17, 33)
    assert [r["steps"] for r in results] == [4, 5, 18, 34, 40]
    assert_same(config.run_dir, whole.run_dir)
    assert train(config)["steps"] == 40  # a finished run stays finished
    assert_same(config.run_dir, whole.run_dir)


@pytest.mark.parametrize(
    "changes",
    [
        {"eval_every": 7},
        {"eval_every": 0, "eval_tokens": 64},
        {"log_every": 1},
        {"log_every": 100},
        {"checkpoint_every": 3, "keep": 1},
        {"checkpoint_at": (5, 6, 32), "probe_every": 4},
    ],
    ids=str,
)
def test_watching_a_run_does_not_change_it(tmp_path, data, whole, changes):
    config = tiny(tmp_path / "run", data, **changes)
    train(config)
    assert_same(config.run_dir, whole.run_dir, but=("log",))
    steps = [
        [row for row in read_log(Path(c.run_dir) / "log.jsonl") if row["kind"] == "step"]
        for c in (config, whole)
    ]
    assert steps[0] == steps[1]


def test_a_branch_is_the_run_made_from_scratch(tmp_path, data, whole):
    """A trunk of 4 x the tokens leaves a checkpoint at step 32; the branch cools down from it."""
    trunk = tiny(tmp_path / "trunk", data, tokens=4 * whole.tokens, checkpoint_at=(32,))
    train(trunk)
    start = checkpoint.at(Path(trunk.run_dir) / "checkpoints", 32)
    assert cooldown_start(40, whole) == 32
    branch = tiny(tmp_path / "branch", data, start_from=str(start))
    assert train(branch)["steps"] == 40
    assert_same(branch.run_dir, whole.run_dir)  # log included: it begins with the trunk's


def test_a_branch_may_be_interrupted_too(tmp_path, data, whole, monkeypatch):
    trunk = tiny(tmp_path / "trunk", data, tokens=2 * whole.tokens, checkpoint_at=(32,))
    train(trunk)
    start = str(checkpoint.at(Path(trunk.run_dir) / "checkpoints", 32))
    branch = tiny(tmp_path / "branch", data, start_from=start)
    assert [r["steps"] for r in interrupted(monkeypatch, branch, 35)] == [36, 40]
    assert_same(branch.run_dir, whole.run_dir)


def test_what_is_not_the_same_run_is_refused(tmp_path, data, whole, monkeypatch):
    config = tiny(tmp_path / "run", data)
    interrupted(monkeypatch, config, 35)
    with pytest.raises(ResumeError, match=r"lr 0\.01 -> 0\.02"):
        train(tiny(tmp_path / "run", data, lr=0.02))
    with pytest.raises(ResumeError, match="cooldown"):  # it has cooled down for the shorter horizon already
        train(tiny(tmp_path / "run", data, tokens=2 * whole.tokens))
    other = write_data_shifted(tmp_path, data)
    with pytest.raises(ResumeError, match="train_hash"):
        train(tiny(tmp_path / "run", other))


def write_data_shifted(folder: Path, data: dict[str, str]) -> dict[str, str]:
    from reference_trainer.data.shards import TokenSet, write_shard

    tokens = TokenSet.open(data["train_data"]).slice(1, 5000)
    write_shard(folder / "other.tokens", [tokens], tokenizer="none", vocab=24)
    return {**data, "train_data": str(folder / "other.tokens")}


def test_a_longer_horizon_before_the_cooldown_is_the_longer_run(tmp_path, data, whole, monkeypatch):
    short = tiny(tmp_path / "run", data, tokens=whole.tokens / 2)
    with monkeypatch.context() as patch:
        interrupted(patch, short, 10)[
            0
        ]  # the end of that list has finished; only its checkpoint at 11 counts
    for step in checkpoint.steps(Path(short.run_dir) / "checkpoints")[1:]:
        import shutil

        shutil.rmtree(checkpoint.at(Path(short.run_dir) / "checkpoints", step))
    longer = tiny(tmp_path / "run", data)
    train(longer)
    assert_same(longer.run_dir, whole.run_dir)


def test_micro_batches_add_up(tmp_path, data, whole):
    for micro in (1, 3):  # 3 does not divide 4: tokens weigh the same all the same
        config = tiny(tmp_path / f"micro{micro}", data, micro_seqs=micro, dropout=0.0)
        train(config)
    plain = tiny(tmp_path / "plain", data, dropout=0.0)
    train(plain)
    for micro in (1, 3):
        compare(tmp_path / f"micro{micro}", plain.run_dir)


def test_two_processes_are_one(tmp_path, data):
    plain = tiny(tmp_path / "plain", data, dropout=0.0)
    train(plain)
    settings = tmp_path / "run.toml"
    settings.write_text(str(tiny(tmp_path / "two", data, dropout=0.0)))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m",
         "reference_trainer.train", str(settings)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    compare(tmp_path / "two", plain.run_dir)
    rows = [[r["loss"] for r in read_log(f / "log.jsonl")] for f in (tmp_path / "two", Path(plain.run_dir))]
    torch.testing.assert_close(torch.tensor(rows[0]), torch.tensor(rows[1]), rtol=2e-4, atol=1e-4)


def compare(a, b):
    """Weights equal up to the order of sums."""
    one, other = (checkpoint.load(checkpoint.latest(Path(f) / "checkpoints")).model for f in (a, b))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=2e-4)


def test_configurations_survive_their_own_text(tmp_path, data):
    config = tiny(tmp_path / "run", data, checkpoint_at=(3, 5))
    (tmp_path / "run.toml").write_text(str(config))
    again = Config.read(tmp_path / "run.toml")
    assert again == config and again.hash() == config.hash()
    assert (
        tiny(tmp_path / "run", data, lr=1, seq_len=16.0).hash() == tiny(tmp_path / "run", data, lr=1.0).hash()
    )
    assert Config.read(tmp_path / "run.toml", "tokens=1.5M", "lr=2e-3").tokens == 1_500_000


def test_learning_rate_is_a_function_of_the_step(tmp_path, data):
    config = tiny(tmp_path / "run", data, warmup_tokens=4 * 64, lr=1.0)
    rates = [lr_at(step, 40, config) for step in range(40)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[31] == 1.0 and rates[32:] == pytest.approx([k / 9 for k in range(8, 0, -1)])
    assert [lr_at(step, 400, config) for step in range(32)] == rates[:32]


def test_state_of_sees_a_single_bit(tmp_path, data, whole):
    """The comparison above can fail: another seed differs in every tensor."""
    other = tiny(tmp_path / "other", data, seed=1)
    train(other)
    one, two = state_of(whole.run_dir), state_of(other.run_dir)
    assert all(one[k] != two[k] for k in one if k.endswith(("weight", "exp_avg")) and "optim" in k)
