"""Where runs and fits come from: a file, standard input, a table by name, or a saved fit."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling.cli.options import Fitting, Reading, given
from scaling.cli.output import note, progress_bar
from scaling.errors import DataError, DataWarning

if TYPE_CHECKING:
    from scaling.datasets import DatasetInfo
    from scaling.result import ChinchillaFit
    from scaling.runs import RunTable

_FIT_FORMAT = "isoflop-fit"
#: How a saved fit begins, to know one that was cut short or damaged for what it is.
_FIT_BEGINS = re.compile(rb'\{\s*"format"\s*:\s*"' + _FIT_FORMAT.encode())


@dataclass(frozen=True)
class Input:
    """Bytes to read runs or a fit from.

    Parameters
    ----------
    content : bytes
        All of them.
    name : str
        For messages.
    words : tuple of str
        The words of a command line that name it again.
    dataset : DatasetInfo or None
        What is known of a table called by name.
    """

    content: bytes
    name: str
    words: tuple[str, ...]
    dataset: DatasetInfo | None = None

    @property
    def sha256(self) -> str:
        """Hash of the content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def saved_fit(self) -> str | None:
        """The text of a saved fit, whole or damaged, or None for a table."""
        start = self.content.lstrip()
        if start[:1] != b"{":
            return None
        if _FIT_BEGINS.match(start):
            return self.content.decode("utf-8", "replace")  # whoever reads it says what is damaged
        try:
            text = self.content.decode("utf-8")
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None  # JSON lines, or damaged: the reader of tables says what is wrong
        is_fit = isinstance(data, dict) and str(data.get("format", "")).startswith(_FIT_FORMAT)
        return text if is_fit else None


class _Named(io.BytesIO):
    """Bytes with the name that messages should give them."""

    name = ""


def open_input(source: str | None, builtin: str | None) -> Input:
    """Read what a command was pointed at.

    Raises
    ------
    DataError
        Neither or both of a file and a name were given, or there is no such file or table.
    """
    if (source is None) == (builtin is None):
        raise DataError("give one table: a file, '-' for standard input, or --builtin NAME", column="source")
    if builtin is not None:
        from scaling.datasets import fetch, info as describe

        info = describe(_dataset_name(builtin))
        if info.kind != "runs":
            raise DataError(f"{info.name} holds published laws, no training runs", column="builtin")
        content = fetch(info.name).read_bytes()
        return Input(content, info.file, ("--builtin", info.name), info)
    assert source is not None
    if source == "-":
        return Input(sys.stdin.buffer.read(), "standard input", ("-",))
    # A name of bytes that are no text (a surrogate stands for each) could be shown, but not written.
    name = source.encode("utf-8", "replace").decode("utf-8")
    try:
        return Input(Path(source).expanduser().read_bytes(), name, (name,))
    except OSError:
        from scaling.table import load_runs

        load_runs(source)  # says what is wrong with the path, in the words of the library
        raise


def read_table(data: Input, reading: Reading, sigma: str | None = None, *, told: bool = True) -> RunTable:
    """Read a table of runs; its doubts are counted on standard error where `told`.

    Raises
    ------
    DataError
        The input is a saved fit, or no table that can be used.
    """
    from scaling.table import load_runs

    if data.saved_fit is not None:
        raise DataError(f"{data.name} is a saved fit: give the table it was made from", source=data.name)
    keywords = reading.keywords()
    if sigma not in (None, "none"):
        keywords["columns"] = {**(keywords["columns"] or {}), "sigma": sigma}
    file = _Named(data.content)
    file.name = data.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # told here, with the command that says more
        table = load_runs(file, **keywords)
    doubts = table.audit.warnings
    if doubts and told:
        codes = ", ".join(dict.fromkeys(f.code for f in doubts))
        plural = "s" * (len(doubts) > 1)
        note(
            f"warning: {len(doubts)} doubt{plural} about this table ({codes}): `scaling audit` says more",
            "yellow",
        )
    return replace(table, sigma=None) if sigma == "none" else table


def fit_table(table: RunTable, fitting: Fitting) -> ChinchillaFit:
    """Fit the law to a table, with a progress bar where someone watches."""
    from scaling.fit import fit_chinchilla

    weights = None if fitting.weights is None else _column(table, fitting.weights)
    with progress_bar("bootstrap") as progress:
        return fit_chinchilla(table, **fitting.keywords(), weights=weights, progress=progress)


def read_fit(data: Input, reading: Reading, fitting: Fitting) -> ChinchillaFit:
    """Return a saved fit, or the fit of a table.

    Raises
    ------
    DataError
        The input is no table and no fit, or options were given that a saved fit has no use for.
    NotIdentifiedError
        The table determines no law.
    """
    text = data.saved_fit
    if text is None:
        return fit_table(read_table(data, reading, fitting.sigma), fitting)
    from scaling.json_parts import from_text
    from scaling.result import ChinchillaFit

    idle = {**given(reading), **{k: v for k, v in given(fitting).items() if k != "level"}}
    if idle:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise DataError(
            f"{data.name} is a saved fit, which {flags} cannot change: give the table instead",
            source=data.name,
            column=next(iter(idle)),
        )
    fit = from_text(ChinchillaFit.from_json, text, data.name)
    if "level" in given(fitting):
        from scaling.intervals import check_level

        fit = replace(fit, settings=replace(fit.settings, level=check_level(fitting.level)))
    return fit


def _dataset_name(name: str) -> str:
    """Accept a table by its name or by that of its file."""
    from scaling.datasets import info, names

    stems = {Path(info(n).file).stem: n for n in names()}
    return stems.get(name.removesuffix(".csv"), name)


def _column(table: RunTable, name: str) -> Any:
    if name in table.covariates:
        return table.covariates[name]
    numbers = ", ".join(table.covariates) or "none"
    raise DataError(
        f"weights: {name!r} is no numeric column left over in this table (there: {numbers})", column="weights"
    )
