"""Losses in two bands: the mark of two units, or of two data sets, in one column."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scaling.cells import Floats
from scaling.reading.draft import Draft

_LN_BIT = -math.log(math.log(2.0))  # ln(bits / nats) = 0.3665
_LEAST_ROWS, _ENOUGH_ROWS = 8, 16
_TRIALS = 200


def surface(N: Floats, D: Floats) -> Floats:
    """Return the columns 1, x, y, x², y², xy of standardised x = ln N, y = ln D, (n, 6)."""
    x, y = (np.log(v) for v in (N, D))
    x, y = ((v - v.mean()) / (v.std() or 1.0) for v in (x, y))
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


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
    if shift < (8.0 if len(loss) >= _ENOUGH_ROWS else 10.0) * noise:
        return
    minority = upper if 2 * int(upper.sum()) <= len(upper) else ~upper
    word = "larger" if minority is upper else "smaller"
    factor = math.exp(shift)
    rows = draft.row_numbers(minority)
    if abs(shift - _LN_BIT) < 0.04:
        verb = "have losses that look" if len(rows) > 1 else "has a loss that looks"
        message = (
            f"{draft.rows_text(minority)} {verb} {factor:.3f}x {word} than the others at their N and D; bits and nats "
            "differ by 1.443x: are both in this column?"
        )
        # A single row may be a run gone wrong, and a few rows can be split so that almost anything fits.
        if stated or len(rows) == 1 or len(loss) < _ENOUGH_ROWS:
            draft.note("mixed_units", "warning", message, rows=rows, factor=factor)
        else:
            fix = "Add a column loss_unit, or correct them."
            draft.suspect("mixed_units", f"{message} {fix}", rows, factor=factor)
    elif shift > 0.5 and shift > 10.0 * noise and len(rows) > 1:
        draft.note(
            "loss_bands",
            "warning",
            f"the losses fall into two bands {factor:.2f}x apart ({draft.rows_text(minority)} {word}): two units, or "
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
    z = np.log(loss)
    curved = surface(N, D) if len(z) >= _ENOUGH_ROWS else surface(N, D)[:, :3]
    plane = curved[:, :3]
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
