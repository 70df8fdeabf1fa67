"""Rows that say the same twice: copies, seeds, checkpoints of one run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scaling.cells import is_missing
from scaling.reading.draft import Draft
from scaling.reading.frames import hashable, is_index_name
from scaling.reading.understand import Understanding


def drop_duplicates(draft: Draft, result: Understanding) -> None:
    """Leave out rows that are equal in every column to an earlier one: they are no new runs.

    Raises
    ------
    DataError
        Never; kept with a warning where ``allow`` names "duplicates".
    """
    raw, kept = draft.raw, draft.kept
    numeric = {c.seen: key for key, c in result.chosen.items() if key in draft.values and c.constant is None}
    keys: list[list[object]] = []
    for name, cells in raw.columns.items():
        if is_index_name(name):
            continue
        if name in numeric:
            keys.append(draft.values[numeric[name]][kept].tolist())
        else:
            keys.append([_plain(cell) for cell in cells[kept].tolist()])
    first: dict[tuple[object, ...], int] = {}
    repeats: dict[int, int] = {}
    for i, key in enumerate(zip(*keys, strict=True)):
        if key in first:
            repeats[i] = first[key]
        else:
            first[key] = i
    if not repeats:
        return
    again = np.isin(np.arange(len(kept)), list(repeats))
    many = "rows equal" if len(repeats) > 1 else "row equals"
    message = f"{len(repeats)} {many} an earlier row in every column ({draft.rows_text(again)})"
    if "duplicates" in draft.allow:
        draft.note(
            "duplicates", "warning", f"{message}; kept because allow= says so", rows=draft.row_numbers(again)
        )
        return
    draft.note(
        "duplicates",
        "warning",
        f"{message}; left out, because copies would make the intervals too narrow. Runs that differ only in their "
        "seed need a seed or run_id column; or pass allow=['duplicates']",
        rows=draft.row_numbers(again),
    )
    original = {int(kept[i]): int(raw.row[kept[j]]) for i, j in repeats.items()}
    draft.keep(~again, lambda p: f"equals {raw.row_word} {original[p]} in every column")


def _plain(cell: object) -> object:
    if is_missing(cell):
        return None
    return cell.strip() if isinstance(cell, str) else hashable(cell)


def check_repeats(draft: Draft) -> None:
    """Tell seeds, checkpoints of one run, and rows that contradict each other apart."""
    N, D, loss = (draft.values[role][draft.kept] for role in ("params", "tokens", "loss"))
    run, seed = draft.label("run_id"), draft.label("seed")
    triple = _group_numbers(N, D, loss)
    copies = _repeated(triple) & (np.round(loss, 3) != loss)
    if copies.any():
        # Six digits do not agree by chance; four or five of a rounded table can.
        exact = bool(np.any(copies & (np.round(loss, 5) != loss)))
        draft.note(
            "same_values",
            "warning" if exact else "info",
            f"{draft.rows_text(copies, 'have')} params, tokens and loss in common and differ elsewhere: one run "
            "written twice?",
            rows=draft.row_numbers(copies),
        )
    stale = _repeated(_group_numbers(N, loss)) & (np.round(loss, 5) != loss) & ~copies
    if stale.any():
        draft.note(
            "same_loss",
            "info",
            f"{draft.rows_text(stale, 'share')} params and every digit of the loss with another row, not tokens: a "
            "loss logged once and carried on, or two readings of one mark?",
            rows=draft.row_numbers(stale),
        )
    if run is not None:
        known = np.array([r is not None for r in run])
        names = np.unique(run.astype(str), return_inverse=True)[1]
        again = known & _repeated(_group_numbers(names, D)) & ~copies
        if again.any():
            draft.note(
                "run_repeated",
                "warning",
                f"{draft.rows_text(again, 'have')} the run_id and the tokens of another row and another loss",
                rows=draft.row_numbers(again),
            )
        count = len(np.unique(names[known]))
        if 0 < count < int(known.sum()):
            draft.note(
                "checkpoints",
                "info",
                f"{int(known.sum())} rows come from {count} run{'s' * (count != 1)}: rows of one run share their "
                "noise. Checkpoints taken before the learning rate has decayed are no points of a law",
            )
    elif seed is None and _repeated(_group_numbers(N, D)).any():
        n = int(_repeated(_group_numbers(N, D)).sum())
        draft.note(
            "no_seed",
            "info",
            f"{n} rows share their params and tokens with another: taken as seeds of one setting",
        )


def _group_numbers(*columns: NDArray[np.generic]) -> NDArray[np.int64]:
    """Give every row a number, equal rows the same one, (n,)."""
    coded = np.stack([np.unique(c, return_inverse=True)[1] for c in columns], axis=1)
    return np.asarray(np.unique(coded, axis=0, return_inverse=True)[1]).ravel()


def _repeated(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray(np.bincount(numbers)[numbers] > 1)
