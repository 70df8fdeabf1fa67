"""From column names to quantities: choose the columns, read them, derive what only others give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scaling.cells import Floats, labels_of
from scaling.errors import DataError
from scaling.reading.columns import Header, read_header
from scaling.reading.decimals import decimal_mark
from scaling.reading.draft import Draft
from scaling.reading.match import (
    PARAMS_ORDER,
    TEXT,
    Choice,
    candidates,
    explicit_choices,
    missing_error,
    pick,
    require_base,
)

#: Read strictly: a bad cell here is a bad row. All other quantities only matter where they are used.
_STRICT = ("flops", "sigma", "loss_se_eval", "unique_tokens", "bytes_per_token")
_LENIENT = ("warmup_tokens", "warmup_steps", "batch_tokens", "steps", "batch", "seq_len", "epochs")


class Understanding:
    """Which column was taken for what.

    Attributes
    ----------
    chosen : dict of str to Choice
        Quantity -> where it comes from.
    other_params : dict of str to Choice
        Kind -> parameter counts that are there and not fitted.
    """

    def __init__(self) -> None:
        self.chosen: dict[str, Choice] = {}
        self.other_params: dict[str, Choice] = {}

    @property
    def used(self) -> set[str]:
        """Names of the columns that were taken for something."""
        return {c.seen for c in (*self.chosen.values(), *self.other_params.values())}


def understand(draft: Draft, columns: Mapping[str, Any] | None, decimal: str | None) -> Understanding:
    """Choose columns and fill ``draft.values`` and ``draft.labels``.

    Raises
    ------
    DataError
        A quantity is missing and cannot be derived, or several columns could be it.
    UnitError
        A needed column is a logarithm to an unknown base.
    """
    raw, names = draft.raw, list(draft.raw.columns)
    told = explicit_choices(columns, names, raw.source)
    draft.decimal = _decimal(draft, told, decimal)
    found = candidates(raw.columns, {c.seen for c in told}, draft.read)
    result = Understanding()
    for choice in told:
        key = _key(choice.header)
        if key in result.chosen:
            raise DataError(
                f"columns= gives {key} twice: {result.chosen[key].seen!r} and {choice.seen!r}", column=key
            )
        result.chosen[key] = choice
    for role, value in raw.constants.items():
        result.chosen.setdefault(role, Choice("attrs", Header(role), constant=value))
    _choose_params(draft, found, result)
    _choose_tokens(draft, found, result)
    for role in ("loss", *_STRICT, *_LENIENT, *sorted(TEXT)):
        if role not in result.chosen and (role, "") in found:
            _choose(draft, role, found[role, ""], result, needed=role in ("loss", "sigma", "unique_tokens"))
    if "loss" not in result.chosen:
        missing = [role for role in ("params", "tokens", "loss") if role not in result.chosen]
        # With FLOPs in the table one of params and tokens can be derived: the loss alone is missing.
        raise missing_error(["loss"] if len(missing) < 3 else missing, names, raw.source)
    _fill(draft, result)
    return result


def _key(header: Header) -> str:
    return "params_active" if header.role == "params" and header.kind == "active" else header.role


def _decimal(draft: Draft, told: list[Choice], decimal: str | None) -> str:
    if decimal is not None:
        if decimal not in (".", ","):
            raise DataError(f"decimal={decimal!r}: give '.' or ','", column="decimal")
        return decimal
    headers = {name: read_header(name) for name in draft.raw.columns}
    headers |= {c.seen: c.header for c in told if c.constant is None}
    numbers = [n for n, h in headers.items() if h is not None and h.role not in TEXT]
    losses = {n for n, h in headers.items() if h is not None and h.role == "loss" and h.unit != "perplexity"}
    mark, findings = decimal_mark(draft.raw, numbers, losses)
    draft.findings += findings
    return mark


def _choose(
    draft: Draft,
    role: str,
    choices: list[Choice],
    result: Understanding,
    *,
    needed: bool,
    key: str | None = None,
) -> None:
    try:
        first, same = pick(role, choices, draft.read, draft.raw.source)
        require_base(first, draft.raw.source)
    except DataError as error:
        if needed:
            raise
        # Columns that are only looked at for checks are left alone where they are unclear.
        draft.note("column_unclear", "info", f"{error}; not used")
        return
    result.chosen[key or role] = first
    if same and role not in TEXT:
        names = ", ".join(repr(c.seen) for c in same)
        draft.note("same_quantity", "info", f"{role} is taken from {first.seen!r}; {names} say the same")


def _choose_params(draft: Draft, found: dict[tuple[str, str], list[Choice]], result: Understanding) -> None:
    """Take the parameter count to fit in the order of preference, and keep the others aside."""
    for kind in ("active", *PARAMS_ORDER[:-1]):
        choices = found.get(("params", kind))
        if not choices:
            continue
        if kind == "" and result.chosen.get("params") is not None and not result.chosen["params"].explicit:
            # "params" beside "params_total": one of them, if they say the same.
            choices = [*choices, result.chosen["params"]]
            del result.chosen["params"]
        key = "params_active" if kind == "active" else "params"
        if key not in result.chosen:
            _choose(draft, "params", choices, result, needed=True, key=key)
        elif key == "params":
            result.other_params[kind or "unstated"] = choices[0]
    chosen, active = result.chosen.get("params"), result.chosen.get("params_active")
    if chosen is None and active is not None:
        result.chosen["params"] = result.chosen.pop("params_active")
    elif result.other_params and chosen is not None:
        others = {kind: choice.seen for kind, choice in result.other_params.items()}
        listed = ", ".join(f"{seen!r} ({kind})" for kind, seen in others.items())
        message = (
            f"N is {chosen.seen!r} ({chosen.header.kind or 'kind not stated'}); also there: {listed}. What "
            "counts as N changes the exponents; pass columns={'params': ...} for another"
        )
        draft.note("params_choice", "info", message, chosen=chosen.seen, others=others)


def _choose_tokens(draft: Draft, found: dict[tuple[str, str], list[Choice]], result: Understanding) -> None:
    choices = found.get(("tokens", "")) or found.get(("tokens", "padded"))
    if "tokens" not in result.chosen and choices:
        _choose(draft, "tokens", choices, result, needed=True)


def _fill(draft: Draft, result: Understanding) -> None:
    """Read the chosen columns into the draft."""
    n = len(draft.raw.row)
    for key, choice in result.chosen.items():
        role = choice.header.role
        if role in TEXT:
            cells = draft.raw.columns.get(choice.seen)
            if choice.constant is not None or cells is None:
                cells = np.full(n, choice.constant, dtype=object)
            draft.labels[role] = labels_of(cells)
            draft.columns[role] = (choice.seen, "")
            continue
        require_base(choice, draft.raw.source)
        if choice.constant is not None:
            draft.values[key] = np.full(n, float(choice.constant))
            if not (np.isfinite(choice.constant) and choice.constant > 0):
                raise DataError(f"{key}={choice.constant!r} must be finite and positive", column=key)
            draft.columns[key] = ("argument", f"{choice.constant:g} for all rows")
            continue
        values = draft.read(choice.seen, choice.header)
        required = key in ("params", "tokens", "loss")
        if required or key in _STRICT or key == "params_active":
            # A perplexity of 1e400 or a log10 of 400 is infinite only after conversion.
            draft.mark_bad(choice.seen, choice.header, values, required=required)
        draft.values[key] = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        draft.columns[key] = (choice.seen, _done(choice.header))


def _done(header: Header) -> str:
    done = []
    if header.log:
        done.append(
            f"log{'' if header.log == 'e' else header.log} undone" if header.log != "e" else "ln undone"
        )
    if header.scale != 1.0:
        done.append(f"x {header.scale:g}".replace("e+0", "e").replace("e+", "e"))
    return ", ".join(done)


def others(draft: Draft, result: Understanding) -> dict[str, Floats]:
    """Return parameter counts that were not chosen, in plain counts, as covariates."""
    return {
        f"params_{kind}": draft.read(choice.seen, choice.header)
        for kind, choice in result.other_params.items()
        if choice.header.log != "?"
    }
