"""The check for GPUs runs on a CPU in small, stops in time, and its verdicts can be negative."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "experiments" / "X1-pretraining"


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("gpu_check", FOLDER / "gpu_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(module, tmp_path):
    check = module.Check(tmp_path / "out", time.monotonic() + 1000, smoke=True)
    yield check
    check.scratch.cleanup()


def test_the_script_runs_where_there_is_no_gpu(tmp_path):
    environment = {**os.environ, "OUT": str(tmp_path), "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [FOLDER / "gpu_check.sh", "--smoke"], env=environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "gpu_check.json").read_text())
    assert found["veto"]["update_withheld"] and found["veto"]["goes_on_after"]
    assert not found["veto"]["seen_as_finite"]
    assert found["resume"]["stopped_at"] == 10 and found["resume"]["steps"] == 20
    assert found["resume"]["resumed_is_whole"] and found["resume"]["whole_is_itself"]
    speeds = [found["smoke 16"], found["smoke 32"]]
    assert [s["micro_batch"] for s in speeds] == [32, 16]  # a whole step: everything fits
    for speed in speeds:
        # 6 FLOPs for each of the parameters, without the padding of the vocabulary
        by_hand = 6 * 23_520 * speed["tokens_per_s"] / found["peak_flops"]
        assert speed["mfu_6N"] == pytest.approx(by_hand, rel=1e-9) and speed["mfu_palm"] > speed["mfu_6N"]
    table = (tmp_path / "gpu_check.md").read_text()
    assert "mean nothing" in table and table in done.stdout
    assert f"| smoke | 23,520 | 32 | 16 | {speeds[1]['tokens_per_s']:,.0f} |" in table


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with CUDA: nothing is refused")
def test_without_a_gpu_only_the_smoke_test_runs(module, tmp_path, capsys):
    assert module.main(["--out", str(tmp_path / "out"), "--seconds", "10"]) == 2
    assert "no CUDA device" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_shapes_are_those_that_are_named(module):
    for name, total in (("48M", 48_284_672), ("124M", 123_551_232)):
        arch = module.Config(run_dir="", train_data="", val_data="", tokens=1e9, **module.SHAPES[name]).arch(
            module.VOCAB
        )
        assert arch.params("total") == total


def test_an_update_that_is_not_withheld_is_found(module, check, monkeypatch):
    real = module.Loop.update

    def unguarded(self, batch, step):
        signals = real(self, batch, step)
        with torch.no_grad():
            self.params[0].add_(1e-3)
        return signals

    monkeypatch.setattr(module.Loop, "update", unguarded)
    assert check.veto()["update_withheld"] is False


def test_a_resume_that_loses_something_is_found(check, monkeypatch):
    monkeypatch.setattr("reference_trainer.checkpoint.restore_optimizer", lambda *_: None)
    found = check.resume()
    assert found["whole_is_itself"] and not found["resumed_is_whole"]
    assert found["differ_by"]["resumed"]["weights"] > 0


def test_the_largest_micro_batch_is_found_by_trying(module, check, monkeypatch):
    monkeypatch.setattr(check, "fits", lambda shape, seq_len, micro: micro <= 8)
    tried = []

    def measure(name, seq_len, micro):
        tried.append(micro)
        if micro > 2:
            raise torch.OutOfMemoryError
        return micro

    monkeypatch.setattr(check, "measure", measure)
    assert check.speed("smoke", 16) == 2 and tried == [8, 4, 2]
    with pytest.raises(MemoryError, match="not one sequence"):
        module.largest([4, 2, 1], lambda micro: False)


def test_what_fails_or_has_no_time_left_is_written_down(module, tmp_path, monkeypatch):
    check = module.Check(tmp_path / "out", time.monotonic() + 50, smoke=True)
    check.part("short", 1, lambda: 1 / 0)
    check.part("long", 90, lambda: pytest.fail("no time for that"))
    check.scratch.cleanup()
    found = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    assert found["short"] == {"failed": "ZeroDivisionError: division by zero"}
    assert "90 s may be needed" in found["long"]["left out"]
