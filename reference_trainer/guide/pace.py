"""Throughput, the batch, and the clip threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference_trainer.guide.feature import UNEXPLAINED, Feature, cite, steps_text, timeline
from reference_trainer.guide.signals import stretches
from reference_trainer.perf import DROP, WINDOW
from reference_trainer.training_log import Series, TrainingLog

#: Rows before a pace is judged; the first rows of a start are left out, since they pay for compilation.
_LEAST = 5
#: Drops of at most so many rows are stalls, and so many at even distances are a habit of the run.
_STALL, _HABIT = 2, 4
#: A clip shows where at least this share of gradient norms lies within 0.5% of the largest.
_AT_CLIP = 0.02


def read_pace(log: TrainingLog) -> tuple[list[Feature], list[str]]:
    """Return drops of the throughput, and stalls that come back."""
    found = _pace(log)
    if found is None:
        return [], ["no throughput is in the log (tokens/s, seconds a step, or times)"]
    pace, what = found
    if len(pace) <= 2 * _LEAST:
        return [], [f"the throughput is in {len(pace)} rows, too few to tell a drop"]
    low, usual = _low(pace.value)
    stalls: list[tuple[int, int]] = []
    out = []
    for i, j in stretches(low):
        if j - i + 1 <= _STALL:
            stalls.append((i, j))
        else:
            out.append(_drop(log, pace, i, j, float(usual[i]), what))
    return out + _stalls(log, pace, stalls, usual, what), []


def _pace(log: TrainingLog) -> tuple[Series, str] | None:
    for name, unit in (
        ("tokens_per_s", "tokens/s"), ("device_tokens_per_s", "tokens/s of a device"), ("seqs_per_s", "sequences/s"),
    ):  # fmt: skip
        if (series := log.series(name)) is not None:
            good = np.isfinite(series.value)
            return Series(series.step[good], series.value[good], series.lines[good], series.source), unit
    if (series := log.series("step_s")) is not None:
        good = np.isfinite(series.value) & (series.value > 0)
        rate = 1.0 / series.value[good]
        return Series(series.step[good], rate, series.lines[good], series.source), "steps/s"
    return None


def _low(rate: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Tell rows below 0.7 of the median of the 20 before them; once low, against the median before the drop."""
    low, usual = np.zeros(len(rate), dtype=bool), np.full(len(rate), np.nan)
    before: list[float] = []
    for i, value in enumerate(rate.tolist()):
        if len(before) >= _LEAST:
            usual[i] = float(np.median(before[-WINDOW:]))
            low[i] = value < DROP * usual[i]
            # A pace that stays low for as long as the window is the pace from then on.
            if low[i] and i >= WINDOW and low[i - WINDOW + 1 : i + 1].all():
                before = rate[i - WINDOW + 1 : i + 1].tolist()
        if not low[i] and i > 0:
            before.append(value)
    return low, usual


def _drop(log: TrainingLog, pace: Series, i: int, j: int, usual: float, unit: str) -> Feature:
    here = float(np.median(pace.value[i : j + 1]))
    lasting = j - i + 1 >= WINDOW
    what = f"{here:,.4g} {unit} at {steps_text(pace.step[i], pace.step[j])}, {here / usual:.0%} of {usual:,.4g} before"
    if lasting:
        what += (
            " and longer: it is judged by the new pace from there on" if j < len(pace) - 1 else ", to the end"
        )
    why = UNEXPLAINED
    if log.batch() is not None and (ramp := _ramp_at(log, float(pace.step[i]))):
        why = ramp
    numbers = {"usual": usual, "rate": here, "share": here / usual}
    return Feature(
        "throughput drop",
        float(pace.step[i]),
        float(pace.step[j]),
        cite(log, pace, i, j),
        what,
        why,
        "high",
        numbers,
    )


def _ramp_at(log: TrainingLog, step: float) -> str:
    batch = timeline(log.batch())
    if batch is None:
        return ""
    i = int(np.searchsorted(batch.step, step))
    if 0 < i < len(batch) and batch.value[i] != batch.value[i - 1]:
        return f"the batch goes from {batch.value[i - 1]:,.0f} to {batch.value[i]:,.0f} tokens there"
    return ""


def _stalls(
    log: TrainingLog, pace: Series, stalls: list[tuple[int, int]], usual: NDArray[np.float64], unit: str
) -> list[Feature]:
    if not stalls:
        return []
    at = np.array([i for i, _ in stalls])
    steps = pace.step[at]
    apart = np.diff(steps)
    worst = min(stalls, key=lambda s: float(pace.value[s[0]] / usual[s[0]]))[0]
    share = float(pace.value[worst] / usual[worst])
    where = cite(log, pace, int(at[0]), stalls[-1][1])
    numbers = {"count": len(stalls), "worst_share": share, "steps": steps[:20].tolist()}
    if (
        len(stalls) >= _HABIT
        and float(np.mean(np.abs(apart - np.median(apart)) <= 0.05 * np.median(apart))) > 0.8
    ):
        every = float(np.median(apart))
        what = f"every {every:,.0f} steps a row is slow ({len(stalls)} times, down to {share:.0%} of the usual {unit})"
        why = "something the run does at that distance: a checkpoint or an evaluation inside the timing"
        return [Feature("stalls", float(steps[0]), float(steps[-1]), where, what, why, "medium", numbers)]
    what = f"{len(stalls)} single slow row{'s' if len(stalls) > 1 else ''}, slowest at step {pace.step[worst]:,.0f} "
    what += f"with {share:.0%} of the usual {unit}"
    why = f"{UNEXPLAINED}; a wait for data, a slow node or a checkpoint"
    return [Feature("stalls", float(steps[0]), float(steps[-1]), where, what, why, "low", numbers)]


def read_batch(log: TrainingLog) -> tuple[list[Feature], list[str]]:
    """Return how the batch grows, where the log tells the tokens or sequences of a step."""
    batch, unit = timeline(log.batch()), "tokens"
    if batch is None:
        batch, unit = timeline(log.series("step_seqs")), "sequences"
    if batch is None or len(batch) < 3:
        return [], [] if log.step_tokens else ["the batch is not in the log"]
    change = np.flatnonzero(np.abs(np.diff(batch.value)) > 0.02 * batch.value[:-1]) + 1
    # A single interval that differs is a restart or a rounded count, not a new batch.
    change = change[[bool(np.isclose(batch.value[i], batch.value[i : i + 2]).all()) for i in change.tolist()]]
    if len(change) == 0:
        return [], []
    i, j = int(change[0]), int(change[-1])
    first, last = float(batch.value[max(i - 1, 0)]), float(batch.value[j])
    rising = bool(np.all(np.diff(batch.value[[max(i - 1, 0), *change.tolist()]]) > 0))
    what = f"it goes from {first:,.0f} to {last:,.0f} {unit} in {len(change)} move{'s' if len(change) > 1 else ''}"
    what += ", " + steps_text(batch.step[i], batch.step[j])
    why = "a batch ramp: small batches while gradients still agree, large ones later; the loss gets less noisy with it"
    if not rising:
        why = "the batch was changed, down as well as up: other hardware, or settings of a restart"
    numbers = {"from": first, "to": last, "unit": unit, "changes": len(change)}
    where = cite(log, batch, max(i - 1, 0), j)
    return [
        Feature("batch ramp", float(batch.step[i]), float(batch.step[j]), where, what, why, "high", numbers)
    ], []


def read_clip(log: TrainingLog) -> tuple[list[Feature], list[str]]:
    """Return the clip threshold where the gradient norms show it, and how often it acted where it is known."""
    norm = timeline(log.series("grad_norm"))
    if norm is None or len(norm) < 50:
        return [], [] if norm is not None else [
            "gradient norms are not in the log, so clipping is not visible"
        ]
    value, top = norm.value, float(norm.value.max())
    clip = log.facts.get("clip")
    if clip is not None and top > 1.001 * clip:
        share = float(np.mean(value > clip))
        what = f"{share:.1%} of the gradient norms are above {clip:g}, the largest is {top:.3g}"
        numbers = {"clip": clip, "share": share}
        why = f"clip {clip:g}: those updates were scaled down to it"
        where = cite(log, norm, 0, len(norm) - 1)
        return [
            Feature("clip", float(norm.step[0]), float(norm.step[-1]), where, what, why, "high", numbers)
        ], []
    at = value >= 0.995 * top
    share, count = float(at.mean()), int(at.sum())
    # Below a hard limit norms pile up at it and nowhere just under it.
    under = float(np.mean((value >= 0.98 * top) & ~at))
    if share >= _AT_CLIP and count >= 5 and share > 3 * under:
        places = np.flatnonzero(at)
        what = f"no gradient norm is above {top:.3g}, and {share:.0%} of them are at it"
        why = f"the norm was logged after clipping, and the clip threshold is {top:.3g}"
        where = cite(log, norm, int(places[0]), int(places[-1]))
        first, last = float(norm.step[places[0]]), float(norm.step[places[-1]])
        return [Feature("clip", first, last, where, what, why, "high", {"clip": top, "share": share})], []
    return [], ["the gradient norms show no limit: they are from before clipping, or nothing was clipped"]
