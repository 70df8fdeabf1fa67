"""Lines of Megatron-LM, Megatron-DeepSpeed (BLOOM) and GPT-NeoX (Pythia): ``iteration 10/ 143000 | key: value |``.

An iteration whose update was skipped (the loss scale was too high) has no loss in it; that is no broken loss. One in
which NaN was met is counted as ``number of nan iterations`` and prints no loss either; that is one.
"""

from __future__ import annotations

import math
import re

from reference_trainer.log_formats.draft import Draft, RowBuilder, rank_of
from reference_trainer.log_formats.opened import Ask, Opened
from reference_trainer.log_formats.spellings import plain
from reference_trainer.log_formats.values import NUMBER, number, unix_time
from scaling.findings import Finding

NAME = "Megatron or GPT-NeoX text"
SHAPE = "iteration 1000/ 143000 | elapsed time per iteration (ms): 812.3 | learning rate: 1.0E-04 | lm loss: 2.5E+00 |"

_LINE = re.compile(r"\biteration\s+(\d+)(?:\s*\[\s*\d+\s*\])?\s*/\s*(\d+)\s*\|")
_VAL = re.compile(
    rf"validation (?:loss|results) at iteration\s+(\d+).*?\blm[ _]loss value:\s*({NUMBER})", re.IGNORECASE
)
_FIELD = re.compile(rf"([^|:]+?(?:\([^()|]*\))?)\s*:\s*({NUMBER})\s*(\w*)", re.IGNORECASE)
#: Key of a field, without signs -> quantity and factor.
_KEYS = {
    "lm_loss": ("loss", 1.0), "loss": ("loss", 1.0), "learning_rate": ("lr", 1.0), "grad_norm": ("grad_norm", 1.0),
    "elapsed_time_per_iteration_ms": ("step_s", 1e-3), "elapsed_time_per_iteration_s": ("step_s", 1.0),
    "params_norm": ("param_norm", 1.0), "loss_scale": ("loss_scale", 1.0), "consumed_samples": ("samples", 1.0),
    "consumed_tokens": ("tokens", 1.0), "global_batch_size": ("step_seqs", 1.0), "seqlen": ("seq_len", 1.0),
    "actual_seqlen": ("seq_len", 1.0), "curriculum_seqlen": ("seq_len", 1.0),
    "number_of_skipped_iterations": ("skipped", 1.0), "skipped_iterations": ("skipped", 1.0),
    "number_of_nan_iterations": ("nans", 1.0), "nan_iterations": ("nans", 1.0), "samples_sec": ("seqs_per_s", 1.0),
    "samples_per_second": ("seqs_per_s", 1.0), "tokens_per_gpu_per_second_tgs": ("device_tokens_per_s", 1.0),
    "throughput_tokens_s": ("tokens_per_s", 1.0),
}  # fmt: skip


def recognise(opened: Opened) -> bool:
    """Tell by a training line."""
    return any(_LINE.search(line) for line in opened.some())


def read(opened: Opened, ask: Ask) -> Draft:
    """Read the iterations and the validation losses."""
    steps, val, facts, scaled = RowBuilder(), RowBuilder(), {}, 0
    for line, text in enumerate(opened.lines, start=1):
        if found := _LINE.search(text):
            row, facts["total_steps"] = {"step": number(found[1])}, number(found[2])
            fields = text[: found.start()] + "|" + text[found.end() :]
            for key, value, _ in _FIELD.findall(fields):
                quantity, factor = _KEYS.get(plain(key), ("", 1.0))
                if quantity:
                    row[quantity] = number(value) * factor
            if "loss" not in row and row.get("nans", 0.0) > 0:
                row["loss"] = math.nan
            if {"step_s", "step_seqs", "seq_len"} <= row.keys() and row["step_s"] > 0:
                row["tokens_per_s"] = row["step_seqs"] * row["seq_len"] / row["step_s"]
            for name, extra in (("rank", rank_of(text)), ("time", unix_time(text[: found.start()]))):
                if extra is not None:
                    row[name] = float(extra)
            scaled += row.get("loss_scale", 1.0) > 1.0
            steps.add(line, row)
        elif found := _VAL.search(text):
            val.add(line, {"step": number(found[1]), "val_loss": number(found[2])})
    side = {"val": val.rows(opened.name)} if len(val) else {}
    draft = Draft(steps.rows(opened.name), side, facts)
    norms = draft.steps.columns.get("grad_norm")
    if scaled and norms is not None and _median(norms.tolist()) > 100.0:
        draft.findings.append(
            Finding(
                "scaled_grad_norm",
                "warning",
                "the gradient norms are multiplied by the loss scale (fp16): compare them with each other, not with a "
                "clip threshold",
                {"rows": scaled},
            )
        )
    return draft


def _median(values: list[float]) -> float:
    finite = sorted(v for v in values if math.isfinite(v))
    return finite[len(finite) // 2] if finite else 0.0
