"""What a person sees while a ladder runs: a bar over its FLOPs on a terminal, a line for each run that ends."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from economics.run_estimates import duration
from reference_trainer.ladder import Plan, Run
from reference_trainer.points import fault_of

#: Seconds between two looks at where the runs under way are.
_LOOK_S = 1.0
#: Bytes from the end of a log that hold its last line.
_TAIL = 8192


class Display:
    """Show where a sweep is.

    Parameters
    ----------
    stream : file, optional
        Where to; standard error if not given. On a terminal with rich there is a bar as well.
    quiet : bool
        Show nothing.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream, self._quiet = stream or sys.stderr, quiet
        self._bar: Any = None
        self._task: Any = None
        self._done: set[str] = set()
        self._looked = 0.0
        self._plan: Plan | None = None

    def begin(self, plan: Plan, results: Mapping[str, Any]) -> None:
        """Show what is done already."""
        self._plan, self._done = plan, set(results)
        total = len(plan.run)
        if results:
            self.say(f"{len(results)} of {total} runs are finished already")
        if not self._quiet and self._stream.isatty():
            self._bar, self._task = _bar(self._stream, sum(r.flops * r.share for r in plan.run.values()))
            self._show(0.0, "")

    def say(self, text: str) -> None:
        """Write a line."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def ended(self, run: Run, result: Mapping[str, Any] | None, error: str | None) -> None:
        """Say how a run ended; nothing of one that was asked to stop."""
        if result is None and error is None:
            return
        assert self._plan is not None
        self._done.add(run.run_id)
        head = f"[{len(self._done)}/{len(self._plan.run)}] {run.run_id}"
        if error is not None or result is None:
            self.say(f"{head}: failed: {error}")
        elif result["status"] == "ok":
            seconds = result["wall_s"]
            took = f"{seconds:.1f} s" if seconds < 60 else duration(seconds / 3600)
            self.say(f"{head}: loss {result['loss']:.4f} nats/token ({took})")
        else:
            self.say(f"{head}: {result['status']}: {fault_of(result)}")

    def update(self, busy: Mapping[str, Run], plan: Plan) -> None:
        """Move the bar to where the runs under way are."""
        if self._bar is None or time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        under_way, names = 0.0, []
        for run_id, run in busy.items():
            step = last_step(plan.folder(run) / "perf.jsonl", run.began)
            under_way += run.flops * (step - run.began) / run.steps
            names.append(f"{run_id} {step}/{run.steps}")
        self._show(under_way, "  ".join(names))

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self, under_way: float, names: str) -> None:
        assert self._plan is not None
        done = sum(self._plan.run[i].flops * self._plan.run[i].share for i in self._done)
        self._bar.update(self._task, completed=done + under_way, names=names)


def last_step(log: Path, began: int) -> int:
    """Return the step of the last whole line of a log, `began` where there is none."""
    try:
        with open(log, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL, 0))
            lines = file.read().split(b"\n")[:-1]
        return int(json.loads(lines[-1])["step"]) if lines else began
    except (OSError, ValueError, KeyError):
        return began


def _bar(stream: TextIO, total: float) -> tuple[Any, Any]:
    """Return a moving bar, or nothing where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ImportError:
        return None, None
    bar = Progress(
        TextColumn("{task.percentage:>5.1f}%"), BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False), TextColumn("{task.fields[names]}"),
        console=Console(file=stream), transient=True, refresh_per_second=2,
    )  # fmt: skip
    bar.start()
    return bar, bar.add_task("ladder", total=total, names="")
