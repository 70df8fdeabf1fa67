"""Runs on different data in one table, and rows the table itself marks as outliers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaling.cells import Floats
from scaling.reading.bands import surface
from scaling.reading.draft import Draft

#: Names of columns that tell which data a run was trained or evaluated on.
_DATA_NAME = re.compile(
    r"(data_?sets?|corpus|source|experiment|mixture|domain"
    r"|(train|val|valid|eval|test)(ing|uation|idation)?_?(set|data|corpus))(_?name)?",
    re.IGNORECASE,
)
_FLAG_NAME = re.compile(r"(is_|flagged_?)?(outliers?|excluded?|invalid|bad)", re.IGNORECASE)
_MOST_GROUPS = 20
_LONGEST_LABEL = 60  # longer texts are remarks, no names of data sets
#: Groups whose losses differ by this much at equal N and D (in ln loss) cannot share one law.
_GROUP_OFFSET = 0.1
#: F ratio from which on telling the groups apart has explained something; 10 is far beyond chance.
_EXPLAINS = 10.0


class _Grouping(NamedTuple):
    """A column that splits the runs.

    `noise` is the sd of ln loss within groups, `gain` the F ratio of telling them apart, `spread` the
    distance in ln loss between the outermost groups.
    """

    noise: float
    gain: float
    spread: float
    column: str
    values: list[str]


def check_data(draft: Draft) -> None:
    """Look for runs on different data in one table.

    Raises
    ------
    DataError
        The losses of the groups lie so far apart that one law cannot hold for them.
    """
    hashes = draft.label("val_hash")
    sets = set() if hashes is None else set(hashes) - {None}
    if len(sets) > 1:
        message = f"{len(sets)} validation sets (val_hash): their losses are not comparable; select one"
        draft.note("several_val_sets", "warning", message)
    groupings = []
    for name, cells in draft.raw.columns.items():
        # Columns of one name are called by their position; they are looked at all the same.
        plain = re.sub(r"[ \-/.]+", "_", re.sub(r" \(column \d+\)$", "", name.strip()))
        if _FLAG_NAME.fullmatch(plain):
            _check_flags(draft, name, cells[draft.kept])
        elif _DATA_NAME.fullmatch(plain):
            labels = np.array([str(cell).strip() for cell in cells[draft.kept].tolist()])
            values = np.unique(labels).tolist()
            if (
                2 <= len(values) <= min(_MOST_GROUPS, len(labels) // 2)
                and max(map(len, values)) < _LONGEST_LABEL
            ):
                groupings.append(_grouping(draft, name, labels, values))
    if not groupings:
        return
    # The column that explains the losses best is the one to select by.
    best = min(groupings)
    shown = ", ".join(best.values[:8]) + (", ..." if len(best.values) > 8 else "")
    message = (
        f"column {best.column!r} names {len(best.values)} data sets ({shown}); their losses differ by up to "
        f"{100 * np.expm1(best.spread):.0f}% at equal N and D. One law per data set: "
        f"where={{{best.column!r}: {best.values[0]!r}}}."
    )
    evidence: dict[str, Any] = {"column": best.column, "values": best.values, "spread": best.spread}
    explains = best.gain > _EXPLAINS
    if explains and best.spread > _GROUP_OFFSET:
        draft.suspect("mixed_groups", message, (), **evidence)
    else:
        draft.note("mixed_groups", "warning" if explains else "info", message, **evidence)


def _grouping(draft: Draft, name: str, labels: NDArray[np.str_], values: list[str]) -> _Grouping:
    """Fit ln loss by one quadratic surface in ln N and ln D, with and without a constant per group."""
    N, D, loss = (draft.values[role][draft.kept] for role in ("params", "tokens", "loss"))
    common = surface(N, D)
    dummies = (labels[:, None] == np.array(values)[None, :]).astype(float)
    alone, _ = _fit(common, np.log(loss))
    noise, coefficients = _fit(np.column_stack([dummies, common[:, 1:]]), np.log(loss))
    offsets = coefficients[: len(values)]
    freedom = max(len(loss) - len(coefficients), 1)
    gain = (alone**2 - noise**2) / max(noise**2, 1e-12) * freedom / (len(values) - 1)
    return _Grouping(noise, gain, float(offsets.max() - offsets.min()), name, values)


def _fit(A: Floats, z: Floats) -> tuple[float, Floats]:
    coefficients: Floats = np.asarray(np.linalg.lstsq(A, z, rcond=None)[0], dtype=np.float64)
    return float(np.std(z - A @ coefficients)), coefficients


def _check_flags(draft: Draft, name: str, cells: NDArray[np.object_]) -> None:
    """Say that rows marked as outliers are in, as nobody asked to leave them out."""
    marked = np.array([str(cell).strip().lower() in ("true", "1", "1.0", "yes") for cell in cells.tolist()])
    if marked.any():
        draft.note(
            "marked_rows",
            "info",
            f"column {name!r} marks {int(marked.sum())} of the rows taken; they are in. Leave them out with where=",
            rows=draft.row_numbers(marked),
        )
