"""One row a step where several processes wrote into one log."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference_trainer.log_formats.draft import Rows
from scaling.findings import Finding

#: Share of rows that do not advance the step above which processes without a mark are suspected to be interleaved.
_INTERLEAVED = 0.3


def merge_ranks(rows: Rows) -> tuple[Rows, list[Finding]]:
    """Merge the rows of several processes into one a step.

    Where their losses are equal one is kept; where they differ each is the loss of a process's own part of the batch,
    and their mean is the loss of the step. Rows of one process stay as they are, also those that a restart wrote again.

    Parameters
    ----------
    rows : Rows
        In the order of the file, with a column ``rank`` where lines are marked.

    Returns
    -------
    rows : Rows
    findings : list of Finding
        What was merged.
    """
    ranks = _ranks(rows)
    if ranks is None or len(np.unique(ranks)) < 2:
        return rows, []
    groups = _groups(rows.columns["step"], ranks)
    n, first, size = int(groups.max()) + 1, np.unique(groups, return_index=True)[1], np.bincount(groups)
    columns, absent, spread = {}, {}, 0.0
    for name, values in rows.columns.items():
        there = ~rows.absent[name]
        count = np.bincount(groups, weights=there, minlength=n)
        with np.errstate(invalid="ignore"):  # infinities
            total = np.bincount(groups, weights=np.where(there, values, 0.0), minlength=n)
            columns[name] = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
            away = np.abs(values - columns[name][groups])
        absent[name] = count == 0
        if name == "loss":
            spread = float(np.max(away[np.isfinite(away)], initial=0.0))
    equal = spread <= 1e-9
    columns.pop("rank", None), absent.pop("rank", None)
    many = len(np.unique(ranks))
    how = (
        "they say the same"
        if equal
        else f"their losses differ by up to {2 * spread:.3g} and the mean was taken"
    )
    marked = "" if "rank" in rows.columns else ", by no mark but steps that come several times"
    message = f"{many} processes wrote into the log{marked}: {how}; cited is the first line of each step"
    if size.min() < size.max():
        message += f". {int(np.sum(size < size.max())):,} steps lack lines of some processes"
    merged = Rows(columns, absent, rows.lines[first], rows.source, rows.word)
    order = np.argsort(merged.lines, kind="stable")
    evidence = {"ranks": many, "spread": spread}
    return merged.take(order), [Finding("ranks", "info" if equal else "warning", message, evidence)]


def _ranks(rows: Rows) -> NDArray[np.int64] | None:
    """Return the process of each row: as marked, or by how often its step came before where that is regular."""
    if rows.has("rank"):
        ranks = np.where(rows.absent["rank"], -1, np.nan_to_num(rows.columns["rank"], nan=-1)).astype(
            np.int64
        )
        return ranks
    step = rows.columns["step"]
    if not np.isfinite(step).all():
        return None
    advance = np.diff(step)
    if len(step) < 8 or np.mean(advance <= 0) < _INTERLEAVED:
        return None
    values, counts = np.unique(step, return_counts=True)
    many = int(np.median(counts))
    usual = float(np.median(np.diff(values))) if len(values) > 1 else 1.0
    if many < 2 or np.mean(counts % many == 0) < 0.9 or np.mean(advance < -3 * usual) > 0.05:
        return None
    return _seen_before(step) % many


def _seen_before(step: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how often each row's step came before it."""
    seen: dict[float, int] = {}
    out = np.empty(len(step), dtype=np.int64)
    for i, s in enumerate(step.tolist()):
        out[i] = seen.get(s, 0)
        seen[s] = int(out[i]) + 1
    return out


def _groups(step: NDArray[np.float64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each (step, how often this process wrote that step before), in order of appearance."""
    seen: dict[tuple[float, int], int] = {}
    numbers: dict[tuple[float, int], int] = {}
    out = np.empty(len(step), dtype=np.int64)
    for i, (s, rank) in enumerate(zip(step.tolist(), ranks.tolist(), strict=True)):
        time = seen.get((s, rank), 0)
        seen[s, rank] = time + 1
        out[i] = numbers.setdefault((s, time), len(numbers))
    return out
