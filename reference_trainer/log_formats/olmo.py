"""Text of OLMo: ``[step=1/739328]``, then one indented ``name=value`` a line. Its CSV is read as any other table."""

from __future__ import annotations

import re

from reference_trainer.log_formats.draft import Draft, RowBuilder, rank_of
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.spellings import meaning
from reference_trainer.log_formats.values import NUMBER, number, unix_time

NAME = "OLMo text"
SHAPE = "[step=1/739328] and below it train/CrossEntropyLoss=11.25"

_STEP = re.compile(r"\[step=(\d+)(?:/(\d+))?[^\]]*\]")
_VALUE = re.compile(rf"^\s*([A-Za-z][\w./ ()-]*?)=({NUMBER})\s*$", re.IGNORECASE)
_EVAL = re.compile(r"eval/.*?(?:CrossEntropyLoss|loss)$", re.IGNORECASE)


def recognise(opened: Opened) -> bool:
    """Tell by the header of a step."""
    return any(_STEP.search(line) for line in opened.some())


def read(opened: Opened, ask: Ask) -> Draft:
    """Read the steps; evaluation losses belong to the step before them, and each data set is one row."""
    steps, val, facts = RowBuilder(), RowBuilder(), {}
    row: dict[str, float] = {}
    for line, text in enumerate(opened.lines, start=1):
        if found := _STEP.search(text):
            row = {"step": number(found[1])}
            if found[2]:
                facts["total_steps"] = number(found[2])
            for name, extra in (("rank", rank_of(text)), ("time", unix_time(text[: found.start()]))):
                if extra is not None:
                    row[name] = float(extra)
            steps.add(line, row)
        elif row and (found := _VALUE.match(text)):
            name, value = found[1], number(found[2])
            known = meaning(name)
            if _EVAL.match(name):
                val.add(line, {"step": row["step"], "val_loss": value})
            elif known is not None and not known.unit:
                row.setdefault(known.quantity, value * known.factor)
    side = {"val": val.rows(opened.name)} if len(val) else {}
    return Draft(steps.rows(opened.name), side, facts)
