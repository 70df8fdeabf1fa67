"""What `quantize` cannot do is refused in words before anything is measured, and nothing is left behind."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

from reference_trainer import checkpoint
from reference_trainer.checkpoint_files import describe_file, seal
from reference_trainer.cli.app import app
from reference_trainer.errors import CheckpointError, ConfigError, QuantizeError, SpaceError
from reference_trainer.quantized import comparison, place
from reference_trainer.quantized.comparison import compare
from reference_trainer.quantized.trained import read_trained
from reference_trainer.train import train
from tests.reference_trainer.tiny_runs import tiny, write_data

FAST = dict(rounds=3, batches=(1,))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    train(tiny(folder / "run", write_data(folder), tokens=10 * 64, warmup_tokens=64, d_model=48, d_ff=64))
    return folder


@pytest.fixture
def copy(run, tmp_path):
    """A checkpoint of one's own, and a way to change its manifest and seal it again."""
    path = tmp_path / "step_00000010"
    shutil.copytree(checkpoint.latest(run / "run" / "checkpoints"), path)

    def change(**settings):
        manifest = json.loads((path / "manifest.json").read_text())
        del manifest["sha256"]
        manifest["config"] |= settings
        manifest["files"]["model.safetensors"] = describe_file(path / "model.safetensors")
        (path / "manifest.json").write_text(json.dumps(seal(manifest)))
        return path

    return path, change


def test_another_model_is_named_by_what_differs(copy):
    path, change = copy
    with pytest.raises(CheckpointError) as caught:
        read_trained(change(layers=3))
    assert str(caught.value) == (
        f"{path}: the weights are those of another model: blocks.2.norm1.weight is missing; blocks.2.norm2.weight is "
        "missing; blocks.2.q.weight is missing; and 8 more"
    )
    with pytest.raises(CheckpointError, match=r"embed.weight is \(24, 48\) instead of \(24, 96\); .* more$"):
        read_trained(change(layers=2, d_model=96))
    with pytest.raises(CheckpointError, match=r"no checkpoint of the trainer .*'novel'"):
        read_trained(change(novel=1))


@pytest.mark.parametrize("size", [0, 7, 1000])
def test_a_truncated_file_is_no_model(run, copy, tmp_path, size):
    path, change = copy
    with open(path / "model.safetensors", "r+b") as file:
        file.truncate(size)
    with pytest.raises(CheckpointError, match=rf"model.safetensors has {size:,} bytes instead of"):
        compare(path, run / "val.tokens", out=tmp_path / "out", **FAST)
    with pytest.raises(
        CheckpointError, match=r"model.safetensors cannot be read|no checkpoint of the trainer"
    ):
        compare(
            change(), run / "val.tokens", out=tmp_path / "out", **FAST
        )  # whoever wrote it believed it whole
    assert not (tmp_path / "out").exists()


def test_arguments_are_refused_before_anything_is_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "read_trained", None)  # nor is anything read
    val, out = run / "val.tokens", tmp_path / "out"
    for wrong in ({"rounds": 2}, {"names": ["int3"]}, {"names": ["3"]}, {"names": ["int8", "INT8"]}):
        with pytest.raises(QuantizeError):
            compare(run / "run", val, out=out, **wrong)
    assert not out.exists()


def test_a_device_that_does_not_exist_is_not_the_cpu(run):
    with pytest.raises(ConfigError, match="device = 'tpu': give auto, cpu or cuda"):
        compare(run / "run", run / "val.tokens", device="tpu", **FAST)


def test_more_sequences_than_memory_leave_nothing_behind(run, tmp_path):
    with pytest.raises(QuantizeError, match="batch = 1,000,000,000,000"):
        compare(run / "run", run / "val.tokens", out=tmp_path / "out", rounds=3, batches=(10**12,))
    assert not (tmp_path / "out").exists()


def test_places_that_cannot_take_models(run, tmp_path, monkeypatch):
    def refused(out, says, kind=QuantizeError):
        with pytest.raises(kind, match=says):
            compare(run / "run", run / "val.tokens", out=out, **FAST)

    (tmp_path / "file").write_text("mine")
    refused(tmp_path / "file", "file is no folder")
    refused(tmp_path / "file" / "deeper", "file is no folder")
    (tmp_path / "out" / "int4-g32").mkdir(parents=True)
    refused(tmp_path / "out", "int4-g32 is there and holds no quantized model")
    assert [p.name for p in (tmp_path / "out").iterdir()] == [
        "int4-g32"
    ]  # the other three were not written either
    refused(checkpoint.latest(run / "run" / "checkpoints"), "is a checkpoint or a model itself")
    monkeypatch.setattr(place.os, "access", lambda path, mode: False)
    refused(tmp_path / "new", "must not be written")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_seen_first(run, tmp_path, monkeypatch):
    """Four models of 33,696 weights in 8 and 4 bits are about 100 kB."""
    monkeypatch.setattr(
        place.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 20, 0, 100_000)
    )
    with pytest.raises(SpaceError, match="for 4 models and 100,000 are free; nothing was written") as caught:
        compare(run / "run", run / "val.tokens", out=tmp_path / "out", **FAST)
    assert caught.value.free == 100_000 < caught.value.needed < 500_000
    assert list(tmp_path.iterdir()) == []


def test_twice_is_once_and_a_quantized_model_is_no_checkpoint(run, tmp_path):
    words = ["quantize", str(run / "run"), "--data", str(run / "val.tokens"), "--rounds", "3", "--batch", "1",
             "--scheme", "int8", "-o", str(tmp_path / "out")]  # fmt: skip
    for _ in range(2):
        assert CliRunner().invoke(app, words).exit_code == 0
        assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
            "comparison.csv",
            "comparison.json",
            "int8",
        ]
    words[1] = str(tmp_path / "out" / "int8")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and "holds a model in int8 already" in done.stderr
