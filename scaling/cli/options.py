"""Options that several commands share: each group is a dataclass whose fields are the options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from scaling.errors import DataError

_READING = "How to read the table"
_FITTING = "How to fit"

Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")
]
Builtin = Annotated[
    str | None,
    typer.Option("--builtin", metavar="NAME", help="A table of `scaling datasets` instead of a file."),
]


def _option(panel: str, help_: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel=panel, metavar=metavar)


@dataclass(frozen=True)
class Reading:
    """Options of `load_runs`."""

    where: Annotated[
        str | None,
        _option(_READING, "Rows to take, such as 'batch_tokens == 512 and seed == 0'.", metavar="QUERY"),
    ] = None
    columns: Annotated[
        list[str] | None,
        _option(
            _READING,
            "Which column holds what, such as loss=val_loss or params_M=size; a number holds for all rows "
            "(batch_tokens=524288). May be repeated.",
            metavar="QUANTITY=COLUMN",
        ),
    ] = None
    loss_unit: Annotated[
        str | None,
        _option(
            _READING, "nats/token, bits/token, nats/byte, bits/byte, perplexity or unstated.", metavar="UNIT"
        ),
    ] = None
    bytes_per_token: Annotated[
        float | None, _option(_READING, "Bytes of validation text per token, to convert losses per byte.")
    ] = None
    warmup_tokens: Annotated[
        str | None, _option(_READING, "Tokens of warm-up; runs with under twice as many are flagged.")
    ] = None
    on_bad: Annotated[
        str, _option(_READING, "What to do with rows that have a cell no fit can use: raise or drop.")
    ] = "raise"
    status: Annotated[
        list[str] | None,
        _option(
            _READING, "Rows to take by their status column: ok (default), another, or all. May be repeated."
        ),
    ] = None
    decimal: Annotated[str | None, _option(_READING, "Decimal mark of the cells, '.' or ','.")] = None
    allow: Annotated[
        list[str] | None,
        _option(
            _READING, "A suspicion (by the code an error names) that should warn, not stop. May be repeated."
        ),
    ] = None

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of `load_runs`."""
        from scaling.units import parse_count

        warmup = None if self.warmup_tokens is None else parse_count(self.warmup_tokens)
        status: Any = tuple(self.status or ("ok",))
        return {
            "where": self.where,
            "columns": mapping("columns", self.columns or []) or None,
            "loss_unit": self.loss_unit,
            "bytes_per_token": self.bytes_per_token,
            "warmup_tokens": warmup,
            "on_bad": self.on_bad,
            "status": None if status == ("all",) else status,
            "decimal": self.decimal,
            "allow": tuple(self.allow or ()),
        }


@dataclass(frozen=True)
class Fitting:
    """Options of `fit_chinchilla`."""

    fixed: Annotated[
        list[str] | None,
        _option(_FITTING, "Hold a coefficient, such as E=1.6. May be repeated.", metavar="NAME=VALUE"),
    ] = None
    tied: Annotated[bool, _option(_FITTING, "Impose alpha = beta.", "--tied")] = False
    delta: Annotated[float, _option(_FITTING, "Huber threshold in log loss.")] = 1e-3
    resample: Annotated[str, _option(_FITTING, "Bootstrap: auto, pairs, cluster or wild.")] = "auto"
    groups: Annotated[
        str | None,
        _option(_FITTING, "Column of rows that share their luck, or model_size.", metavar="COLUMN"),
    ] = None
    weights: Annotated[
        str | None, _option(_FITTING, "Column that multiplies each run's term.", metavar="COLUMN")
    ] = None
    sigma: Annotated[
        str | None,
        _option(
            _FITTING,
            "Column with the run-to-run standard deviation of each loss; none ignores the one found.",
            metavar="COLUMN|none",
        ),
    ] = None
    n_boot: Annotated[int, _option(_FITTING, "Bootstrap refits behind the intervals; 0 for none.")] = 1000
    seed: Annotated[int, _option(_FITTING, "Seed of the bootstrap.")] = 0
    level: Annotated[float, _option(_FITTING, "Coverage of the intervals.")] = 0.95
    interval: Annotated[str, _option(_FITTING, "Interval: percentile or bias-corrected.")] = "percentile"

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of `fit_chinchilla` that need no table (all but weights and sigma)."""
        held = mapping("fixed", self.fixed or [])
        for name, value in held.items():
            if isinstance(value, str):
                raise DataError(f"fixed: {name}={value!r} is no number", column="fixed")
        return {
            "fixed": held or None,
            "tied": self.tied,
            "delta": self.delta,
            "resample": self.resample,
            "groups": self.groups,
            "n_boot": self.n_boot,
            "seed": self.seed,
            "level": self.level,
            "interval": self.interval,
        }


def given(group: Any) -> dict[str, Any]:
    """Return the options of a group that differ from their defaults."""
    return {f.name: v for f in fields(group) if (v := getattr(group, f.name)) != f.default}


def as_arguments(*groups: Any) -> list[str]:
    """Return the words of a command line that set these options again."""
    words: list[str] = []
    for name, value in (item for group in groups for item in given(group).items()):
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        else:
            words += [w for v in (value if isinstance(value, list) else [value]) for w in (flag, str(v))]
    return words


_Command = TypeVar("_Command", bound=Callable[..., int])


def takes_groups(command: _Command) -> _Command:
    """Let a command take a group of options as one argument.

    Parameters annotated with a dataclass are replaced, in the signature that typer reads, by the fields
    of that dataclass, and handed over as one object.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    own = [
        p.replace(kind=p.KEYWORD_ONLY, annotation=hints[p.name])
        for p in inspect.signature(command).parameters.values()
        if p.name not in groups
    ]
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
        for group in groups.values()
        for types in [get_type_hints(group, include_extras=True)]
        for f in fields(group)
    ]
    parameters = [*own, *shared]  # a command's own options come first in its help
    names = {group: [f.name for f in fields(cls)] for group, cls in groups.items()}

    @functools.wraps(command)
    def wrapped(**options: Any) -> int:
        objects = {
            group: cls(**{name: options.pop(name) for name in names[group]})  # type: ignore[operator]
            for group, cls in groups.items()
        }
        return command(**options, **objects)

    # typer reads the signature; the hints of the undecorated command must not be found behind it.
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    del wrapped.__wrapped__
    return wrapped  # type: ignore[return-value]


def mapping(option: str, words: list[str]) -> dict[str, Any]:
    """Read ``key=value`` words of an option; a value that is a plain number is one."""
    out: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        key, value = key.strip(), value.strip()
        if not (sign and key and value):
            raise DataError(f"{option}: {word!r} is not of the form NAME=VALUE", column=option)
        if key in out:
            raise DataError(f"{option}: {key} is given twice", column=option)
        try:
            out[key] = float(value)
        except ValueError:
            out[key] = value
    return out
