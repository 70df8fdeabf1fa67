"""Which column is which quantity: by its name, or as told; never by guessing between two."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaling.cells import Floats, labels_of, names_text
from scaling.errors import DataError, UnitError
from scaling.reading.columns import ROLES, Header, read_header
from scaling.units import is_loss_unit, parse_count

#: Which parameter count is fitted when a table has several, best first.
PARAMS_ORDER = ("total", "", "matmul", "non_embedding", "active")

#: Names that are always understood, for messages.
EXPECTED = {
    "params": "params, n_params, params_M, Model Size, N",
    "tokens": "tokens, n_tokens, tokens_B, D",
    "loss": "loss, val_loss, eval/loss, loss_bits, bpb, ppl",
    "flops": "flops, Training FLOP, total_gflops, C",
}

TEXT = frozenset(
    {"run_id", "trunk_id", "seed", "status", "loss_unit", "loss_kind", "tokens_kind", "tokenizer", "val_hash"}
)
#: Text that may be said for the whole table. Not labels: a misspelt column would make all rows one run.
_WORDS = frozenset({"loss_unit", "loss_kind", "tokens_kind", "tokenizer"})
#: Names such as "budget" may be dollars; FLOPs of any training run are above this.
_LEAST_FLOPS = 1e12
_NUMBER = re.compile(r"\d+(\.\d*)?")

#: Words for a run that ended as planned, and for one that did not.
OK_WORDS = frozenset({"ok", "finished", "completed", "complete", "done", "success", "succeeded"})
STATUS_WORDS = OK_WORDS | {
    "truncated",
    "failed",
    "crashed",
    "killed",
    "running",
    "diverged",
    "stopped",
    "error",
}


@dataclass(frozen=True)
class Choice:
    """One quantity and where it comes from: a column, or one value for all rows.

    Parameters
    ----------
    seen : str
        Column name, or ``"argument"``.
    header : Header
        What name and unit say.
    constant : object
        The value for all rows where there is no column.
    explicit : bool
        True when the caller said so.
    """

    seen: str
    header: Header
    constant: Any = None
    explicit: bool = False


#: Reads a column as the header says; ``nan`` where a cell is no number.
Reader = Callable[[str, Header], Floats]


def explicit_choices(columns: Any, names: list[str], source: str) -> list[Choice]:
    """Turn the caller's ``columns={...}`` into choices.

    Parameters
    ----------
    columns : mapping
        Quantity -> column name, or a number that holds for all rows. The quantity may carry a unit as
        column names do: ``{"params_M": "size", "log10_tokens": "x", "batch_tokens": 524288}``.
    names : list of str
        Columns of the table.
    source : str
        For messages.

    Raises
    ------
    DataError
        `columns` is no mapping, the quantity is not known, or there is no such column.
    """
    if columns is not None and not isinstance(columns, Mapping):
        example = columns if isinstance(columns, str) and columns in names else "<column>"
        raise DataError(
            f"columns={columns!r}: give a mapping of quantities to columns, as in columns={{'loss': {example!r}}}",
            column="columns",
        )
    choices = []
    for key, value in (columns or {}).items():
        header = read_header(str(key))
        if header is None:
            raise DataError(
                f"columns={{{key!r}: ...}}: no such quantity{_did_you_mean(str(key), ROLES)} "
                f"(known: {', '.join(ROLES)}, each with a unit as in params_M or log10_tokens)",
                column=str(key),
            )
        if not isinstance(value, str):
            constant = value if header.role in TEXT else parse_count(value) * header.scale
            choices.append(Choice("argument", header, constant=constant, explicit=True))
            continue
        if header.role in _WORDS and value not in names:
            choices.append(Choice("argument", header, constant=value, explicit=True))
            continue
        name = _find(value, names, source, str(key))
        choices.append(Choice(name, _merged(header, read_header(name)), explicit=True))
    return choices


def _find(value: str, names: list[str], source: str, key: str) -> str:
    if value in names:
        return value
    folded = [name for name in names if name.strip().lower() == value.strip().lower()]
    if len(folded) == 1:
        return folded[0]
    raise DataError(
        f"{source} has no column {value!r} (columns={{{key!r}: {value!r}}}){_did_you_mean(value, names)} "
        f"Columns: {names_text(names)}",
        source=source,
        column=value,
    )


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, 3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else "."


def _merged(said: Header, seen: Header | None) -> Header:
    """Fill what the caller left open from what the column's own name says."""
    said = replace(said, weak=False)
    if seen is None or seen.role != said.role:
        return said
    if said.scale == 1.0 and not said.log:
        said = replace(said, scale=seen.scale, log=seen.log)
    return replace(said, kind=said.kind or seen.kind, unit=said.unit or seen.unit)


def candidates(
    columns: Mapping[str, NDArray[Any]], taken: set[str], read: Reader
) -> dict[tuple[str, str], list[Choice]]:
    """Return, for every quantity, the columns whose names say that quantity.

    Weak names (``N``, ``size``, ``budget``) only stay where no stronger one is there and the cells
    can be what the name says; columns of extremes (``loss__MIN``) only where nothing else is.

    Returns
    -------
    dict
        (role, kind) -> columns. Kinds are kept apart for parameter and token counts, which have an
        order of preference, and thrown together for the loss, which has none.
    """
    found: dict[tuple[str, str], list[Choice]] = {}
    for name in columns:
        header = None if name in taken else read_header(name)
        if header is not None:
            kind = header.kind if header.role in ("params", "tokens") else ""
            found.setdefault((header.role, kind), []).append(Choice(name, header))
    for key, choices in found.items():
        plain = [c for c in choices if not c.header.aggregate] or choices
        strong = [c for c in plain if not c.header.weak]
        found[key] = strong or [c for c in plain if _plausible(c, columns[c.seen], read)]
    if any(not c.header.weak for kind in PARAMS_ORDER[:-1] for c in found.get(("params", kind), [])):
        found[("params", "")] = [c for c in found.get(("params", ""), []) if not c.header.weak]
    return {key: choices for key, choices in found.items() if choices}


def _plausible(choice: Choice, cells: NDArray[Any], read: Reader) -> bool:
    """Tell whether the cells can be what a weak name says."""
    if choice.header.role in TEXT:
        return _plausible_text(choice.header.role, [x for x in labels_of(cells) if x is not None])
    if choice.header.log == "?":
        return True
    values = read(choice.seen, choice.header)
    numbers = values[np.isfinite(values)]
    if 2 * len(numbers) < len(values):
        return False
    return choice.header.role != "flops" or bool(np.min(numbers) >= _LEAST_FLOPS)


def _plausible_text(role: str, texts: list[str]) -> bool:
    if role == "loss_unit":
        return all(is_loss_unit(text) for text in texts)
    if role == "status":
        return any(text.lower() in STATUS_WORDS for text in texts)
    # Run numbers that start again in every group ("run 1, 2, 3") would throw runs together.
    return (
        role != "run_id"
        or len(set(texts)) == len(texts)
        or not all(_NUMBER.fullmatch(text) for text in texts)
    )


def pick(role: str, choices: list[Choice], read: Reader, source: str) -> tuple[Choice, list[Choice]]:
    """Return the one column for a quantity, and others that say the same.

    Raises
    ------
    DataError
        Several columns could be it and differ, or all of them are extremes.
    """
    if role in TEXT:
        return choices[0], choices[1:]
    aggregates = [c for c in choices if c.header.aggregate]
    if aggregates:
        raise DataError(
            f"{source}: the only column for {role} is {aggregates[0].seen!r}, an extreme over runs or steps; "
            f"if it is meant, pass columns={{{role!r}: {aggregates[0].seen!r}}}",
            source=source,
            column=aggregates[0].seen,
        )
    # Counts without a scale first: 124,439,808 says more than 124 (M).
    ordered = sorted(choices, key=lambda c: (c.header.scale != 1.0, bool(c.header.log), bool(c.header.unit)))
    first = ordered[0]
    if any(not same_values(role, first, other, read) for other in ordered[1:]):
        listed = ", ".join(f"{c.seen!r} (first value {_first(c, read)})" for c in choices)
        raise DataError(
            f"{source}: {len(choices)} columns could be {role}: {listed}. Say which: "
            f"columns={{{role!r}: {choices[-1].seen!r}}}",
            source=source,
            column=role,
        )
    return first, ordered[1:]


def same_values(role: str, one: Choice, other: Choice, read: Reader) -> bool:
    """Tell whether two columns hold the same quantity to 2% (a loss also in another unit)."""
    if "?" in (one.header.log, other.header.log):
        return False
    a, b = (_in_common(role, c, read(c.seen, c.header)) for c in (one, other))
    both = np.isfinite(a) & np.isfinite(b)
    return bool(both.any() and np.all(np.abs(a[both] - b[both]) <= 0.02 * np.abs(b[both])))


def _in_common(role: str, choice: Choice, values: Floats) -> Floats:
    if role == "loss" and choice.header.unit == "perplexity":
        with np.errstate(all="ignore"):
            return np.asarray(np.log(values))
    return values * np.log(2.0) if choice.header.unit.startswith("bits") else values


def _first(choice: Choice, read: Reader) -> str:
    values: Any = [] if choice.header.log == "?" else read(choice.seen, choice.header)
    return next((f"{value:.4g}" for value in values if np.isfinite(value)), "none")


def require_base(choice: Choice, source: str) -> None:
    """Refuse a logarithm whose base the name does not say."""
    if choice.header.log == "?":
        role = choice.header.role
        raise UnitError(
            f"{source}: column {choice.seen!r} is a logarithm to a base its name does not say: pass "
            f"columns={{'log10_{role}': {choice.seen!r}}} or columns={{'ln_{role}': {choice.seen!r}}}",
            source=source,
            column=choice.seen,
        )


def missing_error(roles: Sequence[str], names: list[str], source: str, why: str = "") -> DataError:
    """Return the error for quantities that no column holds: what was seen, what was expected."""
    parts = [f"{source}: no column for {' and '.join(roles)}{why}. Seen: {names_text(names)}."]
    mapping = []
    for role in roles:
        word = {"params": "param", "tokens": "token", "flops": "flop"}.get(role, role)
        near = [name for name in names if word in name.lower()]
        if near:
            parts.append(f"Names that contain {word!r}: {names_text(near)}.")
        mapping.append(f"{role!r}: {(near[0] if near else '<column>')!r}")
        parts.append(f"Expected for {role}: {EXPECTED[role]}.")
    parts.append(f"Or say which: columns={{{', '.join(mapping)}}}")
    return DataError(" ".join(parts), source=source, column=roles[0])
