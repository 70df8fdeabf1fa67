"""What a run writes about itself: every step and evaluation exactly, times and dollars beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from reference_trainer import checkpoint
from reference_trainer.limits import Limits
from reference_trainer.machine import Place
from reference_trainer.metrics import Ring, RunLog
from reference_trainer.run_folder import RunFolder


class Recorder:
    """The logs of a run; in processes above the first it only keeps the ring, which is equal in all.

    Parameters
    ----------
    run : RunFolder
        Where the logs are.
    config : reference_trainer.train.Config
        The run's settings.
    place : Place
        This process.
    names : sequence of str
        What is pushed at every step.
    start : Loaded, optional
        The checkpoint that the run goes on from: the log is cut to its length then.
    limits : Limits
        The clock and the purse.
    """

    def __init__(
        self, run: RunFolder, config: Any, place: Place, names: Sequence[str],
        start: checkpoint.Loaded | None, limits: Limits,
    ) -> None:  # fmt: skip
        self.run, self.config, self.place, self.limits = run, config, place, limits
        self._ring = Ring(names, config.log_every, place.device)
        log_bytes = 0 if start is None else start.manifest["log_bytes"]
        self._log = RunLog(run.path / "log.jsonl", log_bytes) if place.rank == 0 else None
        self._seconds: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log is not None:
            self._log.close()

    @property
    def log_bytes(self) -> int:
        """Length of the log, on the disk when this returns."""
        return 0 if self._log is None else self._log.sync()

    def begin(self, *args: Any) -> None:
        pass

    def push(self, step: int, values: Sequence[Tensor | float]) -> None:
        """Keep one step's numbers on the device."""
        self._ring.push(step, values)

    def read(self) -> list[dict[str, float]]:
        """Read the ring and write its steps down; return them."""
        rows = self._ring.read()
        if self._log is not None:
            self._log.extend("step", rows)
        return rows

    def event(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Write one row that is no step."""
        if self._log is not None:
            self._log.append(kind, step, values)

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """Count the seconds spent on something that is no step."""
        began = time.perf_counter()
        yield
        spent = time.perf_counter() - began
        self._seconds[what] = self._seconds.get(what, 0.0) + spent
        if what != "data":
            self.limits.reserve(spent)

    def finish(self, ended: str, state: Any) -> dict[str, Any]:
        return {"ended_by": ended, "steps": state.step, "loss": float("nan")}
