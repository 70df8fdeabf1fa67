"""Arguments of a fit, checked and brought into one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError, shown
from scaling.intervals import check_level, check_method
from scaling.laws.base import Array
from scaling.runs import RunTable
from scaling.units import parse_count

#: Below this the objective is least absolute deviations to six digits of a loss.
_SMALLEST_DELTA = 1e-7
#: Numbers outside these bounds overflow or vanish once squared and summed.
_SMALLEST, _LARGEST = 1e-100, 1e100


def check_options(delta: float, n_boot: int, seed: int, level: float, interval: str) -> None:
    """Raise `DataError` for a value that makes no sense as an option of a fit."""
    check_level(level)
    check_method(interval)
    check_delta(delta)
    check_whole("n_boot", n_boot)
    check_whole("seed", seed)


def check_delta(delta: float) -> None:
    """Raise `DataError` unless `delta` is a Huber threshold: positive and finite."""
    if not _number(delta) > 0:
        raise DataError(f"delta must be a positive number, got {delta!r}", column="delta")
    if delta < _SMALLEST_DELTA:
        raise DataError(
            f"delta must be {_SMALLEST_DELTA:g} or more (log loss; 1e-3 in Hoffmann et al.), got {delta!r}",
            column="delta",
        )


def check_whole(name: str, value: int, least: int = 0) -> None:
    """Raise `DataError` unless `value` is a whole number from `least` up."""
    number = _number(value)
    if not (number >= least and number == np.floor(number)):
        raise DataError(f"{name} must be a whole number from {least} up, got {value!r}", column=name)


def _number(value: Any) -> float:
    """Return a finite number as float, and nan for anything else."""
    try:
        number = np.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
    return number if np.isfinite(number) else np.nan


def held_coefficients(fixed: Mapping[str, float] | None) -> dict[str, float]:
    """Return the coefficients held, as floats; which names and values a law allows is its own affair."""
    if fixed is None:
        return {}
    if not isinstance(fixed, Mapping):
        raise DataError(
            f"fixed must map coefficients to values, like {{'E': 1.6}}, got {fixed!r}", column="fixed"
        )
    for name, value in fixed.items():
        if np.isnan(_number(value)):
            raise DataError(f"fixed[{name!r}] must be a finite number, got {value!r}", column="fixed")
    return {str(name): float(value) for name, value in fixed.items()}


def check_magnitudes(table: RunTable) -> None:
    """Raise `DataError` for counts and losses too large or too small for sums of squares."""
    for name in ("params", "tokens", "loss"):
        values = getattr(table, name)
        bad = (values < _SMALLEST) | (values > _LARGEST)
        if bad.any():
            raise DataError(
                f"{name} must lie between {_SMALLEST:g} and {_LARGEST:g} to be computed with; row "
                f"{table.row[bad][0]} has {values[bad][0]:g}",
                column=name,
                rows=table.row[bad].tolist(),
            )


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
    w = _row_numbers("weights", weights, table)
    bad = ~(np.isfinite(w) & (w >= 0))
    if bad.any() or not w.any():
        raise DataError(
            f"weights must be finite, not negative and not all zero; rows {table.row[bad][:10].tolist()}",
            column="weights",
            rows=table.row[bad].tolist(),
        )
    if w.max() > _LARGEST:
        raise DataError(f"weights must be at most {_LARGEST:g}, got {w.max():g}", column="weights")
    return w


def weighted_rows(
    table: RunTable, w: Array, groups: ArrayLike | str | None, sigma: ArrayLike | None
) -> tuple[RunTable, Array, ArrayLike | str | None, ArrayLike | None]:
    """Leave rows of weight 0 out of the table and of everything given per row; the audit names them.

    A row of weight 0 is no copy of a row: it must count neither as a run nor as something to resample.
    """
    keep = w > 0
    if keep.all():
        return table, w, groups, sigma
    used = table.select(keep)
    gone = tuple((int(row), "weight 0") for row in table.row[~keep])
    used = replace(used, audit=replace(used.audit, dropped=(*used.audit.dropped, *gone)))
    if groups is not None and np.shape(groups) == keep.shape:
        groups = np.asarray(groups)[keep]
    if sigma is not None:
        sigma = _row_numbers("sigma", sigma, table)[keep]
    return used, w[keep], groups, sigma


def _row_numbers(name: str, values: ArrayLike, table: RunTable) -> Array:
    """Return one number per row, as float64."""
    try:
        out = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must hold one number per row: {error}", column=name) from error
    if out.shape != (len(table),):
        raise DataError(
            f"{name} has shape {out.shape}, the table has {len(table)} rows: give one value per row",
            column=name,
        )
    return out


def residual_scale(table: RunTable, sigma: ArrayLike | None) -> Array:
    """Return multipliers sigma0/sigma_i of the log residuals, sigma0 the median."""
    values = table.sigma if sigma is None else sigma
    if values is None:
        return np.ones(len(table))
    s = _row_numbers("sigma", values, table)
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
        words = str(error).replace("a decimal comma? pass decimal=','", "write the decimal point as a point")
        raise DataError(f"{name}: {words}", column=name) from error
    if not (out > 0 and np.isfinite(out)):
        raise DataError(f"{name} must be positive and finite, got {shown(value)}", column=name)
    return out
