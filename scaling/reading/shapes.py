"""JSON tables as programs nest them, and columns of one name, brought to records or columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaling.errors import DataError
from scaling.findings import Finding
from scaling.reading.columns import read_header

_NEEDED = ("params", "tokens", "loss")


def flatten(record: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Write nested records as one: ``{"train": {"loss": 3}}`` becomes ``{"train/loss": 3}``."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}/")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def reshape(whole: Mapping[Any, Any], source: str) -> list[Any] | Mapping[Any, Any] | None:
    """Return the table in a mapping: a list of records, a mapping of columns, or None if it is one record.

    Knows ``{"runs": [{...}, ...]}``, and what `pandas.DataFrame.to_json` and ``to_dict`` write:
    ``{column: {row: value}}``, ``{row: {column: value}}`` and ``{"columns": ..., "data": ...}``.

    Raises
    ------
    DataError
        There are several lists of records, or rows of another length than the names.
    """
    if isinstance(whole.get("columns"), list) and isinstance(whole.get("data"), list):
        return _split(whole["columns"], whole["data"], source)
    scalars = {
        name for name, value in whole.items() if not hasattr(value, "__len__") or isinstance(value, str)
    }
    if any(_role(name) in _NEEDED for name in scalars) and not any(
        _role(name) in _NEEDED for name in whole if name not in scalars
    ):
        return None  # one run, whatever lists it holds beside its numbers
    tables = [name for name, value in whole.items() if _are_records(value)]
    if len(tables) > 1:
        raise DataError(
            f"{source} holds several lists of records ({', '.join(map(str, tables))}): give one of them",
            source=source,
        )
    if tables:
        records: list[Any] = whole[tables[0]]
        return records
    inner = [list(value) for value in whole.values() if isinstance(value, Mapping)]
    if len(inner) == len(whole) > 0 and all(set(names) == set(inner[0]) for names in inner):
        if any(_role(name) in _NEEDED for name in whole):
            return {name: [value[row] for row in inner[0]] for name, value in whole.items()}
        if any(_role(name) in _NEEDED for name in inner[0]):
            return [{"index": row, **record} for row, record in whole.items()]
    return (
        whole
        if any(name not in scalars and not isinstance(value, Mapping) for name, value in whole.items())
        else None
    )


def _role(name: Any) -> str:
    header = read_header(str(name))
    return "" if header is None else header.role


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(record, Mapping) for record in value)


def _split(names: list[Any], rows: list[Any], source: str) -> Mapping[str, Any]:
    wrong = [i for i, row in enumerate(rows) if not isinstance(row, list) or len(row) != len(names)]
    if wrong:
        raise DataError(
            f"{source}: row {wrong[0]} of data has not one value for each of {len(names)} columns",
            source=source,
            rows=wrong,
        )
    return {str(name): [row[j] for row in rows] for j, name in enumerate(names)}


def tell_apart(names: list[str], source: str) -> tuple[list[str], list[Finding]]:
    """Give columns of one name a name each, ``lr (column 4)``; none of them can be meant by ``lr``.

    Raises
    ------
    DataError
        The name is that of a quantity: which column holds it has to be said.
    """
    twice = (
        [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if len(set(names)) < len(names)
        else []
    )
    for name in twice:
        if read_header(name) is not None:
            raise DataError(
                f"{source}: two columns are named {name!r}: rename or remove one", source=source, column=name
            )
    if not twice:
        return names, []
    told = [f"{name} (column {j + 1})" if name in twice else name for j, name in enumerate(names)]
    message = f"several columns share a name ({', '.join(map(repr, twice[:10]))}): called by their positions"
    return told, [Finding("same_names", "info", message)]
