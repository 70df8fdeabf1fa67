"""What was done about a spike and how it ended, what it teaches, and what is not known about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reference_trainer.guide.feature import Feature
from reference_trainer.guide.own_run import treatments
from reference_trainer.guide.spikes import spike_lines
from reference_trainer.incidents.cost import Cost
from reference_trainer.incidents.facts import Facts
from reference_trainer.training_log import SIGNALS, TrainingLog

#: Steps by which an entry of interventions.jsonl may date the first evidence otherwise.
_NEAR = 64
#: What the playbook begins with, in words.
ADVICE = {
    "none": "log it and go on",
    "wait": "wait, and look again after {wait} steps",
    "rollback": "go back to a state before the first evidence and leave the offending batches out",
}


def advice_text(log: TrainingLog, advice: str) -> str:
    """Return what the playbook begins with; of our own runs, with the steps that they were told to wait."""
    return ADVICE[advice].format(wait=log.facts.get("config", {}).get("recovery_wait", 200))


def treated(log: TrainingLog, spike: Any) -> list[dict[str, Any]]:
    """Return the entries of the run's interventions.jsonl that belong to a spike."""
    until = max(spike.peak_step, spike.end_step or spike.peak_step)
    return [e for e in treatments(log) if spike.first_step - _NEAR <= e["first_step"] <= until]


def actions(
    log: TrainingLog,
    spike: Any,
    restarts: Sequence[Feature],
    entries: Sequence[dict[str, Any]],
    told: Sequence[str],
) -> list[str]:
    """Return what was done, in sentences with their source; empty where neither log nor caller says.

    Parameters
    ----------
    log : TrainingLog
    spike : reference_trainer.spike_events.Spike
    restarts : sequence of Feature
        Restarts of the log.
    entries : sequence of dict
        From `treated`.
    told : sequence of str
        What the caller says was done.
    """
    out = [f"{text} (as told)" for text in told]
    for e in entries:
        what = f"step {e['step']:,}: {e['what']}: {e['why']} (interventions.jsonl, line {e['line']})"
        details = {
            "to_step": f"back to step {{:,}}{_kept(e, restarts)}",
            "skip": "{:,} batches left out"
            + (f" from batch {e['skip_from']:,} on" if e.get("skip_from") else ""),
            "lr_factor": "learning rate x{:g}",
        }
        said = [text.format(e[key]) for key, text in details.items() if e.get(key) not in (None, 0, 1.0)]
        out.append(f"{what}{': ' if said else ''}{', '.join(said)}")
    if not entries:
        first, _ = spike_lines(log, spike)
        for feature in restarts:
            if (
                feature.kind == "restart"
                and spike.shape.went_back
                and feature.numbers["from"] >= spike.first_step
                and (feature.numbers["to"] <= spike.peak_step)
            ):
                out.append(f"{feature.what} ({feature.where}): {feature.decision}")
                break
        out += [
            f"step {row['step']:,}: {row.get('do')}: {row.get('why')} ({log.cite(row['line'])})"
            for row in log.facts.get("actions", ())
            if row["line"] > first and abs(row["step"] - spike.peak_step) <= 500
        ]
    return out


def _kept(entry: dict[str, Any], restarts: Sequence[Feature]) -> str:
    """Say from which state a run that went back really went on, where it is another than the one it asked for."""
    asked = entry.get("to_step")
    for feature in restarts if asked is not None else ():
        first = feature.numbers.get("to")  # the first step that was made again, one after the state
        if (
            feature.kind == "restart"
            and isinstance(first, float)
            and feature.numbers.get("from") >= entry["step"]
        ):
            return (
                ""
                if first - 1 == asked
                else f" (the newest state kept up to there was that of step {first - 1:,.0f})"
            )
    return ""


def outcome(log: TrainingLog, spike: Any, entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return how it ended."""
    out = []
    for e in entries:
        if e.get("outcome") and e["outcome"] != "open":
            level = f"; loss {e['loss_after']:.4f}" if e.get("loss_after") is not None else ""
            why = f", {e['outcome_why'].replace('then: ', 'so next: ')}" if e.get("outcome_why") else ""
            when = f"step {e['outcome_step']:,}, " if e.get("outcome_step") is not None else ""
            out.append(
                f"{when}after {e['what']}: {e['outcome']}{why}{level} (interventions.jsonl, line {e['line']})"
            )
    before = spike.loss_before
    if spike.shape.went_back:
        out.append(_after_going_back(log, spike))
    elif spike.end_step is not None:
        after = spike.end_step - spike.first_step
        out.append(
            f"the loss was back near {before:.3f} at step {spike.end_step:,}, {after:,} steps after the first evidence"
        )
    else:
        away = spike.shape.end - before
        out.append(
            f"the loss was not back: {away:+.3f} nats/token from {before:.3f} in the last rows looked at, "
            f"{spike.shape.steps_after:,} steps after the first evidence"
        )
    return out


def _after_going_back(log: TrainingLog, spike: Any) -> str:
    """Compare the loss at the steps of the spike before and after the run went back."""
    history = log.history()
    step, loss = history["step"], history["loss"]
    back = np.flatnonzero(np.diff(step[spike.row :]) <= 0)
    if len(back) == 0:
        return "the run went back"
    row = spike.row + int(back[0]) + 1
    again = np.flatnonzero(np.diff(step[row:]) <= 0)
    end = row + int(again[0]) + 1 if len(again) else len(step)
    here = (step[row:end] >= spike.first_step) & (step[row:end] <= spike.first_step + 500)
    finite = loss[row:end][here]
    finite = finite[np.isfinite(finite)]
    text = f"the run went back to step {step[row]:,.0f} before the loss was back"
    if len(finite) == 0:
        return f"{text}; it did not reach step {spike.first_step:,} again in this log"
    median, most = float(np.median(finite)), float(finite.max())
    return (
        f"{text}; when it passed step {spike.first_step:,} again the median loss was {median:.3f} "
        f"({spike.loss_before:.3f} before, {spike.loss_peak:.3f} at the peak), the highest {most:.3f}"
    )


def lessons(spike: Any, entries: Sequence[dict[str, Any]], told: Sequence[str]) -> list[str]:
    """Return what the incident teaches, as far as its numbers say so."""
    out = list(told)
    norms = [a for a in spike.alarms if a.tier == "norm"]
    lead = spike.peak_step - min((a.first_step for a in norms), default=spike.peak_step)
    if norms and lead > 0:
        names = ", ".join(dict.fromkeys(a.signal for a in norms))
        out.append(
            f"{names} left the usual range {lead} steps before the peak of the loss: who watches it has those steps"
        )
    late = spike.alarm_step - spike.first_step
    if spike.alarms and late > 0:
        out.append(
            f"the first alarm came {late} steps after the first evidence: a state to go back to must be older than that"
        )
    for e in entries:
        out += [f"proposed: {text}" for text in e.get("proposals", ()) if f"proposed: {text}" not in out]
        if e.get("outcome") == "failed":
            out.append(f"{e['what']} at step {e['step']:,} did not help")
    return out


def unknown(log: TrainingLog, facts: Facts, cost: Cost, done: Sequence[str], has_replay: bool) -> list[str]:
    """Return what a reader may miss, and why it is not there."""
    out = []
    if facts.date == "date unknown":
        out.append(f"the date: {facts.date_source}")
    missing = [name for name in SIGNALS if name not in ("loss", "finite") and not log.steps.has(name)]
    if missing:
        out.append(f"{', '.join(missing)}: not in the log")
    if facts.batches is None:
        out.append(f"the batches: {facts.batch_text.removeprefix('unknown: ')}")
    if not has_replay:
        out.append("the tokens of the offending batches: nothing was replayed")
    if not facts.activations:
        out.append("activations of the layers: not in the log")
    if facts.symptoms["loss_after_500"] is None:
        out.append("the loss 500 steps later: the log, or this attempt, ends before")
    if not done:
        out.append("what was done about it: the log does not say")
    if cost.usd is None:
        out.append(f"the cost: {cost.text.removeprefix('unknown: ')}")
    elif cost.restart_usd is None:
        out.append("the cost of the restart: give restart_s")
    return out
