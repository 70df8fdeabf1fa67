"""A finished run put down: the manifest says what ran, the weights are those of the run, the curve is the log's."""

from __future__ import annotations

import csv
import json

import pytest
from safetensors.torch import load_file

from experiments.x1 import longest
from reference_trainer.checkpoint_files import verify
from reference_trainer.train import train
from tests.reference_trainer.tiny_runs import tiny, write_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("longest")
    config = tiny(folder / "run", write_data(folder), usd_per_hour=0.05, cap_usd=1.0, log_every=5)
    train(config)
    return folder / "run", config


def test_what_is_put_down(run, tmp_path):
    folder, config = run
    files = {path.name for path in longest.put_down(folder, tmp_path)}
    assert files == {"manifest.json", "loss-curve.csv", "loss-curve.png", "model.safetensors"}
    said = json.loads((tmp_path / "manifest.json").read_text())
    result = json.loads((folder / "result.json").read_text())
    assert (
        said["seed"] == 0
        and said["config_hash"] == config.hash()
        and said["result"]["loss"] == result["loss"]
    )
    assert (
        said["speed"]["mfu_6N"]["p10"]
        <= said["speed"]["mfu_6N"]["median"]
        < said["speed"]["mfu_palm"]["median"]
    )
    assert said["config"]["run_dir"] == "run" and said["torch"] and said["machine"]
    assert said["checkpoint"]["step"] == 40 and said["usd"] == result["usd"] > 0
    kept = load_file(tmp_path / "checkpoint" / "model.safetensors")
    sealed = verify(tmp_path / "checkpoint", weights_only=True)
    assert sealed["config"]["run_dir"] == "run" and "observer" not in sealed
    assert sum(x.numel() for x in kept.values()) == said["params_total"]
    rows = list(csv.DictReader((tmp_path / "loss-curve.csv").read_text().splitlines()))
    assert len(rows) == 40 and int(rows[-1]["tokens"]) == result["tokens"]
    assert float(rows[-1]["validation"]) == result["loss"]


def test_stretches_are_means():
    log = [{"kind": "step", "step": i + 1, "loss": float(i)} for i in range(800)]
    points = longest.curve([*log, {"kind": "eval", "step": 4, "loss": 9.0}], 10)
    assert len(points) == 400 and points[1] == {"tokens": 40, "loss": 2.5, "validation": 9.0}
    assert points[0]["validation"] == ""


def test_a_run_that_is_none_is_refused(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("run.json", "result.json"):
        content = json.loads((run[0] / name).read_text())
        (folder / name).write_text(json.dumps(content | {"status": "truncated"}))
    with pytest.raises(ValueError, match="truncated"):
        longest.put_down(folder, tmp_path)
    assert not (tmp_path / "manifest.json").exists()
