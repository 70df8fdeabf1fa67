"""Options that several commands share: the arguments of `economics.cost`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from scaling.cli.options import mapping
from scaling.errors import DataError

_RUN = "The run"
_PRICE = "Price"
_SPEED = "Speed"
_REST = "Interruptions, overheads, energy"

#: Option -> argument of `cost`, where they differ.
_ARGUMENTS = {"params": "N", "tokens": "D", "active_params": "N_active"}


def _option(panel: str, help_: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel=panel, metavar=metavar)


@dataclass(frozen=True)
class Costing:
    """Options of `cost`. Numbers stay text, for the library reads "7B", "41%" and "30 min"."""

    params: Annotated[str | None, _option(_RUN, "Parameters N, such as 7B.", metavar="N")] = None
    tokens: Annotated[str | None, _option(_RUN, "Tokens D, such as 2T.", metavar="D")] = None
    gpu: Annotated[str | None, _option(_RUN, "Accelerator: a name of `economics gpus`.")] = None
    n_gpus: Annotated[str | None, _option(_RUN, "How many; chosen if not given.", metavar="COUNT")] = None
    arch: Annotated[str | None, _option(_RUN, "A published shape, such as llama-3-8b.")] = None
    active_params: Annotated[
        str | None, _option(_RUN, "Of a mixture of experts: parameters a token uses.", metavar="N")
    ] = None
    seq_len: Annotated[str, _option(_RUN, "Tokens in a sequence.", metavar="TOKENS")] = "2048"
    market: Annotated[str, _option(_PRICE, "on-demand, spot, marketplace, community or reserved.")] = (
        "on-demand"
    )
    provider: Annotated[str | None, _option(_PRICE, "One provider alone.")] = None
    price: Annotated[str | None, _option(_PRICE, "$ per GPU-hour of your own.", metavar="USD")] = None
    as_of: Annotated[str | None, _option(_PRICE, "Day of the prices; today.", metavar="DAY")] = None
    book: Annotated[str | None, _option(_PRICE, "Another price book (CSV).", metavar="FILE")] = None
    mfu: Annotated[
        str | None,
        _option(_SPEED, "Utilisation: 41%, or 35%,45% as a range (P10, P90); predicted if not given."),
    ] = None
    mfu_kind: Annotated[
        str | None, _option(_SPEED, "What a given one is: steady, or run (lost time is in it).")
    ] = None
    convention: Annotated[str | None, _option(_SPEED, "FLOPs: 6N, palm, causal or matmul.")] = None
    dtype: Annotated[str | None, _option(_SPEED, "Of the matrix products; bf16 where it exists.")] = None
    act_ckpt: Annotated[
        bool | None, _option(_SPEED, "Activation checkpointing.", "--act-ckpt/--no-act-ckpt")
    ] = None
    code_base: Annotated[str | None, _option(_SPEED, "Code base whose speed was measured.")] = None
    checkpoint_every: Annotated[
        str, _option(_REST, "Between saves: '30 min', optimal, or none.", metavar="TIME")
    ] = "optimal"
    spot: Annotated[
        list[str] | None,
        _option(_REST, "About preemptions, such as mean_up_hours=6. May be repeated.", metavar="NAME=VALUE"),
    ] = None
    overheads: Annotated[
        list[str] | None,
        _option(_REST, "none, or such as evaluation=2%. May be repeated.", metavar="NAME=VALUE"),
    ] = None
    region: Annotated[str | None, _option(_REST, "Country, state of the USA, cloud region, or g/kWh.")] = None
    pue: Annotated[str | None, _option(_REST, "Facility over server energy, or an operator.")] = None
    energy: Annotated[
        list[str] | None,
        _option(_REST, "watts=, fraction=, server= of the energy. May be repeated.", metavar="NAME=VALUE"),
    ] = None
    draws: Annotated[int, _option(_REST, "Draws of the Monte Carlo.")] = 10_000
    seed: Annotated[int, _option(_REST, "Its seed.")] = 0

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of `cost`."""
        given = {_ARGUMENTS.get(name, name): value for name, value in vars(self).items()}
        given["mfu"] = _mfu(self.mfu)
        given["checkpoint_every"] = None if self.checkpoint_every == "none" else self.checkpoint_every
        given["spot"] = mapping("spot", self.spot or []) or None
        given["overheads"] = _overheads(self.overheads or [])
        given["energy"] = mapping("energy", self.energy or []) or None
        given["region"] = as_number(self.region)
        given["pue"] = as_number(self.pue)
        return given


def changes(words: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` words, named as options are, as arguments of `cost`.

    Raises
    ------
    DataError
        Not of that form, or no option that holds one value.
    """
    out: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        key = name.strip().lstrip("-").replace("-", "_")
        single = {
            n for n, v in vars(Costing()).items() if n not in ("spot", "overheads", "energy", "act_ckpt")
        }
        if not sign or key not in single:
            raise DataError(
                f"what-if: {word!r} is not NAME=VALUE with one of {', '.join(sorted(single))}",
                column="what-if",
            )
        option: Any = int(value) if key in ("draws", "seed") and value.isdigit() else value.strip()
        out[_ARGUMENTS.get(key, key)] = Costing(**{key: option}).keywords()[_ARGUMENTS.get(key, key)]
    return out


def _mfu(text: str | None) -> Any:
    """Read a utilisation, or two of them; "0.41" is a number, "41%" stays text."""
    if text is None:
        return None
    parts = [as_number(part.strip()) for part in text.split(",")]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _overheads(words: list[str]) -> Any:
    if words in (["none"], ["default"]):
        return words[0]
    return mapping("overheads", words) or None


def as_number(text: str | None) -> Any:
    """Return text as a number where it is one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
