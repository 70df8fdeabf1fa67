"""What a ladder file may say, and clear words for one that cannot be read.

    out = "runs/text"                 # folder of the runs and of points.csv
    tokens = ["1M", "2M", "4M", "8M"] # every size is trained at every budget
    seeds = [0, 1, 2]
    cooldown = 0.2

    [common]                          # keys of a training configuration, the same in all runs
    train_data = "data/train.tokens"
    val_data = "data/val.tokens"
    seq_len = 128
    batch_seqs = 4

    [[size]]                          # an explicit shape ...
    layers = 2
    d_model = 32
    heads = 2
    lr = 4e-3
    [[size]]                          # ... or a wanted count
    params = "200k"
    multiple = 8
    head_dim = 16
    lr_grid = [1e-3, 3e-3, 9e-3]      # tried at the budget of [lr_check]; the best is used

    [lr_check]
    tokens = "500k"
    [cost]
    gpu = "A100 SXM 80GB"
    [budget]
    cap_usd = 50
    usd_per_hour = 1.79

Runs of a ladder go to mlflow only where ``[common]`` says ``mlflow = "sqlite"`` or names a server.
Relative paths are relative to the file, so that a sweep goes on wherever it is started from.
"""

from __future__ import annotations

import tomllib
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from reference_trainer.errors import ConfigError
from scaling.units import parse_count

_Count = Annotated[float, BeforeValidator(parse_count), Field(ge=1, le=1e18, allow_inf_nan=False)]


def _no_flag(value: object) -> object:
    """Refuse true and false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a number is meant")
    return value


_Number = BeforeValidator(_no_flag)
_Positive = Annotated[float, _Number, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, _Number, Field(ge=0, allow_inf_nan=False)]
_Whole = Annotated[int, _Number, Field(ge=1)]
_Seed = Annotated[int, _Number, Field(ge=0, lt=1 << 64)]

_Day = Annotated[str, BeforeValidator(lambda day: day.isoformat() if isinstance(day, date) else day)]

_SHAPE = ("layers", "d_model", "heads")
_SOLVER = ("count", "head_dim", "multiple", "kv_group", "ffn_ratio", "max_embedding_share")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class SizeSection(_Section):
    """One model size: a shape, or a wanted count and how to solve for its shape.

    Parameters
    ----------
    name : str, optional
        Part of the runs' names; layers x width if not given.
    layers, d_model, heads, kv_heads, d_ff : int, optional
        The shape, as in a training configuration.
    params : count, optional
        Parameters wanted instead.
    count, head_dim, multiple, kv_group, ffn_ratio, max_embedding_share
        Options of `scaling.shapes.solve_shape`.
    tokens : list of count, optional
        Budgets of this size, in place of the ladder's.
    lr : float, optional
        Its learning rate.
    lr_grid : list of float, optional
        Three rates or more to choose from by short runs.
    mup : bool, optional
        muP for this size: the rate of ``[common]`` is that of the base width.
    """

    name: str | None = None
    layers: _Whole | None = None
    d_model: _Whole | None = None
    heads: _Whole | None = None
    kv_heads: _Whole | None = None
    d_ff: _Whole | None = None
    params: _Count | None = None
    count: Literal["total", "non_embedding", "matmul", "body"] | None = None
    head_dim: _Whole | None = None
    multiple: _Whole | None = None
    kv_group: _Whole | None = None
    ffn_ratio: _Positive | None = None
    max_embedding_share: _Positive | None = None
    tokens: Annotated[list[_Count], Field(min_length=1)] | None = None
    lr: _Positive | None = None
    lr_grid: Annotated[list[_Positive], Field(min_length=3)] | None = None
    mup: bool | None = None

    @model_validator(mode="after")
    def _one_way(self) -> SizeSection:
        shape = [name for name in (*_SHAPE, "kv_heads", "d_ff") if getattr(self, name) is not None]
        solver = [name for name in _SOLVER if getattr(self, name) is not None]
        if self.params is not None and shape:
            raise ValueError(f"params are solved for a shape, and {', '.join(shape)} give one: leave one out")
        if self.params is None and solver:
            raise ValueError(f"{', '.join(solver)} belong to params, which are not given")
        missing = [name for name in _SHAPE if getattr(self, name) is None]
        if self.params is None and missing:
            raise ValueError(f"give params, or the shape: {', '.join(missing)} are missing")
        if self.lr is not None and self.lr_grid is not None:
            raise ValueError("lr and lr_grid contradict each other: give one")
        if self.lr_grid is not None and len(set(self.lr_grid)) < len(self.lr_grid):
            raise ValueError("lr_grid names a rate twice")
        return self

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of the keys that the file gives."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def shape(self) -> dict[str, Any]:
        """The shape, as keys of a training configuration."""
        return self.given(*_SHAPE, "kv_heads", "d_ff")

    @property
    def solver(self) -> dict[str, Any]:
        """Options of the shape solver."""
        return self.given(*_SOLVER)


class CheckSection(_Section):
    """The short runs that choose a learning rate from a ``lr_grid``: how many tokens each."""

    tokens: _Count


class CostSection(_Section):
    """Where the ladder would run, for its price; arguments of `economics.cost` of the same names."""

    gpu: str
    n_gpus: _Whole = 1
    price: _Positive | None = None
    market: str = "on-demand"
    provider: str | None = None
    mfu: _Positive | str | None = None
    as_of: _Day | None = None


class BudgetSection(_Section):
    """The cap on the whole ladder; arguments of `economics.BudgetGuard` of the same names.

    ``final_save_s`` bounds what a stop takes: the step under way and the checkpoint of every worker.
    """

    cap_usd: _Positive
    usd_per_hour: _Positive
    billing_granularity: Literal["second", "minute", "hour"] = "second"
    instance: str | None = None
    started_at: _NotNegative | None = None
    max_step_s: _Positive = 60.0
    final_save_s: _NotNegative = 120.0
    shutdown_s: _NotNegative = 60.0
    shutdown_usd: _NotNegative = 0.0
    previous_ended_at: _NotNegative | None = None
    gone_after_s: _NotNegative | None = None


class LadderFile(_Section):
    """A ladder: sizes times token budgets times seeds.

    Parameters
    ----------
    out : str
        Folder of the runs and of ``points.csv``.
    name : str
        What the ladder is called; the file's name if not given.
    tokens : list of count
        Token budgets.
    seeds : list of int
        One trunk for each and size; two or more give the run-to-run noise.
    cooldown : float
        Share of every run in which the rate falls.
    common : mapping
        Keys of a training configuration.
    size : list of SizeSection
    lr_check, cost, budget : sections, optional
    """

    out: Annotated[str, Field(min_length=1)]
    name: str = ""
    tokens: list[_Count] = []
    seeds: Annotated[list[_Seed], Field(min_length=1)]
    cooldown: Annotated[float, Field(gt=0, lt=1)] = 0.2
    common: dict[str, Any]
    size: Annotated[list[SizeSection], Field(min_length=1)]
    lr_check: CheckSection | None = None
    cost: CostSection | None = None
    budget: BudgetSection | None = None


def read_ladder_file(path: str | Path) -> LadderFile:
    """Read a ladder file.

    Parameters
    ----------
    path : str or Path
        TOML.

    Raises
    ------
    ConfigError
        No file, no TOML, an unknown key (with the nearest known one) or a value that is none; all faults at
        once, each with the section it is in.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({error})", source=str(path)) from error
    try:
        read = LadderFile.model_validate(content)
    except ValidationError as error:
        problems = [_words(fault) for fault in error.errors()]
        raise ConfigError(f"{path}: {'; '.join(problems)}", source=str(path)) from error
    return read if read.name else read.model_copy(update={"name": Path(path).stem})


def _words(fault: Any) -> str:
    """Put one fault into words: where it is, what was seen, what is meant."""
    parts = list(fault["loc"])
    at = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).lstrip(".") or "the ladder"
    if fault["type"] == "missing":
        return f"{at} is missing"
    if fault["type"] == "extra_forbidden":
        section: type[BaseModel] = LadderFile
        for part in parts[:-1]:
            section = _SECTIONS.get(str(part), section)
        known = list(section.model_fields)
        near = get_close_matches(str(parts[-1]), known, n=1, cutoff=0.5)
        return f"no key {at}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
    seen = "" if isinstance(fault["input"], dict) else f", got {fault['input']!r}"
    return f"{at}: {str(fault['msg']).removeprefix('Value error, ')}{seen}"


_SECTIONS: dict[str, type[BaseModel]] = {
    "size": SizeSection, "lr_check": CheckSection, "cost": CostSection, "budget": BudgetSection,
}  # fmt: skip
