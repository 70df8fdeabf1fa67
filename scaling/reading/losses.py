"""The unit of the loss: found, doubted, converted."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scaling.cells import Floats
from scaling.errors import UnitError
from scaling.reading.draft import Draft
from scaling.reading.understand import Understanding
from scaling.units import parse_loss_unit

#: ln of a 163k vocabulary: no loss in nats per token of a model that beats guessing is above this.
HIGHEST_NATS = 12.0
#: Losses of language models in nats per token are above this; per byte or normalised ones are below.
_LOWEST_NATS = 1.2
_BYTES_PER_TOKEN = (1.0, 32.0)

_PER_BYTE = ("nats/byte", "bits/byte")


def settle_loss(
    draft: Draft, result: Understanding, loss_unit: str | None, bytes_per_token: float | None
) -> tuple[str, bool]:
    """Bring the losses of the kept rows to one unit, with ``sigma`` and ``loss_se_eval``.

    Parameters
    ----------
    draft : Draft
        Its ``values`` of loss, sigma and loss_se_eval are replaced.
    result : Understanding
        Tells the unit in the column's name.
    loss_unit : str, optional
        Unit the caller states.
    bytes_per_token : float, optional
        Bytes per token the caller states.

    Returns
    -------
    unit : str
        ``"nats/token"``, ``"bits/byte"``, ``"nats/byte"`` or ``"unstated"``.
    stated : bool
        Whether anything said the unit.

    Raises
    ------
    UnitError
        The unit is unknown and matters, contradicts itself, or needs bytes per token to convert.

    Notes
    -----
    nats = bits · ln 2; nats/token = ln(perplexity) = nats/byte · bytes/token.
    """
    header = result.chosen["loss"].header.unit
    said = parse_loss_unit(loss_unit) if loss_unit is not None else ""
    units, stated = _units_by_row(draft, header, said)
    if bytes_per_token is not None:
        draft.values["bytes_per_token"] = np.full(len(draft.raw.row), float(bytes_per_token))
        draft.columns["bytes_per_token"] = ("argument", f"{bytes_per_token:g} for all rows")
    _check_range(draft, units, stated, by_argument=bool(said))
    several = _several_tokenizers(draft, units)
    target = _target(draft, units, several)
    _convert(draft, units, target)
    return target, stated


def _units_by_row(draft: Draft, header: str, said: str) -> tuple[NDArray[np.object_], bool]:
    """Return the unit of each kept row, (n,), and whether it was stated anywhere."""
    n = len(draft.kept)
    column = draft.label("loss_unit")
    if said:
        if header and header != said:
            draft.note(
                "unit_contradicts_name",
                "warning",
                f"the column {draft.columns['loss'][0]!r} says {header}, loss_unit= says {said}; {said} was used",
            )
        return np.full(n, said, dtype=object), True
    if column is None:
        return np.full(n, header or "nats/token", dtype=object), bool(header)
    units = np.full(n, header or "unstated", dtype=object)
    for i, text in enumerate(column):
        if text is not None:
            try:
                units[i] = parse_loss_unit(text)
            except UnitError as error:
                rows = draft.row_numbers([i])
                raise UnitError(
                    f"{draft.raw.source}, {draft.rows_text([i])}: {error}; or pass loss_unit= for all rows",
                    source=draft.raw.source,
                    column=draft.columns["loss_unit"][0],
                    rows=rows,
                ) from error
    given = np.array([text is not None for text in column])
    if header and np.any(given & (units != header)):
        off = given & (units != header)
        raise UnitError(
            f"{draft.raw.source}: the column {draft.columns['loss'][0]!r} says {header} and the column "
            f"{draft.columns['loss_unit'][0]!r} says {units[off][0]} ({draft.rows_text(off)}): pass loss_unit=",
            source=draft.raw.source,
            rows=draft.row_numbers(off),
        )
    if not given.all() and given.any() and not header:
        raise UnitError(
            f"{draft.raw.source}: the loss unit is stated for some rows and empty in {draft.rows_text(~given)}: fill "
            "it in, or pass loss_unit= for all rows",
            source=draft.raw.source,
            rows=draft.row_numbers(~given),
        )
    if not given.any() and not header:
        return np.full(n, "nats/token", dtype=object), False
    return units, True


def _check_range(draft: Draft, units: NDArray[np.object_], stated: bool, by_argument: bool) -> None:
    loss = draft.values["loss"][draft.kept]
    high = (loss > HIGHEST_NATS) & (units == "nats/token")
    if high.any():
        message = (
            f"losses up to {loss[high].max():.4g} ({draft.rows_text(high)}) are above {HIGHEST_NATS:g} nats/token, "
            "worse than guessing."
        )
        if stated:
            draft.note("loss_high", "warning", message, rows=draft.row_numbers(high))
        else:
            draft.suspect(
                "loss_high",
                f"{message} Is it a perplexity? Pass loss_unit='perplexity' (or 'nats/token', 'bits/token', "
                "'bits/byte').",
                draft.row_numbers(high),
            )
    if not stated:
        if np.median(loss) < _LOWEST_NATS:
            draft.note(
                "loss_low",
                "warning",
                f"the unit of the loss is not stated and half of the losses are below {_LOWEST_NATS:g}: read as "
                "nats/token, but that looks like a loss per byte or a normalised one; pass loss_unit=",
            )
        else:
            draft.note("loss_unit_assumed", "info", "the unit of the loss is not stated: read as nats/token")
    below = (units == "perplexity") & (loss <= 1.0)
    if below.any():
        raise UnitError(
            f"{draft.raw.source}: a perplexity is above 1; {draft.rows_text(below, 'have')} {loss[below][0]:.4g}",
            source=draft.raw.source,
            rows=draft.row_numbers(below),
        )


def _several_tokenizers(draft: Draft, units: NDArray[np.object_]) -> bool:
    """Tell whether the kept rows were measured with more than one tokenizer."""
    labels = draft.label("tokenizer")
    if labels is not None and len(set(labels) - {None}) > 1:
        return True
    ratio = draft.column("bytes_per_token")
    known = ratio[np.isfinite(ratio)] if ratio is not None else np.ones(1)
    return bool(known.size and known.max() > 1.01 * known.min())


def _target(draft: Draft, units: NDArray[np.object_], several: bool) -> str:
    """Choose the unit to bring all rows to."""
    have = set(units.tolist())
    if "unstated" in have:
        if have != {"unstated"}:
            raise UnitError(f"{draft.raw.source}: some losses have a unit and some are 'unstated'")
        return "unstated"
    per_byte = have & set(_PER_BYTE)
    ratio = draft.column("bytes_per_token")
    if several:
        return _per_byte_target(draft, have, ratio)
    if per_byte and (ratio is None or np.isnan(ratio).any()):
        if per_byte != have:
            raise UnitError(
                f"{draft.raw.source}: losses per byte and per token in one table: pass bytes_per_token= (bytes of the "
                "validation text divided by its tokens) to convert",
                source=draft.raw.source,
            )
        return "nats/byte" if have == {"nats/byte"} else "bits/byte"
    return "nats/token"


def _per_byte_target(draft: Draft, have: set[str], ratio: Floats | None) -> str:
    """Losses under several tokenizers can only be compared per byte."""
    if have <= set(_PER_BYTE):
        target = "nats/byte" if have == {"nats/byte"} else "bits/byte"
    elif ratio is not None and not np.isnan(ratio).any():
        target = "bits/byte"
    else:
        labels = draft.label("tokenizer")
        names = sorted(set(labels) - {None}) if labels is not None else []
        draft.suspect(
            "mixed_tokenizers",
            f"losses per token under {len(names)} tokenizers ({', '.join(names[:5])}) cannot be compared. Give "
            "bits/byte, or a column bytes_per_token to convert with, or select one with where=.",
        )
        return "nats/token"
    draft.note(
        "several_tokenizers",
        "warning",
        f"several tokenizers: losses are compared in {target}, but token counts D still mean different amounts of text",
    )
    return target


def _convert(draft: Draft, units: NDArray[np.object_], target: str) -> None:
    if target == "unstated":
        return
    kept = draft.kept
    loss = draft.values["loss"][kept]
    # The derivative of the conversion carries the standard deviations.
    slope = np.ones(len(kept))
    ratio = draft.column("bytes_per_token")
    if ratio is not None:
        _check_bytes(draft, ratio, units, target)
    for unit in set(units.tolist()) - {target}:
        rows = units == unit
        nats, slopes = _to_nats(loss[rows], unit)
        if (unit in _PER_BYTE) != (target in _PER_BYTE) and ratio is not None:
            factor = ratio[rows] if unit in _PER_BYTE else 1.0 / ratio[rows]
            nats, slopes = nats * factor, slopes * factor
        if target == "bits/byte":
            nats, slopes = nats / math.log(2), slopes / math.log(2)
        loss[rows], slope[rows] = nats, slopes
    changed = sorted(set(units.tolist()) - {target})
    if changed:
        seen, done = draft.columns["loss"]
        text = f"{', '.join(changed)} -> {target}"
        draft.columns["loss"] = (seen, f"{done}, {text}" if done else text)
        draft.note("loss_converted", "info", f"the loss was converted: {text}")
    draft.values["loss"] = draft.values["loss"].copy()
    draft.values["loss"][kept] = loss
    for role in ("sigma", "loss_se_eval"):
        if role in draft.values:
            draft.values[role] = draft.values[role].copy()
            draft.values[role][kept] *= slope


def _to_nats(loss: Floats, unit: str) -> tuple[Floats, Floats]:
    """Return the loss in nats (per the same thing) and the derivative of the conversion."""
    if unit == "perplexity":
        return np.log(loss), 1.0 / loss
    factor = math.log(2) if unit.startswith("bits") else 1.0
    return loss * factor, np.full(len(loss), factor)


def _check_bytes(draft: Draft, ratio: Floats, units: NDArray[np.object_], target: str) -> None:
    needed = np.array([(unit in _PER_BYTE) != (target in _PER_BYTE) for unit in units])
    low, high = _BYTES_PER_TOKEN
    with np.errstate(invalid="ignore"):
        off = needed & ~((ratio >= low) & (ratio <= high))
    if off.any():
        raise UnitError(
            f"{draft.raw.source}: bytes_per_token = {ratio[off][0]:g} ({draft.rows_text(off)}) is not between {low:g} "
            f"and {high:g}: it is bytes of text divided by tokens (about 4 for English)",
            source=draft.raw.source,
            column="bytes_per_token",
            rows=draft.row_numbers(off),
        )
