"""Text with names and numbers in one line, of programs that have no reader of their own: ``step: 10 loss: 7.6``.

So print torchtitan, build-nanogpt, litgpt, fairseq and metaseq (JSON inside a line), and many scripts. A line counts
that has a step and a loss. It is tried last.
"""

from __future__ import annotations

import re

from reference_trainer.log_formats.draft import Draft, RowBuilder, rank_of
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.spellings import meaning, plain
from reference_trainer.log_formats.units import PERPLEXITY, unit_by_perplexity
from reference_trainer.log_formats.values import NUMBER, number, unix_time

NAME = "text with names and numbers"
SHAPE = "step: 10  loss: 7.61  grad_norm: 3.9  lr: 1e-4"

_PAIR = re.compile(
    rf"[\"']?([A-Za-z_][\w./]*(?:[ _-][A-Za-z]\w*)?)[\"']?(?:\s*[:=]\s*|\s+)[\"']?({NUMBER})(?![\w.])?\s*(%|ms\b)?",
    re.IGNORECASE,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: The level that a logger prints; beside ``step=3`` it would be taken for a part of the name.
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR)\b")
_FACTOR = {"%": 0.01, "ms": 1e-3, "": 1.0}
#: Lines that must have a step and a loss.
_LEAST = 2
#: Beside them others may count micro-batches.
_OPTIMIZER_STEP = frozenset({"step", "global_step", "num_updates"})


def recognise(opened: Opened) -> bool:
    """Tell by two lines with a step and a loss."""
    found = 0
    for line in opened.some():
        row = _row(line)
        found += "step" in row and "loss" in row
        if found >= _LEAST:
            return True
    return False


def read(opened: Opened, ask: Ask) -> Draft:
    """Read the lines that have a step, with a training or a validation loss."""
    steps, val = RowBuilder(), RowBuilder()
    for line, text in enumerate(opened.lines, start=1):
        row = _row(text)
        if "step" not in row:
            continue
        if "val_loss" in row:
            val.add(line, {"step": row["step"], "val_loss": row["val_loss"]})
        if "loss" in row:
            for name, value in (("rank", rank_of(text)), ("time", unix_time(text[:40]))):
                if value is not None:
                    row[name] = float(value)
            steps.add(line, row)
    rows = steps.rows(opened.name)
    unit = unit_by_perplexity(rows.columns.get("loss"), rows.columns.get("perplexity"))
    side = {"val": val.rows(opened.name)} if len(val) else {}
    return Draft(rows, side, loss_unit=unit)


def _row(text: str) -> dict[str, float]:
    """Return the quantities of a line: of a name that comes twice the first, of steps the optimizer's own."""
    row: dict[str, float] = {}
    for name, value, unit in _PAIR.findall(_LEVEL.sub("|", _COLOUR.sub("", text))):
        key, known = plain(name), meaning(name)
        quantity = known.quantity if known is not None and not known.unit else ""
        if key in PERPLEXITY:
            quantity = "perplexity"
        elif key == "dt" and unit:
            quantity = "step_s"
        if quantity and (quantity not in row or key in _OPTIMIZER_STEP):
            row[quantity] = (
                number(value) * _FACTOR[unit.lower()] * (known.factor if known is not None else 1.0)
            )
    return row
