"""The learning rate explained: warm-up, constant, decay, and what does not belong to the schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reference_trainer.guide.cooldowns import suspect_cooldown
from reference_trainer.guide.feature import UNEXPLAINED, Confidence, Feature, cite, timeline
from reference_trainer.guide.shapes import Shape, constant_then, decay, steps
from reference_trainer.guide.signals import stretches
from reference_trainer.training_log import Series, TrainingLog

Floats = NDArray[np.float64]
#: Rows of a schedule below which its shape is not judged.
LEAST_ROWS = 8
#: Rows that an excursion lasts at most, and the change that is one.
_SHORT, _CHANGE = 15, 1.25
_FLAT = 0.995


def read_schedule(log: TrainingLog, restarts: list[float]) -> tuple[list[Feature], list[str]]:
    """Return features of the learning rate, and what it leaves unknown.

    Parameters
    ----------
    log : TrainingLog
    restarts : list of float
        Steps at which the run was started again.
    """
    rate = timeline(log.series("lr"))
    if rate is None or len(rate) == 0:
        return suspect_cooldown(log), [
            "the learning rate is not in the log, so warm-up and schedule are not visible"
        ]
    peak = float(rate.value.max())
    if len(rate) < LEAST_ROWS or peak <= 0:
        return [], [
            f"the learning rate is in {len(rate)} rows, too few to recognise a schedule ({LEAST_ROWS} are needed)"
        ]
    out, inside = _excursions(log, rate)
    calm = Series(rate.step[~inside], rate.value[~inside], rate.lines[~inside], rate.source)
    peak = float(calm.value.max())
    if float(calm.value.min()) >= _FLAT * peak:
        what = f"the learning rate is {peak:.3g} in all {len(calm):,} rows"
        why = "a constant rate, or a log that ends before the cooldown"
        return [_feature(log, calm, 0, len(calm) - 1, "schedule", what, why, shape="constant"), *out], []
    top = int(np.argmax(calm.value >= _FLAT * peak))
    out += _warmup(log, calm, top, peak)
    after = Series(calm.step[top:], calm.value[top:], calm.lines[top:], calm.source)
    found = _shape(after, peak)
    jumps: list[tuple[int, float]] = []
    if found is None:
        jumps = _jumps(after)
        if jumps:
            found = _shape(_without(after, jumps), peak)
    if len(after) < LEAST_ROWS:
        return out, [f"the log ends {len(after)} rows after the warm-up: the schedule is not visible"]
    out.append(_described(log, after, found, peak))
    out += [_jump(log, after, at, ratio, restarts) for at, ratio in jumps]
    return sorted(out, key=lambda f: f.first_step), []


def _shape(after: Series, peak: float) -> Shape | None:
    step, rate = after.step, after.value / peak
    if rate.min() >= _FLAT:
        return Shape("constant", float(step[0]), np.inf, 1.0, 0.0)
    return steps(step, rate) or decay(step, rate) or constant_then(step, rate)


def _feature(
    log: TrainingLog, series: Series, i: int, j: int, kind: str, what: str, decision: str, **numbers: object
) -> Feature:
    first, last = float(series.step[i]), float(series.step[j])
    sure: Confidence = "low" if len(series) < 20 else "medium" if len(series) < 50 else "high"
    return Feature(kind, first, last, cite(log, series, i, j), what, decision, sure, numbers)


def _excursions(log: TrainingLog, rate: Series) -> tuple[list[Feature], NDArray[np.bool_]]:
    """Return short stretches at another rate than before and after, and a mask of their rows."""
    inside = np.zeros(len(rate), dtype=bool)
    half = _SHORT + 1
    if len(rate) < 3 * half:
        return [], inside
    windows = np.lib.stride_tricks.sliding_window_view(rate.value, 2 * half + 1)
    base = np.maximum(np.median(windows, axis=1), 1e-30)
    away = np.abs(np.log(np.maximum(rate.value[half:-half], 1e-30) / base)) > np.log(_CHANGE)
    # Beside a steep part of the schedule the median lags; an excursion leaves the rate and comes back to it.
    out = []
    for i, j in stretches(away):
        a, b = i + half, j + half
        left, right, here = rate.value[a - 1], rate.value[b + 1], float(np.median(rate.value[a : b + 1]))
        between = min(left, right) <= here <= max(left, right)
        if (
            j - i + 1 > _SHORT
            or between
            or abs(np.log(max(left, 1e-30) / max(right, 1e-30))) > np.log(_CHANGE)
        ):
            continue
        inside[a : b + 1] = True
        factor = here / left
        what = f"the learning rate is {here:.3g}, {factor:.3g} times that of the rows around, then {right:.3g} again"
        why = f"{UNEXPLAINED}: a schedule does not come back; a fault, an experiment or an injected one"
        out.append(_feature(log, rate, a, b, "learning rate jump", what, why, factor=factor))
    return out, inside


def _warmup(log: TrainingLog, rate: Series, top: int, peak: float) -> list[Feature]:
    if top == 0 or rate.value[0] >= 0.9 * peak:
        return []
    step, value = rate.step[: top + 1], rate.value[: top + 1] / peak
    rising = np.mean(np.diff(value) >= -1e-9) > 0.9
    length, form = float(step[-1]), "in a shape of its own"
    below = slice(None, -1) if len(step) > 3 else slice(None)  # the last row may be cut off at the peak
    if len(step) >= 3:
        slope, offset = np.polyfit(step[below], value[below], 1)
        if slope > 0 and np.quantile(np.abs(value - (slope * step + offset))[below], 0.95) <= 0.02:
            length, form = 1.0 / slope, "linearly"
    if not rising:
        form = "unevenly"
    what = f"the learning rate rises {form} from {rate.value[0]:.3g} to its peak of {peak:.3g}"
    why = f"warm-up of {length:,.0f} steps" if form == "linearly" else f"warm-up until step {step[-1]:,.0f}"
    feature = _feature(log, rate, 0, top, "warm-up", what, why, steps=round(length, 1), peak_lr=peak)
    return [feature if step[0] <= 0.5 * length else replace(feature, confidence="medium")]


def _described(log: TrainingLog, after: Series, found: Shape | None, peak: float) -> Feature:
    last, end = len(after) - 1, float(after.step[-1])
    ratio = float(after.value[-1]) / peak
    if found is None:
        what = f"after its peak of {peak:.3g} the learning rate goes to {ratio:.1%} of it in a shape that is not known"
        why = "constant, linear, cosine, 1 - sqrt, 1/sqrt, exponential and steps were tried"
        feature = _feature(log, after, 0, last, "schedule", what, why, shape="unknown", peak_lr=peak)
        return replace(feature, confidence="low")
    numbers = {"shape": found.name, "peak_lr": peak, "floor": found.floor, "miss": found.miss}
    if found.name == "constant":
        what = f"the learning rate stays at its peak of {peak:.3g} to the end of the log"
        why = "a constant rate, or a log that ends before the cooldown"
        return _feature(log, after, 0, last, "schedule", what, why, **numbers)
    if found.name == "steps":
        levels = ", ".join(f"{share * peak:.3g} from step {at:,.0f}" for at, share in found.levels[:8])
        what, why = (
            f"the learning rate goes in steps: {levels}",
            f"a step schedule of {len(found.levels)} levels",
        )
        return _feature(log, after, 0, last, "schedule", what, why, levels=found.levels, **numbers)
    reach = max(float(log.facts.get("total_steps", end)), end)
    # A cosine is fitted to its end, which may lie beyond the log; a near miss of it is the log's own end.
    length = found.end if found.name == "cosine" and found.end > 1.01 * reach else min(found.end, reach)
    held = found.start - float(after.step[0])
    if held > 0.05 * (end - after.step[0]):
        share = (end - found.start) / max(end, 1.0)
        what = (
            f"the learning rate is held at {peak:.3g} to step {found.start:,.0f}, then falls ({found.name}) to "
            f"{ratio:.1%} of it in {end - found.start:,.0f} steps"
        )
        why = f"warm-up, stable, decay (WSD): a cooldown over the last {share:.0%} of the steps"
        numbers |= {"shape": "WSD", "cooldown": found.name, "cooldown_start": found.start}
        return _feature(log, after, 0, last, "schedule", what, why, **numbers)
    what = f"the learning rate falls from {peak:.3g} to {ratio:.1%} of it ({found.name})"
    if found.name == "cosine":
        where = "with the log" if found.end <= 1.01 * end else f"at step {found.end:,.0f}, beyond the log"
        what += f"; the curve ends {where}, at {found.floor:.0%} of the peak"
    why = f"{found.name} decay over {length:,.0f} steps" if found.end < np.inf else f"{found.name} decay"
    return _feature(
        log, after, 0, last, "schedule", what, why, end=found.end if found.end < np.inf else None, **numbers
    )


def _jumps(after: Series) -> list[tuple[int, float]]:
    """Return rows at which the rate changes at once by more than around it, and by what factor."""
    change = np.diff(after.value)
    peak = float(after.value.max())
    out = []
    for i in np.flatnonzero(np.abs(change) > 0.05 * peak).tolist():
        around = np.abs(np.concatenate((change[max(i - 6, 0) : i], change[i + 1 : i + 7])))
        if after.value[i] > 0 and after.value[i + 1] > 0 and abs(change[i]) > 6 * np.median(around):
            out.append((i + 1, float(after.value[i + 1] / after.value[i])))
    return out[:10]


def _without(after: Series, jumps: list[tuple[int, float]]) -> Series:
    """Return the rate as it would be without the jumps."""
    value = after.value.copy()
    for at, ratio in jumps:
        value[at:] /= ratio
    return Series(after.step, value, after.lines, after.source)


def _jump(log: TrainingLog, after: Series, at: int, ratio: float, restarts: list[float]) -> Feature:
    before, here = after.step[at - 1], after.step[at]
    what = f"the learning rate goes at once from {after.value[at - 1]:.3g} to {after.value[at]:.3g}, times {ratio:.3g}"
    why = UNEXPLAINED
    if any(before <= step <= here for step in restarts):
        why = "the run was started again there with another learning rate"
    for row in log.facts.get("actions", ()):
        begins = row["step"] if row.get("to_step") is None else row["to_step"]
        if row.get("lr_factor", 1.0) != 1.0 and before - 1 <= begins <= here + 1:
            why = f"the playbook: {row['do']}, because {row.get('why') or 'no reason is given'}"
    return _feature(log, after, at - 1, at, "learning rate jump", what, why, factor=ratio)
