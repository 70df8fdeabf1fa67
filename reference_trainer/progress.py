"""What a person sees while a run goes on: one line that moves on a terminal, plain lines in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Self, TextIO

from economics.run_estimates import dollars, duration
from scaling.units import format_count

#: A line that moves is redrawn at most this often, seconds.
_REDRAW_S = 0.25


class Progress:
    """Show where a run is.

    Parameters
    ----------
    total : float
        Steps of the whole run; infinite where nobody knows.
    rank : int
        Processes above the first show nothing.
    print_every : int
        Steps between two plain lines, where the output is no terminal or rich is not installed.
    stream : file, optional
        Where to; standard error if not given.

    Examples
    --------
    >>> import sys
    >>> with Progress(total=100, print_every=10, stream=sys.stdout) as progress:
    ...     progress.update(10, {"loss": 5.25, "tokens_per_s": 61_000, "usd": 0.1, "eta_s": 540})
    step 10/100  loss 5.2500  61K tokens/s  $0.10  9 min left
    """

    def __init__(
        self, total: float, *, rank: int = 0, print_every: int = 100, stream: TextIO | None = None
    ) -> None:
        self._total, self._shown, self._every = total, rank == 0, print_every
        self._stream = sys.stderr if stream is None else stream
        self._bar = _bar(self._stream, total) if self._shown and self._stream.isatty() else None
        self._next = 0
        self._drawn = -_REDRAW_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, step: int, numbers: Mapping[str, float], *, total: float | None = None) -> None:
        """Show a step; the last one is always shown.

        Parameters
        ----------
        step : int
            Steps done.
        numbers : mapping of str to float
            ``loss`` (nats/token) and what `Perf.read` returns; what is missing is not shown.
        total : float, optional
            Steps of the whole run, if that has changed.
        """
        if not self._shown:
            return
        self._total = self._total if total is None else total
        last = step >= self._total
        if self._bar is not None:
            now = time.monotonic()
            if last or now - self._drawn >= _REDRAW_S:
                self._drawn = now
                bar, line = self._bar
                end = self._total if self._total < float("inf") else None
                bar.update(line, completed=step, total=end, words=summary(step, self._total, numbers))
                bar.refresh()
        elif last or step >= self._next:
            self._next = (step // self._every + 1) * self._every
            self.say(summary(step, self._total, numbers))

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if not self._shown:
            return
        if self._bar is not None:
            self._bar[0].console.print(text, markup=False, highlight=False)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Leave the terminal as it should be."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None


def summary(step: int, total: float, numbers: Mapping[str, float]) -> str:
    """Return one line about a step; numbers that are missing are left out."""
    parts = [f"step {step:,}/{total:,.0f}" if total < float("inf") else f"step {step:,}"]
    if "loss" in numbers:
        parts.append(f"loss {numbers['loss']:.4f}")
    if "tokens_per_s" in numbers:
        parts.append(f"{format_count(numbers['tokens_per_s'])} tokens/s")
    if "mfu_palm" in numbers:
        parts.append(f"MFU {numbers['mfu_palm']:.1%}")
    if numbers.get("usd"):
        projected = f" of {dollars(numbers['usd_projected'])}" if "usd_projected" in numbers else ""
        parts.append(dollars(numbers["usd"]) + projected)
    if "eta_s" in numbers:
        parts.append(f"{duration(numbers['eta_s'] / 3600)} left")
    return "  ".join(parts)


def _bar(stream: TextIO, total: float) -> tuple[Any, Any] | None:
    """Return rich's progress and its one line, or None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress as Bar, TextColumn
    except ImportError:
        return None
    # Redrawn when there is news, not by a thread: the CPU belongs to the training.
    columns = (BarColumn(bar_width=20), TextColumn("{task.fields[words]}", markup=False))
    bar = Bar(*columns, console=Console(file=stream), auto_refresh=False, transient=False)
    bar.start()
    return bar, bar.add_task("", total=total if total < float("inf") else None, words="")
