"""What the command writes: answers on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scaling.errors import DataWarning, ScalingWarning

#: A bootstrap shorter than this needs no progress bar.
_PATIENCE_S = 0.7

_STYLES = (
    (re.compile(r"^\s*verdict\s+identified"), "bold green"),
    (re.compile(r"^\s*verdict\s+weak"), "bold yellow"),
    (re.compile(r"^\s*verdict\s+not identified"), "bold red"),
    (re.compile(r"^\s*(x |\[error\])"), "red"),
    (re.compile(r"^\s*(! |\[warning\])"), "yellow"),
    (re.compile(r"^\s*> "), "cyan"),
)
#: Where a wrapped line goes on: behind its mark, its quantity, or its indent.
_HANG = re.compile(r"\s*(?:[x!>-] |\[\w+\] |\S+ {2,})?")


class OutputError(Exception):
    """Standard output cannot take the answer: it is full, or broken otherwise than by a reader that left."""


class _Console(Console):
    """A console for which a reader that went away is no error: the exit code stays that of the answer."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _forget(sys.stderr if self.stderr else sys.stdout)


def say(text: str) -> None:
    """Write an answer to standard output, with colour and wrapped where that is a terminal.

    A reader that went away (``scaling fit runs.csv | head -1``) changes nothing about the answer.

    Raises
    ------
    OutputError
        Standard output is full or broken otherwise.
    """
    console = _Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    try:
        for line in text.split("\n"):
            _line(console, line)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget(sys.stdout)
    except OSError as error:
        _forget(sys.stdout)
        raise OutputError(error.strerror or str(error)) from error


def say_json(value: Any) -> None:
    """Write one JSON document to standard output: no NaN in it, infinities as text (`plain`)."""
    try:
        sys.stdout.write(json.dumps(plain(value), indent=2, allow_nan=False) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _forget(sys.stdout)
    except OSError as error:
        _forget(sys.stdout)
        raise OutputError(error.strerror or str(error)) from error


def never_stumble() -> None:
    """Make the standard streams ones that can be used, however the command was started.

    Characters that the terminal's encoding lacks are written as escapes, rather than fail over them.
    Streams that were closed (``scaling fit runs.csv 2>&-``) are opened on nothing: standard input is
    empty, standard error swallows what it is told, and standard output refuses it, as an answer that
    goes nowhere is a failure.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)  # takes the lowest number free
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, "r", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Write what the standard streams still hold; one that cannot be written does not fail again at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _forget(stream)


def note(text: str, style: str = "") -> None:
    """Write a remark to standard error."""
    try:
        console = _Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
        console.print(Text(text, style=style))
    except OSError:
        _forget(sys.stderr)  # there is no one left to tell


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold.

    ``nan`` (no number, no interval) becomes null; an infinite end of an interval becomes the text
    "Infinity" or "-Infinity", which Python's `float` and JavaScript's `Number` read back.
    """
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


@contextmanager
def warnings_told(*hidden: type[Warning], spelling: Callable[[str], str] | None = None) -> Iterator[None]:
    """Show warnings of the package as single remarks on standard error, each once.

    Parameters
    ----------
    *hidden : type
        Warnings that the answer itself spells out. `DataWarning` is one: the audit holds more than it.
    spelling : callable, optional
        Writes the Python names in a message as those of the command line; `as_options` if not given.
    """
    seen: set[str] = set()
    before = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, ScalingWarning):
            before(message, category, filename, lineno, file, line)
        elif not issubclass(category, (DataWarning, *hidden)) and str(message) not in seen:
            seen.add(str(message))
            note(f"warning: {(spelling or as_options)(str(message))}", "yellow")

    with warnings.catch_warnings():
        warnings.simplefilter("always", ScalingWarning)
        warnings.showwarning = show
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give a callback that draws a bar on a terminal once the work has taken a moment; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what)
    start = time.monotonic()

    def advance(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - start > _PATIENCE_S and done < total:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


#: Python arguments that messages of the library name and the command has as options.
_ARGUMENTS = (
    "allow|budgets|bytes_per_token|columns|decimal|delta|exponent_sum|exponents|fixed|group_tol|groups|interval|"
    "level|loss_unit|n_boot|on_bad|resample|seed|sigma|status|unidentified|warmup_tokens|weights|where"
)
#: A mapping, a list, or a value. One pattern, so that what one of them writes is not read by the next.
_ARGUMENT = re.compile(
    r"\b(?P<map>columns|where|fixed)=\{(?P<pairs>[^{}]*)\}"
    rf"|\b(?P<list>{_ARGUMENTS})=\[(?P<items>[^\[\]]*)\]"
    rf"|\b(?P<one>{_ARGUMENTS})="
    r"(?P<value>'[^']*'|\"[^\"]*\"|None\b|\.\.\.|\(\w+(?:, \w+)*\)|[\w+-][\w.+-]*\w|\d|)"
)
_QUOTES = "'\""


def as_options(text: str) -> str:
    """Write the Python arguments that a message speaks of as options of the command.

    Examples
    --------
    >>> as_options("pass columns={'loss': 'val_loss'} or on_bad='drop'; select with where=.")
    'pass --columns loss=val_loss or --on-bad drop; select with --where.'
    >>> as_options("status=None takes all; allow=['duplicates']; exponents=(alpha, beta)")
    '--status all takes all; --allow duplicates; --exponents alpha,beta'
    """
    return _ARGUMENT.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    """Write one argument as an option, quoted for a shell."""
    name = str(match["map"] or match["list"] or match["one"])
    flag = f"--{name.replace('_', '-')}"
    if name == match["map"]:
        pairs = [
            tuple(part.strip() for part in p.split(":", 1)) for p in match["pairs"].split(",") if ":" in p
        ]
        words = [(key.strip("'\""), value.strip("'\"")) for key, value in pairs]
        if name == "where":
            shown = [f"{key} == {value}" for (key, _), (_, value) in zip(words, pairs, strict=True)]
            return f"{flag} {_quoted(' and '.join(shown))}"
        return " ".join(f"{flag} {_quoted(f'{key}={value}')}" for key, value in words)
    if name == match["list"]:
        return " ".join(f"{flag} {_quoted(v.strip().strip(_QUOTES))}" for v in match["items"].split(","))
    value = str(match["value"])
    if value[:1] in ("'", '"'):
        value = _quoted(value[1:-1])
    elif value == "None":
        value = "all"
    elif value.startswith("("):
        value = value[1:-1].replace(", ", ",")
    return f"{flag} {value}" if value else flag


def _quoted(text: str) -> str:
    """Quote a word for a shell, in double quotes where it holds single ones and nothing that those expand."""
    if "'" in text and not set(text) & set('"$`\\!'):
        return f'"{text}"'
    return shlex.quote(text)


def _line(console: Console, line: str) -> None:
    style = next((style for pattern, style in _STYLES if pattern.match(line)), "")
    if not console.is_terminal or len(line) <= console.width:
        console.print(Text(line, style=style))
        return
    match = _HANG.match(line)
    hang = match.end() if match else 0
    grid = Table.grid(padding=0)
    grid.add_column(width=hang)
    grid.add_column()
    grid.add_row(Text(line[:hang], style=style), Text(line[hang:], style=style))
    console.print(grid)


def _forget(stream: IO[str]) -> None:
    """Point a broken stream at nothing, so that closing it at exit does not fail again."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
