"""What a training run costs, with an interval, from dated prices and measured throughputs.

Everything here loads on first use: ``import economics`` costs next to nothing, and ``economics.budget``
needs the standard library alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from economics.errors import (
        AmbiguousGPU as AmbiguousGPU,
        DtypeError as DtypeError,
        EconomicsError as EconomicsError,
        EconomicsWarning as EconomicsWarning,
        MissingExtraError as MissingExtraError,
        PriceError as PriceError,
        StalePriceWarning as StalePriceWarning,
        UnknownGPU as UnknownGPU,
    )
    from economics.hardware import GPU as GPU, gpu as gpu, gpus as gpus
    from economics.price_book import PriceBook as PriceBook
    from economics.price_gpuhunt import refresh_prices as refresh_prices
    from economics.price_import import ImportReport as ImportReport
    from economics.price_quote import PriceQuote as PriceQuote
    from economics.price_rows import PriceRow as PriceRow
    from economics.price_search import fixed_price as fixed_price, prices as prices
    from economics.price_skypilot import import_skypilot as import_skypilot
    from economics.price_user import add_price as add_price

#: Public name -> module that defines it.
_EXPORTS = {
    "GPU": "economics.hardware",
    "AmbiguousGPU": "economics.errors",
    "DtypeError": "economics.errors",
    "EconomicsError": "economics.errors",
    "EconomicsWarning": "economics.errors",
    "ImportReport": "economics.price_import",
    "MissingExtraError": "economics.errors",
    "PriceBook": "economics.price_book",
    "PriceError": "economics.errors",
    "PriceQuote": "economics.price_quote",
    "PriceRow": "economics.price_rows",
    "StalePriceWarning": "economics.errors",
    "UnknownGPU": "economics.errors",
    "add_price": "economics.price_user",
    "fixed_price": "economics.price_search",
    "gpu": "economics.hardware",
    "gpus": "economics.hardware",
    "import_skypilot": "economics.price_skypilot",
    "prices": "economics.price_search",
    "refresh_prices": "economics.price_gpuhunt",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
