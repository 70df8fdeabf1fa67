"""The process that writes to mlflow: rows come in at standard input, what became of them goes out.

Started by `reference_trainer.mlflow_mirror`; not meant to be called by hand. It ends with its input: with the
status it was told, or as ``KILLED`` where the trainer went away without a word.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

#: Rows are collected this long before they are written, seconds; mlflow takes 1,000 numbers at once.
_COLLECT_S, _AT_ONCE = 1.0, 1000
#: Rows kept for a server that does not answer; the oldest go first.
_MOST_KEPT = 50_000
#: Between two tries, seconds: doubled from the first to the last.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 2.0, 60.0
#: A dead server must not be waited for: mlflow's own defaults add up to half an hour.
_IMPATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
_KEY, _FOLDER = "isoflop.run_key", "isoflop.run_dir"


class Writer:
    """Rows that wait, and the mlflow run they go to.

    Parameters
    ----------
    opening : dict
        ``uri, experiment, run_name, run_dir, resume, params``.
    report : callable
        Takes the number of rows written and the last error ("" if none).
    """

    def __init__(self, opening: dict[str, Any], report: Callable[[int, str], None]) -> None:
        self._opening, self._report = opening, report
        self._client: Any = None
        self._run_id = ""
        self._rows: deque[dict[str, Any]] = deque(maxlen=_MOST_KEPT)
        self._written = 0
        self._pause_s, self._not_before = _FIRST_PAUSE_S, 0.0

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row until it is written."""
        self._rows.append(row)

    def flush(self, *, now: bool = False) -> bool:
        """Write what waits; after a failure, not before a pause has passed, unless `now`."""
        if not now and time.monotonic() < self._not_before:
            return False
        try:
            self._open()
            while self._rows:
                self._write_some()
        except Exception as error:  # whatever it is, the run must not know it
            self._not_before = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
            self._report(self._written, _short(error))
            return False
        self._pause_s = _FIRST_PAUSE_S
        self._report(self._written, "")
        return True

    def end(self, status: str) -> None:
        """Write what is left and end the run."""
        if self.flush(now=True):
            try:
                self._client.set_terminated(self._run_id, status=status)
            except Exception as error:
                self._report(self._written, f"the run could not be ended: {_short(error)}")

    def _open(self) -> None:
        if self._run_id:
            return
        from mlflow import MlflowClient
        from mlflow.entities import Param
        from mlflow.store.db import utils

        utils.MAX_RETRY_COUNT = (
            3  # of opening a database; its own 10 take minutes, and the pauses here are longer
        )
        given = self._opening
        client = MlflowClient(tracking_uri=given["uri"], registry_uri=given["uri"])
        found = client.get_experiment_by_name(given["experiment"])
        experiment = client.create_experiment(given["experiment"]) if found is None else found.experiment_id
        key = hashlib.sha256(given["run_dir"].encode()).hexdigest()[
            :16
        ]  # a path may hold any sign, a query not
        if given["resume"]:
            earlier = client.search_runs([experiment], f"tags.`{_KEY}` = '{key}'", max_results=1)
            if earlier:
                client.update_run(earlier[0].info.run_id, status="RUNNING")
                self._client, self._run_id = client, earlier[0].info.run_id
                return
        run = client.create_run(
            experiment, tags={_KEY: key, _FOLDER: given["run_dir"]}, run_name=given["run_name"]
        )
        params = [Param(name, value[:6000]) for name, value in given["params"].items()]
        for begin in range(0, len(params), 100):  # mlflow's limit
            client.log_batch(run.info.run_id, params=params[begin : begin + 100])
        self._client, self._run_id = client, run.info.run_id

    def _write_some(self) -> None:
        from mlflow.entities import Metric

        metrics: list[Any] = []
        rows = 0
        for row in self._rows:
            if rows and len(metrics) + len(row["metrics"]) > _AT_ONCE:
                break
            metrics += [Metric(k, float(v), row["ms"], row["step"]) for k, v in row["metrics"].items()]
            rows += 1
        self._client.log_batch(self._run_id, metrics=metrics, synchronous=True)
        for _ in range(rows):
            self._rows.popleft()
        self._written += rows


def _short(error: BaseException) -> str:
    """Return what went wrong at the bottom of it, if the system says so, else the first line: not pages."""
    deepest: BaseException | None = error
    found = ""
    while deepest is not None:
        if isinstance(deepest, OSError) and (isinstance(deepest, TimeoutError) or deepest.strerror):
            found = deepest.strerror or str(deepest)
        deepest = deepest.__cause__ or deepest.__context__
    return found or f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"


def main() -> None:
    """Read rows until the input ends."""
    for name, value in _IMPATIENCE.items():
        os.environ.setdefault(name, value)

    out = os.dup(1)  # mlflow may write to standard output; the pipe is ours
    os.dup2(2, 1)

    def report(written: int, error: str) -> None:
        with suppress(BrokenPipeError):  # the trainer is gone; its rows are still worth writing
            os.write(out, json.dumps({"written": written, "error": error}).encode() + b"\n")

    messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(messages,), daemon=True).start()
    opening, status = messages.get(), ""
    writer = Writer(opening, report)
    if "end" in opening:
        return
    while not status:
        due = time.monotonic() + _COLLECT_S
        while not status and (left := due - time.monotonic()) > 0:
            try:
                message = messages.get(timeout=left)
            except queue.Empty:
                break
            status = message.get("end", "")
            if not status:
                writer.add(message)
        if not status:
            writer.flush()
    writer.end(status)


def _read(messages: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Take messages from standard input, one a line.

    From the descriptor itself: a thread that holds Python's own reader cannot be left behind at the end.
    """
    rest = b""
    while part := os.read(0, 1 << 16):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            messages.put(json.loads(line))
    messages.put({"end": "KILLED"})  # no word of an end was said, else nobody would listen any more


if __name__ == "__main__":
    main()
