"""Sections of a plan that describe the run itself: model, data, machine, checkpoints, step rates."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from economics.price_rows import Market, market_kind
from economics.utilisation import parse_mfu
from scaling.units import parse_count

#: A positive count: a number, or text such as "50M" and "500k".
Count = Annotated[float, BeforeValidator(parse_count), Field(gt=0, allow_inf_nan=False)]
#: Parameters of a model, tokens (of a run, a step, a sequence), GPUs: beyond these is a slip of the pen.
Params = Annotated[float, BeforeValidator(parse_count), Field(ge=1, le=1e15, allow_inf_nan=False)]
Tokens = Annotated[float, BeforeValidator(parse_count), Field(ge=1, le=1e18, allow_inf_nan=False)]
Gpus = Annotated[int, Field(ge=1, le=10_000_000)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1)]

_TIMES = ("seconds", "minutes", "hours")


class Section(BaseModel):
    """A section of a plan: frozen, and strict about the names of its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class ModelSection(Section):
    """The model: how many parameters are claimed, and the shape.

    Parameters
    ----------
    params : count, optional
        Parameters as claimed ("50M").
    params_kind : {"total", "non_embedding", "matmul", "body"}
        Which count that is, see `scaling.Arch.params`.
    layers, d_model, heads, kv_heads, head_dim, d_ff, vocab, tied, gated, ... : optional
        Fields of `scaling.Arch`, with its defaults; the shape is known once layers, d_model, heads, d_ff and
        vocab are given.
    """

    params: Params | None = None
    params_kind: Literal["total", "non_embedding", "matmul", "body"] = "total"
    active_params: Params | None = None
    layers: Whole | None = None
    d_model: Whole | None = None
    heads: Whole | None = None
    kv_heads: Whole | None = None
    head_dim: Whole | None = None
    d_ff: Whole | None = None
    vocab: Whole | None = None
    tied: bool | None = None
    gated: bool | None = None
    bias: bool | None = None
    norm: str | None = None
    learned_positions: Annotated[int, Field(ge=0)] | None = None
    experts: Annotated[int, Field(ge=0)] | None = None
    experts_per_token: Annotated[int, Field(ge=0)] | None = None
    window: Whole | None = None


class DataSection(Section):
    """The tokens: those seen in training, and those on disk.

    Parameters
    ----------
    tokens : count, optional
        Tokens the run sees.
    unique_tokens : count, optional
        Tokens of the data set; fewer than `tokens` means that it is repeated. By default as many.
    stored_gb : float, optional
        Size of the tokenized data in GB of 1e9 bytes.
    stored_bytes_per_token : int, optional
        2 for uint16, 4 for uint32.
    """

    tokens: Tokens | None = None
    unique_tokens: Tokens | None = None
    stored_gb: Positive | None = None
    stored_bytes_per_token: Whole | None = None


class RunSection(Section):
    """The run: machine, speed, time, price.

    Parameters
    ----------
    gpu : str, optional
        Accelerator, a name of `economics.gpus`.
    n_gpus : int, optional
        Accelerators of the run; needed wherever one of them is priced or compared with its peak.
    gpus_per_node : int, optional
        Accelerators in a machine; up to 8 if not given.
    dtype : str, optional
        Of the matrix products; bf16 where the part has it.
    seq_len, batch_tokens : count, optional
        Tokens in a sequence; tokens in a step.
    tokens_per_s : count, optional
        Speed of all accelerators together.
    mfu : float or "41%", optional
        Utilisation as claimed, in `flop_convention` (palm: 6N + 12·L·d·T).
    hours : float, optional
        Wall-clock time of the run.
    flops : count, optional
        FLOPs of the run as claimed.
    market : str, optional
        on-demand, spot, marketplace, community or reserved.
    usd_per_gpu_hour, on_demand_usd_per_gpu_hour : float, optional
        The price planned with, and the one to fall back on.
    hours_between_preemptions : float, optional
        Mean time until the provider takes a machine away.
    """

    gpu: str | None = None
    n_gpus: Gpus | None = None
    gpus_per_node: Gpus | None = None
    dtype: str | None = None
    seq_len: Tokens | None = None
    batch_tokens: Tokens | None = None
    tokens_per_s: Count | None = None
    mfu: Annotated[float | None, BeforeValidator(parse_mfu)] = None
    flop_convention: Literal["6N", "palm", "causal", "matmul"] = "palm"
    hours: Positive | None = None
    flops: Count | None = None
    market: Annotated[Market, BeforeValidator(market_kind)] | None = None
    usd_per_gpu_hour: Positive | None = None
    on_demand_usd_per_gpu_hour: Positive | None = None
    hours_between_preemptions: Positive | None = None


class _Timed(Section):
    """Something that takes or recurs after a time, given in one of three units."""

    seconds: Positive | None = None
    minutes: Positive | None = None
    hours: Positive | None = None

    @model_validator(mode="after")
    def _one_unit(self) -> Any:
        given = [name for name in _TIMES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"gives {' and '.join(given)}: one unit of time is enough")
        return self

    @property
    def span_s(self) -> float | None:
        """The time in seconds, or None where none was given."""
        for name, seconds in zip(_TIMES, (1.0, 60.0, 3600.0), strict=True):
            value = getattr(self, name)
            if value is not None:
                return float(value) * seconds
        return None


class CheckpointSection(_Timed):
    """How often a checkpoint is written: in time, in steps, or (then they must agree) both.

    Parameters
    ----------
    seconds, minutes, hours : float, optional
        Time between two.
    steps : count, optional
        Steps between two.
    save_minutes : float
        Time training stands still for a save.
    restart_minutes : (float, float)
        Range of the billed time of a restart: from a warm image to a fresh installation.
    """

    steps: Count | None = None
    save_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    restart_minutes: tuple[Positive, Positive] = (4.0, 12.0)

    @model_validator(mode="after")
    def _from_low_to_high(self) -> Any:
        low, high = self.restart_minutes
        if low > high:
            raise ValueError(f"restart_minutes from {low:g} to {high:g}: the smaller one comes first")
        return self


class StepRate(_Timed):
    """A place of the plan that says how many steps are done in a time.

    Parameters
    ----------
    where : str
        The place, for the message.
    steps : count
        Steps.
    seconds, minutes, hours : float
        Time for them; one of the three.
    """

    where: str = ""
    steps: Count

    @model_validator(mode="after")
    def _some_time(self) -> Any:
        if self.span_s is None:
            raise ValueError("needs seconds, minutes or hours beside steps")
        return self
