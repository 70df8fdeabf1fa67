"""A copy of the metrics in mlflow. A process of its own writes it, so it can neither slow nor stop the run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from reference_trainer.errors import ConfigError, MirrorWarning

#: Rows wait here while the pipe is full, bytes; what comes on top is lost to the mirror, and counted.
_MOST_WAITING = 4 << 20
#: Rows are sent and news taken in at most this often, seconds: waking another process has a price.
_EXCHANGE_S = 0.5
#: How long the end of a run waits for a writer that works, and for one that has met errors, seconds.
_WAIT_S, _WAIT_FAILING_S = 30.0, 2.0

Status = Literal["FINISHED", "FAILED", "KILLED"]


def check_uri(uri: str) -> None:
    """Refuse a tracking URI that mlflow writes nothing to.

    Raises
    ------
    ConfigError
        It is the path of a folder or of a file.
    """
    if uri.startswith("file:") or ("://" not in uri and uri not in ("", "sqlite", "databricks")):
        raise ConfigError(
            f"mlflow = {uri!r}: mlflow no longer writes into folders; use 'sqlite', 'sqlite:///FILE.db' or "
            "the address of a server, 'http://...'",
            column="mlflow",
        )


class Mirror:
    """Send rows to mlflow without ever waiting for it.

    The writer is another process at the end of a pipe: mlflow's import (a second), its threads and its
    time-outs are not in the trainer, and where the trainer is killed the writer ends the run as ``KILLED``.
    The run's own log stays the truth; a server that cannot be reached is reported once, and at the end with
    the number of rows it lacks.

    Parameters
    ----------
    uri : str
        Tracking URI; ``"sqlite"`` is a SQLite file ``mlflow.db`` beside the folders of runs, where
        ``mlflow ui --backend-store-uri`` finds all of them; empty: no mirror.
    run_dir : path
        Folder of the run. A resumed run is found again by it.
    run_name, experiment : str
        How mlflow calls the run (the folder's name, if not given) and what it belongs to.
    params : mapping
        Configuration, written once as text.
    resume : bool
        Go on with the mlflow run of this folder, if there is one.
    say : callable, optional
        Where messages go; `MirrorWarning` if not given.
    wait_s : float
        Seconds that `close` waits for a writer that works.

    Raises
    ------
    ConfigError
        The URI is a folder: mlflow writes no files any more.
    """

    def __init__(
        self,
        uri: str,
        run_dir: str | Path,
        *,
        run_name: str = "",
        experiment: str = "isoflop",
        params: Mapping[str, Any] | None = None,
        resume: bool = False,
        say: Callable[[str], None] | None = None,
        wait_s: float = _WAIT_S,
    ) -> None:
        folder = Path(run_dir).resolve()
        self.uri = f"sqlite:///{folder.parent / 'mlflow.db'}" if uri == "sqlite" else uri
        check_uri(uri)
        self._say, self._wait_s = say, wait_s
        self._writer: subprocess.Popen[bytes] | None = None
        self._out, self._in = bytearray(), bytearray()
        self._given = self._written = 0
        self._why = ""  # last error, "" while all is well
        self._told = False
        self._exchanged = 0.0
        if not self.uri:
            return
        if uri == "sqlite":
            folder.parent.mkdir(parents=True, exist_ok=True)
        if importlib.util.find_spec("mlflow") is None:
            self._tell("mlflow is not installed; pip install 'isoflop[train]' brings it")
            return
        self._start({
            "uri": self.uri, "experiment": experiment, "run_name": run_name or folder.name, "run_dir": str(folder),
            "resume": resume, "params": {k: str(v) for k, v in (params or {}).items()},
        })  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status: Status = "FINISHED"
        if kind is not None:
            status = "FAILED" if issubclass(kind, Exception) else "KILLED"
        self.close(status)

    @property
    def on(self) -> bool:
        """Whether there is a writer."""
        return self._writer is not None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send the numbers of a step; never waits."""
        if self._writer is None:
            return
        self._given += 1
        row = json.dumps(
            {"step": step, "ms": int(time.time() * 1e3), "metrics": dict(metrics)}, default=float
        )
        if len(self._out) < _MOST_WAITING:
            self._out += row.encode() + b"\n"
        now = time.monotonic()
        if now - self._exchanged >= _EXCHANGE_S:
            self._exchanged = now
            self._send()
            self._listen()

    def close(self, status: Status = "FINISHED") -> None:
        """End the mlflow run, wait for what is under way, and say what did not arrive.

        Parameters
        ----------
        status : {"FINISHED", "FAILED", "KILLED"}
            How the run ended.
        """
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        self._out += json.dumps({"end": status}).encode() + b"\n"
        begin = time.monotonic()
        while writer.poll() is None:
            self._send(writer)
            self._listen(writer)
            if time.monotonic() - begin > (_WAIT_FAILING_S if self._why else self._wait_s):
                self._why = self._why or f"it took longer than {self._wait_s:g} s"
                writer.kill()
                break
            time.sleep(0.02)
        writer.wait()
        self._listen(writer)
        for pipe in (writer.stdin, writer.stdout):
            if pipe is not None:
                pipe.close()
        lost = self._given - self._written
        if lost or self._why:
            self._told = False
            self._tell(f"{lost:,} of {self._given:,} rows are not there ({self._why or 'the writer ended'})")

    def _start(self, opening: Mapping[str, Any]) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
            "PYTHONWARNINGS": "ignore",
        }
        try:
            self._writer = subprocess.Popen(
                # -P: nothing in the current folder is taken for a module. A session of its own: Ctrl-C is ours.
                [sys.executable, "-P", "-m", "reference_trainer.mlflow_writer"], env=environment, bufsize=0,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._tell(f"its writer cannot be started ({error.strerror})")
            return
        for pipe in (self._writer.stdin, self._writer.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._out += json.dumps(opening).encode() + b"\n"
        self._send()

    def _send(self, writer: subprocess.Popen[bytes] | None = None) -> None:
        """Put into the pipe what fits."""
        pipe = (writer or self._writer).stdin  # type: ignore[union-attr]
        assert pipe is not None
        try:
            while self._out and (count := os.write(pipe.fileno(), self._out[: 1 << 16])):
                del self._out[:count]
        except BlockingIOError:
            pass
        except OSError:  # the writer is gone; its last words are in the other pipe
            self._out.clear()
            self._why = self._why or "the writer ended early"

    def _listen(self, writer: subprocess.Popen[bytes] | None = None) -> None:
        """Take in what the writer has to say."""
        pipe = (writer or self._writer).stdout  # type: ignore[union-attr]
        assert pipe is not None
        try:
            while part := os.read(pipe.fileno(), 1 << 16):
                self._in += part
        except BlockingIOError:
            pass
        *lines, rest = bytes(self._in).split(b"\n")
        self._in = bytearray(rest)
        for line in lines:
            news = json.loads(line)
            self._written = news["written"]
            self._why = news["error"]
        if self._why and not self._told:
            self._tell(f"{self._why}; the newest rows wait for it")

    def _tell(self, what: str) -> None:
        """Say it once."""
        if self._told:
            return
        self._told = True
        message = f"mlflow ({self.uri}): {what}. The run goes on; its own log has every row."
        if self._say is not None:
            self._say(message)
        else:
            warnings.warn(MirrorWarning(message, lost=self._given - self._written), stacklevel=3)
