"""Counts that betray another magnitude than the one they are read in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scaling.cells import Floats
from scaling.reading.draft import Draft
from scaling.reading.understand import Understanding
from scaling.units import format_count

#: No model has fewer parameters and no run fewer tokens; none has more than the second number yet.
_PLAUSIBLE = {"params": (1e3, 1e14), "tokens": (1e3, 1e17)}
_TOKENS_PER_PARAM = (1e-3, 1e6)
_GAP, _WIDE_GAP = 100.0, 3e3


def check_counts(draft: Draft, result: Understanding) -> None:
    """Look for counts written in thousands, millions or billions without a word about it.

    Raises
    ------
    UnitError
        A whole column or some of its rows cannot be plain counts.
    """
    for role in ("params", "tokens"):
        seen = result.chosen[role].seen if role in result.chosen else role
        _check_column(draft, role, seen)
    ratio = draft.values["tokens"][draft.kept] / draft.values["params"][draft.kept]
    middle = float(np.median(ratio))
    low, high = _TOKENS_PER_PARAM
    if not low <= middle <= high:
        draft.suspect(
            "implausible_scale",
            f"the runs have {middle:.3g} tokens per parameter (median; range {ratio.min():.3g} to "
            f"{ratio.max():.3g}): "
            "one of the columns is probably in thousands, millions or billions. Say so with "
            "columns={'params_M': ...} or columns={'tokens_B': ...}.",
            ratio=middle,
        )


def _check_column(draft: Draft, role: str, seen: str) -> None:
    values = draft.values[role][draft.kept]
    least, most = _PLAUSIBLE[role]
    if values.max() > most:
        rows = values > most
        draft.suspect(
            "implausible_scale",
            f"{seen!r} gives {format_count(float(values.max()))} {role} ({draft.rows_text(rows)}): more than any run. "
            "Are the cells plain counts although the name has a unit?",
            draft.row_numbers(rows),
        )
        return
    small = values < least
    if small.all() or (small.any() and values.max() < 1e5):
        unit = "M" if role == "params" else "B"
        draft.suspect(
            "implausible_scale",
            f"{seen!r} runs from {values.min():g} to {values.max():g}, too few for {role}. In millions or billions? "
            f"Pass columns={{'{role}_{unit}': {seen!r}}} (M is 1e6, B is 1e9).",
            draft.row_numbers(small),
        )
        return
    low = small if small.any() else _below_gap(values)
    if not low.any():
        return
    ratio = float(np.median(values[~low]) / np.median(values[low]))
    message = (
        f"{seen!r} looks written in two magnitudes: {draft.rows_text(low, 'have')} {role} {_span(values[low])}, the "
        f"others {_span(values[~low])}."
    )
    gap = float(values[~low].min() / values[low].max())
    if small.any() or gap >= _WIDE_GAP:
        draft.suspect("mixed_magnitudes", message, draft.row_numbers(low), ratio=ratio)
    else:
        draft.note("magnitude_gap", "warning", message, rows=draft.row_numbers(low), ratio=ratio)


def _span(values: Floats) -> str:
    return f"from {format_count(float(values.min()))} to {format_count(float(values.max()))}"


def _below_gap(values: Floats) -> NDArray[np.bool_]:
    """Return the rows below the widest gap, if 1e3, 1e6 or 1e9 times them would be among the others."""
    ordered = np.sort(values)
    steps = ordered[1:] / ordered[:-1]
    none = np.zeros(len(values), dtype=bool)
    if not len(steps) or steps.max() < _GAP:
        return none
    cut = ordered[int(np.argmax(steps))]
    low: NDArray[np.bool_] = values <= cut
    for factor in (1e3, 1e6, 1e9):
        moved = values[low] * factor
        if np.all((moved >= values[~low].min() / 3) & (moved <= values.max() * 3)):
            return low
    return none
