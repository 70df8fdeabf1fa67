"""Nine ways in which a quote is no price, each found by a check of its own.

All nine were met in public price tables. A quote passes all checks or does not enter a price book.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date as Date
from typing import Any

from economics.errors import AmbiguousGPU, PriceError, UnknownGPU
from economics.gpu_names import from_instance, resolve
from economics.hardware import GPU, gpu
from economics.price_rows import PriceRow, Quote, market_kind, read_date, read_number
from scaling.errors import shown
from scaling.findings import Finding

#: Codes of the nine defects, in the order in which they are looked for.
DEFECTS = (
    "price_date", "price_currency", "price_form_factor", "price_sku", "price_memory", "price_sentinel",
    "price_floor", "price_per_node", "price_spot_not_cheaper",
)  # fmt: skip

#: Dollars per hour and dense 16-bit TFLOP/s below which no machine was seen rented: the cheapest real quotes
#: of the book lie at 7.6e-4 (spot B200), floor bids and slices at 2e-4 to 4e-4.
FLOOR_USD_PER_TFLOPS = 6e-4
#: A GPU-hour above this many dollars was never seen; the dearest real quote lies at 35.
CEILING_USD = 100.0
#: A price this many times the median of its GPU is a node's price. In the shipped book the dearest region of a
#: machine of eight is 4.4 times, the dearest quote for one GPU alone 2.3 times; a test measures both again.
NODE_RATIO, SINGLE_RATIO = 5.0, 3.0
#: What a term looks like: "1y", "3 years", "6 months", "30 days".
_TERM = re.compile(r"\d+\s*-?\s*(y|yr|years?|m|mo|months?|w|weeks?|d|days?)\b", re.IGNORECASE)
_NEGATED = re.compile(r"\b(not?|non|never|isn't)\b[\s-]*(an?\s+|the\s+)?$", re.IGNORECASE)
#: GPUs that are sold together at most: eight racks of 72.
MOST_GPUS = 576
#: Placeholders that catalogs use for "no price".
SENTINELS = (0.001, 0.01, 99.99, 700.0, 999.0, 999.99, 9999.0, 9999.99, 99999.0)
#: Providers whose own list is in another currency: a bare number of theirs is not taken for dollars.
FOREIGN = {
    "scaleway": "EUR",
    "ovhcloud": "EUR",
    "ovh": "EUR",
    "hetzner": "EUR",
    "seeweb": "EUR",
    "exoscale": "CHF",
}

_CURRENCY = re.compile(r"[€£¥₹]|\b(EUR|GBP|CNY|RMB|JPY|CHF|INR|CAD|AUD|BRL)\b", re.IGNORECASE)
_OTHER_PART = re.compile(
    r"\bMIG\b|\b\d+g\.\d+gb\b|\bmod(ified|ded)?\b|\bvGPU\b|\bfraction|\b1/\d+\b|\bshared\b|\bslice\b",
    re.IGNORECASE,
)
_INTERRUPTIBLE = re.compile(r"\b(interruptible|preempt\w*|spot|low.priority|min[_ ]?bid)\b", re.IGNORECASE)
_NO_OFFER = re.compile(
    r"\b(estimat\w*|floor|min[_ ]?bid|cheapest (live )?offer|starting (at|from)|min(imum)? (live )?offer)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Context:
    """What a quote is judged against: today, the usual price of each GPU, the GPUs of (provider, instance type)."""

    today: Date
    usual: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class _Draft:
    """A quote with what the checks have understood of it so far."""

    quote: Quote
    context: Context
    part: GPU | None = None
    price: float | None = None
    count: int | None = None

    @property
    def per_gpu(self) -> float | None:
        return self.price / self.count if self.price is not None and self.count else None

    def finding(self, code: str, message: str, **evidence: Any) -> Finding:
        where = f"{self.quote.where}: " if self.quote.where else ""
        part = self.quote.gpu if isinstance(self.quote.gpu, str) else shown(self.quote.gpu)
        name = f"{self.quote.provider or 'a quote'} {part}".strip()
        return Finding(code, "error", f"{where}{name}: {message}", {**self.quote.evidence(), **evidence})


def _check_date(draft: _Draft) -> Finding | None:
    day = read_date(draft.quote.date)
    if day is None:
        return draft.finding(
            "price_date", f"no date ({shown(draft.quote.date)}): a price without a day is no fact."
        )
    if day > draft.context.today:
        return draft.finding("price_date", f"dated {day}, which is after today ({draft.context.today}).")
    if day.year < 2012:
        return draft.finding("price_date", f"dated {day}, before anybody rented such a part.")
    return None


def _check_currency(draft: _Draft) -> Finding | None:
    quote = draft.quote
    named = _CURRENCY.search(f"{quote.price} {quote.price_per_gpu} {quote.currency or ''}")
    if named:
        return draft.finding(
            "price_currency", f"{quote.price} is in {named[0]}: convert it and note the rate and its day."
        )
    if quote.currency is None and quote.provider in FOREIGN:
        return draft.finding(
            "price_currency",
            f"lists in {FOREIGN[quote.provider]}, and the quote does not say that it was converted.",
        )
    if quote.currency is not None and quote.currency.upper() not in ("USD", "US$", "$"):
        return draft.finding("price_currency", f"currency {shown(quote.currency)} is not US dollars.")
    return None


def _check_form_factor(draft: _Draft) -> Finding | None:
    """Find the part: by its name, else by the instance type that holds it."""
    try:
        draft.part = gpu(resolve(draft.quote.gpu))
    except AmbiguousGPU as error:
        held = from_instance(draft.quote.provider, draft.quote.sku)
        if held in error.suggestions:
            draft.part = gpu(str(held))
            return None
        return draft.finding("price_form_factor", f"form factor or memory left open: {error}")
    except UnknownGPU as error:
        return draft.finding("price_sku", str(error))
    return None


def _check_sku(draft: _Draft) -> Finding | None:
    quote = draft.quote
    told = f"{quote.gpu} {quote.sku} {quote.note}"
    other = _OTHER_PART.search(told)
    if other:
        return draft.finding("price_sku", f"{other[0]!r} means another part than a whole {quote.gpu}.")
    count = read_number(quote.count)
    if count is None or not 1 <= count <= MOST_GPUS or count != int(count):
        return draft.finding(
            "price_sku", f"{shown(quote.count)} GPUs an instance: no machine holds that many."
        )
    draft.count = int(count)
    held = from_instance(quote.provider, quote.sku)
    if held and draft.part and held != draft.part.name:
        return draft.finding("price_sku", f"instance {quote.sku} holds {held}, not {draft.part.name}.")
    size = draft.context.sizes.get((quote.provider, quote.sku.casefold()))
    if size and size != draft.count:
        return draft.finding("price_per_node", f"instance {quote.sku} has {size} GPUs, not {draft.count}.")
    try:
        kind = market_kind(quote.market)
    except PriceError as error:
        return draft.finding("price_sku", f"market mislabelled: {error}")
    words = f"{quote.sku} {quote.note}"
    said = next((m for m in _INTERRUPTIBLE.finditer(words) if not _NEGATED.search(words[: m.start()])), None)
    if said and kind in ("on-demand", "reserved"):
        return draft.finding("price_sku", f"market mislabelled: {kind}, but described as {said[0]!r}.")
    if kind == "reserved" and not _TERM.search(quote.commit):
        seen = f"{quote.commit!r} is no term" if quote.commit else "reserved without a term"
        return draft.finding("price_sku", f"{seen}: give commit, such as '1y' or '6 months'.")
    if quote.commit and kind != "reserved":
        return draft.finding("price_sku", f"market mislabelled: {kind} with a commitment of {quote.commit}.")
    return None


def _check_memory(draft: _Draft) -> Finding | None:
    if draft.quote.memory_gb in (None, "") or draft.part is None:
        return None
    stated, real = read_number(draft.quote.memory_gb), draft.part.memory_gb
    # Catalogs print what programs see, up to 10% less than what the vendor prints.
    if stated is not None and 0.88 <= stated / real <= 1.12:
        return None
    for factor, unit in ((1024, "MiB"), (1000, "MB"), (1 / 1024, "TiB"), (2**30, "bytes")):
        if stated is not None and 0.88 <= stated / factor / real <= 1.12:
            return draft.finding("price_memory", f"memory {stated:g} GB is {real:g} GB written in {unit}.")
    return draft.finding(
        "price_memory",
        f"memory {draft.quote.memory_gb} GB, but {draft.part.name} has {real:g} GB: which is it?",
    )


def _check_sentinel(draft: _Draft) -> Finding | None:
    draft.price = read_number(draft.quote.price)
    if draft.price is None and _CURRENCY.search(str(draft.quote.price)):
        return None  # a price, of another currency: found already
    if draft.price is None or draft.price != draft.price:
        return draft.finding("price_sentinel", f"{shown(draft.quote.price)} is no price.")
    price, per_gpu = draft.price, draft.per_gpu
    if price in SENTINELS or per_gpu in SENTINELS or price < 0:
        seen = f"{price:g} stands for 'no price', it is none."
    elif per_gpu and per_gpu > CEILING_USD and not NODE_RATIO <= _times_usual(draft, per_gpu) <= 96:
        seen = f"${per_gpu:g} a GPU-hour is no price of any market."
    else:
        return None
    draft.price = None  # nothing more to be learned from the amount
    return draft.finding("price_sentinel", seen)


def floor_usd(part: GPU) -> float:
    """Return dollars per hour below which no such part was seen rented; 0 where its 16-bit rate is not known."""
    rates = part.dense_tflops
    return (rates.get("bf16") or rates.get("fp16") or 0.0) * FLOOR_USD_PER_TFLOPS


def _check_floor(draft: _Draft) -> Finding | None:
    said = _NO_OFFER.search(f"{draft.quote.note} {draft.quote.sku} {draft.quote.source}")
    if said:
        return draft.finding("price_floor", f"{said[0]!r}: a bid, a floor or an estimate, not an offer.")
    if draft.part is None or draft.per_gpu is None:
        return None
    floor = floor_usd(draft.part)
    if draft.per_gpu <= floor:
        return draft.finding(
            "price_floor",
            f"${draft.per_gpu:g} a GPU-hour is below ${floor:.2f}: zero, or the floor of a bid.",
        )
    return None


def _check_node(draft: _Draft) -> Finding | None:
    per_gpu, count = draft.per_gpu, draft.count
    if per_gpu is None or count is None:
        return None
    stated = read_number(draft.quote.price_per_gpu) if draft.quote.price_per_gpu is not None else None
    if stated is not None and abs(stated / per_gpu - 1) > 0.02:
        return draft.finding(
            "price_per_node",
            f"${draft.price:g} for {count} GPUs is ${per_gpu:g} each, but ${stated:g} is stated per GPU.",
        )
    times = _times_usual(draft, per_gpu)
    if times >= (NODE_RATIO if count > 1 else SINGLE_RATIO):
        return draft.finding(
            "price_per_node",
            f"${per_gpu:g} a GPU-hour is {times:.1f} times the usual price: that of a node? Then say how many "
            "GPUs it has.",
            times_usual=times,
        )
    return None


def _times_usual(draft: _Draft, per_gpu: float) -> float:
    """Return the price as a multiple of the usual one of its GPU; 0 where none is known."""
    usual = draft.context.usual.get(draft.part.name) if draft.part else None
    return per_gpu / usual if usual else 0.0


_CHECKS: tuple[Callable[[_Draft], Finding | None], ...] = (
    _check_date,
    _check_currency,
    _check_form_factor,
    _check_sku,
    _check_memory,
    _check_sentinel,
    _check_floor,
    _check_node,
)


def check_quote(quote: Quote, context: Context) -> PriceRow | tuple[Finding, ...]:
    """Return the row that a quote becomes, or everything that is wrong with it.

    Parameters
    ----------
    quote : Quote
    context : Context

    Returns
    -------
    PriceRow or tuple of Finding
        The eight checks that need one quote alone; the ninth (`price_book.check_spot`) needs several.
    """
    draft = _Draft(quote, context)
    findings = tuple(found for check in _CHECKS if (found := check(draft)) is not None)
    if findings or draft.part is None or draft.price is None or draft.count is None:
        return findings
    if not quote.provider.strip() or not quote.source.strip():
        return (draft.finding("price_source", "no provider or no source: nobody can check it."),)
    return PriceRow(
        provider=quote.provider.strip().casefold(),
        gpu=draft.part.name,
        market=market_kind(quote.market),
        usd_per_instance_hour=draft.price,
        gpus_per_instance=draft.count,
        date=read_date(quote.date) or context.today,
        source=quote.source,
        region=quote.region,
        includes_host=quote.includes_host,
        commit=quote.commit,
        sku=quote.sku,
        licence=quote.licence,
        note=quote.note,
    )
