"""Text of llm.c and of what grew from it.

``step   12/19560 | loss 10.9 (+nanz)| norm 15.3 (+nanz)| lr 1.0e-06 | 212.50 ms | 46.1% bf16 MFU | 2466 tok/s`` on the
screen, ``s:12 trl:10.9 lr:0.000001 norm:15.30`` and ``s:250 tel:3.5`` in its main.log, ``step:250/5100 val_loss:3.5``
in the speed runs.
"""

from __future__ import annotations

import re

from reference_trainer.log_formats.draft import Draft, RowBuilder, rank_of
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.values import NUMBER, number, unix_time

NAME = "llm.c text"
SHAPE = "step 12/19560 | loss 10.9 (+nanz)| norm 15.3 (+nanz)| lr 1.0e-06 | 212 ms | 2466 tok/s"

_SCREEN = re.compile(rf"\bstep\s+(\d+)\s*/\s*(\d+)\s*\|\s*(?:train\s+)?loss\s+({NUMBER})", re.IGNORECASE)
_FILE = re.compile(rf"\bs:(\d+)\s+trl:\s*({NUMBER})", re.IGNORECASE)
_FILE_VAL = re.compile(rf"\bs:(\d+)\s+tel:\s*({NUMBER})", re.IGNORECASE)
_COLON = re.compile(
    rf"\bstep:(\d+)(?:/(\d+))?\s+(?:[|,]\s*)?(train_loss|val_loss|loss):\s*({NUMBER})", re.IGNORECASE
)
#: Belongs to the step before it: the screen does not repeat the number.
_VAL = re.compile(rf"^\W*val loss\s+({NUMBER})\s*$", re.IGNORECASE)
_MORE = {
    "grad_norm": re.compile(rf"\bnorm:?\s*({NUMBER})", re.IGNORECASE),
    "lr": re.compile(rf"\blr:?\s*({NUMBER})", re.IGNORECASE),
    "tokens_per_s": re.compile(rf"({NUMBER}[KMB]?)\s*tok(?:ens)?/s", re.IGNORECASE),
}
_MS = re.compile(rf"({NUMBER})\s*ms\b", re.IGNORECASE)
_MFU = re.compile(rf"({NUMBER})%\s*(?:\w+\s+)?MFU", re.IGNORECASE)
_BATCH = re.compile(r"\|\s*total_batch_size\s*\|\s*(\d+)|total desired batch size:\s*(\d+)", re.IGNORECASE)


def recognise(opened: Opened) -> bool:
    """Tell by a training line of the screen, of main.log, or of the speed runs."""
    return any(p.search(line) for line in opened.some() for p in (_SCREEN, _FILE, _FILE_VAL, _COLON))


def read(opened: Opened, ask: Ask) -> Draft:
    """Read the steps and the validation losses. Steps of the screen count from 1, those of main.log from 0."""
    steps, val, last = RowBuilder(), RowBuilder(), 0.0
    facts: dict[str, float] = {}
    for line, text in enumerate(opened.lines, start=1):
        row: dict[str, float] = {}
        if found := _SCREEN.search(text):
            row, facts["total_steps"] = {"step": number(found[1]), "loss": number(found[3])}, number(found[2])
            for name, pattern, factor in (("step_s", _MS, 1e-3), ("mfu", _MFU, 1e-2)):
                # Negative: the device's peak is not known to it.
                if (more := pattern.search(text)) and number(more[1]) >= 0:
                    row[name] = number(more[1]) * factor
        elif found := _FILE.search(text):
            row = {"step": number(found[1]), "loss": number(found[2])}
        elif found := _COLON.search(text):
            if found[2]:
                facts["total_steps"] = number(found[2])
            if found[3].lower() == "val_loss":
                val.add(line, {"step": number(found[1]), "val_loss": number(found[4])})
            else:
                row = {"step": number(found[1]), "loss": number(found[4])}
        elif found := _FILE_VAL.search(text):
            val.add(line, {"step": number(found[1]), "val_loss": number(found[2])})
        elif found := _VAL.search(text):
            val.add(line, {"step": last, "val_loss": number(found[1])})
        elif found := _BATCH.search(text):
            facts["step_tokens"] = float(found[1] or found[2])
        if row:
            last = row["step"]
            for name, pattern in _MORE.items():
                if more := pattern.search(text, found.end() if found else 0):
                    row[name] = number(more[1])
            for name, value in (("rank", rank_of(text)), ("time", unix_time(text[:40]))):
                if value is not None:
                    row[name] = float(value)
            steps.add(line, row)
    side = {"val": val.rows(opened.name)} if len(val) else {}
    return Draft(steps.rows(opened.name), side, facts)
