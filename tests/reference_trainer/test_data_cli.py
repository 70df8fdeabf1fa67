"""The command: what it makes, what it says, and its exit codes; the rates it holds against the need."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reference_trainer.data import cli
from reference_trainer.data.order import Batches
from reference_trainer.data.prepared import Progress, open_prepared
from reference_trainer.data.rates import Supply, reading_rate

ROOT = Path(__file__).parents[2]
RUNNER = CliRunner()


def data(*words: object):
    return RUNNER.invoke(cli.app, [str(w) for w in words])


@pytest.fixture
def arguments(settings):
    source = settings.source
    return [source.path, "--name", source.name, "--tokenizer", "bytes", "--val-share", "10%", "--seq-len", 64]


def test_prepare_then_check(arguments, tmp_path):
    out = tmp_path / "out"
    done = data("prepare", arguments[0], out, *arguments[1:], "--shard-tokens", "20k", "--needs", "1k")
    assert done.exit_code == 0, done.output
    for part in (
        "train ",
        "val ",
        "bytes/token",
        "uint8",
        "40 duplicate",
        "25 rejected",
        "needed     1K tokens/s",
    ):
        assert part in done.stdout
    assert "gopher.word_count: 25 failed" in done.stdout
    assert "unused     the data set has a score of its own: --score int_score" in done.stdout
    assert "preparing" in done.stdout and "times what is needed" in done.stdout

    checked = data("check", out, "--seq-len", 64, "--json")
    assert checked.exit_code == 0, checked.output
    document = json.loads(checked.stdout)
    assert document["documents"]["duplicate"] == 40
    assert document["tokens_per_s"]["preparing"] is None
    assert document["tokens_per_s"]["reading"] > 1000

    slow = data("check", out, "--seq-len", 64, "--needs", "1000T")
    assert slow.exit_code == 1
    assert "wait for its batches" in slow.stderr

    shard = out / "train" / "00000.tokens"
    raw = bytearray(shard.read_bytes())
    raw[-1] ^= 1
    shard.write_bytes(raw)
    damaged = data("check", out, "--seq-len", 64)
    assert damaged.exit_code == 2
    assert "00000.tokens is damaged" in damaged.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unit", "word"], "--unit = 'word': give line, paragraph or document"),
        (["--min-score", 3], "needs both its column (--score) and the least value kept (--min-score)"),
        (["--rules", "gopher,x"], "there is no rule set 'x'"),
        (["--train-tokens", "many"], "'many' is not a number"),
        (["--train-tokens", "nan"], "--train-tokens = nan: give a finite number"),
        (["--shard-tokens", "inf"], "--shard-tokens = inf: give a finite number"),
        (["--val-share", 2], "--val-share must lie between 0 and 1"),
        (["--val-share", "150%"], "--val-share must lie between 0 and 1"),
    ],
)
def test_bad_input_is_exit_2(arguments, tmp_path, words, message):
    done = data("prepare", arguments[0], tmp_path / "out", *arguments[1:], *words)
    assert done.exit_code == 2
    assert message in done.stderr.replace("\n", " ")
    assert not (tmp_path / "out.work").exists()


def test_module_runs_and_help_is_light():
    heavy = ["torch", "datasets", "transformers", "pandas", "pyarrow"]
    code = (
        "import sys, runpy; sys.argv = ['x', '--help']\n"
        "try: runpy.run_module('reference_trainer.data', run_name='__main__')\n"
        f"except SystemExit as end: print('CODE', end.code, *set({heavy}) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "prepare" in done.stdout
    assert done.stdout.strip().endswith("CODE 0"), done.stderr


def test_reading_rate_is_what_it_takes(arguments, tmp_path, monkeypatch):
    """A reader that is made to wait 10 ms a batch of 512 tokens reads 51,200 tokens/s, or a little less."""
    assert data("prepare", arguments[0], tmp_path / "out", *arguments[1:]).exit_code == 0
    train = open_prepared(tmp_path / "out").train
    real = Batches.__call__

    def slow(self, step):
        time.sleep(0.01)
        return real(self, step)

    monkeypatch.setattr(Batches, "__call__", slow)
    assert 20_000 < reading_rate(train, seq_len=64, batch_seqs=8, seconds=0.2) <= 51_200


def test_supply():
    supply = Supply(reading=2e6, preparing=250e3, needed=500e3)
    assert supply.suffices
    assert str(supply).split("\n") == [
        "reading    2M tokens/s, 4 times what is needed",
        "preparing  250K tokens/s, 0.5 times what is needed",
        "needed     500K tokens/s",
    ]
    assert not Supply(reading=4e5, preparing=None, needed=5e5).suffices
    assert str(Supply(reading=4e5, preparing=None, needed=None)) == "reading    400K tokens/s"


def test_progress_is_shown(monkeypatch, capsys):
    """A line now and then where there is no terminal, a bar where there is one."""
    monkeypatch.setattr(cli, "_LINE_EVERY_S", 0.0)
    progress = Progress(read=1200, train_tokens=3_000_000, aim=5_000_000_000, seconds=10, tokens_per_s=300e3)
    with cli._watching(progress.aim) as watch:
        watch(progress)
    line = "3M of 5B tokens from 1,200 documents, 300K tokens/s"
    assert line in capsys.readouterr().err.replace("\n", " ")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    with cli._watching(progress.aim) as watch:
        watch(progress)
    assert line in capsys.readouterr().err
