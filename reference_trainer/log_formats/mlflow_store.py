"""An mlflow store in SQLite, read with SQLite itself: no server, no mlflow needed.

mlflow writes NaN as 0 with a mark, and infinities as the largest numbers there are; both are turned back.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from typing import Any

from reference_trainer.log_formats.draft import Draft, RowBuilder, choose_run
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.spellings import Meaning, understand
from reference_trainer.log_formats.table import unit_of
from scaling.errors import DataError
from scaling.units import parse_count

NAME = "mlflow store (SQLite)"
SHAPE = "a database with the tables runs and metrics"

#: Parameters of a run that explain its log -> what they are here.
_PARAMS = {"step_tokens": "step_tokens", "batch_tokens": "step_tokens", "clip": "clip", "grad_clip": "clip"}


def recognise(opened: Opened) -> bool:
    """Tell an SQLite file with mlflow's tables."""
    if not opened.is_sqlite:
        return False
    with _connected(opened) as database:
        names = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return {"runs", "metrics"} <= names


def read(opened: Opened, ask: Ask) -> Draft:
    """Read one run's metrics; ``lines`` are the rows of the table ``metrics``."""
    with _connected(opened) as database:
        runs = database.execute(
            "SELECT DISTINCT r.run_uuid, COALESCE(NULLIF(r.name, ''), r.run_uuid) FROM runs r "
            "JOIN metrics m ON m.run_uuid = r.run_uuid WHERE COALESCE(r.lifecycle_stage, 'active') = 'active'"
        ).fetchall()
        if not runs:
            raise DataError(f"{opened.name} holds no run with metrics", source=opened.name)
        run = choose_run(ask.run, dict(runs), opened.name)
        rows = database.execute(
            "SELECT rowid, key, value, is_nan, step, timestamp FROM metrics WHERE run_uuid = ? ORDER BY rowid",
            (run,),
        ).fetchall()
        params = dict(database.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run,)).fetchall())
    return _draft(opened, ask, rows, params, {**dict(runs)}[run], run)


def _draft(opened: Opened, ask: Ask, rows: list[Any], params: dict[str, str], name: str, run: str) -> Draft:
    keys = list(dict.fromkeys(row[1] for row in rows))
    told = {quantity: column for quantity, column in ask.columns.items() if quantity != "step"}
    known = understand([key for key in keys if key != "step"], told, opened.name)
    by_key: dict[str, tuple[str, Meaning]] = {column: (q, m) for q, (column, m) in known.items()}
    steps, val = RowBuilder(), RowBuilder()
    at: dict[float, dict[str, float]] = {}
    for rowid, key, value, is_nan, step, ms in rows:
        if key not in by_key:
            continue
        quantity, means = by_key[key]
        number = _unmarked(float(value), bool(is_nan)) * means.factor
        if quantity == "val_loss":
            val.add(rowid, {"step": float(step), "val_loss": number, "time": ms / 1e3})
            continue
        # A metric that comes again for a step: the run went back, and this is another row.
        row = at.get(float(step))
        if row is None or quantity in row:
            row = at[float(step)] = {"step": float(step), "time": ms / 1e3}
            steps.add(rowid, row)
        row[quantity] = number
    facts: dict[str, Any] = {"run": name, "run_uri": f"mlflow run {run} in {opened.name}", "config": params}
    for theirs, ours in _PARAMS.items():
        if theirs in params:
            facts[ours] = parse_count(params[theirs])
    if "step_tokens" not in facts and {"batch_seqs", "seq_len"} <= params.keys():
        facts["step_tokens"] = parse_count(params["batch_seqs"]) * parse_count(params["seq_len"])
    side = {"val": val.rows(opened.name, "row")} if len(val) else {}
    return Draft(steps.rows(opened.name, "row"), side, facts, loss_unit=unit_of(known, ask))


def _unmarked(value: float, is_nan: bool) -> float:
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value


class _connected:
    """Open the database to read; what is no database is a `DataError`."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def __enter__(self) -> sqlite3.Connection:
        self._database = sqlite3.connect(f"{self._opened.path.resolve().as_uri()}?mode=ro", uri=True)
        return self._database

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._database.close()
        if isinstance(error, sqlite3.Error):
            raise DataError(
                f"{self._opened.name}: the database cannot be read ({error})", source=self._opened.name
            ) from error
