"""A quote, and the row of the price book it becomes once it has passed every check."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date as Date, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from economics.errors import PriceError
from economics.run_numbers import plain
from scaling.errors import shown

#: Kinds of market, never mixed: what it costs to be taken at once, to be interrupted, to bid among hosts,
#: to rent from a third party's machine under the provider's name, or to commit for a term.
Market = Literal["on-demand", "spot", "marketplace", "community", "reserved"]
MARKETS: tuple[Market, ...] = get_args(Market)
_MARKET_NAMES: dict[str, Market] = {
    "on-demand": "on-demand", "ondemand": "on-demand", "on demand": "on-demand", "secure": "on-demand",
    "on_demand": "on-demand", "payg": "on-demand", "on-demand(secure)": "on-demand",
    "spot": "spot", "preemptible": "spot", "interruptible": "spot", "low-priority": "spot",
    "marketplace": "marketplace", "p2p": "marketplace",
    "community": "community",
    "reserved": "reserved", "committed": "reserved", "contract": "reserved",
}  # fmt: skip


_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")


def market_kind(text: str) -> Market:
    """Return the market that a word names.

    Raises
    ------
    PriceError
        No market is called that.

    Examples
    --------
    >>> market_kind("preemptible"), market_kind("on_demand")
    ('spot', 'on-demand')
    """
    kind = _MARKET_NAMES.get(str(text).strip().casefold())
    if kind is None:
        raise PriceError(
            f"no market is called {shown(text)}: say {', '.join(MARKETS)}. Serverless, prototyping and shared "
            "machines are none of them and do not compare.",
            column="market",
        )
    return kind


class PriceRow(BaseModel):
    """One dated quote of the price book, in US dollars per instance-hour.

    The price per GPU is derived, so that a node's price and a GPU's price cannot be mistaken for each other.

    Parameters
    ----------
    provider : str
        Lower-case name of who bills.
    gpu : str
        Name in `economics.gpus`.
    market : {"on-demand", "spot", "marketplace", "community", "reserved"}
    usd_per_instance_hour : float
        What the machine costs an hour, with all of its GPUs.
    gpus_per_instance : int
    date : datetime.date
        Day on which the price was read.
    source : str
    region, sku, licence, note : str
        `region` is empty for a price that holds everywhere; `sku` is the instance type or listing.
    includes_host : bool or None
        False where CPU and RAM are billed apart; None where the source does not say.
    commit : str
        Term of a reserved quote ("1y").
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    provider: str = Field(min_length=1)
    gpu: str = Field(min_length=1)
    market: Market
    usd_per_instance_hour: float = Field(gt=0, allow_inf_nan=False)
    gpus_per_instance: int = Field(ge=1)
    date: Date
    source: str = Field(min_length=1)
    region: str = ""
    includes_host: bool | None = None
    commit: str = ""
    sku: str = ""
    licence: str = ""
    note: str = ""

    @property
    def usd_per_gpu_hour(self) -> float:
        """Price of one GPU for one hour.

        Examples
        --------
        >>> row = PriceRow(provider="aws", gpu="H100-80GB-SXM", market="on-demand", usd_per_instance_hour=28.66,
        ...                gpus_per_instance=8, date="2026-11-01", source="own quote")
        >>> row.usd_per_gpu_hour
        3.5825
        """
        return self.usd_per_instance_hour / self.gpus_per_instance

    @property
    def offer(self) -> tuple[str, str, str, str, int, str]:
        """What is offered, whenever: provider, GPU, market, region, GPUs of the instance, SKU."""
        return (self.provider, self.gpu, self.market, self.region, self.gpus_per_instance, self.sku)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain types, the date as ISO text."""
        return self.model_dump(mode="json")


#: Columns of a price book, in order.
COLUMNS = (
    "provider", "gpu", "market", "usd_per_instance_hour", "gpus_per_instance", "region", "date",
    "includes_host", "commit", "sku", "source", "licence", "note",
)  # fmt: skip


@dataclass
class Quote:
    """A price as somebody stated it, before any check. Every field may be wrong, or text.

    `price` is what one instance costs an hour; `price_per_gpu` what the source says a GPU costs, where it
    says both. `memory_gb` is the memory of one GPU as the source gives it. `where` finds the quote again.
    """

    provider: str = ""
    gpu: str = ""
    market: str = "on-demand"
    price: Any = None
    count: Any = 1
    date: Any = None
    source: str = ""
    price_per_gpu: Any = None
    currency: str | None = None
    memory_gb: Any = None
    region: str = ""
    includes_host: bool | None = None
    commit: str = ""
    sku: str = ""
    licence: str = ""
    note: str = ""
    where: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any], where: str) -> Quote:
        """Take a row of a price book file."""
        host = str(row.get("includes_host") or "").strip().casefold()
        return cls(
            price=row.get("usd_per_instance_hour"),
            count=row.get("gpus_per_instance"),
            currency="USD",
            includes_host={"yes": True, "true": True, "no": False, "false": False}.get(host),
            where=where,
            **{
                key: str(row.get(key) or "")
                for key in ("provider", "gpu", "market", "date", "region", "commit", "sku")
            },
            **{key: str(row.get(key) or "") for key in ("source", "licence", "note")},
        )

    def evidence(self) -> dict[str, Any]:
        """Return what was stated, without the empty fields."""
        stated = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: str(value) for name, value in stated.items() if value is not None and str(value)}


def csv_rows(path: str | Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of a CSV file.

    Raises
    ------
    PriceError
        It cannot be read, or is no text.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            rows = list(reader)
    except (OSError, ValueError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise PriceError(
            f"{str(path)[:200]} cannot be read as CSV: {why}", source=str(path), column="file"
        ) from error
    return list(reader.fieldnames or ()), rows


def read_number(value: object) -> float | None:
    """Return a price as a number, or None where there is none ("contact sales")."""
    if isinstance(value, str):
        value = re.sub(r"[$\s]|USD|/\s*h(r|our)?", "", value, flags=re.IGNORECASE)
        if _GROUPED.fullmatch(value):  # "1,234.50"; "1,5" may be one and a half
            value = value.replace(",", "")
    number = plain(value)
    return None if math.isnan(number) else number


def read_date(value: object) -> Date | None:
    """Return a day, or None where the value is none (a range, a year, nothing)."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, Date):
        return value
    try:
        return datetime.fromisoformat(str(value).strip()).date()
    except ValueError:
        return None
