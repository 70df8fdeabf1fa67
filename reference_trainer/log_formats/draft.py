"""What a format hands over: rows of numbers with the line each came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaling.errors import DataError
from scaling.findings import Finding

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
#: How launchers mark the process a line is from: "[default3]:", "[rank0]:", "rank=0]", "worker-1:", "3:".
_RANK = re.compile(
    r"^\W*(?:default|rank|gpu|worker|proc)\W?\s?(\d+)\]?\s*:|^\s*(\d+):\s|\brank\s?[=:]?\s?(\d+)\]",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class Rows:
    """Numbers of one kind, in the order in which they were written.

    Parameters
    ----------
    columns : mapping of str to ndarray, float64, (n,)
        By the names of `reference_trainer.training_log.SCHEMA`, always with ``step``; ``nan`` both where NaN was
        written and where nothing was.
    absent : mapping of str to ndarray, bool, (n,)
        Where nothing was written.
    lines : ndarray, int64, (n,)
        Line (or row) of each; ranks merged into one row have the line of the first.
    source : str
        The file.
    word : str
        What ``lines`` counts: ``"line"`` or ``"row"``.
    """

    columns: Mapping[str, Floats]
    absent: Mapping[str, Bools]
    lines: NDArray[np.int64]
    source: str
    word: str = "line"

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, name: str) -> bool:
        """Tell whether any row has a number of this name."""
        return name in self.columns and not bool(self.absent[name].all())

    def take(self, index: Any) -> Rows:
        """Return some of the rows: by a mask, positions or a slice."""
        return Rows(
            {name: values[index] for name, values in self.columns.items()},
            {name: values[index] for name, values in self.absent.items()},
            self.lines[index], self.source, self.word,
        )  # fmt: skip

    def with_columns(self, **columns: Floats) -> Rows:
        """Return the rows with columns added or replaced; NaN in them is nothing written."""
        return Rows(
            {**self.columns, **columns},
            {**self.absent, **{name: np.isnan(values) for name, values in columns.items()}},
            self.lines, self.source, self.word,
        )  # fmt: skip


class RowBuilder:
    """Collect rows one by one.

    Examples
    --------
    >>> builder = RowBuilder()
    >>> builder.add(7, {"step": 1.0, "loss": 10.8})
    >>> builder.add(9, {"step": 2.0})
    >>> rows = builder.rows("train.log")
    >>> rows.columns["loss"].tolist(), rows.absent["loss"].tolist(), rows.lines.tolist()
    ([10.8, nan], [False, True], [7, 9])
    """

    def __init__(self) -> None:
        self._lines: list[int] = []
        self._values: list[Mapping[str, float]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: int, values: Mapping[str, float]) -> None:
        """Add a row; `values` may be filled further until `rows` is called."""
        self._lines.append(line)
        self._values.append(values)

    def rows(self, source: str, word: str = "line") -> Rows:
        """Return what was added."""
        names = dict.fromkeys(["step", *(name for values in self._values for name in values)])
        columns, absent = {}, {}
        for name in names:
            columns[name] = np.array([values.get(name, np.nan) for values in self._values], dtype=np.float64)
            absent[name] = np.array([name not in values for values in self._values], dtype=np.bool_)
        return Rows(columns, absent, np.array(self._lines, dtype=np.int64), source, word)


@dataclass(eq=False)
class Draft:
    """A log as its format tells it.

    Parameters
    ----------
    steps : Rows
        One row for each step that was logged.
    side : dict of str to Rows
        Rows of other kinds: ``val`` (validation losses), ``pace`` (times), ``activations``.
    facts : dict
        What the log says about the whole run: ``step_tokens``, ``total_steps``, ``run``, ``clip``, ...
    findings : list of Finding
        What a reader has to know about how it was read.
    loss_unit : str
        Unit of the losses as written; empty where the log does not say.
    """

    steps: Rows
    side: dict[str, Rows] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    loss_unit: str = ""

    def check_steps(self) -> None:
        """Refuse rows whose step is no number: nobody can say where they belong.

        Raises
        ------
        DataError
            There are such rows.
        """
        for rows in (self.steps, *self.side.values()):
            bad = np.flatnonzero(~np.isfinite(rows.columns["step"]))
            if len(bad):
                raise DataError(
                    f"{rows.source}, {rows.word} {rows.lines[bad[0]]}: the step is {rows.columns['step'][bad[0]]}, no "
                    f"number. Repair the row or take it out ({len(bad)} such).",
                    source=rows.source,
                    column="step",
                    rows=rows.lines[bad[:100]].tolist(),
                )


def rank_of(line: str) -> int | None:
    """Return the process that a line is marked with, None if it is not marked.

    Examples
    --------
    >>> rank_of("[default7]: iteration 12/ 20"), rank_of("3: iter 5: loss 2.1"), rank_of("iter 5: loss 2.1")
    (7, 3, None)
    """
    found = _RANK.search(line)
    return None if found is None else int(next(g for g in found.groups() if g is not None))


def choose_run(asked: str | None, runs: Mapping[str, str], source: str) -> str:
    """Return the key of one of several runs: the one asked for, or the only one.

    Parameters
    ----------
    asked : str, optional
        Name or key of a run.
    runs : mapping of str to str
        Key -> name.
    source : str
        Name for messages.

    Raises
    ------
    DataError
        There are several and none was asked for, or none of that name, or several of it.
    """
    names = list(dict.fromkeys(name if name == key else f"{name} ({key})" for key, name in runs.items()))
    shown = ", ".join(names[:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "")
    found = [key for key, name in runs.items() if asked in (None, key, name)]
    if len(found) == 1:
        return found[0]
    if asked is None:
        raise DataError(
            f"{source} holds {len(runs)} runs: say which with run=. They are {shown}", source=source
        )
    if not found:
        raise DataError(f"{source} has no run {asked!r}. It has {shown}", source=source, column="run")
    raise DataError(
        f"{source} has {len(found)} runs of the name {asked!r}: ask by key, one of {', '.join(found[:20])}",
        source=source,
        column="run",
    )
