"""What a run costs beside its training steps: stated defaults, each with its source, none of them zero by accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date as Date
from functools import cache
from typing import Any

from economics.gpu_names import read_table
from economics.power import Factor
from scaling.errors import DataError, shown

#: Bytes per parameter of a checkpoint to resume from: bf16 weights, fp32 master, two fp32 moments
#: (`economics.memory_layout.state_bytes` without the gradients).
CHECKPOINT_BYTES = 14.0
#: Bytes per parameter of the weights alone, bf16.
WEIGHT_BYTES = 2.0
HOURS_PER_MONTH = 730.0

_START = Factor(
    "hours from instance start to the first step", 0.25, 0.1, 0.5,
    "assumed: boot, install, data, compile; modded-nanogpt spends 7 minutes on compiling alone",
    (0.0, 24.0),
)  # fmt: skip
_EVALUATION = Factor(
    "evaluation, share of training time", 0.02, 0.003, 0.05,
    "assumed; nanoGPT's GPT-2 schedule (400 forward passes per 1,000 steps of 40) amounts to 0.3%",
    (0.0, 1.0),
)  # fmt: skip


@dataclass(frozen=True)
class ListPrice:
    """A list price that stands in where none is given.

    Parameters
    ----------
    usd : float
        Dollars for one `unit`.
    unit, scope, source : str
        Of what, where and for how much of it, and where it was read.
    date : datetime.date
        Day on which it was read.
    """

    usd: float
    unit: str
    scope: str
    date: Date
    source: str

    def __str__(self) -> str:
        return f"{self.scope}, {self.date}"


@cache
def list_price(what: str) -> ListPrice:
    """Return the list price of ``"storage"`` or ``"egress"`` in ``storage_prices.csv``.

    Examples
    --------
    >>> list_price("storage").usd, str(list_price("storage").date)
    (0.023, '2026-09-07')
    """
    row = next(row for row in read_table("storage_prices.csv") if row["what"] == what)
    return ListPrice(
        float(row["usd"]), row["unit"], row["scope"], Date.fromisoformat(row["date"]), row["source"]
    )


@dataclass(frozen=True)
class Overheads:
    """Everything that is billed beside training steps and interruptions.

    Parameters
    ----------
    start_hours : Factor
        Hours from the start of the instances to the first step: billed on all of them.
    evaluation : Factor
        Evaluation during the run, as a share of training time.
    storage_usd_gb_month, egress_usd_gb : float
        Object storage, and traffic out of the cloud. Defaults: list prices of AWS S3 Standard and of its
        traffic to the internet, us-east-1, first tier, of the day that `list_price` says.
    checkpoints_kept : float
        Full checkpoints in storage, `CHECKPOINT_BYTES` a parameter each.
    bytes_per_token : float
        Stored training data: 2 (uint16) up to a vocabulary of 65,536, else 4.
    months_kept : float
        How long data and checkpoints stay in storage after the run.
    egress_gb : float or None
        Traffic out; the final weights in bf16 once, if None.
    ablations : float
        Further GPU-hours (ablations, failed runs, tuning) as a share of the training. 0 by default, with a
        finding that says so: it is the project's decision and not a property of the run.
    people_hours, people_usd_per_hour : float
        Working time; both or none.
    other_usd : float
        Anything else.
    """

    start_hours: Factor = _START
    evaluation: Factor = _EVALUATION
    storage_usd_gb_month: float = field(default_factory=lambda: list_price("storage").usd)
    egress_usd_gb: float = field(default_factory=lambda: list_price("egress").usd)
    checkpoints_kept: float = 3.0
    bytes_per_token: float = 2.0
    months_kept: float = 1.0
    egress_gb: float | None = None
    ablations: float = 0.0
    people_hours: float = 0.0
    people_usd_per_hour: float = 0.0
    other_usd: float = 0.0

    @property
    def listed(self) -> dict[str, ListPrice]:
        """The list prices that are used: of ``storage`` and ``egress``, where none other is given."""
        used = {"storage": self.storage_usd_gb_month, "egress": self.egress_usd_gb}
        return {what: list_price(what) for what, usd in used.items() if usd == list_price(what).usd}

    @property
    def people_usd(self) -> float:
        """Working time in dollars."""
        return self.people_hours * self.people_usd_per_hour

    def stored_gb(self, params: float, tokens: float) -> float:
        """Training data and checkpoints, GB of 1e9 bytes."""
        return (tokens * self.bytes_per_token + self.checkpoints_kept * params * CHECKPOINT_BYTES) / 1e9

    def traffic_gb(self, params: float) -> float:
        """Traffic out of the cloud, GB."""
        return params * WEIGHT_BYTES / 1e9 if self.egress_gb is None else self.egress_gb

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain types."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: v.to_dict() if isinstance(v, Factor) else v for k, v in values.items()}
        return plain | {"listed": {k: vars(p) | {"date": str(p.date)} for k, p in self.listed.items()}}


def _exactly(name: str, value: float) -> Factor:
    return Factor(name, value, value, value, "given")


#: Nothing beside the training itself, on purpose.
NO_OVERHEADS = Overheads(
    start_hours=_exactly(_START.name, 0.0),
    evaluation=_exactly(_EVALUATION.name, 0.0),
    storage_usd_gb_month=0.0,
    egress_usd_gb=0.0,
)


def read_overheads(given: Overheads | Mapping[str, Any] | str | None, vocab: int | None = None) -> Overheads:
    """Return the overheads that were asked for.

    Parameters
    ----------
    given : Overheads, mapping, "default", "none" or None
        Fields of `Overheads` to replace; ``"none"`` for no overheads at all, said out loud.
    vocab : int, optional
        Vocabulary: above 65,536 a stored token takes four bytes.

    Raises
    ------
    DataError
        A name that is no overhead, or a value that cannot be one.

    Examples
    --------
    >>> read_overheads({"evaluation": "5%"}).evaluation.value, read_overheads("none").evaluation.value
    (0.05, 0.0)
    """
    default = Overheads(bytes_per_token=2.0 if vocab is None or vocab <= 65536 else 4.0)
    if given is None or (isinstance(given, str) and given == "default"):
        return default
    if isinstance(given, str) and given == "none":
        return NO_OVERHEADS
    if isinstance(given, Overheads):
        return given
    names = [f.name for f in fields(Overheads)]
    if not isinstance(given, Mapping):
        raise DataError(
            f"overheads must be 'default', 'none' or a mapping of {', '.join(names)}; got {shown(given)}",
            column="overheads",
        )
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise DataError(
            f"there is no overhead {', '.join(map(repr, unknown))}: there are {', '.join(names)}",
            column="overheads",
        )
    changes = {name: _read(name, value, default) for name, value in given.items()}
    if bool(changes.get("people_hours")) != bool(changes.get("people_usd_per_hour")):
        raise DataError(
            "people_hours and people_usd_per_hour go together: give both", column="people_usd_per_hour"
        )
    return replace(default, **changes)


def _read(name: str, value: Any, default: Overheads) -> Any:
    if isinstance(value, Factor) or (value is None and name == "egress_gb"):
        return value
    share = name in ("evaluation", "ablations")
    text = str(value).strip()
    percent = text.endswith("%")
    try:
        number = float(text.rstrip("% ")) / (100 if percent else 1)
    except ValueError as error:
        raise DataError(
            f"overheads[{name!r}] must be a number, got {shown(value)}", column="overheads"
        ) from error
    if not 0 <= number < float("inf") or (percent and not share):
        raise DataError(f"overheads[{name!r}] cannot be {value!r}", column="overheads")
    if name == "evaluation" and number > 1:
        raise DataError(
            f"overheads['evaluation'] is a share of training time: {number:g} is {100 * number:g}%; for "
            f"{number:g}% write '{number:g}%'",
            column="overheads",
        )
    kept = getattr(default, name)
    return _exactly(kept.name, number) if isinstance(kept, Factor) else number
