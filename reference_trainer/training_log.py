"""Training logs of any program in one schema: steps, what was measured at each, and the line it stands in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_trainer.log_formats.choose import format_of
from reference_trainer.log_formats.draft import Draft, Floats, Rows
from reference_trainer.log_formats.opened import Ask, open_log
from reference_trainer.log_formats.ranks import merge_ranks
from scaling.arguments import positive_count
from scaling.errors import DataError
from scaling.findings import Finding

#: What a log can hold at a step -> unit. Rows keep the order of the file: steps may go back.
SCHEMA: Mapping[str, str] = {
    "step": "optimizer steps, as the log counts them",
    "loss": "nats/token (training)",
    "loss_min": "nats/token, least over the steps that the row averages",
    "loss_max": "nats/token, most over the steps that the row averages",
    "grad_norm": "global, before clipping in most programs",
    "update_norm": "of the change of all weights",
    "param_norm": "of all weights",
    "v_norm": "of Adam's second moments",
    "lr": "learning rate",
    "finite": "1 where loss and gradient were finite",
    "tokens": "tokens seen so far",
    "samples": "sequences seen so far",
    "step_tokens": "tokens of this step",
    "step_seqs": "sequences of this step",
    "seq_len": "tokens of a sequence",
    "tokens_per_s": "of all devices",
    "device_tokens_per_s": "of one device",
    "seqs_per_s": "of all devices",
    "step_s": "seconds a step",
    "data_wait_s": "seconds of a step spent waiting for data",
    "mfu": "share of the peak, at most 1",
    "loss_scale": "of fp16",
    "skipped": "updates skipped since the last row",
    "nans": "updates with NaN since the last row",
    "clip_rate": "share of updates that were clipped",
    "time": "seconds since 1970",
    "wall_s": "seconds the run has been up",
    "usd": "dollars spent so far",
    "epoch": "passes over the data",
    "val_loss": "nats/token (validation)",
}

#: Signals that the spike detector can use, as the trainer pushes them.
SIGNALS = ("loss", "grad_norm", "param_norm", "v_norm", "update_norm", "finite", "lr")


@dataclass(frozen=True, eq=False)
class Series:
    """One quantity where it was logged.

    Parameters
    ----------
    step, value : ndarray, float64, (n,)
        In the order of the file.
    lines : ndarray, int64, (n,)
        Where.
    source : str
        The file of the lines.
    """

    step: Floats
    value: Floats
    lines: NDArray[np.int64]
    source: str

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False, repr=False)
class TrainingLog:
    """A log, read.

    Parameters
    ----------
    source : str
        The file or folder.
    format : str
        Which format it is in.
    steps : Rows
        One row for each step that was logged, in the order of the file.
    side : mapping of str to Rows
        ``val``, ``pace`` and ``activations``, where there are such.
    facts : mapping
        What is known of the whole run: ``step_tokens``, ``unique_tokens``, ``total_steps``, ``clip``, ``config``, ...
    findings : tuple of Finding
        What had to be assumed, merged or left out.
    loss_unit : str
        ``"nats/token"``, ``"nats/byte"``, or ``"unstated"`` (taken for nats/token).
    """

    source: str
    format: str
    steps: Rows
    side: Mapping[str, Rows] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    loss_unit: str = "unstated"

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        step = self.steps.columns["step"]
        span = f"steps {step.min():g} to {step.max():g}" if len(step) else "no steps"
        names = ", ".join(name for name in self.names if name != "step")
        return f"TrainingLog({self.source}: {self.format}, {len(self):,} rows, {span}, {names})"

    @property
    def names(self) -> tuple[str, ...]:
        """Quantities that the steps have."""
        return tuple(name for name in self.steps.columns if self.steps.has(name))

    @property
    def lines(self) -> NDArray[np.int64]:
        """Line of each row."""
        return self.steps.lines

    def __getitem__(self, name: str) -> Floats:
        """Return a column of the steps, (n,); a `KeyError` if the log has none of that name."""
        if not self.steps.has(name):
            raise KeyError(f"{self.source} has no {name}; it has {', '.join(self.names)}")
        return self.steps.columns[name]

    def series(self, name: str) -> Series | None:
        """Return a quantity where it was logged, beside the steps or in them; None if it was not."""
        for rows in (self.steps, *(self.side[k] for k in ("pace", "val") if k in self.side)):
            if rows.has(name):
                there = ~rows.absent[name]
                step, value = rows.columns["step"][there], rows.columns[name][there]
                return Series(step, value, rows.lines[there], rows.source)
        return None

    def history(self) -> dict[str, Floats]:
        """Return the detector's signals at the rows that have a loss, and ``step`` and ``line``, each (n,)."""
        rows = (
            self.steps.take(~self.steps.absent["loss"])
            if self.steps.has("loss")
            else self.steps.take(slice(0))
        )
        out = {name: rows.columns[name] for name in ("step", *SIGNALS) if rows.has(name)}
        return {**out, "line": rows.lines.astype(np.float64)}

    @property
    def step_tokens(self) -> float | None:
        """Tokens of a step where that is one number, else None."""
        if "step_tokens" in self.facts:
            return float(self.facts["step_tokens"])
        found = self.batch()
        if found is None or len(found) == 0:
            return None
        return float(found.value[0]) if float(np.ptp(found.value)) == 0.0 else None

    def batch(self) -> Series | None:
        """Return the tokens of a step at each row that tells, None if none does."""
        rows, columns = self.steps, self.steps.columns
        if rows.has("step_tokens"):
            return self.series("step_tokens")
        if rows.has("step_seqs") and rows.has("seq_len"):
            value = columns["step_seqs"] * columns["seq_len"]
        elif rows.has("tokens"):
            step, tokens = columns["step"], columns["tokens"]
            with np.errstate(divide="ignore", invalid="ignore"):
                value = np.append(np.nan, np.diff(tokens) / np.diff(step))
            value[~(np.append(0.0, np.diff(step)) > 0)] = np.nan
            # Tokens are often printed rounded; a batch that differs by less than 1% is the same batch.
            middle = float(np.nanmedian(value)) if np.isfinite(value).any() else 0.0
            value = np.where(np.abs(value - middle) <= 0.01 * middle, middle, value)
        else:
            return None
        good = np.isfinite(value)
        return Series(columns["step"][good], value[good], rows.lines[good], rows.source)

    def cite(self, first: float, last: float | None = None) -> str:
        """Write lines as one reference, such as ``lines 12-15``."""
        word = self.steps.word
        if last is None or last == first:
            return f"{word} {int(first)}"
        return f"{word}s {int(first)}-{int(last)}"


def read_training_log(
    source: str | Path,
    *,
    run: str | None = None,
    columns: Mapping[str, str] | None = None,
    loss_unit: str | None = None,
    step_tokens: float | None = None,
    unique_tokens: float | None = None,
    bytes_per_token: float | None = None,
) -> TrainingLog:
    """Read a training log in any format that is known.

    Parameters
    ----------
    source : path
        A run's folder; an mlflow store in SQLite; text of nanoGPT, llm.c, Megatron, GPT-NeoX, OLMo, or any that has a
        step and a loss in a line; a CSV that wandb exported; or a table with a header. Plain or packed.
    run : str, optional
        Which run, where the log holds several.
    columns : mapping of str to str, optional
        Quantity of `SCHEMA` -> column, where the name of the column does not say it.
    loss_unit : str, optional
        Unit of the losses, where the log does not say it.
    step_tokens, unique_tokens : float, optional
        Tokens of a step, and of the training set, where the log does not say them.
    bytes_per_token : float, optional
        Converts losses per byte; without it they stay nats/byte.

    Returns
    -------
    TrainingLog

    Raises
    ------
    DataError
        No such file, no format that knows it (the message has its first lines), several runs and none chosen, a cell
        that is no number, or no row with a loss.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.log"
    ...     lines = ["iter 0: loss 10.9, time 900.0ms, mfu -100.00%", "iter 10: loss 9.5, time 120.0ms, mfu 41.00%"]
    ...     _ = path.write_text(chr(10).join(lines))
    ...     log = read_training_log(path)
    >>> log.format, log["loss"].tolist(), log["mfu"].tolist(), log.lines.tolist()
    ('nanoGPT text', [10.9, 9.5], [nan, 0.41], [1, 2])
    """
    opened, ask = open_log(source), Ask(run, dict(columns or {}), loss_unit)
    format_ = format_of(opened)
    draft: Draft = format_.read(opened, ask)
    if len(draft.steps) == 0 and not draft.side.get("val"):
        raise DataError(
            f"{opened.name}: read as {format_.NAME}, but no row has a step and a loss. It begins\n{opened.shown()}",
            source=opened.name,
        )
    draft.check_steps()
    rows, findings = merge_ranks(draft.steps)
    asked = {"step_tokens": step_tokens, "unique_tokens": unique_tokens}
    given = {name: None if value is None else positive_count(name, value) for name, value in asked.items()}
    facts = {**draft.facts, **{name: float(value) for name, value in given.items() if value is not None}}
    draft.steps = rows
    unit = _to_nats(draft, ask.loss_unit or draft.loss_unit, bytes_per_token)
    return TrainingLog(
        opened.name, format_.NAME, draft.steps, draft.side, facts,
        (*opened.findings, *draft.findings, *findings), unit,
    )  # fmt: skip


def _to_nats(draft: Draft, unit: str, bytes_per_token: float | None) -> str:
    """Convert the losses of a draft to nats; return the unit they are in then."""
    from scaling.units import parse_loss_unit

    unit = parse_loss_unit(unit) if unit else "unstated"
    factor = math.log(2.0) if unit.startswith("bits") else 1.0
    if unit.endswith("/byte") and bytes_per_token is not None:
        factor, unit = factor * bytes_per_token, "nats/token"
    for rows in (draft.steps, *draft.side.values()):
        for name in ("loss", "loss_min", "loss_max", "val_loss", "train_loss"):
            if name in rows.columns and isinstance(rows.columns, dict):
                with np.errstate(divide="ignore", invalid="ignore"):
                    values = np.log(rows.columns[name]) if unit == "perplexity" else rows.columns[name]
                rows.columns[name] = values * factor
    return "nats/token" if unit == "perplexity" else unit.replace("bits", "nats")
