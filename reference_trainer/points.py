"""The points table: one row for every run of a ladder that has ended, a function of the runs' own results alone.

The file is written whole and renamed each time a run ends, by the one process that sweeps. So it never holds a row
twice or half a row, its rows stand in the order of the plan, and a sweep that was killed and started again leaves the
same file: byte for byte, but for what tells of times (`TIMES`).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reference_trainer.branch import config_of
from reference_trainer.errors import ConfigError
from reference_trainer.ladder import Plan, Run
from reference_trainer.lr_choice import at_edge
from reference_trainer.noise import run_to_run
from reference_trainer.run_folder import write_whole

#: Columns of the table; `scaling.load_runs` reads them with no options.
COLUMNS = (
    *("run_id", "trunk_id", "seed", "params_total", "params_non_embedding", "params_matmul", "tokens"),
    *("unique_tokens", "flops", "loss", "loss_unit", "bytes_per_token", "loss_se_eval", "sigma", "val_hash"),
    *("tokenizer", "lr", "batch", "seq_len", "cooldown", "status", "wall_s", "device", "usd", "mfu", "git"),
    *("config_hash", "size_name", "lr_rule", "error"),
)
#: Those that hold times and what follows from them.
TIMES = ("wall_s", "usd", "mfu", "git")


def result_of(plan: Plan, run: Run, lr: float) -> dict[str, Any] | None:
    """Return the result of a run, None where it has none yet.

    Raises
    ------
    ConfigError
        The folder holds another run: of another configuration, other data, or another evaluation.
    """
    folder = plan.folder(run)
    begun = _read(folder / "run.json")
    if begun is None:
        return None
    config = config_of(plan, run, lr)
    found: dict[str, Any] = {"config_hash": begun["config_hash"], "train_hash": begun["train_hash"]}
    wanted: dict[str, Any] = {"config_hash": config.hash(), "train_hash": plan.data.train_hash}
    result = _read(folder / "result.json")
    if result is not None:
        found |= {"config_hash": result["config_hash"], "val_hash": result["val_hash"]}
        wanted["val_hash"] = plan.data.val_hash[:16]
        if result["eval_tokens"] is not None:
            found["eval_tokens"], wanted["eval_tokens"] = result["eval_tokens"], plan.data.eval_tokens
    differ = [f"{key} {found[key]} -> {wanted[key]}" for key in found if found[key] != wanted[key]]
    if differ:
        before, now = begun["config"], vars(config)
        settings = [
            f"{k} {before[k]!r} -> {now[k]!r}" for k in before if k in now and _other(before[k], now[k], k)
        ]
        raise ConfigError(
            f"{folder} holds a run that the ladder no longer asks for ({', '.join([*differ, *settings])}): give "
            "another out, or move that folder away to train it again",
            source=str(folder),
        )
    return result


def _other(before: Any, now: Any, key: str) -> bool:
    now = list(now) if isinstance(now, tuple) else now
    aside = ("run_dir", "start_from", "checkpoint_at", "usd_per_hour", "run_name", "train_data", "val_data")
    return bool(before != now) and key not in aside


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return content
    except FileNotFoundError:
        return None


def lr_rule(plan: Plan, size: str, lr: float | None) -> str:
    """Say where the learning rate of a size comes from."""
    found = plan.size[size]
    if not found.lr_grid:
        return found.lr_rule
    tokens = next(run.tokens for run in plan.checks if run.size == size)
    edge = lr is not None and at_edge(lr, found.lr_grid)
    return f"{found.lr_rule} at {tokens} tokens{' (edge of the grid)' if edge else ''}"


def rows(
    plan: Plan, runs: Sequence[Run], results: Mapping[str, Mapping[str, Any]], errors: Mapping[str, str],
    rates: Mapping[str, float | None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return one row for every run that has ended, in the order of the runs.

    Parameters
    ----------
    plan : Plan
    runs : sequence of Run
        Which of its runs.
    results : mapping of run id to result
        What the runs' ``result.json`` say.
    errors : mapping of run id to str
        Runs without a result, and why: their rows have the status failed.
    rates : mapping of size to float or None
        Learning rate of each size.
    """
    out = []
    for run in runs:
        if run.run_id not in results and run.run_id not in errors:
            continue
        arch, lr = plan.size[run.size].arch, run.lr if run.lr is not None else rates.get(run.size)
        row: dict[str, Any] = {f"params_{c}": arch.params(c) for c in ("total", "non_embedding", "matmul")}
        row |= {"seed": run.seed, "tokens": run.tokens, "flops": run.flops, "lr": lr, "batch": plan.step_tokens,
                "seq_len": plan.common["seq_len"], "cooldown": plan.file.cooldown, "status": "failed",
                "config_hash": config_of(plan, run, lr).hash() if lr is not None else None}  # fmt: skip
        row |= {key: value for key, value in results.get(run.run_id, {}).items() if key in COLUMNS}
        row |= {"run_id": run.run_id, "trunk_id": run.trunk_id, "size_name": run.size,
                "lr_rule": "tried" if run.kind == "check" else lr_rule(plan, run.size, lr),
                "error": errors.get(run.run_id) or fault_of(results.get(run.run_id))}  # fmt: skip
        out.append({name: row.get(name) for name in COLUMNS})
    return out


def fault_of(result: Mapping[str, Any] | None) -> str | None:
    """Say what went wrong in a run whose result has the status failed; None for any other."""
    if result is None or result["status"] != "failed":
        return None
    if result["ended_by"] == "horizon":
        return f"its last loss is {result['loss']}"
    return f"stopped at step {result['steps']}: {result['ended_by']}"


def with_sigma(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fill the column ``sigma`` of the points: the run-to-run deviation of `noise.run_to_run` at (size, tokens)."""
    points: dict[tuple[str, int], list[float]] = {}
    for row in table:
        if row["status"] == "ok":
            points.setdefault((row["size_name"], row["tokens"]), []).append(row["loss"])
    sigma = run_to_run(points)
    return [
        {**row, "sigma": sigma.get((row["size_name"], row["tokens"])) if row["status"] == "ok" else None}
        for row in table
    ]


def write_table(path: Path, table: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV: whole or not at all, on the disk when this returns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(table[0]) if table else list(COLUMNS)
    writer.writerow(names)
    writer.writerows([[_cell(row[name]) for name in names] for row in table])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue().encode())


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)
