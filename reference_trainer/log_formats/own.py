"""Our own runs: the folder of a run, or its log.jsonl alone. perf.jsonl and run.json beside it are read too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reference_trainer.log_formats.draft import Draft, RowBuilder, Rows
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.run_log import read_log
from scaling.errors import DataError
from scaling.findings import Finding

NAME = "run folder (log.jsonl)"
SHAPE = '{"kind": "step", "step": 12, "loss": 10.8, ...}'
#: Rows of perf.jsonl that are taken, by the names they have here.
_PACE = ("tokens_per_s", "wall_s", "usd", "goodput", "data_wait_ms", "step_ms")


def recognise(opened: Opened) -> bool:
    """Tell a run's folder, or a log whose rows have a kind."""
    if opened.is_folder:
        return (opened.path / "log.jsonl").is_file()
    first = next((line for line in opened.some() if line.strip()), "")
    return first.startswith('{"kind":') and '"step"' in first


def read(opened: Opened, ask: Ask) -> Draft:
    """Read the steps, evaluations, activations and actions of a run, its times, and its configuration."""
    log = opened.path / "log.jsonl" if opened.is_folder else opened.path
    steps, val, activations, actions = RowBuilder(), RowBuilder(), RowBuilder(), []
    packed = not opened.is_folder and not opened.path.read_bytes().startswith(b"{")
    for line, row in enumerate(_rows_of(opened) if packed else read_log(log), start=1):
        kind = row.pop("kind", "")
        numbers = {k: float(v) for k, v in row.items() if isinstance(v, int | float)}
        if kind == "step":
            steps.add(line, numbers)
        elif kind == "eval":
            val.add(line, {"step": numbers["step"], "val_loss": numbers["loss"]})
        elif kind == "activations":
            activations.add(line, numbers)
        elif kind == "action":
            actions.append({"line": line, **row})
    side = {"val": val.rows(str(log)), "activations": activations.rows(str(log))}
    draft = Draft(
        steps.rows(str(log)), {k: rows for k, rows in side.items() if len(rows)}, loss_unit="nats/token"
    )
    if actions:
        draft.facts["actions"] = actions
    _add_pace(draft, log.with_name("perf.jsonl"))
    _add_manifest(draft, log.parent)
    return draft


def _rows_of(opened: Opened) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log that was packed."""
    for number, line in enumerate(opened.lines, start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(
                f"{opened.name}: line {number} is no row of a log: {line[:60]!r}",
                source=opened.name,
                rows=(number,),
            ) from error
        yield {k: float(v) if v in ("nan", "inf", "-inf") else v for k, v in row.items()}


def _add_pace(draft: Draft, path: Path) -> None:
    if not path.is_file():
        return
    pace, alarms = RowBuilder(), []
    for line, row in enumerate(read_log(path), start=1):
        if row["kind"] == "perf":
            pace.add(line, {name: float(row[name]) for name in ("step", *_PACE) if row.get(name) is not None})
        elif row["kind"] == "alarm":
            alarms.append({"line": line, "step": row["step"], "why": row["why"]})
    if len(pace):
        draft.side["pace"] = _without_ms(pace.rows(str(path)))
    if alarms:
        draft.facts["pace_alarms"] = alarms


def _without_ms(rows: Rows) -> Rows:
    """Return rows with seconds in place of milliseconds."""
    renamed = {name: rows.columns[name] / 1e3 for name in ("step_ms", "data_wait_ms") if name in rows.columns}
    return rows.with_columns(**{name.replace("_ms", "_s"): values for name, values in renamed.items()})


def _add_manifest(draft: Draft, folder: Path) -> None:
    """Take from run.json and result.json what explains a log: batch, horizon, clip, schedule, machine."""
    manifest, result = _json(folder / "run.json"), _json(folder / "result.json")
    if manifest is None:
        draft.findings.append(
            Finding("no_manifest", "info", f"{folder}: no run.json beside the log, so settings are unknown")
        )
        return
    config: Mapping[str, Any] = manifest.get("config", {})
    facts = draft.facts
    facts["config"] = dict(config)
    facts["run_uri"] = str(folder)
    facts["machine"] = manifest.get("machine")
    facts["config_hash"] = manifest.get("config_hash")
    if config.get("batch_seqs") and config.get("seq_len"):
        facts["step_tokens"] = float(config["batch_seqs"] * config["seq_len"])
    for ours, theirs in (("clip", "clip"), ("usd_per_hour", "usd_per_hour"), ("peak_lr", "lr")):
        if isinstance(config.get(theirs), int | float) and config[theirs]:
            facts[ours] = float(config[theirs])
    if result is not None:
        facts["result"] = result
        if result.get("unique_tokens"):
            facts["unique_tokens"] = float(result["unique_tokens"])


def _json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error})", source=str(path)) from error
    return content if isinstance(content, dict) else None
