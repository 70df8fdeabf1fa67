"""Where a run was started again: steps that go back, gaps, stops; and whether it read the same data again."""

from __future__ import annotations

import numpy as np

from reference_trainer.guide.feature import Confidence, Feature, cite, steps_text, timeline
from reference_trainer.guide.signals import MAD, lagged, level_change, residual
from reference_trainer.training_log import TrainingLog

#: Rows of a piece, on average, below which a log is an excerpt.
_EXCERPT = 12
#: A pause is a stop when it is this many times the usual time of a row, and at least so many seconds.
_LONG, _LEAST_S = 10.0, 600.0
#: Rows that must agree before data are said to be the same, and the z that they must agree by.
_LEAST_ROWS, _Z = 48, 8.0
#: Borders of passes that are looked at, and steps after a restart whose losses are compared.
_PASSES, _COMPARED = 50, 64


def read_restarts(log: TrainingLog) -> tuple[list[Feature], list[int]]:
    """Return restarts, gaps and stops, and the rows (not steps) at which the run began anew."""
    rows = log.steps
    step = rows.columns["step"]
    if len(step) < 2:
        return [], []
    advance = np.diff(step)
    usual = float(np.median(advance[advance > 0])) if np.any(advance > 0) else 1.0
    back = (np.flatnonzero(advance <= 0) + 1).tolist()
    jumps = (np.flatnonzero(advance > max(3.0 * usual, usual + 2)) + 1).tolist()
    out = [_restart(log, row, usual) for row in back]
    if len(jumps) + len(back) >= 2 and len(step) < _EXCERPT * (len(jumps) + len(back) + 1):
        where, n = log.cite(rows.lines[0], rows.lines[-1]), len(jumps) + len(back) + 1
        what = f"the {len(step):,} rows are {n} pieces: {len(jumps)} jumps of the step forward and {len(back)} back"
        why = "an excerpt, such as lines quoted in a report; between its pieces nothing is known"
        out = [Feature("gap", float(step.min()), float(step.max()), where, what, why, numbers={"pieces": n})]
    else:
        out += [_gap(log, row, usual) for row in jumps]
    stops = _stops(log, set(back))
    return out + [feature for feature, _ in stops], sorted({*back, *(row for _, row in stops)})


def _pair(log: TrainingLog, row: int) -> str:
    lines = log.steps.lines
    return log.cite(lines[row - 1], lines[row])


def _restart(log: TrainingLog, row: int, usual: float) -> Feature:
    step = log.steps.columns["step"]
    before, here = float(step[row - 1]), float(step[row])
    lost = before - here + usual if before > here else 0.0
    what = f"after step {before:,.0f} comes step {here:,.0f}"
    what += f": {lost:,.0f} steps were made again" if lost > 0 else ", which is written twice"
    numbers: dict[str, object] = {"from": before, "to": here, "lost": lost}
    pause = _pause(log, row)
    if pause is not None and pause > _LEAST_S:
        what += f", {pause / 3600:.1f} hours later"
        numbers["pause_s"] = pause
    replay, same = _replay(log, row)
    why, confidence = "the run was started again from a checkpoint at or before that step", "high"
    action = next((a for a in log.facts.get("actions", ()) if _between(log, row, a["line"])), None)
    if action is not None:
        why = f"the playbook: {action.get('do', 'action')}, because {action.get('why', 'no reason is given')}"
    numbers["same"] = same
    sure: Confidence = "high" if confidence == "high" else "medium"
    return Feature("restart", here, before, _pair(log, row), what + replay, why, sure, numbers)


def _between(log: TrainingLog, row: int, line: int) -> bool:
    return bool(log.steps.lines[row - 1] < line < log.steps.lines[row])


def _replay(log: TrainingLog, row: int) -> tuple[str, str]:
    """Say whether the steps that were made again have the losses they had: the same batches, or others."""
    if not log.steps.has("loss"):
        return "", "unknown"
    step, loss = log.steps.columns["step"], log.steps.columns["loss"]
    first = {s: i for i, s in enumerate(step[:row].tolist())}
    pairs = []
    for i in range(row, len(step)):
        if i > row and step[i] <= step[i - 1]:
            break
        if step[i] in first:
            pairs.append((first[step[i]], i))
        if len(pairs) >= _COMPARED:
            break  # later steps may differ for many reasons; the first ones tell what was read
    old, new = np.array([loss[a] for a, _ in pairs]), np.array([loss[b] for _, b in pairs])
    good = np.isfinite(old) & np.isfinite(new)
    old, new = old[good], new[good]
    if len(old) < 4:
        return "; too few steps overlap to tell whether the data are the same", "unknown"
    if np.array_equal(old, new):
        return (
            f"; the {len(old):,} losses compared are the same to the last digit: an exact restart on the same batches",
            "exact",
        )
    if len(old) < 12:
        return "; too few steps overlap to tell whether the data are the same", "unknown"
    x = np.arange(len(old))
    flat = []
    for value in (old, new):
        left = value - np.polyval(np.polyfit(x, value, 1), x)
        most = 4.0 * MAD * max(float(np.median(np.abs(left))), 1e-12)
        flat.append(np.clip(left, -most, most))
    r = float(np.corrcoef(flat[0], flat[1])[0, 1]) if min(np.ptp(f) for f in flat) > 0 else 0.0
    if r * np.sqrt(len(old)) > 4.0 and r > 0.5:
        return f"; the losses go together (r = {r:.2f}): the same batches, with other rounding", "same"
    if abs(r) * np.sqrt(len(old)) < 3.0 and len(old) >= 20:
        return (
            f"; the losses do not go together (r = {r:.2f}): other batches, skipped or shuffled anew",
            "other",
        )
    return f"; whether the batches are the same stays open (r = {r:.2f} over {len(old)} steps)", "unknown"


def _gap(log: TrainingLog, row: int, usual: float) -> Feature:
    step = log.steps.columns["step"]
    before, here = float(step[row - 1]), float(step[row])
    what = f"no rows between step {before:,.0f} and step {here:,.0f} (they come every {usual:,.0f} elsewhere)"
    why = "lines lost, or a run that was resumed from a checkpoint of another log"
    return Feature("gap", before, here, _pair(log, row), what, why, "medium", {"steps": here - before})


def _pause(log: TrainingLog, row: int) -> float | None:
    for name in ("time", "wall_s"):
        if log.steps.has(name):
            seconds = float(np.diff(log.steps.columns[name][row - 1 : row + 1])[0])
            return seconds if np.isfinite(seconds) else None
    return None


def _stops(log: TrainingLog, known: set[int]) -> list[tuple[Feature, int]]:
    """Return stretches in which the clock ran and the run did not, with the row after each."""
    if not log.steps.has("time"):
        return []
    pause = np.diff(log.steps.columns["time"])
    if not np.isfinite(pause).any():
        return []
    usual = float(np.nanmedian(pause[pause > 0])) if np.any(pause > 0) else 0.0
    out = []
    for row in (np.flatnonzero(pause > max(_LONG * usual, _LEAST_S)) + 1).tolist():
        if row in known:
            continue
        step = log.steps.columns["step"]
        what = f"{pause[row - 1] / 3600:.1f} hours lie between step {step[row - 1]:,.0f} and step {step[row]:,.0f}"
        why = "the run stood still, or was stopped and resumed without losing a step"
        numbers = {"pause_s": float(pause[row - 1])}
        feature = Feature(
            "stop", float(step[row - 1]), float(step[row]), _pair(log, row), what, why, "high", numbers
        )
        out.append((feature, row))
    return out


def read_repeats(log: TrainingLog, begun: list[int]) -> tuple[list[Feature], list[str]]:
    """Return signs of data that were read again: borders of epochs, batches that come back, levels that drop.

    Parameters
    ----------
    log : TrainingLog
    begun : list of int
        Rows at which the run began anew.
    """
    if not log.steps.has("loss"):
        return [], []
    out, unknown = _borders(log)
    loss = log.steps.columns["loss"]
    cuts = [0, *begun, len(loss)]
    for row in begun:
        end = min(cut for cut in cuts if cut > row)
        if (found := _read_again(log, row, end)) is not None:
            out.append(found)
    if not out and len(loss) > 4 * _LEAST_ROWS and not begun and _even(log):
        left = residual(loss)
        lag, r, overlap, z = lagged(left, left, _LEAST_ROWS)
        if z > _Z and r > 0.1:
            out.append(_periodic(log, lag, r, overlap, z))
    return out, unknown


def _even(log: TrainingLog) -> bool:
    return bool(
        np.mean(np.diff(log.steps.columns["step"]) == np.median(np.diff(log.steps.columns["step"]))) > 0.98
    )


def _periodic(log: TrainingLog, lag: int, r: float, overlap: int, z: float) -> Feature:
    step, lines = log.steps.columns["step"], log.steps.lines
    period = float(step[lag] - step[0])
    what = (
        f"the losses from step {step[lag]:,.0f} on go with those from step {step[0]:,.0f} on (r = {r:.2f} over "
        f"{overlap:,} rows, z = {z:.0f}): the same batches in the same order"
    )
    why = (
        f"the data begin anew every {period:,.0f} steps: an epoch not shuffled anew, or a loader not restored"
    )
    where = log.cite(lines[lag], lines[min(lag + overlap, len(lines)) - 1])
    return Feature(
        "repeated data",
        float(step[lag]),
        float(step[-1]),
        where,
        what,
        why,
        "high",
        {"period": period, "r": r, "z": z},
    )


def _read_again(log: TrainingLog, row: int, end: int) -> Feature | None:
    """Compare what follows a restart with what came before it, at every offset but that of the same step."""
    step, loss, lines = log.steps.columns["step"], log.steps.columns["loss"], log.steps.lines
    change, score = level_change(loss, row, 64)
    drop = f" The level drops by {-change:.3f} nats there (z = {-score:.0f})." if score < -5.0 else ""
    if row >= 4 * _LEAST_ROWS and end - row >= 4 * _LEAST_ROWS:
        offset, r, overlap, z = lagged(residual(loss[row:end]), residual(loss[:row]), _LEAST_ROWS)
        old, new = max(offset, 0), row + max(-offset, 0)
        if z > _Z and r > 0.1 and step[old] != step[new]:
            what = (
                f"the losses from step {step[new]:,.0f} on go with those from step {step[old]:,.0f} on (r = {r:.2f} "
                f"over {overlap:,} rows, z = {z:.0f}): the same batches again.{drop}"
            )
            why = (
                "the run was started again without the place in the data: it reads them from there once more"
            )
            again, before = (log.cite(lines[i], lines[i + overlap - 1]) for i in (new, old))
            where = f"{again} as {before}"
            last = float(step[new + overlap - 1])
            return Feature(
                "repeated data", float(step[new]), last, where, what, why, "high", {"r": r, "z": z}
            )
    if drop and log.steps.lines[row] and step[row] > step[row - 1] - 1:
        what = f"the loss drops by {-change:.3f} nats where the run was started again (z = {-score:.0f})"
        why = "data that were read before, or a change of the learning rate, batch or data at the restart"
        here = float(step[row])
        return Feature(
            "repeated data", here, here, _pair(log, row), what, why, "low", {"change": change, "z": score}
        )
    return None


def _borders(log: TrainingLog) -> tuple[list[Feature], list[str]]:
    """Look at the loss where one pass over the data ends and the next begins."""
    unique, rate, loss = log.facts.get("unique_tokens"), log.step_tokens, timeline(log.series("loss"))
    if unique is None:
        return [], [
            "how many tokens of data there are is not known, so borders of epochs cannot be looked at"
        ]
    if rate is None or loss is None:
        return [], ["the tokens of a step are not known, so borders of epochs cannot be looked at"]
    out: list[Feature] = []
    quiet: list[tuple[int, float]] = []
    epoch = unique / rate
    for k in range(1, min(int(loss.step[-1] / epoch), _PASSES) + 1):
        at = int(np.searchsorted(loss.step, k * epoch))
        if not 8 <= at < len(loss) - 8:
            continue
        change, score = level_change(loss.value, at, 128)
        if score > -5.0:
            quiet.append((at, score))
            continue
        what = f"pass {k} over the data ends at {steps_text(k * epoch, k * epoch)}, and the loss drops by "
        what += f"{-change:.3f} nats there (z = {-score:.0f})"
        why = "the data are read again, and the model remembers them"
        here, numbers = float(loss.step[at]), {"pass": k, "change": change, "z": score}
        out.append(
            Feature("repeated data", here, here, cite(log, loss, at - 1, at), what, why, "high", numbers)
        )
    if quiet:
        first, last = quiet[0][0], quiet[-1][0]
        what = f"{len(quiet)} ends of a pass over the data, every {epoch:,.0f} steps, at which the loss does not drop"
        why = "the data are read again, as the tokens say; no sign that the model remembers them"
        numbers = {"passes": len(quiet), "z": min(score for _, score in quiet)}
        ends = float(loss.step[first]), float(loss.step[last])
        out.append(
            Feature("repeated data", *ends, cite(log, loss, first, last), what, why, "medium", numbers)
        )
    return out, []
