"""Stages of the worked case: each is keyed by a hash of what goes into it, and made again only where that changed.

A stage is done when its record says so, under the same key, and every file that it made is there with the bytes that
were recorded. The record is written last: a stage that was killed is simply not done.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from scaling.errors import DataError
from scaling.storage import write_atomically

ROOT = Path(__file__).parents[2]
#: What the code of a stage may be: a change in it makes stages again, and finished training runs are kept by the sweep.
_CODE = ("scaling", "economics", "reference_trainer", "experiments/x1", "data/runs", "data/hardware")


@cache
def code_hash() -> str:
    """Return a hash of the code and of the tables it reads."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".j2", ".csv", ".toml") and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_json(path: Path, content: Any) -> Path:
    """Write plain types as JSON, whole or not at all; what is not finite is written as text."""
    from scaling.cli.output import plain

    write_atomically(path, json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return path


class Stopped(Exception):
    """Training ended before its runs did: by a signal or at the cap. The same command goes on."""


class Stages:
    """The stages in one folder.

    Parameters
    ----------
    out : pathlib.Path
        The folder.
    names : sequence of str
        Stages in their order, for the words of progress.
    say : callable
        Shows a line.
    """

    def __init__(self, out: Path, names: Iterable[str], say: Callable[[str], None]) -> None:
        self.out, self.names, self.say = out, list(names), say
        (out / "stages").mkdir(parents=True, exist_ok=True)

    def run(self, name: str, inputs: Mapping[str, Any], make: Callable[[], Iterable[Path]]) -> bool:
        """Make a stage, unless it is done; return whether it was made.

        Parameters
        ----------
        name : str
        inputs : mapping
            What decides the result, as plain types; the code is added.
        make : callable
            Makes the stage and returns its files, inside the folder.
        """
        number = f"[{self.names.index(name) + 1}/{len(self.names)}] {name}"
        text = json.dumps({"code": code_hash(), **inputs}, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()
        record = self.out / "stages" / f"{name}.json"
        if self._done(record, key):
            self.say(f"{number}: done already")
            return False
        self.say(f"{number} ...")
        began = time.monotonic()
        files = sorted(make())
        hashes = {str(path.relative_to(self.out)): file_hash(path) for path in files}
        write_json(record, {"stage": name, "key": key, "inputs": dict(inputs), "files": hashes})
        self.say(f"{number}: {time.monotonic() - began:.1f} s")
        return True

    def _done(self, record: Path, key: str) -> bool:
        try:
            found = json.loads(record.read_text(encoding="utf-8"))
            same = found["key"] == key
            return same and all(file_hash(self.out / name) == h for name, h in found["files"].items())
        except (OSError, ValueError, KeyError):
            return False


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder: two at once would write over each other.

    Raises
    ------
    DataError
        Another process works in it.
    """
    out.mkdir(parents=True, exist_ok=True)
    lock = os.open(out / "x1.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(f"{out}: another make x1 is running here", source=str(out)) from error
        yield
    finally:
        os.close(lock)
