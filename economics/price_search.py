"""Looking a price up: which quotes of a day answer a question, and how old they are."""

from __future__ import annotations

import difflib
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import date as Date, timedelta
from pathlib import Path
from statistics import median

from economics.errors import NoQuoteError, PriceError, StalePriceWarning
from economics.hardware import GPU, gpu as find_gpu
from economics.price_book import PriceBook, load_book, today
from economics.price_checks import CEILING_USD, SENTINELS, floor_usd
from economics.price_doubts import price_doubts
from economics.price_quote import BETWEEN, FEW_PROVIDERS, PriceQuote, ProviderPrice
from economics.price_rows import MARKETS, Market, PriceRow, market_kind, read_date
from economics.run_numbers import flag, numeric, whole
from scaling.errors import shown
from scaling.findings import Finding

#: A quote older than this is mentioned, one older than that is warned of.
NOTED_DAYS, STALE_DAYS = 90, 180
#: Quotes this much older than the newest one are not mixed with it.
WINDOW_DAYS = 90


def prices(
    gpu: str | GPU,
    market: str = "on-demand",
    provider: str | None = None,
    *,
    region: str | None = None,
    gpus_per_instance: int | None = None,
    as_of: Date | str | None = None,
    book: PriceBook | str | Path | None = None,
    include_hostless: bool = False,
) -> PriceQuote:
    """Return what a GPU-hour costs on a market.

    Parameters
    ----------
    gpu : str or GPU
    market : str
        ``on-demand``, ``spot``, ``marketplace``, ``community`` or ``reserved``: never mixed.
    provider, region : str, optional
        One provider alone; one region alone (prices that hold everywhere stay in).
    gpus_per_instance : int, optional
        Instances with that many GPUs alone.
    as_of : date or ISO text, optional
        The day the price is wanted for, by default today. Later quotes are not looked at, and the nearest
        earlier ones are taken, however old.
    book : PriceBook, str or Path, optional
        Another price book; by default the shipped one with the user's own rows.
    include_hostless : bool
        Also take prices that exclude CPU and RAM.

    Returns
    -------
    PriceQuote

    Raises
    ------
    UnknownGPU
    NoQuoteError
        No quote is left; the message says which there are. A `PriceError`, as every other fault here.

    Warns
    -----
    StalePriceWarning
        The newest quote is more than 180 days older than `as_of`.

    Examples
    --------
    >>> quote = prices("H100 SXM", as_of="2026-10-10")
    >>> len(quote.providers), round(quote.median, 2)
    (12, 4.5)
    >>> round(prices("H100 SXM", "spot", provider="coreweave", as_of="2026-10-10").median, 2)
    2.46
    """
    kind = market_kind(market)
    name = find_gpu(gpu).name
    for column, text in (("provider", provider), ("region", region)):
        if text is not None and not (isinstance(text, str) and text.strip()):
            raise PriceError(f"{column} must be a name, got {shown(text)}", column=column)
    flag("include_hostless", include_hostless)
    day = _day(as_of)
    every = load_book(book)
    count = None if gpus_per_instance is None else whole("gpus_per_instance", gpus_per_instance)
    asked = (name, kind, provider and provider.casefold(), region, count, day, include_hostless)
    quote = every.looked_up.get(asked)
    if quote is None:
        quote = every.looked_up[asked] = _look_up(every, *asked)
    return _with_age(quote)


def _look_up(
    every: PriceBook, name: str, kind: Market, provider: str | None, region: str | None, count: int | None,
    day: Date, include_hostless: bool,
) -> PriceQuote:  # fmt: skip
    """Find the quotes of `prices`, whose arguments these are, read."""
    rows = [row for row in every if row.gpu == name and row.market == kind]
    _need(rows, every, name, f"on the market {kind!r}", kind)
    for column, wanted in (("provider", provider), ("gpus_per_instance", count)):
        if wanted is not None:
            seen = sorted({str(getattr(row, column)) for row in rows})
            rows = [row for row in rows if getattr(row, column) == wanted]
            _need(rows, every, name, f"with {column} {wanted!r}; there are {', '.join(seen)}", kind)
    findings: list[Finding] = []
    if region is not None:
        rows = _in_region(rows, every, region, name, kind, findings)
    if rows and day < min(row.date for row in rows):
        _need([], every, name, f"on or before {day}; the first is of {min(row.date for row in rows)}", kind)
    rows = [row for row in rows if row.date <= day]
    newest = max(row.date for row in rows)
    fresh = [row for row in rows if row.date >= newest - timedelta(days=WINDOW_DAYS)]
    old = sorted({row.provider for row in rows} - {row.provider for row in fresh})
    if old:
        findings.append(
            Finding(
                "price_older_left_out",
                "info",
                f"{', '.join(old)}: only quotes more than {WINDOW_DAYS} days older than the newest, left out.",
                {"providers": old},
            )
        )
    bare = [row for row in fresh if row.includes_host is False]
    if bare:
        left_out = not include_hostless and len(bare) < len(fresh)
        fresh = [row for row in fresh if row.includes_host is not False] if left_out else fresh
        findings.append(_without_host(bare, left_out=left_out))
    providers = _by_provider(fresh)
    few = provider is None and len(providers) < FEW_PROVIDERS
    if few:
        findings.append(_few(providers, name, kind))
    return PriceQuote(name, kind, day, providers, tuple(findings), BETWEEN[kind] if few else 0.0)


def fixed_price(
    usd_per_gpu_hour: float,
    gpu: str | GPU = "any",
    market: str = "on-demand",
    *,
    as_of: Date | str | None = None,
) -> PriceQuote:
    """Return a price that is known: a quote in hand, without spread.

    Parameters
    ----------
    usd_per_gpu_hour : float
        US dollars per hour of one GPU.
    gpu : str or GPU
        Accelerator it is for: then it is held against what that part costs elsewhere.
    market : str
        Market it is of.
    as_of : date or str, optional
        Day it is of; today if not given.

    Raises
    ------
    PriceError
        The price is no positive number, a placeholder of catalogs ($0.01, $700), above what any GPU costs (or
        five times the dearest quote for the part), or below a tenth of the lowest that any market saw for such a
        part. Above three times the usual price, or the dearest quote, it has a finding ``price_per_node``.
        A day that is none.
    """
    usd = numeric(usd_per_gpu_hour)
    if not 0 < usd < math.inf:
        raise PriceError(
            f"price is a positive number of dollars per GPU-hour, got {shown(usd_per_gpu_hour)}",
            column="price",
        )
    part = None if isinstance(gpu, str) and gpu == "any" else find_gpu(gpu)
    floor = 0.1 * floor_usd(part) if part else min(SENTINELS)
    if usd in SENTINELS or usd > CEILING_USD or usd < floor:
        why = "stands for 'no price'" if usd in SENTINELS else "is no price of any market"
        raise PriceError(
            f"price=${usd:g} a GPU-hour {why}: give dollars per hour of one GPU, not per second, month or node.",
            column="price",
        )
    name = part.name if part else "any"
    day = _day(as_of)
    row = PriceRow(provider="own quote", gpu=name, market=market_kind(market), date=day, source="given by the user",
                   usd_per_instance_hour=float(usd), gpus_per_instance=1)  # fmt: skip
    own = ProviderPrice(row.provider, float(usd), day, "", (row,))
    return PriceQuote(name, row.market, day, (own,), price_doubts(usd, part) if part else ())


def _in_region(
    rows: list[PriceRow], book: PriceBook, region: str, name: str, kind: Market, findings: list[Finding]
) -> list[PriceRow]:
    """Rows of one region and those that hold everywhere; a region that no row of the book has is a misspelling."""
    known = {row.region.casefold(): row.region for row in book}
    wanted = str(region).strip().casefold()
    seen = sorted({row.region for row in rows} - {""})
    if wanted not in known:
        near = ", ".join(known[key] for key in difflib.get_close_matches(wanted, known, n=3))
        hint = f"did you mean {near}? " if near else ""
        _need([], book, name, f"in {region!r}: {hint}there are {', '.join(seen)}", kind)
    kept = [row for row in rows if row.region.casefold() in ("", wanted)]
    _need(kept, book, name, f"in {region!r}; there are {', '.join(seen)}", kind)
    gone = sorted({row.provider for row in rows} - {row.provider for row in kept})
    if gone:
        words = f"{', '.join(gone)}: no quote for {name} in {known[wanted] or 'all regions'}, left out."
        findings.append(Finding("price_region_left_out", "info", words, {"providers": gone}))
    return kept


def _few(providers: tuple[ProviderPrice, ...], name: str, kind: Market) -> Finding:
    who = [p.provider for p in providers]
    words = (
        f"only {' and '.join(who)} quote{'s' * (len(who) == 1)} {name} {kind}: the interval has the spread that "
        f"providers of other parts show (sd of ln(price) {BETWEEN[kind]:g}). provider={who[0]!r} takes that alone."
    )
    return Finding("price_few_providers", "warning" if len(who) == 1 else "info", words, {"providers": who})


def _day(as_of: Date | str | None) -> Date:
    if as_of is None:
        return today()
    day = read_date(as_of)
    if day is None:
        raise PriceError(f"as_of must be a day such as 2026-09-30, got {shown(as_of)}", column="as_of")
    return day


def _need(rows: list[PriceRow], book: PriceBook, name: str, what: str, market: Market) -> None:
    if rows:
        return
    there = {m: sum(1 for row in book if row.gpu == name and row.market == m) for m in MARKETS}
    have = ", ".join(f"{n} {m}" for m, n in there.items() if n) or "none at all"
    own = "Reserved prices are agreed one by one: " if market == "reserved" else "If you have a quote: "
    raise NoQuoteError(
        f"no quote for {name} {what}. Quotes for it: {have}. {own}add_price(...) keeps it, and "
        "price=... in cost() uses it once.",
        column="market",
        source=book.source,
    )


def _without_host(rows: list[PriceRow], *, left_out: bool) -> Finding:
    who = sorted({row.provider for row in rows})
    does = "left out (include_hostless=True takes them)" if left_out else "taken: CPU and RAM come on top"
    return Finding(
        "price_without_host",
        "info" if left_out else "warning",
        f"{', '.join(who)}: prices without CPU and RAM, {does}.",
        {"providers": who},
    )


def _by_provider(rows: Iterable[PriceRow]) -> tuple[ProviderPrice, ...]:
    grouped: dict[str, list[PriceRow]] = defaultdict(list)
    for row in rows:
        grouped[row.provider].append(row)
    found = []
    for provider, all_rows in grouped.items():
        newest = max(row.date for row in all_rows)
        regions: dict[str, list[PriceRow]] = defaultdict(list)
        for row in all_rows:
            if row.date == newest:
                regions[row.region].append(row)
        price, region = min(
            (median(row.usd_per_gpu_hour for row in rs), name) for name, rs in regions.items()
        )
        found.append(ProviderPrice(provider, price, newest, region, tuple(regions[region])))
    return tuple(sorted(found, key=lambda p: (p.usd_per_gpu_hour, p.provider)))


def _with_age(quote: PriceQuote) -> PriceQuote:
    age = quote.age_days
    if age <= NOTED_DAYS:
        return quote
    message = (
        f"the newest {quote.market} quote for {quote.gpu} is {age} days old, so the interval is wide: "
        "refresh_prices() or add_price(...) brings a newer one."
    )
    stale = age > STALE_DAYS
    if stale:
        warnings.warn(StalePriceWarning(message, age_days=age), stacklevel=3)
    finding = Finding("price_age", "warning" if stale else "info", message, {"age_days": age})
    return replace(quote, findings=(*quote.findings, finding))
