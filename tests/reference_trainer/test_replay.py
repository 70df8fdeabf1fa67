"""Suspected batches are read again: sound weights and the order of the data say whether they are unusual."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from reference_trainer import checkpoint
from reference_trainer.errors import CheckpointError
from reference_trainer.metrics import read_log
from reference_trainer.replay import replay
from reference_trainer.train import train
from tests.reference_trainer.tiny_runs import tiny, write_data

#: Batches 24 and 25 are one token over and over; the weights of step 25 have not seen the first of them.
HURT = dict(
    inject="repeat_token@24x2; random_labels@30x2", checkpoint_every=24, keep=9, dropout=0.0, z_loss=0.0
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    config = tiny(folder / "run", write_data(folder), **HURT)
    train(config)
    return config


def test_a_replay_gives_the_numbers_of_the_run(run):
    """At the step of the checkpoint nothing but the clip lies between the log and the replay."""
    found = replay(run.run_dir, first_step=25, batches=(24, 24))
    row = next(r for r in read_log(f"{run.run_dir}/log.jsonl") if r["kind"] == "step" and r["step"] == 25)
    assert (found.checkpoint_step, found.before) == (24, True)
    assert found.suspected[0].loss == pytest.approx(row["loss"], rel=1e-5)
    assert found.suspected[0].grad_norm == pytest.approx(row["grad_norm"], rel=1e-4)
    assert len(found.suspected[0].activations) == run.layers


def test_a_repeated_token_is_named(run):
    found = replay(run.run_dir, first_step=25, batches=(24, 25))
    assert [r.batch for r in found.suspected] == [24, 25] and [r.batch for r in found.usual] == [21, 22]
    assert found.tokens[0].suspected == 1.0 and found.tokens[0].corpus < 0.2
    assert found.divergence > 10 * found.usual_divergence and "unusual by themselves" in found.verdict()


def test_wrong_targets_show_in_the_losses_and_not_in_the_tokens(run):
    found = replay(run.run_dir, first_step=31, batches=(30, 31))
    assert min(r.loss for r in found.suspected) > max(r.loss for r in found.usual)
    assert found.divergence < 2 * found.usual_divergence + 0.1 and not found.tokens
    assert min(r.above for r in found.suspected) > 0.02  # of usual ones one in a hundred


def test_sound_batches_are_not_blamed(run):
    found = replay(run.run_dir, first_step=36, batches=(33, 36))
    assert "Either the data are sound" in found.verdict()


def test_a_report_is_plain_and_whole(run):
    found = replay(run.run_dir, first_step=25, batches=(24, 25))
    json.dumps(found.to_dict())
    page = found.markdown()
    assert "| 24 **suspected** |" in page and "weights of step 24 (before the first evidence)" in page
    assert not any(line.startswith("#") for line in page.splitlines())


def test_without_an_old_checkpoint_it_says_so(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run.run_dir, copy)
    for step in checkpoint.steps(copy / "checkpoints")[:-1]:
        shutil.rmtree(checkpoint.at(copy / "checkpoints", step))
    found = replay(copy, first_step=25, batches=(24, 24))
    assert not found.before and "after the first evidence" in found.markdown()
    shutil.rmtree(checkpoint.at(copy / "checkpoints", found.checkpoint_step))
    with pytest.raises(CheckpointError, match="nothing can be replayed"):
        replay(copy, first_step=25, batches=(24, 24))


def test_a_replay_reads_at_most_what_it_is_told(run):
    found = replay(run.run_dir, first_step=25, batches=(20, 39), most=3)
    assert [r.batch for r in found.suspected] == [20, 29, 39]
    assert np.isfinite([r.loss for r in found.suspected]).all()


def test_a_post_mortem_shows_the_replay(tmp_path, capsys):
    """One command: the spike of a run, with what its batches were."""
    from reference_trainer.__main__ import app

    config = tiny(
        tmp_path / "run",
        write_data(tmp_path),
        tokens=170 * 64,
        inject="random_labels@120x8",
        checkpoint_every=100,
    )
    train(config)
    page = tmp_path / "page.md"
    assert app(
        ["postmortem", config.run_dir, "--spike", "1", "--replay", "--out", str(page)], standalone_mode=False
    ) in (0, 1)
    text = page.read_text()
    assert "Batches 120 to " in text and "weights of step 100 (before the first evidence)" in text
    assert "unusual by themselves" in text and "nothing was replayed" not in text
    log = tmp_path / "other.csv"
    log.write_text("step,loss\n" + "".join(f"{i},{3 + 0.01 * (i % 3) + 2 * (i > 150)}\n" for i in range(300)))
    assert app(["postmortem", str(log), "--replay", "--out", str(page)], standalone_mode=False) == 2
    assert "nothing can be replayed" in capsys.readouterr().err
