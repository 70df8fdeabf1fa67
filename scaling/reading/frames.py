"""The frame a person can query: columns typed, and rows chosen by ``where=``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scaling.cells import is_missing, names_text, read_cells
from scaling.errors import DataError
from scaling.reading.formats import Raw

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})")
_ZERO_PADDED = re.compile(r"[+-]?0\d+")
_MANY = 12
_ONE_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")

_INDEX_NAME = re.compile(r"(unnamed: ?\d+|index|level_\d+|column 1|)", re.IGNORECASE)

Where = str | Mapping[str, Any] | Callable[[Any], Any] | Sequence[bool] | NDArray[np.bool_]


def is_index_name(name: str) -> bool:
    """Tell whether a column is only a row counter that some program wrote along."""
    return _INDEX_NAME.fullmatch(name.strip()) is not None


def typed_frame(raw: Raw, decimal: str) -> pd.DataFrame:
    """Return the table as a frame; a text column becomes numeric when every cell in it is a number.

    Cells such as ``001`` keep a column text: they are names.
    """
    import pandas as pd

    if raw.frame is not None:
        frame: pd.DataFrame = raw.frame
        return frame
    return pd.DataFrame({name: typed_column(cells, decimal) for name, cells in raw.columns.items()})


def typed_column(cells: NDArray[Any], decimal: str) -> NDArray[Any]:
    """Return a column as numbers or truth values where all its cells are such, else as it is."""
    if cells.dtype.kind in "iuf":
        return cells
    given = [cell for cell in cells.tolist() if not is_missing(cell)]
    out = cells.copy()
    out[[is_missing(cell) for cell in cells.tolist()]] = None
    if not given or any(isinstance(cell, bool) for cell in given):
        return out
    texts = [cell.strip() for cell in given if isinstance(cell, str)]
    if texts and len(given) == len(out) and all(text.lower() in ("true", "false") for text in texts):
        return np.array([str(cell).strip().lower() == "true" for cell in out])
    if any(_ZERO_PADDED.fullmatch(text) for text in texts):
        return out
    values, problems = read_cells(out, decimal=decimal, suffixes=False)
    if any(reason != "empty" for reason in problems.values()):
        return out
    if len(texts) == len(out) and all(_WHOLE.fullmatch(text) for text in texts):
        return values.astype(np.int64)
    return values


def rows_where(frame: pd.DataFrame, where: Where, source: str) -> NDArray[np.bool_]:
    """Return which rows a condition selects.

    Parameters
    ----------
    frame : pandas.DataFrame, (n rows)
    where : str, mapping, callable or mask
        A pandas query (``"batch_tokens == 512 and seed == 0"``), ``{column: value or values}``, a
        function of the frame that returns a mask, or the mask itself, one True or False per row.
    source : str
        For messages.

    Returns
    -------
    ndarray, bool, (n,)

    Raises
    ------
    DataError
        The condition cannot be evaluated or selects nothing; shows the values that are there.
    """
    if isinstance(where, Mapping):
        mask = _by_values(frame, where, source)
        mentioned = list(where)
    else:
        mask = _evaluate(frame, where, source)
        text = where if isinstance(where, str) else ""
        mentioned = [c for c in frame.columns if re.search(rf"(?<!\w){re.escape(str(c))}(?!\w)", text)]
    if not mask.any():
        present = "; ".join(f"{c}: {_values(frame[c])}" for c in mentioned) or names_text(frame.columns)
        raise DataError(
            f"{source}: where={where_text(where)} selects none of {len(frame)} rows. Present: {present}",
            source=source,
        )
    return mask


def where_text(where: Where) -> str:
    """Write a condition for a message; a mask only as what it is."""
    if isinstance(where, str | Mapping) or not hasattr(where, "__len__"):
        return repr(where)
    return f"<{type(where).__name__} of {len(where)}>"


def _evaluate(frame: pd.DataFrame, where: Any, source: str) -> NDArray[np.bool_]:
    import pandas as pd

    equals = isinstance(where, str) and _ONE_EQUALS.search(_QUOTED.sub("", where)) is not None
    try:
        if isinstance(where, str):
            result = frame.eval(where, engine="python")
        else:
            result = where if hasattr(where, "__len__") else where(frame)
        if isinstance(result, pd.DataFrame) and callable(where):
            numbers = frame.select_dtypes("number").columns.intersection(result.columns)
            if not result[numbers].equals(frame.loc[result.index, numbers]):
                raise ValueError("the rows it returns are not those of the frame: keep its index")
            return np.asarray(frame.index.isin(result.index))
        mask = np.asarray(result.tolist() if isinstance(result, np.ma.MaskedArray) else result)
    except Exception as error:  # a query can fail in every way Python code can
        raise DataError(
            f"{source}: where={where_text(where)} cannot be evaluated ({type(error).__name__}: {error})"
            f"{'; to compare, use ==' if equals else ''}. Columns: {names_text(frame.columns)}",
            source=source,
            column="where",
        ) from error
    if isinstance(where, str) and isinstance(result, pd.DataFrame):
        # pandas reads one "=" as an assignment and hands back the whole table.
        raise DataError(
            f"{source}: where={where!r} assigns instead of comparing, which would take every row: use ==",
            source=source,
            column="where",
        )
    if mask.shape != (len(frame),) or not all(
        isinstance(x, bool | np.bool_) or x is pd.NA for x in mask.tolist()
    ):
        raise DataError(
            f"{source}: where={where_text(where)} must give one True or False per row ({len(frame)} rows), not "
            f"{type(result).__name__} of shape {mask.shape}",
            source=source,
            column="where",
        )
    return np.array([x is True for x in mask.tolist()])


def _by_values(frame: pd.DataFrame, where: Mapping[str, Any], source: str) -> NDArray[np.bool_]:
    mask = np.ones(len(frame), dtype=bool)
    for name, wanted in where.items():
        if name not in frame.columns:
            raise DataError(
                f"{source} has no column {name!r} to select by. Columns: {names_text(frame.columns)}",
                source=source,
                column=str(name),
            )
        values = [wanted] if isinstance(wanted, str) or not hasattr(wanted, "__iter__") else list(wanted)
        column = frame[name]
        try:
            matches = column.isin(values).to_numpy(dtype=bool, na_value=False)
        except TypeError:  # lists in cells cannot be looked up; their text can
            matches = np.zeros(len(frame), dtype=bool)
        # 512 also finds the text "512", and "512" the number.
        texts = {str(value) for value in values}
        mask &= matches | np.array([str(cell) in texts for cell in column.tolist()])
    return mask


def hashable(cell: Any) -> Any:
    """Return a cell, or its whole text where it is a list, an array or the like."""
    try:
        hash(cell)
    except TypeError:
        # The repr of a long array leaves out its middle.
        return repr(cell.tolist() if isinstance(cell, np.ndarray) else cell)
    return cell


def _values(column: Any) -> str:
    """Write the values of a column: a few of them, or their range."""
    given = (x for x in column.tolist() if not is_missing(x) and not (isinstance(x, float) and x != x))
    unique = list(dict.fromkeys(hashable(x) for x in given))
    if len(unique) > _MANY and all(isinstance(x, int | float) for x in unique):
        return f"{min(unique):g} to {max(unique):g}"
    more = f", ... ({len(unique)} in all)" if len(unique) > _MANY else ""
    return ", ".join(map(str, unique[:_MANY])) + more if unique else "only empty cells"
