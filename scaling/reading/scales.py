"""Values that betray another unit than the one they are read in: magnitudes and bands."""

from __future__ import annotations

import math

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

_LN_BIT = -math.log(math.log(2.0))  # ln(bits / nats) = 0.3665
_LEAST_ROWS = 8
_TRIALS = 200


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
            f"{seen!r} gives {format_count(float(values.max()))} {role} ({draft.rows_text(rows)}): more "
            "than any run. "
            "Are the cells plain counts although the name has a unit?",
            draft.row_numbers(rows),
        )
        return
    small = values < least
    if small.all() or (small.any() and values.max() < 1e5):
        unit = "M" if role == "params" else "B"
        draft.suspect(
            "implausible_scale",
            f"{seen!r} runs from {values.min():g} to {values.max():g}, too few for {role}. In millions or "
            "billions? "
            f"Pass columns={{'{role}_{unit}': {seen!r}}} (M is 1e6, B is 1e9).",
            draft.row_numbers(small),
        )
        return
    low = small if small.any() else _below_gap(values)
    if not low.any():
        return
    ratio = float(np.median(values[~low]) / np.median(values[low]))
    message = (
        f"{seen!r} looks written in two magnitudes: {draft.rows_text(low)} have {role} from "
        f"{values[low].min():g} to "
        f"{values[low].max():g}, the others from {format_count(float(values[~low].min()))} to "
        f"{format_count(float(values[~low].max()))}."
    )
    gap = float(values[~low].min() / values[low].max())
    if small.any() or gap >= _WIDE_GAP:
        draft.suspect("mixed_magnitudes", message, draft.row_numbers(low), ratio=ratio)
    else:
        draft.note("magnitude_gap", "warning", message, rows=draft.row_numbers(low), ratio=ratio)


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


def check_loss_bands(draft: Draft, stated: bool) -> None:
    """Look for rows whose loss is off by 1/ln 2 = 1.443, the mark of bits among nats.

    ln loss is close to a smooth function of ln N and ln D. If adding one constant to some of the rows
    explains almost all that such a function leaves over, there are two bands; if the constant is
    0.3665, one of them is in bits.

    Raises
    ------
    UnitError
        Two bands 1.443 apart, and nobody has stated the unit.
    """
    N, D, loss = (draft.values[role][draft.kept] for role in ("params", "tokens", "loss"))
    if len(loss) < _LEAST_ROWS:
        return
    band = two_bands(N, D, loss)
    if band is None:
        return
    shift, noise, upper = band
    if shift < 8.0 * noise:
        return
    minority = upper if 2 * int(upper.sum()) <= len(upper) else ~upper
    word = "larger" if minority is upper else "smaller"
    factor = math.exp(shift)
    rows = draft.row_numbers(minority)
    if abs(shift - _LN_BIT) < 0.04:
        message = (
            f"{draft.rows_text(minority)} have losses that look {factor:.3f}x {word} than the others at "
            "their N and "
            f"D; bits and nats differ by 1.443x: are both in this column?"
        )
        if len(rows) == 1 or stated:
            draft.note("mixed_units", "warning", message, rows=rows, factor=factor)
        else:
            draft.suspect(
                "mixed_units",
                f"{message} Add a column loss_unit, or correct them.",
                rows,
                factor=factor,
            )
    elif shift > 0.5 and shift > 10.0 * noise and len(rows) > 1:
        draft.note(
            "loss_bands",
            "warning",
            f"the losses fall into two bands {factor:.2f}x apart ({draft.rows_text(minority)} {word}): two "
            "units, or "
            "two data sets? Select one with where=",
            rows=rows,
            factor=factor,
        )


def two_bands(N: Floats, D: Floats, loss: Floats) -> tuple[float, float, NDArray[np.bool_]] | None:
    """Split runs into two bands of loss around one smooth function of N and D.

    Parameters
    ----------
    N, D, loss : ndarray, (n,)

    Returns
    -------
    shift : float
        ln of the factor between the bands, positive.
    noise : float
        Standard deviation of ln loss within the bands.
    upper : ndarray, bool, (n,)
        Rows of the upper band.
    None if no split was found.
    """
    x, y = _standard(np.log(N)), _standard(np.log(D))
    z = np.log(loss)
    plane = np.stack([np.ones_like(x), x, y], axis=1)
    curved = np.column_stack([plane, x * x, y * y, x * y]) if len(z) >= 2 * _LEAST_ROWS else plane
    best = None
    for residual in (
        _robust_residuals(plane, z),
        _robust_residuals(curved, z),
        *_three_point_planes(plane, z),
    ):
        found = _split(curved, z, residual)
        if found is not None and (best is None or found[1] < best[1]):
            best = found
    return best


def _standard(x: Floats) -> Floats:
    return np.asarray((x - x.mean()) / (x.std() or 1.0))


def _robust_residuals(A: Floats, z: Floats) -> Floats:
    """Residuals of the least-absolute fit, by iterated weights."""
    residual = z - A @ np.linalg.lstsq(A, z, rcond=None)[0]
    for _ in range(25):
        w = np.sqrt(1.0 / np.maximum(np.abs(residual), 1e-3))
        residual = z - A @ np.linalg.lstsq(A * w[:, None], z * w, rcond=None)[0]
    return residual


def _three_point_planes(plane: Floats, z: Floats) -> list[Floats]:
    """Residuals of the planes through three rows that leave the rest nearest to 0 or +-0.3665.

    With four rows in ten in the other unit no robust fit finds the majority; some three rows do.
    """
    rng = np.random.default_rng(0)  # fixed: the same table always gets the same audit
    picks = rng.integers(0, len(z), size=(_TRIALS, 3))
    corners = plane[picks]
    usable = np.abs(np.linalg.det(corners)) > 1e-2
    if not usable.any():
        return []
    planes = np.linalg.solve(corners[usable], z[picks[usable]][..., None])[..., 0]
    residuals = z - planes @ plane.T
    chosen = []
    for sign in (1.0, -1.0):
        misfit = np.minimum(np.abs(residuals), np.abs(residuals - sign * _LN_BIT))
        chosen.append(residuals[int(np.argmin(np.minimum(misfit, 0.15).sum(axis=1)))])
    return chosen


def _split(A: Floats, z: Floats, residual: Floats) -> tuple[float, float, NDArray[np.bool_]] | None:
    """Refine the split at the widest gap of the residuals, and at half a bit either way."""
    ordered = np.sort(residual)
    gap = int(np.argmax(np.diff(ordered)))
    middle = float(np.median(residual))
    best = None
    for cut in ((ordered[gap] + ordered[gap + 1]) / 2, middle + _LN_BIT / 2, middle - _LN_BIT / 2):
        upper = residual > cut
        for _ in range(20):
            if not upper.any() or upper.all():
                break
            coefficients = np.linalg.lstsq(np.column_stack([A, upper]), z, rcond=None)[0]
            shift = float(coefficients[-1])
            base = z - A @ coefficients[:-1]
            again = np.abs(base - shift) < np.abs(base)
            if np.array_equal(again, upper):
                break
            upper = again
        if not upper.any() or upper.all():
            continue
        freedom = max(len(z) - A.shape[1] - 1, 1)
        noise = float(np.sqrt(np.sum((base - shift * upper) ** 2) / freedom))
        if best is None or noise < best[1]:
            best = (shift, noise, upper) if shift > 0 else (-shift, noise, ~upper)
    return best
