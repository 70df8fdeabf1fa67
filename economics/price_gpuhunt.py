"""Fresh prices through gpuhunt, an optional dependency that reads the lists of many clouds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date as Date
from pathlib import Path
from typing import Any

from economics.errors import MissingExtraError, PriceError
from economics.price_book import today
from economics.price_import import MARKETPLACES, PROVIDERS, ImportReport, read_day, take
from economics.price_rows import Quote, read_date

_SOURCE = "gpuhunt catalog"


def refresh_prices(
    catalog: Any = None,
    *,
    providers: Sequence[str] | None = None,
    day: Date | str | None = None,
    path: str | Path | None = None,
    write: bool = True,
) -> ImportReport:
    """Take today's prices from gpuhunt into the user's price book.

    Parameters
    ----------
    catalog : object, optional
        What has gpuhunt's ``query(**filters)``; by default ``gpuhunt.default_catalog()``, which needs the
        extra ``prices`` and a network.
    providers : sequence of str, optional
        gpuhunt's provider names; by default all it has.
    day : date or ISO text, optional
        Day of the prices. By default the version of each provider's catalog, else today.
    path : str or Path, optional
        Price book to add to, by default the user's own.
    write : bool
        False only reports.

    Returns
    -------
    ImportReport

    Raises
    ------
    MissingExtraError
        gpuhunt is not installed.
    PriceError
        The catalog has no GPU at all, or `day` is none.
    """
    if catalog is None:
        try:
            import gpuhunt
        except ImportError as error:
            raise MissingExtraError(
                "refreshing prices needs gpuhunt: pip install 'isoflop[prices]'. Without it import_skypilot() "
                "reads a catalog file, and add_price() takes a quote of your own."
            ) from error
        catalog = gpuhunt.default_catalog()
    items = catalog.query(provider=list(providers) if providers else None, min_gpu_count=1)
    quotes = [_from_item(item, n, catalog, read_day(day)) for n, item in enumerate(items, start=1)]
    if not quotes:
        raise PriceError("the catalog has no offer with a GPU: is the network or the provider name right?")
    return take(_SOURCE, quotes, path=path, write=write)


def _from_item(item: Any, n: int, catalog: Any, day: Date | None) -> Quote:
    """Read one gpuhunt CatalogItem: price is dollars per instance-hour, memory GB per GPU."""
    data = getattr(item, "provider_data", None) or {}
    provider = str(item.provider)
    market = "spot" if item.spot else "marketplace" if provider in MARKETPLACES else "on-demand"
    if provider == "runpod" and market == "on-demand" and len(str(item.location)) == 2:
        market = (
            "community"  # third-party hosts are placed by country ("US"), data centres by name ("US-TX-3")
        )
    memory = item.gpu_memory
    # "A100" with 80 GB: the memory is part of the name, the form factor stays open unless the type closes it.
    name = (
        f"{item.gpu_name} {memory:g}GB"
        if str(item.gpu_name).upper() in ("A100", "V100") and memory
        else item.gpu_name
    )
    return Quote(
        provider=PROVIDERS.get(provider, provider),
        gpu=str(name),
        market=market,
        price=item.price,
        count=item.gpu_count,
        date=day or _catalog_day(catalog, provider) or today(),
        source=f"{_SOURCE}, {provider}",
        currency="USD",
        memory_gb=memory,
        region=str(item.location or ""),
        includes_host=True,
        sku=str(item.instance_name or ""),
        note="min_bid: the lowest bid a host takes" if item.spot and "min_bid" in data else "",
        where=f"{provider} {item.instance_name} {item.location} {market} (item {n})",
    )


def _catalog_day(catalog: Any, provider: str) -> Date | None:
    """Day of a provider's catalog: its version starts with it ("20261129-318")."""
    loaded = getattr(catalog, "catalog", None)
    version = str(getattr(loaded.get(provider), "version", "")) if isinstance(loaded, dict) else ""
    match = re.match(r"(\d{4})(\d{2})(\d{2})", version)
    return read_date("-".join(match.groups())) if match else None
