"""Read the values of a configuration as people write them, and refuse what would have to be guessed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from reference_trainer.errors import ConfigError
from scaling.units import parse_count

_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


def parse_value(name: str, value: object, kinds: Mapping[str, Any], *, file: str) -> Any:
    """Return the value of one key as its field has it.

    Parameters
    ----------
    name : str
        The key.
    value : object
        From a TOML file, or the text of an override; counts may be written "100M" or "1.3B".
    kinds : mapping of str to str
        Field -> annotation as text: ``int, float, bool, str`` or ``tuple[int, ...]``.
    file : str
        For messages; may be empty.

    Raises
    ------
    ConfigError
        There is no such key (the nearest ones are named), or the value is not of its kind.

    Examples
    --------
    >>> parse_value("tokens", "1.3B", {"tokens": "float"}, file="run.toml")
    1300000000.0
    """
    where = f"{file}: " if file else ""
    if name not in kinds:
        near = difflib.get_close_matches(name, kinds, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"the keys are {', '.join(sorted(kinds))}"
        raise ConfigError(f"{where}no key {name!r}; {hint}", column=name)
    kind = kinds[name]
    try:
        return _READERS[kind](value)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{where}{name} is {_WORDS[kind]}, got {value!r}"
            + ("" if value is not None else "; write key=value"),
            column=name,
        ) from error


def _integer(value: object) -> int:
    number = _number(value)
    if not number.is_integer():  # nor is infinity
        raise ValueError(value)
    return int(number)


def _number(value: object) -> float:
    if isinstance(value, bool) or value is None:
        raise TypeError(value)
    if isinstance(value, str) and value.strip().lower() in ("inf", "none", "unlimited"):
        return math.inf
    number = float(value) if isinstance(value, int | float) else _count(str(value))
    if math.isnan(number):
        raise ValueError(value)
    return number


def _count(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(parse_count(text))


def _flag(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(value)
    return word in _TRUE


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _integers(value: object) -> tuple[int, ...]:
    items = value.replace("[", "").replace("]", "").split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise TypeError(value)
    return tuple(_integer(item) for item in items if item != "")


_READERS = {"int": _integer, "float": _number, "bool": _flag, "str": _text, "tuple[int, ...]": _integers}
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "tuple[int, ...]": "a list of whole numbers",
}
