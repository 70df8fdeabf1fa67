"""A reader's guide to a training log: what is in it, in which line, and which decision of the run explains it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference_trainer.guide.drifts import read_drifts
from reference_trainer.guide.feature import Feature
from reference_trainer.guide.pace import read_batch, read_clip, read_pace
from reference_trainer.guide.restarts import read_repeats, read_restarts
from reference_trainer.guide.schedule import read_schedule
from reference_trainer.guide.skips import read_skips
from reference_trainer.guide.spikes import read_spikes
from reference_trainer.training_log import TrainingLog, read_training_log
from scaling.findings import Finding
from scaling.units import format_count

#: Order in which kinds are told.
KINDS = (
    "warm-up", "schedule", "learning rate jump", "batch ramp", "clip", "skipped updates", "restart", "stop", "gap",
    "spike", "drift", "repeated data", "throughput drop", "stalls",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Guide:
    """What there is to know about a log.

    Parameters
    ----------
    source, format : str
        The log.
    summary : str
        One sentence: rows, steps, losses.
    features : tuple of Feature
        By kind in the order of `KINDS`, then by step.
    unknown : tuple of str
        What the log does not tell.
    findings : tuple of Finding
        What had to be assumed to read it.
    """

    source: str
    format: str
    summary: str
    features: tuple[Feature, ...]
    unknown: tuple[str, ...]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        return self.text()

    def of(self, kind: str) -> tuple[Feature, ...]:
        """Return the features of one kind."""
        return tuple(feature for feature in self.features if feature.kind == kind)

    def text(self) -> str:
        """Return the guide for a terminal."""
        lines = [f"{self.source}: {self.format}", self.summary]
        width = max((len(f.kind) for f in self.features), default=0)
        for feature in self.features:
            lines.append(f"{feature.kind:<{width}}  {feature.where}: {feature.what}")
            lines.append(f"{'':<{width}}  = {feature.decision}{_sure(feature)}")
        if not self.features:
            lines.append("nothing stands out")
        lines += [f"unknown: {text}" for text in self.unknown]
        return "\n".join([*lines, *(str(finding) for finding in self.findings)])

    def markdown(self) -> str:
        """Return the guide in Markdown, with a table of its features."""
        lines = [f"# Reader's guide to {Path(self.source).name}", "", f"{self.format}. {self.summary}", ""]
        if self.features:
            lines += ["| what | where | seen | explained by |", "|---|---|---|---|"]
            lines += [
                f"| {f.kind} | {f.where} | {_cell(f.what)} | {_cell(f.decision + _sure(f))} |"
                for f in self.features
            ]
        else:
            lines.append("Nothing stands out.")
        for title, texts in (
            ("What the log does not tell", self.unknown),
            ("How it was read", [str(finding) for finding in self.findings]),
        ):
            if texts:
                lines += ["", f"## {title}", "", *(f"- {text}" for text in texts)]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the guide as plain types."""
        return {
            "source": self.source, "format": self.format, "summary": self.summary,
            "features": [feature.to_dict() for feature in self.features], "unknown": list(self.unknown),
            "findings": [finding.to_dict() for finding in self.findings],
        }  # fmt: skip


def _sure(feature: Feature) -> str:
    return "" if feature.confidence == "high" else f" ({feature.confidence} confidence)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def read_guide(log: TrainingLog | str | Path, **how: Any) -> Guide:
    """Read a log as an experienced person would, and cite the lines.

    Parameters
    ----------
    log : TrainingLog or path
        The log; a path is read by `read_training_log`.
    **how
        Arguments of `read_training_log`, for a path.

    Returns
    -------
    Guide

    Raises
    ------
    DataError
        The log cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.csv"
    ...     rows = [f"{s},{3 + 7 / (s + 1):.4f},{min((s + 1) / 20, 1) * 1e-3:.3g}" for s in range(200)]
    ...     _ = path.write_text(chr(10).join(["step,loss,lr", *rows]))
    ...     guide = read_guide(path)
    >>> [(f.kind, f.where, f.decision) for f in guide.features][0]
    ('warm-up', 'lines 2-21', 'warm-up of 20 steps')
    """
    if not isinstance(log, TrainingLog):
        log = read_training_log(log, **how)
    features, unknown = [], []
    restarts, begun = read_restarts(log)
    features += restarts
    again = [f.first_step for f in restarts if f.kind in ("restart", "stop")]
    parts: tuple[Callable[[TrainingLog], tuple[list[Feature], list[str]]], ...] = (
        lambda log: read_schedule(log, again), read_batch, read_clip, read_pace, lambda log: read_repeats(log, begun),
    )  # fmt: skip
    for part in parts:
        found, missing = part(log)
        features += found
        unknown += missing
    features += read_skips(log)
    features += read_drifts(log)
    features += read_spikes(log, features)
    if log.loss_unit == "unstated":
        unknown.append("the unit of the loss is not stated; it was taken for nats/token")
    elif log.loss_unit != "nats/token":
        unknown.append(f"the loss is in {log.loss_unit}: thresholds in nats/token do not apply as they stand")
    features.sort(key=lambda f: (KINDS.index(f.kind), f.first_step))
    return Guide(log.source, log.format, _summary(log), tuple(features), tuple(unknown), log.findings)


def _summary(log: TrainingLog) -> str:
    step = log.steps.columns["step"]
    if len(step) == 0:
        return f"{len(log.side['val']):,} evaluations and no training step."
    text = f"{len(step):,} rows, step {step.min():,.0f} to {step.max():,.0f}"
    total = log.facts.get("total_steps")
    text += f" of {total:,.0f}" if total else ""
    if log.steps.has("loss"):
        loss = log.history()["loss"]
        ends = [f"{x:.4g}" if math.isfinite(x) else "not finite" for x in (loss[0], loss[-1])]
        text += f"; loss {ends[0]} to {ends[1]}"
    tokens = log.step_tokens
    text += f"; {format_count(tokens)} tokens a step" if tokens else ""
    return text + "."
