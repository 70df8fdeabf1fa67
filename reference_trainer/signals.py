"""Signals become flags that the loop reads where it is safe to stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Stop:
    """Turn SIGTERM and SIGINT into a request to stop, and SIGUSR1 into a request to save and go on.

    A signal that arrives inside a step, an evaluation or compilation sets a flag and nothing else; the loop
    reads it between steps. A second SIGINT raises `KeyboardInterrupt` at once, for whoever cannot wait.
    Signals reach the main thread alone: in any other thread this does nothing.

    Attributes
    ----------
    requested : str or None
        Name of the signal that asked to stop first ("SIGTERM", "SIGINT"), or None.
    save_requested : bool
        SIGUSR1 came. Whoever saves sets it back to False, before the save begins.

    Examples
    --------
    >>> with Stop() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.requested
    'SIGTERM'
    """

    def __init__(self) -> None:
        self.requested: str | None = None
        self.save_requested = False
        self._interrupts = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number, handler in ((signal.SIGTERM, self._stop), (signal.SIGINT, self._stop)):
                self._before[number] = signal.signal(number, handler)
            if hasattr(signal, "SIGUSR1"):  # Windows has none
                self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._save)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._before:
            number, handler = self._before.popitem()
            # None: a handler that Python did not install and cannot name; the default is the nearest thing.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                raise KeyboardInterrupt
        self.requested = self.requested or signal.Signals(number).name

    def _save(self, number: int, frame: FrameType | None) -> None:
        self.save_requested = True
