"""Arguments of a fit, checked and brought into one shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError
from scaling.intervals import check_level, check_method
from scaling.laws.base import Array
from scaling.runs import RunTable
from scaling.units import parse_count


def check_options(delta: float, n_boot: int, level: float, interval: str) -> None:
    """Raise `DataError` for a number that makes no sense as an option of a fit."""
    check_level(level)
    check_method(interval)
    if not (np.isfinite(delta) and delta > 0):
        raise DataError(f"delta must be positive, got {delta}", column="delta")
    if n_boot != int(n_boot) or n_boot < 0:
        raise DataError(f"n_boot must be a whole number from 0 up, got {n_boot}", column="n_boot")


def as_table(
    runs: Any,
    params: ArrayLike | None,
    tokens: ArrayLike | None,
    loss: ArrayLike | None,
    reading: dict[str, Any],
) -> RunTable:
    """Return the runs as a table, whichever way they were given."""
    arrays = {"params": params, "tokens": tokens, "loss": loss}
    given = [name for name, value in arrays.items() if value is not None]
    if runs is not None and given:
        raise DataError(
            f"give either runs or the arrays params, tokens and loss, not runs and {', '.join(given)}"
        )
    if isinstance(runs, RunTable):
        if reading:
            raise DataError(f"{', '.join(reading)} apply to reading a file; this table is read already")
        return runs
    if runs is not None:
        from scaling.table import load_runs

        return load_runs(runs, **reading)
    if len(given) < 3:
        missing = ", ".join(name for name in arrays if name not in given)
        raise DataError(f"nothing to fit: give runs, or params, tokens and loss (missing: {missing})")
    return RunTable.from_arrays(**arrays, **reading)  # type: ignore[arg-type]


def row_weights(table: RunTable, weights: ArrayLike | None) -> Array:
    """Return one weight per row, 1 by default."""
    if weights is None:
        return np.ones(len(table))
    w = np.asarray(weights, dtype=float)
    if w.shape != (len(table),):
        raise DataError(f"weights has shape {w.shape}, the table has {len(table)} rows", column="weights")
    bad = ~(np.isfinite(w) & (w >= 0))
    if bad.any() or not w.any():
        raise DataError(
            f"weights must be finite, not negative and not all zero; rows {table.row[bad][:10].tolist()}",
            column="weights",
            rows=table.row[bad].tolist(),
        )
    return w


def residual_scale(table: RunTable, sigma: ArrayLike | None) -> Array:
    """Return multipliers sigma0/sigma_i of the log residuals, sigma0 the median."""
    values = table.sigma if sigma is None else sigma
    if values is None:
        return np.ones(len(table))
    s = np.asarray(values, dtype=float)
    if s.shape != (len(table),):
        raise DataError(f"sigma has shape {s.shape}, the table has {len(table)} rows", column="sigma")
    bad = ~(np.isfinite(s) & (s > 0))
    if bad.any():
        raise DataError(
            f"sigma must be positive and finite in every row; rows {table.row[bad][:10].tolist()}",
            column="sigma",
            rows=table.row[bad].tolist(),
        )
    relative = s / table.loss
    return np.asarray(np.median(relative) / relative)


def positive_count(name: str, value: float | str) -> float:
    """Read a positive count given by the user, such as ``1e9`` or ``"1B"``; `DataError` otherwise."""
    try:
        out = parse_count(value)
    except DataError as error:
        raise DataError(f"{name}: {error}", column=name) from error
    if not (out > 0 and np.isfinite(out)):
        raise DataError(f"{name} must be positive and finite, got {value!r}", column=name)
    return out
