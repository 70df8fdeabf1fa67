"""The run's own log: JSON lines that a resumed run continues as if it had never stopped."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from reference_trainer.errors import LogError

_Data = bytes  # inside the class the word is a property
#: JSON has no words for these; they are written as strings.
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class RunLog:
    """One JSON object a line, appended and handed to the system at once: a killed process loses nothing.

    Floats are written so that they read back to the same bits; NaN and infinities become the strings
    ``"nan"``, ``"inf"`` and ``"-inf"``, which `read_log` turns back. Give it only what repeats itself in a
    repeated run, and the file of a resumed run is that of an uninterrupted one, byte for byte. Times and
    other facts about the machine go into a second log, opened with ``resume_bytes=None``.

    Parameters
    ----------
    path : path
        The file; its folder is made if missing.
    resume_bytes : int or None
        Length to cut the file to: 0 for a new run, `bytes` at the checkpoint for a resumed one. None keeps
        all rows and only removes a last line that was not finished.

    Raises
    ------
    LogError
        The file is shorter than `resume_bytes`, has no end of a line there, or cannot be written.
    """

    def __init__(self, path: str | Path, resume_bytes: int | None) -> None:
        self.path = Path(path)
        with self._refusing("opened"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # "a": every write goes to the end; unbuffered: it is the system's when write() returns.
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        try:
            self._bytes = self._continue_at(resume_bytes)
            with self._refusing("cut"):
                self._file.truncate(self._bytes)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bytes(self) -> int:
        """Length of the file; save it in the checkpoint and pass it as ``resume_bytes``."""
        return self._bytes

    def append(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Write one row: ``kind``, ``step``, then `values` in their order.

        Raises
        ------
        LogError
            A value is no number, string, boolean or None, or the row cannot be written (a full disk); then
            nothing of it is in the file.
        """
        self._write(self._line(kind, step, values))

    def extend(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows that have their ``step`` in them, as `Ring.read` returns them, in one go.

        Raises
        ------
        LogError
            As `append`; then nothing of any row is in the file.
        """
        self._write(
            b"".join(
                self._line(kind, row["step"], {k: v for k, v in row.items() if k != "step"}) for row in rows
            )
        )

    def sync(self) -> int:
        """Bring the rows to the disk and return `bytes`: before a checkpoint that relies on them is saved."""
        with self._refusing("brought to the disk"):
            os.fsync(self._file.fileno())
        return self._bytes

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, kind: str, step: int, values: Mapping[str, Any]) -> _Data:
        row = {"kind": kind, "step": step}
        for name, value in values.items():
            if name in ("kind", "step") or not (value is None or isinstance(value, int | float | str)):
                raise LogError(
                    f"{self.path}: step {step}: {name} cannot be {value!r} in a row: a row is flat, with "
                    "numbers, text, true, false or nothing",
                    source=str(self.path),
                    column=name,
                )
            row[name] = value if not isinstance(value, float) or math.isfinite(value) else str(value)
        return json.dumps(row).encode() + b"\n"

    def _write(self, data: _Data) -> None:
        with self._refusing("written"):
            done = 0
            try:
                while done < len(data):
                    done += self._file.write(memoryview(data)[done:]) or 0
            except OSError:
                self._file.truncate(self._bytes)
                raise
        self._bytes += len(data)

    def _continue_at(self, resume_bytes: int | None) -> int:
        with self._refusing("read"):
            size = self._file.seek(0, os.SEEK_END)
            if resume_bytes is None:
                return self._end_of_lines(size)
            if size < resume_bytes:
                raise LogError(
                    f"{self.path}: has {size:,} bytes, the checkpoint was saved at {resume_bytes:,}: rows are "
                    "missing. Bring the file back, or resume from an older checkpoint.",
                    source=str(self.path),
                )
            if resume_bytes:
                self._file.seek(resume_bytes - 1)
                if self._file.read(1) != b"\n":
                    raise LogError(
                        f"{self.path}: no row ends at byte {resume_bytes:,}, where the checkpoint was saved: it "
                        "is the log of another run, or was edited",
                        source=str(self.path),
                    )
            return resume_bytes

    def _end_of_lines(self, size: int) -> int:
        """Return where the last finished line ends."""
        end, block = size, 1 << 16
        while end > 0:
            begin = max(end - block, 0)
            self._file.seek(begin)
            found = self._file.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
        return 0

    def _refusing(self, done: str) -> _Refusing:
        return _Refusing(self.path, done)


class _Refusing:
    """Turn an `OSError` into a `LogError` that names the file."""

    def __init__(self, path: Path, done: str) -> None:
        self._path, self._done = path, done

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise LogError(
                f"{self._path}: the log cannot be {self._done} ({error.strerror}). Make room or choose another "
                "folder, then resume from the last checkpoint.",
                source=str(self._path),
            ) from error


def read_log(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log, NaN and infinities as floats; a last line without an end is left out.

    Raises
    ------
    LogError
        A line is no JSON object; the message has its number.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return  # being written, or cut by a kill
            try:
                row = json.loads(line)
                yield {k: _WORDS.get(v, v) if isinstance(v, str) else v for k, v in row.items()}
            except (ValueError, AttributeError) as error:
                raise LogError(
                    f"{path}: line {number} is no row of a log: {line[:60]!r}",
                    source=str(path),
                    rows=(number,),
                ) from error
