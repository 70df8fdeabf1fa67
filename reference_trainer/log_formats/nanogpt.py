"""Text of nanoGPT and its many descendants: ``iter 250: loss 3.2154, time 120.11ms, mfu 41.02%``."""

from __future__ import annotations

import re

from reference_trainer.log_formats.draft import Draft, RowBuilder, rank_of
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.values import NUMBER, number, unix_time

NAME = "nanoGPT text"
SHAPE = "iter 250: loss 3.2154, time 120.11ms, mfu 41.02%"

_STEP = re.compile(rf"\biter\s+(\d[\d,]*)\s*:\s*(?:train\s+)?loss\s+({NUMBER})", re.IGNORECASE)
_EVAL = re.compile(
    rf"\bstep\s+(\d[\d,]*)\s*:\s*train\s+loss\s+({NUMBER})\s*,\s*val\s+loss\s+({NUMBER})", re.IGNORECASE
)
_TIME = re.compile(rf"\btime:?\s+({NUMBER})\s*(ms|s)\b", re.IGNORECASE)
_MFU = re.compile(rf"\bmfu:?\s+({NUMBER})\s*(%?)", re.IGNORECASE)
_LR = re.compile(rf"\b(?:lr|learning[ _]rate):?\s+({NUMBER})", re.IGNORECASE)
_NORM = re.compile(rf"\b(?:grad[ _]?norm|gnorm|norm):?\s+({NUMBER})", re.IGNORECASE)
_BATCH = re.compile(rf"\btokens per iteration will be:\s*({NUMBER})", re.IGNORECASE)


def recognise(opened: Opened) -> bool:
    """Tell by a line of either kind."""
    return any(_STEP.search(line) or _EVAL.search(line) for line in opened.some())


def read(opened: Opened, ask: Ask) -> Draft:
    """Read the steps, and the evaluations as validation losses."""
    steps, val, facts = RowBuilder(), RowBuilder(), {}
    for line, text in enumerate(opened.lines, start=1):
        if found := _STEP.search(text):
            rest = text[found.end() :]
            row = {"step": number(found[1]), "loss": number(found[2])}
            if time := _TIME.search(rest):
                row["step_s"] = number(time[1]) * (1e-3 if time[2].lower() == "ms" else 1.0)
            # The first iterations of every start print -100%: nothing was measured yet.
            if (mfu := _MFU.search(rest)) and number(mfu[1]) >= 0:
                row["mfu"] = number(mfu[1]) / (100.0 if mfu[2] else 1.0)
            for name, pattern in (("lr", _LR), ("grad_norm", _NORM)):
                if more := pattern.search(rest):
                    row[name] = number(more[1])
            for name, value in (("rank", rank_of(text)), ("time", unix_time(text[: found.start()]))):
                if value is not None:
                    row[name] = float(value)
            steps.add(line, row)
        elif found := _EVAL.search(text):
            val.add(
                line, {"step": number(found[1]), "val_loss": number(found[3]), "train_loss": number(found[2])}
            )
        elif found := _BATCH.search(text):
            facts["step_tokens"] = number(found[1])
    side = {"val": val.rows(opened.name)} if len(val) else {}
    return Draft(steps.rows(opened.name), side, facts)
