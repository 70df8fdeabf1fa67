"""How a run is watched, saved and paid for: settings that decide no weight, and how settings are read and hashed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reference_trainer.config_text import parse_value
from reference_trainer.errors import ConfigError
from reference_trainer.mlflow_mirror import check_uri

_CHOICES = {
    "compile": ("auto", "on", "off"),
    "attention": ("auto", "sdpa", "flash"),
    "device": ("auto", "cpu", "cuda"),
    "billing_granularity": ("second", "minute", "hour"),
    "recovery": ("auto", "ask", "off"),
}
_POSITIVE = (
    *("log_every", "keep", "checkpoint_every", "cap_usd", "max_step_s"),
    *("recovery_wait", "recovery_skip", "snapshots"),
)
_NOT_NEGATIVE = (
    *(
        "eval_every",
        "probe_every",
        "usd_per_hour",
        "started_at",
        "previous_ended_at",
        "gone_after_s",
        "peak_tflops",
        "recovery_margin",
        "snapshot_every",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Settings beside those that decide the weights, which a subclass adds.

    Attributes
    ----------
    run_dir : str
        Folder of the run; a run that is there already is gone on with.
    train_data, val_data : str
        A ``.tokens`` file, or a folder of them.
    start_from : str
        Checkpoint of a trunk to branch from; empty for none.
    device : {"auto", "cpu", "cuda"}
    compile : {"auto", "on", "off"}
        torch.compile; auto is on with CUDA.
    attention : {"auto", "sdpa", "flash"}
    eval_every : int
        Steps between evaluations; 0: at the end only.
    eval_tokens : float
        Validation tokens, from the start of `val_data`.
    checkpoint_every, keep : int
        Steps between checkpoints, and how many of the newest stay.
    checkpoint_at : tuple of int
        Steps whose checkpoints are made and kept: where branches leave. None may lie after the end of the run.
    log_every : int
        Steps between readings of the device's ring of measurements.
    probe_every : int
        Steps between readings of the activations of every block; 0: never.
    recovery : {"auto", "ask", "off"}
        What happens when the loss is hurt: the playbook (`reference_trainer.recovery`) is followed, or written down
        as proposals in ``interventions.jsonl`` and not followed, or nobody looks.
    recovery_wait, recovery_skip, recovery_margin : int
        Steps from an alarm to the second look; batches left out with the first attempt; steps before the first
        alarm that a second attempt goes back to, for which a checkpoint is kept.
    snapshot_every, snapshots : int
        Steps between states kept in the host's memory, 0 for none, and how many: 12 bytes a parameter each.
    cap_usd, usd_per_hour : float
        Cap on the bill; price of the whole machine.
    billing_granularity, instance, max_step_s
        As in `economics.budget.BudgetGuard`; `instance` is the host's name if not given.
    started_at : float
        When the machine's bill began, seconds since the epoch: installation and data count too. 0: with this process.
    previous_ended_at, gone_after_s : float
        Of the machine before this one, where the run went on under another `instance`: when its bill ended, seconds
        since the epoch (0: not known), and how many seconds after its last sign of life at the latest. Without either
        it counts until this one began, the time spent waiting for this one included, because it may have been up.
    peak_tflops : float
        Dense rate of one device for MFU; 0: looked up by the driver's name, or measured on a CPU.
    mlflow : str
        Tracking URI; ``sqlite`` is a file ``mlflow.db`` beside the run folders; empty for none.
    run_name : str
        For mlflow and messages; the folder's name if not given.
    """

    run_dir: str
    train_data: str
    val_data: str
    start_from: str = ""
    device: str = "auto"
    compile: str = "auto"
    attention: str = "auto"
    eval_every: int = 0
    eval_tokens: float = 1_048_576
    checkpoint_every: int = 1000
    checkpoint_at: tuple[int, ...] = ()
    keep: int = 2
    log_every: int = 10
    probe_every: int = 0
    recovery: str = "ask"
    recovery_wait: int = 200
    recovery_skip: int = 20
    recovery_margin: int = 1000
    snapshot_every: int = 0
    snapshots: int = 4
    cap_usd: float = math.inf
    usd_per_hour: float = 0.0
    billing_granularity: str = "second"
    instance: str = ""
    max_step_s: float = 60.0
    started_at: float = 0.0
    previous_ended_at: float = 0.0
    gone_after_s: float = math.inf
    peak_tflops: float = 0.0
    mlflow: str = "sqlite"
    run_name: str = ""

    def __post_init__(self) -> None:
        """Give every number the type of its field, so that 2560 and 2560.0 are one run; refuse what makes no sense."""
        for field in dataclasses.fields(self):
            if field.type in ("int", "float", "tuple[int, ...]"):
                value = parse_value(field.name, getattr(self, field.name), {field.name: field.type}, file="")
                object.__setattr__(self, field.name, value)
        require(self, _POSITIVE, lambda x: x > 0, "above 0")
        require(self, _NOT_NEGATIVE, lambda x: x >= 0, "at least 0")
        require(self, ("log_every",), lambda x: x <= 10_000, "at most 10,000: so many steps wait in memory")
        require(self, ("checkpoint_at",), lambda x: all(step > 0 for step in x), "steps above 0")
        for name, allowed in _CHOICES.items():
            require(self, (name,), lambda x, allowed=allowed: x in allowed, f"one of {', '.join(allowed)}")
        check_uri(self.mlflow)
        if self.cap_usd < math.inf and not self.usd_per_hour:
            raise ConfigError("cap_usd needs usd_per_hour, the price of the machine", column="usd_per_hour")
        for name, nothing in (("started_at", 0.0), ("previous_ended_at", 0.0), ("gone_after_s", math.inf)):
            if self.cap_usd == math.inf and getattr(self, name) != nothing:
                raise ConfigError(
                    f"{name} is of the bill that cap_usd is a cap on, and there is none: give cap_usd, or "
                    f"{name}={nothing:g}",
                    column=name,
                )

    @classmethod
    def read(cls, path: str | Path, *overrides: str) -> Self:
        """Read a TOML file; ``key=value`` texts override it.

        Raises
        ------
        ConfigError
            The file is no TOML, a key is unknown (the nearest are named) or missing, a value of the wrong kind.
        """
        try:
            given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read as TOML ({error})", source=str(path)) from error
        for item in overrides:
            name, equals, text = item.partition("=")
            given[name.removeprefix("--")] = text if equals else None
        fields = {field.name: field for field in dataclasses.fields(cls)}
        kinds = {name: field.type for name, field in fields.items()}
        values = {name: parse_value(name, value, kinds, file=str(path)) for name, value in given.items()}
        missing = [n for n, f in fields.items() if f.default is dataclasses.MISSING and n not in values]
        if missing:
            raise ConfigError(f"{path}: give {', '.join(missing)}", source=str(path), column=missing[0])
        return cls(**values)

    def hash(self, *without: str) -> str:
        """Return a hash of what decides the weights: of no field of this class, and not of those named."""
        left_out = {field.name for field in dataclasses.fields(Operation)} | set(without)
        values = dataclasses.asdict(self)
        if not values.get("inject"):
            left_out.add("inject")  # without faults it is the run it was before there were any
        kept = {k: v for k, v in sorted(values.items()) if k not in left_out}
        return hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        """One line a setting, as it would stand in a file."""
        return "\n".join(f"{name} = {_shown(value)}" for name, value in dataclasses.asdict(self).items())


def require(config: object, names: tuple[str, ...], holds: Any, what: str) -> None:
    """Raise `ConfigError` for the first of the named settings that does not hold."""
    for name in names:
        value = getattr(config, name)
        if not holds(value):
            raise ConfigError(f"{name} must be {what}, got {value!r}", column=name)


def _shown(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value).replace("Infinity", "inf")
