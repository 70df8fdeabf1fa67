"""Arguments and cells turned into float64 columns, every refusal with its position and reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scaling.errors import DataError, UnitError
from scaling.units import parse_count, parse_loss_unit

Floats = NDArray[np.float64]
Objects = NDArray[np.object_]

#: Bad cells spelled out in one message before they are only counted.
SHOWN = 10

#: Column names listed in one message; exports of trackers have thousands.
SHOWN_NAMES = 30

#: Quantities that are no counts: a magnitude suffix after them is a mistake.
LOSS_LIKE = frozenset({"loss", "sigma", "loss_se_eval"})


def checked_numbers(name: str, given: Any) -> Floats:
    """Return one argument as float64, or say which positions are no finite positive numbers."""
    array = _one_dimensional(name, given)
    bad: list[tuple[int, str]] = []
    if array.dtype.kind in "iuf":
        numbers: Floats = array.astype(np.float64)
    else:
        numbers = np.ones(len(array))
        for i, value in enumerate(given if isinstance(given, list | tuple) else array.tolist()):
            try:
                numbers[i] = parse_count(value, suffixes=name not in LOSS_LIKE)
            except DataError as error:
                bad.append((i, str(error)))
    for i in np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0))).tolist():
        bad.append((i, why_bad(float(numbers[i]))))
    if bad:
        raise DataError(
            f"{name} must be finite and positive: {spell_out(sorted(bad), 'position')}",
            column=name,
            rows=sorted(i for i, _ in bad),
        )
    return numbers


def why_bad(number: float) -> str:
    """Say why a number is no finite positive one."""
    if np.isnan(number):
        return "missing (nan)"
    return "infinite" if np.isinf(number) else f"{number:g} is not positive"


def spell_out(bad: Sequence[tuple[int, str]], word: str) -> str:
    """Write bad rows as one phrase: the first few with their reasons, the rest as a number."""
    shown = "; ".join(f"{word} {row}: {reason}" for row, reason in bad[:SHOWN])
    return shown + (f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else "")


def names_text(names: Iterable[Any]) -> str:
    """Write column names as one phrase: the first ones, and how many there are where that is not all."""
    listed = [str(name) for name in names]
    more = f", ... ({len(listed)} in all)" if len(listed) > SHOWN_NAMES else ""
    return ", ".join(listed[:SHOWN_NAMES]) + more


def checked_labels(name: str, given: Any) -> Objects:
    """Return labels as an object array."""
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise DataError(f"{name} must be a sequence with one label per run", column=name)
    labels = np.empty(len(given), dtype=object)
    labels[:] = [None if label is np.ma.masked else label for label in given]
    return labels


def checked_loss_unit(text: str) -> str:
    """Return the canonical name of the unit of an array of losses; a perplexity is no loss yet."""
    unit = parse_loss_unit(text)
    if unit == "perplexity":
        raise UnitError(
            "a perplexity is no loss: pass loss=numpy.log(perplexity), which is in nats/token, or read the table "
            "with load_runs(..., loss_unit='perplexity'), which converts it",
            column="loss_unit",
        )
    return unit


def refuse_masked(name: str, given: Any) -> Any:
    """Return an argument in which no value may be missing, unless it has masked values."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).any():
        positions = np.flatnonzero(np.ma.getmaskarray(given)).tolist()
        shown = ", ".join(map(str, positions[:SHOWN]))
        raise DataError(
            f"{name} is masked at position {shown}{', ...' if len(positions) > SHOWN else ''}: give a value for "
            "every one",
            column=name,
            rows=positions,
        )
    return given


def checked_covariate(name: str, given: ArrayLike) -> Floats:
    """Return a column of plain numbers, in which ``nan`` stands for a missing value."""
    try:
        return _one_dimensional(name, given).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"covariate {name!r} holds values that are not numbers", column=name) from error


def _one_dimensional(name: str, given: Any) -> NDArray[Any]:
    try:
        # A masked value is a missing one, not what happens to lie under the mask.
        if isinstance(given, np.ma.MaskedArray):
            given = np.where(np.ma.getmaskarray(given), np.nan, np.ma.getdata(given))
        array = np.asarray(given)
    except ValueError as error:
        raise DataError(f"{name} must be one-dimensional: {error}", column=name) from error
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional; it has shape {array.shape}", column=name)
    return array


#: Cells that say "no value here".
_MISSING = frozenset(
    {
        "",
        "nan",
        "na",
        "n/a",
        "#n/a",
        "<na>",
        "null",
        "none",
        "nil",
        "-",
        "--",
        "\u2013",
        "\u2014",
        "?",
        "missing",
    }
)


def is_missing(cell: Any) -> bool:
    """Tell whether a cell holds no value."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING)


def read_cells(cells: NDArray[Any], *, decimal: str, suffixes: bool = True) -> tuple[Floats, dict[int, str]]:
    """Read a column as numbers.

    Parameters
    ----------
    cells : ndarray, (n,)
        Numbers or text.
    decimal : {".", ","}
        Decimal mark of text cells.
    suffixes : bool
        Whether ``1.3B`` is a number here.

    Returns
    -------
    values : ndarray, float64, (n,)
        ``nan`` where there is no number.
    problems : dict of int to str
        Position -> why the cell is no number, for every cell that is not; a missing one is ``"empty"``.
    """
    if cells.dtype.kind in "iuf":
        values: Floats = cells.astype(np.float64)
        return values, {i: "empty" for i in np.flatnonzero(np.isnan(values)).tolist()}
    values = np.full(len(cells), np.nan)
    problems: dict[int, str] = {}
    for i, cell in enumerate(cells.tolist()):
        if is_missing(cell):
            problems[i] = "empty"
            continue
        try:
            values[i] = parse_count(cell, decimal=decimal, suffixes=suffixes)
        except DataError as error:
            problems[i] = str(error)
    return values, problems


def labels_of(cells: NDArray[Any]) -> Objects:
    """Return a label column: text without outer blanks, whole numbers without ".0", None where missing."""
    out = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells.tolist()):
        if is_missing(cell) or (isinstance(cell, float) and cell != cell):
            out[i] = None
        elif isinstance(cell, float) and cell.is_integer():
            out[i] = str(int(cell))
        else:
            out[i] = str(cell).strip()
    return out
