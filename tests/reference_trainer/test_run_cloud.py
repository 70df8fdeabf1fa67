"""The cloud run: SkyPilot can read it, its commands exist, and machines that are taken away lose nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from economics.hardware import gpu
from reference_trainer import checkpoint
from reference_trainer.metrics import read_log
from reference_trainer.train import Config, train
from scaling.flops import flops_per_token
from tests.reference_trainer.tiny_runs import assert_same, tiny, write_data

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "X1-pretraining" / "run-cloud"


# ------------------------------------------------------------------------------------------- the files


def documents() -> list[dict]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((FOLDER / "sky.yaml").read_text()))


def a100() -> Config:
    return Config.read(FOLDER / "a100.toml")


def test_the_configuration_is_the_run_of_the_plan():
    config = a100()
    assert config.arch(50_257).params("total") == 48_284_672 + 512 * (50_304 - 50_257)
    assert config.step_tokens == 524_288 and round(config.tokens / config.step_tokens) == 9537
    # the comment's arithmetic: the rate of DeepSeek LLM, and the interval of Young
    compute = 6 * 48.3e6 * 5e9
    assert (
        0.3118 * compute**-0.125 == pytest.approx(1.7e-3, rel=0.03) and 0.8 * config.lr < 1.7e-3 < config.lr
    )
    steps = (2 * 5 * 3.24 * 3600) ** 0.5 * 350e3 / config.step_tokens
    assert steps == pytest.approx(228, abs=1) and 0.8 < config.checkpoint_every / steps < 1.25
    for step, tokens in zip(config.checkpoint_at, (1e9, 2e9), strict=True):
        total = round(tokens / config.step_tokens)
        assert step <= total - round(config.cooldown * total) and step > 0.79 * total
    # at the speed that the plan states the money is enough, and that speed is possible
    hours = config.tokens / 350e3 / 3600
    assert hours * config.usd_per_hour < 0.6 * config.cap_usd
    mfu = 350e3 * flops_per_token(config.arch(0), "palm", seq_len=1024) / gpu("A100 SXM 80GB").peak("bf16")
    assert mfu == pytest.approx(0.38, abs=0.01)


def test_the_task_has_what_it_needs():
    head, data, run = documents()
    assert set(head) == {"name"}
    for task in (data, run):
        assert set(task) == {"name", "workdir", "envs", "secrets", "resources", "setup", "run"}
        assert task["resources"]["autostop"] == {"idle_minutes": 10, "down": True}
        for name in re.findall(r"\S+\.(?:sh|txt|toml)\b", task["setup"] + task["run"]):
            assert (ROOT / name).is_file(), name
        scripts = re.findall(r"\S+\.sh\b", task["run"])
        assert scripts and all(os.access(ROOT / script, os.X_OK) for script in scripts)
        assert "BUCKET" in task["envs"]
    assert "accelerators" not in data["resources"]
    recovery = run["resources"]["job_recovery"]
    assert recovery == {
        "max_restarts_on_errors": 0,
        "recover_on_exit_codes": [143],
    }  # 75 is tried again by people
    choices = run["resources"]["ordered"]
    assert [c["infra"] for c in choices] == ["runpod"] * 4 + ["lambda"]
    assert all(re.fullmatch(r"A100(-80GB(-SXM)?)?:1", c["accelerators"]) for c in choices)
    assert [c["use_spot"] for c in choices] == [True, True, False, False, False]
    assert "file_mounts" not in run  # SkyPilot cannot mount buckets on RunPod
    # the cap holds on the dearest machine that may be rented
    config = Config.read(FOLDER / "a100.toml", f"cap_usd={run['envs']['CAP_USD']}")
    assert config.usd_per_hour >= run["resources"]["max_hourly_cost"] and config.cap_usd == 15
    # an idle machine is given back before it is taken for gone; two minutes for the last copy of its journal
    assert config.gone_after_s >= 60 * run["resources"]["autostop"]["idle_minutes"] + 120


@pytest.mark.skypilot
def test_skypilot_reads_the_task():
    """With the parser of SkyPilot itself, where it is installed: PYTHON_WITH_SKYPILOT names an interpreter with it."""
    python = os.environ.get("PYTHON_WITH_SKYPILOT", "")
    if not python and importlib.util.find_spec("sky") is None:
        pytest.skip("skypilot is not installed, and PYTHON_WITH_SKYPILOT names no interpreter that has it")
    code = """
import sys, tempfile, yaml, sky
from sky.utils import dag_utils
path = sys.argv[1]
dag = dag_utils.load_chain_dag_from_yaml(path)
assert dag.name == "x1" and [t.name for t in dag.tasks] == ["x1-data", "x1-train"], dag
for document in list(yaml.safe_load_all(open(path)))[1:]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(document, file)
        file.flush()
        task = sky.Task.from_yaml(file.name)
resources = task.resources
assert isinstance(resources, list) and len(resources) == 5  # in order
for found in resources:
    assert found.max_hourly_cost == 2.0 and found.autostop_config.down
    assert found.job_recovery["recover_on_exit_codes"] == [143] and found.job_recovery["max_restarts_on_errors"] == 0
assert [r.use_spot for r in resources] == [True, True, False, False, False]
# what the choices rest on: RunPod cannot mount buckets, Lambda has no spot, and neither is asked for what it lacks
feature = sky.clouds.CloudImplementationFeatures
assert not task.get_required_cloud_features()
assert feature.STORAGE_MOUNTING in sky.clouds.RunPod._CLOUD_UNSUPPORTED_FEATURES
assert feature.SPOT_INSTANCE in sky.clouds.Lambda._CLOUD_UNSUPPORTED_FEATURES
print("read by", sky.__version__)
"""
    done = subprocess.run(
        [python or sys.executable, "-c", code, str(FOLDER / "sky.yaml")], cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "read by" in done.stdout, done.stderr[-3000:]


# ------------------------------------------------------------------------------------------- the scripts, for real


class Cloud:
    """Machines one after the other, each with an empty disk, and a bucket that stays."""

    def __init__(self, folder: Path, bucket: str, path: str, config: Path) -> None:
        self.folder, self.bucket, self.count = folder, bucket, 0
        (folder / "bin").mkdir(exist_ok=True)
        link = folder / "bin" / "python"
        if not link.exists():
            link.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            link.chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{folder / 'bin'}:{path}", "BUCKET": bucket, "CONFIG": str(config), "EVERY": "0.2",
            "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    @property
    def disk(self) -> Path:
        return self.folder / f"machine-{self.count}"

    def start(self, *overrides: str) -> subprocess.Popen:
        self.count += 1
        self.disk.mkdir()
        there = {**self.environment, "HOME": str(self.disk)}
        return subprocess.Popen(
            [FOLDER / "train.sh", *overrides], cwd=self.disk, env=there, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def wait_for(self, pattern: str, machine: subprocess.Popen) -> None:
        end = time.monotonic() + 240
        while not any(Path(self.bucket).glob(pattern)):
            assert time.monotonic() < end and machine.poll() is None, machine.stderr and machine.stderr.read()
            time.sleep(0.02)


@pytest.fixture
def cloud(tmp_path):
    """A bucket with data in it and a small configuration."""
    bucket = tmp_path / "bucket"
    paths = write_data(tmp_path)
    for name in ("train", "val"):
        (bucket / "data" / name).mkdir(parents=True)
        shutil.copy(paths[f"{name}_data"], bucket / "data" / name)
    (bucket / "data" / "manifest.json").write_text("{}")
    config = tmp_path / "tiny.toml"
    money = dict(cap_usd=50.0, usd_per_hour=1.0, mlflow="")
    config.write_text(str(tiny(tmp_path / "elsewhere", paths, checkpoint_every=4, eval_every=0, **money)))
    return Cloud(tmp_path, str(bucket), os.environ["PATH"], config)


def test_a_run_outlives_its_machines(cloud, tmp_path):
    """Killed with its disk as soon as the bucket has a checkpoint; the next machine goes on; equal to the whole run."""
    first = cloud.start("tokens=400_000")  # longer than it will live
    cloud.wait_for("run/checkpoints/step_*/manifest.json", first)  # which one: that depends on the pace
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    first.stderr.close()
    gone = cloud.disk
    kept = checkpoint.latest(Path(cloud.bucket) / "run" / "checkpoints")
    assert kept is not None and not list((Path(cloud.bucket) / "run").glob("*lock*"))
    shutil.rmtree(gone)
    config = tiny(tmp_path / "whole", write_data(tmp_path), checkpoint_every=4, eval_every=0, mlflow="")
    tokens = (checkpoint.load(kept).step * 5 // 4 + 2) * config.step_tokens  # it has not cooled down by then
    second = cloud.start(f"tokens={tokens}")
    _, said = second.communicate(timeout=300)
    assert second.returncode == 0, said
    whole = tiny(
        tmp_path / "whole", write_data(tmp_path), checkpoint_every=4, eval_every=0, mlflow="", tokens=tokens
    )
    train(whole)
    assert_same(Path(cloud.bucket) / "run", whole.run_dir)
    assert_same(cloud.disk / "x1" / "run", whole.run_dir)
    steps = [
        row["step"] for row in read_log(Path(cloud.bucket) / "run" / "log.jsonl") if row["kind"] == "step"
    ]
    assert steps == list(range(1, tokens // config.step_tokens + 1))


def test_a_warning_before_the_machine_goes_loses_no_step(cloud):
    """SIGTERM: the step is finished, saved, copied, and the status is the one that SkyPilot recovers from."""
    machine = cloud.start("tokens=400_000", "checkpoint_every=1000")
    cloud.wait_for("run/log.jsonl", machine)
    machine.send_signal(signal.SIGTERM)
    _, said = machine.communicate(timeout=240)
    assert machine.returncode == 143, said
    kept = checkpoint.latest(Path(cloud.bucket) / "run" / "checkpoints")
    assert kept is not None and kept.name == checkpoint.latest(cloud.disk / "x1" / "run" / "checkpoints").name


def test_the_cap_ends_the_job_with_75_and_a_copy(cloud):
    machine = cloud.start("cap_usd=0.0001")
    _, said = machine.communicate(timeout=240)
    assert machine.returncode == 75, said
    assert "budget" in said and (Path(cloud.bucket) / "run" / "budget.json").is_file()


def test_without_data_nothing_is_trained(cloud):
    shutil.rmtree(Path(cloud.bucket) / "data")
    machine = cloud.start()
    _, said = machine.communicate(timeout=240)
    assert machine.returncode == 2 and "run prepare.sh first" in said
