"""CSV that the charts of wandb export: ``Step``, and for each run ``<run> - train/loss``, ``__MIN`` and ``__MAX``."""

from __future__ import annotations

import csv

from reference_trainer.log_formats.draft import Draft, choose_run
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.spellings import Meaning, understand
from reference_trainer.log_formats.table import raw_table, to_draft
from scaling.cells import names_text
from scaling.errors import DataError
from scaling.findings import Finding

NAME = "wandb CSV export"
SHAPE = '"Step","<run> - train/loss","<run> - train/loss__MIN","<run> - train/loss__MAX"'

_BETWEEN, _MIN, _MAX = " - ", "__MIN", "__MAX"


def recognise(opened: Opened) -> bool:
    """Tell by columns in pairs of run and metric."""
    first = opened.some()[:1] if opened.is_text else []
    try:
        names = next(csv.reader(first), [])
    except csv.Error:
        return False
    return any(_BETWEEN in name and name.endswith((_MIN, _MAX)) for name in names) or (
        len(names) > 1 and names[0].strip().lower() == "step" and all(_BETWEEN in name for name in names[1:])
    )


def read(opened: Opened, ask: Ask) -> Draft:
    """Read one run's columns. Rows that are averages over several steps are said to be."""
    raw = raw_table(opened)
    by_run: dict[str, dict[str, str]] = {}
    for name in raw.columns:
        run, mark, metric = name.rpartition(_BETWEEN)
        if mark:
            by_run.setdefault(run, {})[metric] = name
    run = choose_run(ask.run, {name: name for name in by_run}, opened.name)
    metrics = by_run[run]
    steps = next(
        (name for name in raw.columns if _BETWEEN not in name and name.lower().endswith("step")), None
    )
    step = ask.columns.get("step") or steps or metrics.get("_step") or metrics.get("step")
    if step is None or step not in raw.columns:
        shared = names_text(name for name in raw.columns if _BETWEEN not in name)
        raise DataError(
            f"{opened.name}: the rows are numbered by {shared or 'nothing'}, not by steps: export the chart with Step "
            "on its x axis",
            source=opened.name,
            column="step",
        )
    whole = {metric: name for metric, name in metrics.items() if not metric.endswith((_MIN, _MAX))}
    told = {quantity: column for quantity, column in ask.columns.items() if quantity != "step"}
    known = {
        q: (whole[m], means) for q, (m, means) in understand(whole, told, opened.name).items() if q != "step"
    }
    known["step"] = step, Meaning("step")
    if not {"loss", "val_loss"} & known.keys():
        raise DataError(
            f"{opened.name}: no loss among the metrics of {run} ({names_text(whole)}): name it with "
            "columns={'loss': ...}, or export the chart of the loss",
            source=opened.name,
            column="loss",
        )
    for quantity, tail in (("loss_min", _MIN), ("loss_max", _MAX)):
        column = known["loss"][0] + tail if "loss" in known else ""
        if column in raw.columns:
            known[quantity] = column, Meaning(quantity)
    draft = to_draft(raw, known, ask)
    # The rows of the other runs of the chart are empty in these columns.
    empty = draft.steps.absent.get("loss")
    if empty is not None:
        draft.steps = draft.steps.take(~empty)
    draft.facts["run"] = run
    _say_averages(draft)
    return draft


def _say_averages(draft: Draft) -> None:
    rows = draft.steps.columns
    if "loss_min" not in rows or "loss_max" not in rows:
        return
    wide = rows["loss_max"] > rows["loss_min"]
    if wide.any():
        draft.facts["averaged"] = True
        draft.findings.append(
            Finding(
                "averaged_rows",
                "warning",
                f"{int(wide.sum()):,} of {len(wide):,} rows are averages over several steps: a spike of single steps "
                "shows in loss_max alone. Export the run's full history for more.",
                {"rows": int(wide.sum())},
            )
        )
