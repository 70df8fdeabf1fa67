"""A log opened: its bytes unpacked, its text decoded, its lines counted as an editor counts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from scaling.errors import DataError
from scaling.findings import Finding
from scaling.reading.csvtext import decode
from scaling.reading.formats import decompress

_SQLITE = b"SQLite format 3\0"
#: Lines shown of a log that nobody knows, and signs of each.
_SHOWN, _WIDTH = 5, 160
#: Lines that `Opened.some` looks through: what a log is shows early, but start-up noise can be long.
_LOOKED_AT = 20_000


@dataclass(frozen=True, eq=False)
class Ask:
    """What the caller said about the log.

    Parameters
    ----------
    run : str, optional
        Which of several runs.
    columns : mapping of str to str
        Quantity -> column, where the name does not say it.
    loss_unit : str, optional
        Unit of the loss, one of `scaling.units.LOSS_UNITS`.
    """

    run: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    loss_unit: str | None = None


@dataclass(frozen=True, eq=False)
class Opened:
    """A log, not yet understood.

    Parameters
    ----------
    path : Path
        The file or folder.
    content : bytes
        What is in the file, unpacked; empty for a folder.
    findings : list of Finding
        What had to be assumed to read it as text.
    """

    path: Path
    content: bytes = b""
    findings: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name for messages."""
        return str(self.path)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path.is_dir()

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite database."""
        return self.content.startswith(_SQLITE)

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file."""
        return self.content.startswith(b"PAR1")

    @property
    def is_text(self) -> bool:
        """Whether it has lines."""
        return not (self.is_folder or self.is_sqlite or self.is_parquet)

    @cached_property
    def text(self) -> str:
        """The text, without byte order mark; lines end with a line feed.

        Raises
        ------
        DataError
            It is no text.
        """
        content = self.content
        if b"\0" in content and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
            content = self._without_nul(content)
        text, findings = decode(content, self.name)
        self.findings.extend(findings)
        return text.replace("\r\n", "\n")

    def _without_nul(self, content: bytes) -> bytes:
        """Drop NUL bytes from what is text otherwise: a crash leaves them, or two encodings in one file."""
        rest = content.replace(b"\0", b"")
        odd = sum(rest.count(bytes([i])) for i in range(32) if i not in (9, 10, 13, 27))
        if odd > 0.001 * len(rest):
            raise DataError(f"{self.name} is no log: binary content", source=self.name)
        count, line = len(content) - len(rest), content[: content.index(b"\0")].count(b"\n") + 1
        self.findings.append(
            Finding(
                "nul_bytes",
                "warning",
                f"{count:,} NUL bytes from line {line} on were left out: a machine that crashed leaves them, or text "
                "in two encodings written into one file",
                {"count": count, "line": line},
            )
        )
        return rest

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the text; line 1 is ``lines[0]``."""
        lines = self.text.split("\n")
        return lines[:-1] if lines and not lines[-1] else lines

    def some(self) -> list[str]:
        """Return the first lines, in which a format has to show itself."""
        return self.lines[:_LOOKED_AT] if self.is_text else []

    def shown(self) -> str:
        """Return the first lines that are not empty, for a message."""
        if not self.is_text:
            return "  (a folder)" if self.is_folder else "  (no text)"
        found = [(i, line) for i, line in enumerate(self.lines[:200], start=1) if line.strip()]
        shown = [f"  {i}: {line.strip()[:_WIDTH]}" for i, line in found[:_SHOWN]]
        return "\n".join(shown) or "  (nothing but empty lines)"


def open_log(source: str | Path) -> Opened:
    """Open a log: a file (plain, gzip, bzip2 or xz; the content decides) or the folder of a run.

    Raises
    ------
    DataError
        There is no such file, it is empty, or it is damaged.
    """
    text = str(source)
    if "://" in text and not text.startswith("sqlite:///"):
        raise DataError(f"{text} is an address, not a file: download the log first", source=text)
    path = Path(text.removeprefix("sqlite:///")).expanduser()
    if path.is_dir():
        return Opened(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"no such file or folder: {path}", source=text) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", source=text) from error
    content = decompress(content, text)
    if not content.strip(b"\0\r\n\t "):
        raise DataError(f"{path} is empty: the run wrote nothing, or to another file", source=text)
    return Opened(path, content)
