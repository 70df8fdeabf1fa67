"""The workers of a sweep, seen from the process that started them."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

#: One thread for a worker, whichever library counts them.
_ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
}


@dataclass
class _Worker:
    slot: int
    process: subprocess.Popen[bytes]
    run_id: str = ""
    heard: bytes = field(default=b"")


class Pool:
    """Start workers as they are needed, give them runs, hear how those ended.

    Parameters
    ----------
    jobs : int
        Most workers at a time.
    logs : Path
        Folder of what the workers write to standard error, one file for each.
    inherit : sequence of int
        Descriptors that workers keep open: a lock is then held as long as one of them lives.
    """

    def __init__(self, jobs: int, logs: Path, inherit: Sequence[int] = ()) -> None:
        self.jobs, self._logs, self._inherit = jobs, logs, tuple(inherit)
        self._workers: list[_Worker] = []
        self._ear = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            if worker.process.stdin is not None:
                worker.process.stdin.close()  # ends an idle worker, and stops a busy one
        for worker in self._workers:
            if error is not None and worker.process.poll() is None:
                worker.process.kill()  # an error or a second Ctrl-C: nobody waits
            worker.process.wait()
            if worker.process.stdout is not None:
                worker.process.stdout.close()
        self._ear.close()

    @property
    def busy(self) -> tuple[str, ...]:
        """Runs under way."""
        return tuple(worker.run_id for worker in self._workers if worker.run_id)

    @property
    def free(self) -> int:
        """How many runs could be given now."""
        return self.jobs - len(self.busy)

    def give(self, run_id: str, config: Path) -> None:
        """Have a run trained by an idle worker, or by a new one."""
        worker = next((w for w in self._workers if not w.run_id), None) or self._start()
        worker.run_id = run_id
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):  # it died while idle; `wait` says so
            worker.process.stdin.write(f"{config}\n".encode())
            worker.process.stdin.flush()

    def wait(self, seconds: float) -> list[tuple[str, dict[str, Any]]]:
        """Return the runs that ended within so many seconds, with what the worker says of each.

        A worker that is gone answers ``{"died": status}`` for its run.
        """
        ended = []
        for key, _ in self._ear.select(seconds):
            worker: _Worker = key.data
            heard = os.read(key.fd, 65536)
            worker.heard += heard
            if not heard:
                run_id, worker.run_id = worker.run_id, ""
                status = self._bury(worker)
                if run_id:
                    ended.append((run_id, {"died": status}))
            while b"\n" in worker.heard:
                line, _, worker.heard = worker.heard.partition(b"\n")
                ended.append((worker.run_id, json.loads(line)))
                worker.run_id = ""
        return ended

    def stop(self) -> None:
        """Ask every run under way to stop with a checkpoint."""
        for worker in self._workers:
            if worker.run_id and worker.process.poll() is None:
                worker.process.send_signal(signal.SIGTERM)

    def _start(self) -> _Worker:
        self._logs.mkdir(parents=True, exist_ok=True)
        slot = min(set(range(self.jobs)) - {w.slot for w in self._workers})
        with open(self._logs / f"worker-{slot}.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "reference_trainer.worker", str(slot)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, env={**os.environ, **_ONE_THREAD}, pass_fds=self._inherit,
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which stops its workers in good order
            )  # fmt: skip
        worker = _Worker(slot, process)
        self._workers.append(worker)
        assert process.stdout is not None
        self._ear.register(process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _bury(self, worker: _Worker) -> int:
        self._workers.remove(worker)
        assert worker.process.stdin is not None and worker.process.stdout is not None
        self._ear.unregister(worker.process.stdout)
        worker.process.stdout.close()
        with suppress(BrokenPipeError):
            worker.process.stdin.close()
        return worker.process.wait()
