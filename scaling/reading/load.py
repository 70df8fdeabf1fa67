"""The steps of reading a table, in order; `scaling.table.load_runs` is the door to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scaling.audit import Audit
from scaling.cells import Floats
from scaling.errors import DataError, DataWarning, warn
from scaling.reading import bands, checks, derive, groups, repeats, scales, summaries
from scaling.reading.columns import ROLES
from scaling.reading.draft import Draft
from scaling.reading.formats import read_raw
from scaling.reading.frames import Where, is_index_name, rows_where, typed_column, typed_frame, where_text
from scaling.reading.losses import settle_loss
from scaling.reading.match import OK_WORDS
from scaling.reading.understand import Understanding, others, understand
from scaling.runs import RunTable
from scaling.units import parse_count

_SPLITS = {"tra": "train", "val": "validation", "eva": "validation", "tes": "validation", "dev": "validation"}
_OPTIONAL = ("flops", "sigma", "loss_se_eval", "unique_tokens", "params_active")
_AS_COVARIATES = ("batch_tokens", "warmup_tokens", "bytes_per_token")


@dataclass(frozen=True)
class Options:
    """The options of `scaling.table.load_runs`, which documents them."""

    columns: Mapping[str, Any] | None = None
    where: Where | None = None
    loss_unit: str | None = None
    bytes_per_token: float | None = None
    warmup_tokens: float | str | None = None
    on_bad: str = "raise"
    status: str | Collection[str] | None = "ok"
    decimal: str | None = None
    allow: tuple[str, ...] = ()


def load(source: Any, options: Options) -> RunTable:
    """Read a table: choose columns, select rows, settle bad cells and units, look for doubts."""
    if isinstance(source, RunTable):
        if options.where is not None or replace(options, where=None) != Options():
            raise DataError(
                "these runs have been read already: choose rows with runs.select(mask)", column="source"
            )
        return source
    if options.on_bad not in ("raise", "drop"):
        raise DataError(f"on_bad={options.on_bad!r}: give 'raise' or 'drop'", column="on_bad")
    derive.require_positive_argument("bytes_per_token", options.bytes_per_token)
    warmup_tokens = options.warmup_tokens
    if isinstance(warmup_tokens, str):
        warmup_tokens = parse_count(warmup_tokens)
    derive.require_positive_argument("warmup_tokens", warmup_tokens)
    draft = Draft(read_raw(source), options.allow)
    found = understand(draft, options.columns, options.decimal)
    if warmup_tokens is not None:
        draft.values["warmup_tokens"] = np.full(len(draft.raw.row), float(warmup_tokens))
        draft.columns["warmup_tokens"] = ("argument", f"{warmup_tokens:g} for all rows")
    derive.derive(draft, found)
    frame = typed_frame(draft.raw, draft.decimal)
    if options.where is not None:
        _select(draft, frame, options.where)
    _take_status(draft, options.status)
    summaries.check_summaries(draft)
    draft.settle_bad(options.on_bad)
    repeats.drop_duplicates(draft, found)
    derive.check_steps(draft, found)
    scales.check_counts(draft, found)
    unit, stated = settle_loss(draft, found, options.loss_unit, options.bytes_per_token)
    groups.check_data(draft)
    bands.check_loss_bands(draft, stated)
    repeats.check_repeats(draft)
    checks.check_flops(draft, found)
    checks.check_training(draft, found)
    table = _finish(draft, found, frame, unit)
    _warn(table)
    return table


def _select(draft: Draft, frame: Any, where: Where) -> None:
    """Apply ``where=`` to the columns of the table, and to quantities that no column is named after."""
    extra = {k: v for k, v in draft.values.items() if k not in frame.columns}
    mask = rows_where(frame.assign(**extra), where, draft.raw.source)
    draft.note("where", "info", f"where={where_text(where)} takes {int(mask.sum())} of {len(mask)} rows")
    draft.keep(mask, None)


def _take_status(draft: Draft, status: str | Collection[str] | None) -> None:
    """Leave out runs that did not end as planned."""
    labels = draft.label("status")
    if labels is None or status is None:
        return
    wanted = {s.lower() for s in ([status] if isinstance(status, str) else status)}
    wanted |= OK_WORDS if "ok" in wanted else set()
    mask = np.array([label is not None and label.lower() in wanted for label in labels])
    if mask.all():
        return
    counts: dict[str, int] = {}
    for label in labels[~mask]:
        counts[str(label)] = counts.get(str(label), 0) + 1
    listed = ", ".join(f"{n} {name}" for name, n in counts.items())
    if not mask.any():
        raise DataError(
            f"{draft.raw.source}: no row has status {' or '.join(sorted(wanted))} (there are: {listed}); pass "
            "status=... or status=None to take them",
            source=draft.raw.source,
            column=draft.columns["status"][0],
        )
    draft.note("status", "info", f"left out by status: {listed}", counts=counts)
    words = draft.labels["status"]
    draft.keep(mask, lambda p: f"status {words[p]}")


def _finish(draft: Draft, found: Understanding, frame: Any, unit: str) -> RunTable:
    """Make the table of the rows that are left."""
    optional: dict[str, Any] = {}
    for role in _OPTIONAL:
        values = draft.column(role)
        if values is None or np.isnan(values).all():
            continue
        if np.isnan(values).any():
            empty = np.isnan(values)
            message = (
                f"{role} is empty in {draft.rows_text(empty)}: not used; fill it in for all rows or none"
            )
            severity = "info" if role == "flops" else "warning"  # no fit uses the FLOPs column
            draft.note("incomplete_column", severity, message, rows=draft.row_numbers(empty))
            continue
        optional[role] = values
    kept_frame = frame.iloc[draft.kept].reset_index(drop=True)
    labels: dict[str, Any] = {role: draft.label(role) for role in ("run_id", "trunk_id", "seed", "status")}
    loss = found.chosen["loss"].header
    loss_kind = loss.kind or _loss_kind(draft)
    names = list(draft.raw.columns)
    covariates = _covariates(draft, found)
    order = {role: i for i, role in enumerate(ROLES)}
    audit = Audit(
        columns=dict(sorted(draft.columns.items(), key=lambda item: order.get(item[0], 0))),
        n_read=len(draft.raw.row),
        n_kept=len(draft.kept),
        dropped=tuple(sorted(draft.dropped)),
        findings=tuple(draft.findings),
        unused=tuple(name for name in names if name not in found.used and name not in covariates),
        source=draft.raw.source,
        row_word=draft.raw.row_word,
    )
    params = found.chosen.get("params")
    return RunTable.from_arrays(
        params=draft.values["params"][draft.kept],
        tokens=draft.values["tokens"][draft.kept],
        loss=draft.values["loss"][draft.kept],
        **optional,
        **{role: label for role, label in labels.items() if label is not None},
        row=draft.raw.row[draft.kept],
        covariates=covariates,
        loss_unit=unit,
        loss_kind=loss_kind,
        params_kind=(params.header.kind if params is not None else "") or "unstated",
        frame=kept_frame,
        source=draft.raw.source,
        audit=audit,
    )


def _covariates(draft: Draft, found: Understanding) -> dict[str, Floats]:
    """Return every other numeric column of the kept rows."""
    only_checks = {found.chosen[r].seen for r in ("steps", "batch", "seq_len", "epochs") if r in found.chosen}
    taken = found.used - only_checks
    out = {role: draft.values[role][draft.kept] for role in _AS_COVARIATES if role in draft.values}
    out |= {name: values[draft.kept] for name, values in others(draft, found).items()}
    for name, cells in draft.raw.columns.items():
        if name not in taken and not is_index_name(name):
            column = typed_column(cells[draft.kept], draft.decimal)
            if column.dtype.kind in "iuf":
                out[name] = column.astype(np.float64)
    return out


def _loss_kind(draft: Draft) -> str:
    """Read the split of the loss from its column, where all rows agree."""
    words = (
        sorted({str(x).lower() for x in draft.labels["loss_kind"][draft.kept]})
        if "loss_kind" in draft.labels
        else []
    )
    kinds = {_SPLITS.get(word[:3], "unstated") for word in words}
    if len(words) > 1 and len(kinds) > 1:
        draft.note("mixed_splits", "warning", f"the losses are of several splits: {', '.join(words)}")
    return kinds.pop() if len(kinds) == 1 else "unstated"


def _warn(table: RunTable) -> None:
    doubts = table.audit.warnings
    if doubts:
        codes = ", ".join(dict.fromkeys(f.code for f in doubts))
        warn(
            f"{table.source}: {len(doubts)} doubt{'s' * (len(doubts) > 1)} about this table ({codes}); "
            f"print(runs.audit) says more. First: {doubts[0].message}",
            DataWarning,
        )
