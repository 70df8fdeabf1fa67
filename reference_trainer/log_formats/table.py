"""Tables: CSV, TSV, Parquet and JSON lines with one row a step, of our own, OLMo, Hugging Face or anybody's."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np

from reference_trainer.log_formats.draft import Draft, Floats, Rows, choose_run
from reference_trainer.log_formats.long_table import widen
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.spellings import Meaning, meaning, plain, understand
from reference_trainer.log_formats.units import PERPLEXITY, unit_by_perplexity
from reference_trainer.log_formats.values import quantity, unix_time
from scaling.cells import labels_of, names_text
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.reading.decimals import decimal_mark
from scaling.reading.formats import Raw, read_raw
from scaling.units import parse_loss_unit

NAME = "table (CSV, TSV, Parquet, JSON lines)"
SHAPE = "step,loss[,grad_norm,lr,...] with a header line"

#: Columns that tell runs apart, and the name Hugging Face gives to its rows.
_RUN = frozenset({"run", "run_id", "run_name", "name", "experiment", "seed"})
_HISTORY = "log_history"
#: An object, or a list of them; not a mark such as [rank0].
_JSON = re.compile(r"\s*(?:\{|\[\s*\{)")
_BAD_SHOWN = 5


class _Named(io.StringIO):
    """Text with the name of its file, for messages."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


def recognise(opened: Opened) -> bool:
    """Tell a table that has a column of steps and one of losses."""
    if opened.is_parquet:
        return True
    if not opened.is_text:
        return False
    first = next((line for line in opened.some() if line.strip() and not line.startswith("#")), "")
    if _JSON.match(opened.text):
        return _HISTORY in opened.text[:5000] or "step" in first or "iter" in first
    names = _split(first)
    found = {known.quantity for name in names if (known := meaning(name))}
    # A misspelt column must be answered with the columns there are, not with "unknown format".
    return (
        len(names) > 1 and bool(found & {"step", "loss", "val_loss", "lr", "grad_norm"}) and "=" not in first
    )


def _split(line: str) -> list[str]:
    mark = max(",;\t|", key=line.count)
    return [name.strip().strip('"') for name in line.split(mark)]


def read(opened: Opened, ask: Ask) -> Draft:
    """Read a table: rows with a loss become steps, those with a validation loss evaluations."""
    raw = raw_table(opened)
    raw, facts = _one_run(widen(raw), ask)
    known = understand(raw.columns, ask.columns, raw.source)
    if "step" not in known:
        raise DataError(
            f"{raw.source}: no column of steps among {names_text(raw.columns)}: name it with columns={{'step': ...}}",
            source=raw.source,
            column="step",
        )
    if not {"loss", "val_loss"} & known.keys():
        raise DataError(
            f"{raw.source}: no column of losses among {names_text(raw.columns)}: name it with columns={{'loss': ...}}",
            source=raw.source,
            column="loss",
        )
    draft = to_draft(raw, known, ask)
    draft.facts.update(facts)
    draft.loss_unit = draft.loss_unit or _unit_beside(raw, known)
    spare = [name for name in raw.columns if name not in {column for column, _ in known.values()}]
    if spare:
        message = f"columns that were left alone: {names_text(spare)}"
        draft.findings.append(Finding("columns_left", "info", message, {"columns": spare[:100]}))
    return draft


def raw_table(opened: Opened) -> Raw:
    """Return names and cells of a table; a last line that was not finished is left out and said.

    Raises
    ------
    DataError
        It is no table, has a header alone, or has rows that do not fit the header.
    """
    if opened.is_parquet:
        return read_raw(io.BytesIO(opened.content))
    text, findings = opened.text, []
    if text.lstrip()[:1] == "{" and (text.count("\n") < 2 or _HISTORY in text[:5000]):
        text = _history(text, opened.name)
    elif text.lstrip()[:1] == "{" and not text.endswith("\n"):
        cut = text.rindex("\n")  # a run that is being written, or was killed
        if not _is_json(text[cut:]):
            text = text[:cut]
            findings.append(_unfinished(text.count("\n") + 2))
    raw = read_raw(_Named(text, opened.name))
    bad = dict(raw.bad)
    last = len(raw.row) - 1
    if last in bad and "header" not in bad[last].split()[0] and not text.endswith("\n"):
        findings.append(_unfinished(int(raw.row[last])))
        del bad[last]
        raw = _take(raw, np.arange(last))
    headers = [i for i, why in bad.items() if why.startswith("repeats the header")]
    if headers:
        # Restarted runs that append write their header again.
        lines = [int(raw.row[i]) for i in headers]
        findings.append(
            Finding("header_again", "info", f"the header comes again in {_lines(lines)}", {"rows": lines})
        )
        bad = {i: why for i, why in bad.items() if i not in headers}
    if bad:
        rows = [int(raw.row[i]) for i in sorted(bad)]
        first = bad[min(bad)]
        raise DataError(
            f"{raw.source}, {_lines(rows)}: {first}. Repair the rows or take them out.",
            source=raw.source,
            rows=rows,
        )
    keep = np.setdiff1d(np.arange(len(raw.row)), headers)
    raw = _take(raw, keep)
    raw.findings.extend(findings)
    return raw


def _take(raw: Raw, keep: Any) -> Raw:
    columns = {name: cells[keep] for name, cells in raw.columns.items()}
    return Raw(
        columns, raw.row[keep], raw.row_word, raw.source, {}, list(raw.findings), delimiter=raw.delimiter
    )


def _unfinished(line: int) -> Finding:
    return Finding(
        "unfinished_line", "info", f"line {line}, the last, was not written to its end and is left out"
    )


def _lines(rows: list[int]) -> str:
    shown = ", ".join(map(str, rows[:_BAD_SHOWN])) + (
        f", ... ({len(rows)} in all)" if len(rows) > _BAD_SHOWN else ""
    )
    return f"line{'s' if len(rows) > 1 else ''} {shown}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _history(text: str, source: str) -> str:
    """Return the rows of a Hugging Face ``trainer_state.json`` as JSON; anything else as it is."""
    try:
        content = json.loads(text)
    except ValueError:
        return text
    rows = content.get(_HISTORY) if isinstance(content, dict) else None
    return text if not isinstance(rows, list) else json.dumps(rows)


def _one_run(raw: Raw, ask: Ask) -> tuple[Raw, dict[str, Any]]:
    """Return the rows of one run, where a column tells several apart."""
    for name, cells in raw.columns.items():
        if plain(name) not in _RUN or name in ask.columns.values():
            continue
        labels = labels_of(cells)
        names = [str(label) for label in dict.fromkeys(labels.tolist()) if label is not None]
        if len(names) > 1:
            run = choose_run(ask.run, {label: label for label in names}, f"{raw.source} (column {name})")
            return _take(raw, np.flatnonzero(labels == run)), {"run": run}
        if names and ask.run in (None, names[0]):
            return raw, {"run": names[0]}
    if ask.run is not None:
        raise DataError(
            f"{raw.source}: no column tells runs apart, so there is no run {ask.run!r} to choose",
            source=raw.source,
            column="run",
        )
    return raw, {}


def to_draft(raw: Raw, known: dict[str, tuple[str, Meaning]], ask: Ask) -> Draft:
    """Read the cells of a table whose columns are understood."""
    text = {q: c for q, (c, _) in known.items() if raw.columns[c].dtype == object}
    losses = [c for q, c in text.items() if q in ("loss", "val_loss", "loss_min", "loss_max")]
    decimal, findings = decimal_mark(raw, [c for q, c in text.items() if q != "time"], losses)
    columns: dict[str, Floats] = {}
    absent: dict[str, Any] = {}
    for name, (column, means) in known.items():
        values, empty = _numbers(raw, column, name, decimal)
        columns[name], absent[name] = values * means.factor, empty
    if "mfu" in columns:
        columns["mfu"] = _as_share(columns["mfu"])
    if absent["step"].any():
        rows = raw.row[absent["step"]].tolist()
        raise DataError(
            f"{raw.source}, {_lines(rows)}: no step: give every row one",
            source=raw.source,
            column="step",
            rows=rows,
        )
    rows = Rows(columns, absent, raw.row, raw.source, raw.row_word)
    side = {}
    if "val_loss" in columns:
        only = rows.take(~absent["val_loss"])
        side["val"] = Rows(
            {n: only.columns[n] for n in ("step", "val_loss")}, {n: only.absent[n] for n in ("step", "val_loss")},
            only.lines, only.source, only.word,
        )  # fmt: skip
        others = [name for name in columns if name not in ("step", "val_loss", "time", "wall_s", "epoch")]
        empty = np.all([absent[name] for name in others], axis=0) if others else np.ones(len(rows), bool)
        rows = rows.take(~empty)
    return Draft(rows, side, {}, raw.findings + findings, loss_unit=unit_of(known, ask))


def _unit_beside(raw: Raw, known: dict[str, tuple[str, Meaning]]) -> str:
    """Return the unit that a column of perplexities beside the losses tells, empty where it tells none."""
    column = next((name for name in raw.columns if plain(name) in PERPLEXITY), None)
    if column is None or "loss" not in known or known["loss"][0] == column:
        return ""
    try:
        loss, perplexity = (_numbers(raw, name, "loss", ".")[0] for name in (known["loss"][0], column))
    except DataError:
        return ""  # a decimal comma, or a cell that is no number: nothing that the losses need
    return unit_by_perplexity(loss, perplexity)


def unit_of(known: dict[str, tuple[str, Meaning]], ask: Ask) -> str:
    """Return the unit of the losses, as the caller or the column says; empty where neither does."""
    if ask.loss_unit is not None:
        return parse_loss_unit(ask.loss_unit)
    return known["loss"][1].unit if "loss" in known else ""


def _numbers(raw: Raw, column: str, name: str, decimal: str) -> tuple[Floats, Any]:
    cells = raw.columns[column]
    if cells.dtype.kind in "iuf":
        values: Floats = cells.astype(np.float64)
        return values, np.isnan(values)
    values = np.full(len(cells), np.nan)
    empty = np.zeros(len(cells), dtype=bool)
    bad: list[tuple[int, str]] = []
    for i, cell in enumerate(cells.tolist()):
        try:
            value = unix_time(cell) if name == "time" and isinstance(cell, str) else None
            value = quantity(cell, decimal) if value is None else value
        except DataError as error:
            bad.append((int(raw.row[i]), str(error)))
            continue
        if value is None:
            empty[i] = True
        else:
            values[i] = value
    if bad:
        raise DataError(
            f"{raw.source}, {_lines([row for row, _ in bad])}, column {column!r}: {bad[0][1]}",
            source=raw.source,
            column=column,
            rows=[row for row, _ in bad],
        )
    return values, empty


def _as_share(values: Floats) -> Floats:
    """Return utilisation as a share of 1: nothing reaches 150%, so larger numbers are percent."""
    finite = values[np.isfinite(values)]
    return values / 100.0 if len(finite) and float(np.max(finite)) > 1.5 else values
