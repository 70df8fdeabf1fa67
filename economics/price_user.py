"""The user's own quotes: what was agreed with a provider, kept in a price book of one's own."""

from __future__ import annotations

from datetime import date as Date
from pathlib import Path

from economics.errors import PriceError
from economics.hardware import GPU
from economics.price_book import PriceBook, check_quotes, context, today, user_book_path
from economics.price_rows import PriceRow, Quote
from economics.run_numbers import flag, whole
from scaling.errors import DataError, shown


def add_price(
    provider: str,
    gpu: GPU | str,
    *,
    usd_per_gpu_hour: float | str | None = None,
    usd_per_instance_hour: float | str | None = None,
    gpus_per_instance: int = 1,
    market: str = "on-demand",
    day: Date | str | None = None,
    region: str = "",
    commit: str = "",
    sku: str = "",
    includes_host: bool | None = True,
    currency: str = "USD",
    usd_per_unit: float | None = None,
    note: str = "",
    path: str | Path | None = None,
) -> PriceRow:
    """Keep a quote of one's own.

    Parameters
    ----------
    provider : str
    gpu : GPU or str
    usd_per_gpu_hour, usd_per_instance_hour : float or text
        One of them. An instance's price goes with `gpus_per_instance`.
    gpus_per_instance : int
    market : str
        ``on-demand``, ``spot``, ``marketplace``, ``community``, or ``reserved`` with a `commit` term.
    day : date or ISO text, optional
        Day of the quote, by default today.
    region, commit, sku, note : str
    includes_host : bool or None
        False where CPU and RAM are billed apart.
    currency : str
        What the price is in, if not US dollars; then `usd_per_unit` is needed, and the note keeps both.
    usd_per_unit : float, optional
        Dollars for one unit of `currency`.
    path : str or Path, optional
        Price book to add to, by default the user's own (`ISOFLOP_PRICES`, else the user's data folder).

    Returns
    -------
    PriceRow
        As it stands in the book.

    Raises
    ------
    PriceError
        The quote fails a check; `findings` says which.
    DataError
        Neither or both prices are given.
    """
    if (usd_per_gpu_hour is None) == (usd_per_instance_hour is None):
        raise DataError(
            "give one price: usd_per_gpu_hour, or usd_per_instance_hour with gpus_per_instance",
            column="price",
        )
    for column, text in (
        ("provider", provider),
        ("market", market),
        ("region", region),
        ("commit", commit),
        ("sku", sku),
        ("currency", currency),
        ("note", note),
    ):
        if not isinstance(text, str):
            raise DataError(f"{column} must be text, got {shown(text)}", column=column)
    if includes_host is not None:
        flag("includes_host", includes_host)
    gpus_per_instance = whole("gpus_per_instance", gpus_per_instance)
    price = usd_per_instance_hour
    if usd_per_gpu_hour is not None:
        price = usd_per_gpu_hour if gpus_per_instance == 1 else _number(usd_per_gpu_hour) * gpus_per_instance
    if currency.upper() == "USD" and usd_per_unit is not None:
        raise DataError(
            "usd_per_unit goes with a currency other than USD: give currency", column="usd_per_unit"
        )
    if usd_per_unit is not None:
        if isinstance(usd_per_unit, bool) or not (
            isinstance(usd_per_unit, int | float) and 0 < usd_per_unit < 1e3
        ):
            raise DataError(f"usd_per_unit must be a rate, got {shown(usd_per_unit)}", column="usd_per_unit")
        converted = f"{price} {currency.upper()} at {usd_per_unit:g} USD"
        note = f"{note}; {converted}" if note else converted
        price, currency = _number(price) * usd_per_unit, "USD"
    quote = Quote(
        provider=provider.strip().casefold(),
        gpu=gpu.name if isinstance(gpu, GPU) else gpu,
        market=market,
        price=price,
        count=gpus_per_instance,
        date=day if day is not None else today(),
        source="own quote",
        currency=currency,
        region=region,
        includes_host=includes_host,
        commit=commit,
        sku=sku,
        note=note,
        where="the quote",
    )
    target = Path(path) if path is not None else user_book_path()
    book = PriceBook.read(target) if target.is_file() else PriceBook((), str(target))
    rows, rejected = check_quotes([quote], context())
    if rejected:
        findings = rejected["the quote"]
        raise PriceError(" ".join(f.message for f in findings), findings=findings)
    for finding in book.clashes(rows).values():
        raise PriceError(f"the quote contradicts {target}: {finding.message}", findings=(finding,))
    book.merged(rows).write(target)
    return rows[0]


def _number(value: float | str | None) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise DataError(f"{shown(value)} is no price", column="price") from None
