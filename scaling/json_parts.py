"""Saved results as strict JSON, and the reading of one part at a time: what is wrong is said with its place."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from scaling.errors import DataError
from scaling.laws.base import Array, Index

T = TypeVar("T")

#: What a reader of a part may stumble over.
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


def json_text(data: Any) -> str:
    """Return plain types as strict JSON: nan and infinities as objects, which `parse_json` reads."""
    return json.dumps(_strict(data), allow_nan=False)


def parse_json(text: str) -> Any:
    """Read what `json_text` wrote; `DataError` for what is no JSON."""
    if not isinstance(text, str):
        raise DataError(f"a saved fit is a text, got {type(text).__name__}", column="text")
    try:
        return json.loads(text, object_hook=_loose)
    except json.JSONDecodeError as error:
        whole_object = text.rstrip().endswith("}") or not text.strip()
        cut = "" if whole_object else " (it ends too early: it was cut short)"
        raise DataError(f"not a saved fit: {error}{cut}") from error
    except RecursionError as error:
        raise DataError("not a saved fit: its parts are nested too deeply") from error


def as_path(path: Any) -> Path:
    """Return where to write or read a file.

    Raises
    ------
    DataError
        What was given is no path.
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise DataError(f"name a file to save to or load from, got {path!r}", column="path")
    return Path(path)


def load_text(path: str | Path, read: Callable[[str], T]) -> T:
    """Read a saved result from a file.

    Parameters
    ----------
    path : path
        The file.
    read : callable
        Makes the result of the text.

    Returns
    -------
    object
        What `read` returns.

    Raises
    ------
    DataError
        There is no such file, it cannot be read or is no text, or `read` found fault with it; the message
        begins with the path.
    """
    file = as_path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text, so no saved fit", source=str(path)) from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        what = "is a folder: name a file in it" if file.is_dir() else None
        why = getattr(error, "strerror", None) or error
        raise DataError(
            f"{path} {what}" if what else f"cannot read {path}: {why}", source=str(path)
        ) from error
    return from_text(read, text, str(path))


def from_text(read: Callable[[str], T], text: str, source: str) -> T:
    """Read a saved result from its text; an error names the file or stream it is from.

    Raises
    ------
    DataError
        What `read` raises, with `source` before it.
    """
    try:
        return read(text)
    except DataError as error:
        raise DataError(f"{source}: {error}", source=source, column=error.column) from error


def part(data: Any, name: str, read: Callable[[Any], T], within: str = "") -> T:
    """Read one part of a saved result.

    Parameters
    ----------
    data : mapping
        What holds the part.
    name : str
        Its key.
    read : callable
        Checks the part and turns it into what it stands for.
    within : str
        Name of `data` itself.

    Raises
    ------
    DataError
        The part is missing or `read` found fault with it; its place is in ``column``.
    """
    place = f"{within}.{name}" if within else name
    if not isinstance(data, Mapping):
        raise DataError(
            f"not a saved fit: {within or 'it'} is no object of named parts", column=within or None
        )
    if name not in data:
        raise DataError(f"not a saved fit: {place} is missing", column=place)
    try:
        return read(data[name])
    except DataError as error:
        inner = error.column or ""
        if inner.startswith(place):
            raise  # it names the place already
        raise DataError(f"not a saved fit: {place}: {error}", column=place) from error
    except KeyError as error:
        raise DataError(f"not a saved fit: {place} lacks {error.args[0]}", column=place) from error
    except _DAMAGE as error:
        raise DataError(f"not a saved fit: {place} is damaged: {error}", column=place) from error


def number(value: Any) -> float:
    """Return a number that is not nan; infinities are let pass."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise DataError(f"{_shown(value)} is no number")
    return float(value)


def finite(value: Any) -> float:
    """Return a finite number."""
    if not math.isfinite(number(value)):
        raise DataError(f"{value} is not finite")
    return float(value)


def number_or_nan(value: Any) -> float:
    """Return a number, which may be nan: "not known"."""
    return math.nan if isinstance(value, float) and math.isnan(value) else number(value)


def whole(value: Any) -> int:
    """Return a whole number from 0 up."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DataError(f"{_shown(value)} is no whole number from 0 up")
    return value


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise DataError(f"{_shown(value)} is neither true nor false")
    return value


def word(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise DataError(f"{_shown(value)} is no text")
    return value


def numbers(value: Any, *, nan: bool = False) -> Array:
    """Return a list of numbers, without nan unless they are let pass."""
    if not isinstance(value, list):
        raise DataError(f"{_shown(value)} is no list of numbers")
    for i, v in enumerate(value):
        if isinstance(v, bool) or not isinstance(v, int | float) or (v != v and not nan):
            raise DataError(f"its value {i} is {_shown(v)}, no number")
    return np.array(value, dtype=float)


def whole_numbers(value: Any, n: int) -> Index:
    """Return a list of n whole numbers from 0 up."""
    out = numbers(value)
    if out.shape != (n,):
        raise DataError(f"it has {out.size} values for {n} runs")
    if not ((out >= 0) & (out == np.floor(out)) & (out < 2**53)).all():
        raise DataError("its values must be whole numbers from 0 up")
    return out.astype(np.int64)


def exactly(data: Any, names: tuple[str, ...], within: str) -> Mapping[str, Any]:
    """Return an object that has these parts and no others.

    Raises
    ------
    DataError
        It has others; what it lacks is said by `part`.
    """
    if not isinstance(data, Mapping):
        raise DataError(f"not a saved fit: {within} is no object of named parts", column=within)
    others = [name for name in data if name not in names]
    if others:
        raise DataError(f"not a saved fit: {within} has an unknown part {others[0]!r}", column=within)
    return data


def record(kind: type[T], data: Any, within: str, readers: Mapping[str, Callable[[Any], Any]]) -> T:
    """Return a dataclass from its saved parts, each read as `readers` say; one with a default may be missing."""
    described = fields(kind)  # type: ignore[arg-type]
    exactly(data, tuple(f.name for f in described), within)
    optional = {f.name for f in described if not (f.default is MISSING and f.default_factory is MISSING)}
    names = [f.name for f in described if f.name in data or f.name not in optional]
    return kind(**{name: part(data, name, readers.get(name, lambda v: v), within) for name in names})


def listed(read: Callable[[Any, str], T], within: str) -> Callable[[Any], tuple[T, ...]]:
    """Return a reader of a list, each item of it read by `read(item, place)`."""

    def reader(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise DataError(f"not a saved fit: {within} is no list", column=within)
        return tuple(read(item, f"{within}[{i}]") for i, item in enumerate(value))

    return reader


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _strict(value: Any) -> Any:
    """Return plain types without nan and infinities, which JSON does not know: {"float": "inf"}."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _loose(pairs: dict[str, Any]) -> Any:
    """Inverse of what `_strict` does to nan and infinities."""
    if pairs.keys() != {"float"}:
        return pairs
    try:
        return float(pairs["float"])
    except (TypeError, ValueError):
        return pairs  # an edit by hand: whoever reads this part says that it is no number
