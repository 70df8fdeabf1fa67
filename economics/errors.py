"""Errors and warnings of this package. Each carries its evidence as attributes and says what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scaling.errors import DataError, ScalingError, ScalingWarning
from scaling.findings import Finding

if TYPE_CHECKING:
    from scaling.estimate import Estimate


class EconomicsError(ScalingError):
    """Base of every error this package raises on purpose."""


class EconomicsWarning(ScalingWarning):
    """Base of every warning this package issues."""


class UnknownGPU(EconomicsError, DataError):
    """No accelerator has this name; `suggestions` are the nearest ones that exist."""

    def __init__(self, message: str, *, suggestions: Sequence[str] = (), **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.suggestions = tuple(suggestions)


class AmbiguousGPU(UnknownGPU):
    """A name that leaves the part open ("H100": SXM, PCIe or NVL); `suggestions` are all it may be."""


class DtypeError(EconomicsError, DataError):
    """The accelerator has no such rate; `available` names the dtypes it has."""

    def __init__(self, message: str, *, available: Sequence[str] = (), **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.available = tuple(available)


class PriceError(EconomicsError, DataError):
    """There is no such quote, or a quote that is none; `findings` say what is wrong with it."""

    def __init__(self, message: str, *, findings: Sequence[Finding] = (), **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.findings = tuple(findings)


class NoQuoteError(PriceError):
    """The price book has no such quote.

    `known` holds what a run takes all the same (`gpu_hours`, `wall_hours`, and `energy_kwh`, `co2_kg` where they are
    known), where `economics.cost` was asked.
    """

    def __init__(self, message: str, *, known: Mapping[str, Estimate] | None = None, **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.known = dict(known or {})


class MissingExtraError(EconomicsError, ImportError):
    """An optional dependency is not installed; the message has the command that brings it."""


class StalePriceWarning(EconomicsWarning):
    """The newest quote is old; `age_days` is how old."""

    def __init__(self, message: str, *, age_days: int) -> None:
        super().__init__(message)
        self.age_days = age_days
