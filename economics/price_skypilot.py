"""Prices from the catalog files of SkyPilot."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import date as Date
from pathlib import Path
from statistics import median
from typing import Any

from economics.errors import PriceError
from economics.price_book import user_book_path
from economics.price_import import MARKETPLACES, PROVIDERS, ImportReport, read_day, take
from economics.price_rows import Quote, csv_rows, read_number
from economics.run_numbers import flag
from scaling.errors import shown
from scaling.storage import refuse_overlap

#: Names that mean one memory size here; the form factor stays open unless the instance type closes it.
_NAMES = {"A100": "A100-40GB", "V100": "V100-16GB"}


def import_skypilot(
    file: str | Path,
    *,
    day: Date | str | None = None,
    provider: str | None = None,
    path: str | Path | None = None,
    write: bool = True,
) -> ImportReport:
    """Take a SkyPilot catalog file (``catalogs/v8/<cloud>/vms.csv``) into the user's price book.

    Parameters
    ----------
    file : str or Path
    day : date or ISO text
        Day of the catalog, to be given: the file does not say, and a price without a day is no fact.
    provider : str, optional
        By default the folder the file lies in.
    path, write
        As for `refresh_prices`.

    Returns
    -------
    ImportReport

    Raises
    ------
    PriceError
        The file is no such catalog, names no provider, or `day` is none.
    DataError
        The price book to add to is the catalog itself.
    """
    if not isinstance(file, str | Path) or not os.path.isfile(file):
        raise PriceError(
            f"file must be a catalog such as aws/vms.csv, there is none at {shown(file, 200)}", column="file"
        )
    if not (provider is None or isinstance(provider, str)):
        raise PriceError(f"provider must be a name, got {shown(provider)}", column="provider")
    file = Path(file)
    if day is None:
        raise PriceError(
            f"give day, the day of the catalog such as 2026-09-30: {file} does not say", column="day"
        )
    when = read_day(day)
    if flag("write", write):
        refuse_overlap([user_book_path() if path is None else path], [file])
    who = (provider or file.resolve().parent.name).casefold()
    columns, rows = csv_rows(file)
    needed = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
    missing = [name for name in needed if name not in columns]
    if missing:
        raise PriceError(
            f"{file} is no SkyPilot catalog: it has no column {', '.join(missing)} (a vms.csv has "
            f"{', '.join(needed)}, SpotPrice, GpuInfo).",
            source=str(file),
            column=missing[0],
        )
    lines = list(enumerate(rows, start=2))
    gpu_lines = [(n, row) for n, row in lines if (row["AcceleratorName"] or "").strip()]
    quotes = [
        _from_line(n, row, who, when, column, file)
        for n, row in gpu_lines
        for column in ("Price", "SpotPrice")
        if (row.get(column) or "").strip()
    ]
    if not quotes:
        raise PriceError(f"{file} has no row with an accelerator and a price", source=str(file))
    one_each, merged = _merge_zones(quotes)
    report = take(f"SkyPilot catalog {file}", one_each, path=path, write=write)
    return replace(report, without_gpu=len(lines) - len(gpu_lines), merged=merged)


def _from_line(n: int, row: dict[str, str], who: str, day: Date | None, column: str, file: Path) -> Quote:
    instance = (row["InstanceType"] or "").strip()
    count = read_number(row["AcceleratorCount"])
    provider = PROVIDERS.get(who, who)
    market = "spot" if column == "SpotPrice" else "marketplace" if who in MARKETPLACES else "on-demand"
    return Quote(
        provider=provider,
        gpu=_NAMES.get(row["AcceleratorName"].strip(), row["AcceleratorName"].strip()),
        market=market,
        price=row[column],
        count=count if count is not None else row["AcceleratorCount"],
        date=day,
        source=f"SkyPilot catalog {file.name}",
        memory_gb=_memory(row.get("GpuInfo") or row.get("GPUInfo") or ""),
        region=(row["Region"] or "").strip(),
        # Without an instance type the price is the accelerator's alone: the host is a row of its own.
        includes_host=bool(instance),
        sku=instance,
        where=f"{file.name} line {n} {column}",
    )


def _memory(info: str) -> float | None:
    """Memory of one GPU in GB from the GpuInfo column, which has MiB."""
    try:
        first = ast.literal_eval(info)["Gpus"][0]
        return float(first["MemoryInfo"]["SizeInMiB"]) / 1024
    except (ValueError, SyntaxError, KeyError, IndexError, TypeError):
        return None


def _merge_zones(quotes: Iterable[Quote]) -> tuple[list[Quote], int]:
    """Fold the zones of a region into one quote, its price the median."""
    groups: dict[tuple[Any, ...], list[Quote]] = defaultdict(list)
    for quote in quotes:
        groups[quote.gpu, quote.market, quote.region, quote.sku, str(quote.count)].append(quote)
    kept = []
    for same in groups.values():
        numbers = [x for quote in same if (x := read_number(quote.price)) is not None]
        if len(numbers) == len(same) > 1:
            same[0].price = median(numbers)
            same[0].note = f"median of {len(same)} zones"
        kept += same if len(numbers) != len(same) else same[:1]
    return kept, sum(len(same) for same in groups.values()) - len(kept)
