"""A price in hand against the price book: the price of a node, given as that of a GPU, is the usual slip."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from economics.errors import PriceError
from economics.hardware import GPU, gpu
from economics.price_book import context, shipped_book
from economics.price_checks import SINGLE_RATIO
from economics.price_quote import FEW_PROVIDERS
from scaling.findings import Finding

#: A price is refused above this many times the dearest there is (`dearest_usd`), and doubted above `SINGLE_RATIO`
#: times the usual one of the part. A node of eight at a usual price lies between the two, one at a dear price above.
MOST_TIMES_DEAREST = 5.0


def price_doubts(usd_per_gpu_hour: float, part: GPU) -> tuple[Finding, ...]:
    """Doubt a price far above what providers ask for the part.

    Parameters
    ----------
    usd_per_gpu_hour : float
        The price, as of one GPU.
    part : GPU
        What it is for.

    Returns
    -------
    tuple of Finding
        ``price_per_node``, a warning with what the price would be of one of 8 GPUs; empty for a usual price.

    Raises
    ------
    PriceError
        More than `MOST_TIMES_DEAREST` times the dearest there is.
    """
    usual, dearest = context().usual.get(part.name), dearest_usd(part)
    price = usd_per_gpu_hour
    if price <= (SINGLE_RATIO * usual if usual else dearest):
        return ()
    times = (
        f"{price / usual:.1f} times the usual ${usual:.2f}"
        if usual
        else f"more than the dearest, ${dearest:.2f}"
    )
    words = (
        f"price=${price:g} for a GPU-hour of {part.name} is {times}. If it is the price of a node, divide it by its "
        f"GPUs: of 8 it is ${price / 8:.4g} per GPU-hour, price={price / 8:.4g}."
    )
    evidence = {"usd_per_gpu_hour": price, "of_8": price / 8, "usual": usual, "dearest": dearest}
    if price > MOST_TIMES_DEAREST * dearest:
        words += (
            f" Above {MOST_TIMES_DEAREST:g} times the dearest there is, ${dearest:.2f}, a price is refused."
        )
        found = (Finding("price_per_node", "error", words, evidence),)
        raise PriceError(words, findings=found, column="price")
    return (Finding("price_per_node", "warning", words, evidence),)


def dearest_usd(part: GPU) -> float:
    """Dearest quote of the part in the shipped book, $ per GPU-hour.

    Where fewer than `FEW_PROVIDERS` quote it, that of any other by its rate if it is more.
    """
    quotes, per_tflops = _dearest()
    own = quotes.get(part.name, {})
    by_rate = per_tflops * _tflops(part) if len(own) < FEW_PROVIDERS else 0.0
    return max([*own.values(), by_rate])


@cache
def _dearest() -> tuple[dict[str, dict[str, float]], float]:
    """Dearest quote of each part by provider; and the dearest dense 16-bit TFLOP/s of any, $ an hour."""
    quotes: dict[str, dict[str, float]] = defaultdict(dict)
    for row in shipped_book():
        asked = quotes[row.gpu]
        asked[row.provider] = max(asked.get(row.provider, 0.0), row.usd_per_gpu_hour)
    return quotes, max(max(asked.values()) / _tflops(gpu(name)) for name, asked in quotes.items())


def _tflops(part: GPU) -> float:
    return part.dense_tflops.get("bf16") or part.dense_tflops.get("fp16") or max(part.dense_tflops.values())
