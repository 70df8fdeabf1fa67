"""mlflow gets its copy when it can, and the run never waits for it."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reference_trainer import mlflow_mirror
from reference_trainer.errors import ConfigError, MirrorWarning
from reference_trainer.mlflow_mirror import Mirror
from reference_trainer.mlflow_writer import Writer

ROOT = Path(__file__).parents[2]
needs_mlflow = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="NOT TESTED, the mirror: mlflow is not installed"
)


def runs(uri: str) -> list[Any]:
    """Every run that a client finds, the newest first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        experiment = client.get_experiment_by_name("isoflop")
        return [] if experiment is None else list(client.search_runs([experiment.experiment_id]))


def history(uri: str, run_id: str, name: str) -> list[tuple[int, float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        found = MlflowClient(tracking_uri=uri, registry_uri=uri).get_metric_history(run_id, name)
        return sorted((metric.step, metric.value) for metric in found)


@needs_mlflow
def test_sqlite_shows_runs_afterwards(tmp_path):
    """A trainer that is killed leaves a run that says so; its continuation is the same run, and fails."""
    code = """
import os, sys, time
from reference_trainer.mlflow_mirror import Mirror
mirror = Mirror("sqlite", sys.argv[1], params={"lr": 1e-3, "long": "x" * 9000})
for step in range(400):
    mirror.log(step, {"loss": 5 - step / 700, "grad_norm": float("nan") if step == 3 else 1.0})
time.sleep(0.6)
mirror.log(400, {"loss": 4.5})
os.write(1, f"{mirror._writer.pid}\\n".encode())
time.sleep(60)
"""
    folder = tmp_path / "runs" / "it's a"
    trainer = subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=ROOT, stdout=subprocess.PIPE)
    assert trainer.stdout is not None
    writer = int(trainer.stdout.readline())
    os.kill(trainer.pid, signal.SIGKILL)
    trainer.wait(), trainer.stdout.close()
    uri, deadline = f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}", time.monotonic() + 60
    while alive(writer) and time.monotonic() < deadline:
        time.sleep(0.05)
    (killed,) = runs(uri)
    assert (killed.info.run_name, killed.info.status) == ("it's a", "KILLED")
    assert killed.data.params["lr"] == "0.001" and len(killed.data.params["long"]) == 6000

    again = Mirror("sqlite", folder, resume=True, params={"lr": 2e-3})
    with pytest.raises(RuntimeError), again as mirror:
        mirror.log(401, {"loss": 4.0})
        raise RuntimeError
    (failed,) = runs(uri)
    assert (failed.info.run_id, failed.info.status, mirror.uri) == (killed.info.run_id, "FAILED", uri)
    loss = history(uri, killed.info.run_id, "loss")
    assert loss == [*((step, 5 - step / 700) for step in range(400)), (400, 4.5), (401, 4.0)]
    assert len(history(uri, killed.info.run_id, "grad_norm")) == 400


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.fixture(params=["closed", "silent"])
def dead_server(request) -> Iterator[tuple[str, str]]:
    """A port where nobody listens, and one that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "silent":
            listener.listen(16)
        yield (
            f"http://127.0.0.1:{listener.getsockname()[1]}",
            "Connection refused" if request.param == "closed" else "timed out",
        )


@needs_mlflow
def test_a_dead_server_neither_stops_nor_slows_the_run(tmp_path, dead_server, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    uri, reason = dead_server
    said: list[str] = []
    slowest, begin = 0.0, time.monotonic()
    mirror = Mirror(uri, tmp_path / "run", say=said.append)
    for step in range(10**6):
        before = time.thread_time()
        mirror.log(step, {"loss": 1.0, "lr": 1e-3})
        slowest = max(slowest, time.thread_time() - before)
        time.sleep(0.002)
        if said and time.monotonic() - begin > 1:
            break
        assert time.monotonic() - begin < 30, "nothing was said"
    rows = step + 1
    assert slowest < 0.05
    before = time.monotonic()
    mirror.close()
    assert time.monotonic() - before < 10
    first, last = said  # once when it happens, once at the end
    assert first.startswith(f"mlflow ({uri}): {reason}") and "its own log has every row" in first
    assert f"{rows:,} of {rows:,} rows are not there ({reason})" in last


@needs_mlflow
def test_a_server_that_comes_late_gets_everything(monkeypatch):
    """Rows wait while it is away, tries grow rarer, and then all of them arrive in order, 1,000 numbers at once."""
    reports: list[tuple[int, str]] = []
    batches: list[list[tuple[int, float]]] = []
    ended: list[tuple[str, str]] = []

    class Server:
        def log_batch(self, run_id: str, metrics: list[Any], synchronous: bool) -> None:
            batches.append([(metric.step, metric.value) for metric in metrics])

        def set_terminated(self, run_id: str, status: str) -> None:
            ended.append((run_id, status))

    class Late(Writer):
        tries = 0

        def _open(self) -> None:
            self.tries += 1
            if self.tries <= 3:
                raise RuntimeError("outer") from ConnectionRefusedError(111, "Connection refused")
            self._client, self._run_id = Server(), "id"

    now = [0.0]
    monkeypatch.setattr("reference_trainer.mlflow_writer.time.monotonic", lambda: now[0])
    writer = Late({}, lambda written, error: reports.append((written, error)))
    tried = []
    for step in range(700):
        writer.add({"step": step, "ms": 0, "metrics": {"a": 1.0, "b": 2.0, "c": 3.0}})
        now[0], before = float(step), writer.tries
        writer.flush()
        tried += [step] * (writer.tries > before)
    assert tried[:4] == [0, 2, 6, 14]
    assert reports[:3] == [(0, "Connection refused")] * 3 and reports[3] == (15, "")
    assert reports[-1] == (700, "") and sum(map(len, batches)) == 2100
    assert [step for batch in batches for step, _ in batch] == sorted(3 * [*range(700)])
    for step in range(700, 1400):
        writer.add({"step": step, "ms": 0, "metrics": {"a": 1.0, "b": 2.0, "c": 3.0}})
    batches.clear()
    writer.end("FINISHED")
    assert [len(batch) for batch in batches] == [999, 999, 102] and ended == [("id", "FINISHED")]


@needs_mlflow
def test_a_writer_that_dies_is_reported(tmp_path):
    with pytest.warns(MirrorWarning, match=r"3 of 3 rows are not there") as caught:
        mirror = Mirror("sqlite", tmp_path / "run")
        os.kill(mirror._writer.pid, signal.SIGKILL)
        for step in range(3):
            mirror.log(step, {"loss": 1.0})
        mirror.close()
        mirror.close()
    assert caught[-1].message.lost == 3


def test_off_costs_nothing(tmp_path):
    with Mirror("", tmp_path / "run") as mirror:
        mirror.log(1, {"loss": 1.0})
        assert not mirror.on
    assert not list(tmp_path.iterdir())


def test_without_mlflow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(mlflow_mirror.importlib.util, "find_spec", lambda _: None)
    with pytest.warns(MirrorWarning, match=r"isoflop\[train\]"), Mirror("sqlite", tmp_path / "run") as mirror:
        mirror.log(1, {"loss": 1.0})
        assert not mirror.on


@pytest.mark.parametrize("uri", ["file:./mlruns", "./mlruns", "mlruns"])
def test_folders_are_refused(tmp_path, uri):
    with pytest.raises(ConfigError, match="no longer writes into folders") as caught:
        Mirror(uri, tmp_path / "run")
    assert caught.value.column == "mlflow"
