"""What a GPU-hour costs: an interval over providers that widens with the age of their quotes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date as Date
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from economics.errors import PriceError
from economics.price_rows import Market, PriceRow
from economics.quantile_draws import normal
from economics.run_numbers import numeric
from scaling.errors import shown
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.laws.base import Array

#: Standard deviation of ln(price) after one year; it grows with the square root of time. Measured on the
#: pairs of days of one offer in the shipped book: 0.40 on demand (56 pairs, up to 2.6 years apart), 0.48 in
#: the one pair of spot quotes. A test measures it again.
DRIFT: dict[str, float] = {
    "on-demand": 0.4,
    "marketplace": 0.4,
    "community": 0.4,
    "reserved": 0.4,
    "spot": 0.5,
}

#: Standard deviation of ln(price) between providers of one part, pooled over the parts of the shipped book that
#: several quote (a test measures it again). No part has several marketplaces or communities there: theirs
#: is taken to be as wide as that of spot markets.
BETWEEN: dict[str, float] = {
    "on-demand": 0.42,
    "marketplace": 0.53,
    "community": 0.53,
    "reserved": 0.42,
    "spot": 0.53,
}
#: Fewer providers than this do not show how far providers differ.
FEW_PROVIDERS = 3


@dataclass(frozen=True)
class ProviderPrice:
    """What one provider asks: the median over its sizes in its cheapest region, of its newest day.

    Parameters
    ----------
    provider : str
    usd_per_gpu_hour : float
    date : datetime.date
    region : str
        Empty for a price that holds everywhere.
    rows : tuple of PriceRow
    """

    provider: str
    usd_per_gpu_hour: float
    date: Date
    region: str
    rows: tuple[PriceRow, ...] = field(repr=False)


@dataclass(frozen=True)
class PriceQuote:
    """The price of a GPU-hour on one market on one day.

    Quantiles are over providers, each with one vote however many regions and sizes it lists, and are
    interpolated between them. Each price is then widened by `DRIFT` times the square root of its age, so a
    fresh quote of one provider is exact and an old one is not. Where one or two providers have to stand for a
    market, `between` widens each too, by its share (over the square root of their number).

    Parameters
    ----------
    gpu : str
    market : str
    as_of : datetime.date
        The day the price is wanted for.
    providers : tuple of ProviderPrice
        Cheapest first.
    findings : tuple of Finding
        Age, quotes left out.
    between : float
        Standard deviation of ln(price) between providers that were not asked; 0 where enough were.
    """

    gpu: str
    market: Market
    as_of: Date
    providers: tuple[ProviderPrice, ...]
    findings: tuple[Finding, ...] = ()
    between: float = 0.0

    @property
    def rows(self) -> tuple[PriceRow, ...]:
        """The rows behind it."""
        return tuple(row for provider in self.providers for row in provider.rows)

    @property
    def age_days(self) -> int:
        """Days between the newest quote and `as_of`."""
        return (self.as_of - max(p.date for p in self.providers)).days

    def quantile(self, q: float) -> float:
        """Return the price that a share `q` of the distribution lies below, $ per GPU-hour.

        Examples
        --------
        >>> from economics import fixed_price
        >>> quote = fixed_price(1.79, gpu="A100 SXM 80GB")
        >>> quote.quantile(0.1), quote.quantile(0.9)
        (1.79, 1.79)
        """
        if not 0 <= numeric(q) <= 1:
            raise PriceError(f"q, a quantile, lies between 0 and 1, got {shown(q)}", column="q")
        log_price, spread = self._curves()
        if not spread.any():
            return float(np.exp(np.interp(q * (log_price.size - 1), np.arange(log_price.size), log_price)))
        u, z = _grid()
        at = u * (log_price.size - 1)
        places = np.arange(log_price.size)
        values = np.interp(at, places, log_price)[:, None] + np.interp(at, places, spread)[:, None] * z
        return float(np.exp(np.quantile(values, q)))

    @property
    def low(self) -> float:
        """10th percentile, $ per GPU-hour."""
        return self.quantile(0.1)

    @property
    def median(self) -> float:
        """50th percentile, $ per GPU-hour."""
        return self.quantile(0.5)

    @property
    def high(self) -> float:
        """90th percentile, $ per GPU-hour."""
        return self.quantile(0.9)

    @property
    def estimate(self) -> Estimate:
        """Median with the 10th and 90th percentile."""
        return Estimate(self.median, self.low, self.high, 0.8, "median", "price", "$/GPU-hour")

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Return `n` draws of the price, $ per GPU-hour, shape (n,)."""
        log_price, spread = self._curves()
        at = rng.random(n) * (log_price.size - 1)
        place = at.astype(np.intp)  # between this provider and the next
        part = at - place
        drawn = _between(log_price, place, part)
        if spread.any():
            drawn += _between(spread, place, part) * normal(rng, n)
        return np.asarray(np.exp(drawn, out=drawn))

    def _curves(self) -> tuple[Array, Array]:
        """ln(price) and its spread for age, provider by provider, both shape (number of providers,)."""
        log_price = np.log([p.usd_per_gpu_hour for p in self.providers])
        years = np.array([max((self.as_of - p.date).days, 0) for p in self.providers]) / 365.25
        drift, between = DRIFT[self.market] ** 2 * years, self.between**2 / len(self.providers)
        return log_price, np.sqrt(drift + between)

    def __str__(self) -> str:
        names = ", ".join(p.provider for p in self.providers[:6])
        more = f" and {len(self.providers) - 6} more" if len(self.providers) > 6 else ""
        noun = "provider" if len(self.providers) == 1 else "providers"
        low, middle, high = (self.quantile(q) for q in (0.1, 0.5, 0.9))
        notes = "".join(f"\n  {finding}" for finding in self.findings)
        return (
            f"{self.gpu} {self.market}, {self.as_of}: ${middle:.2f} per GPU-hour, 80% [${low:.2f}, ${high:.2f}]; "
            f"newest quote {self.age_days} days old; {len(self.providers)} {noun}: {names}{more}{notes}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the quote as plain types."""
        return {
            "gpu": self.gpu,
            "market": self.market,
            "as_of": self.as_of.isoformat(),
            "age_days": self.age_days,
            "usd_per_gpu_hour": self.estimate.to_dict(),
            "providers": [
                {"provider": p.provider, "usd_per_gpu_hour": p.usd_per_gpu_hour, "date": p.date.isoformat(),
                 "region": p.region, "rows": [row.to_dict() for row in p.rows]}
                for p in self.providers
            ],
            "findings": [finding.to_dict() for finding in self.findings],
        }  # fmt: skip


def _between(curve: Array, place: NDArray[np.intp], part: Array) -> Array:
    """Values of a curve over 0, 1, 2 ... that is straight between them."""
    here, next_ = curve.take(place), curve.take(place + 1, mode="clip")
    next_ -= here
    next_ *= part
    next_ += here
    return next_


@cache
def _grid(n: int = 201) -> tuple[Array, Array]:
    """Midpoints of n equal shares: of the uniform distribution, and of the normal one."""
    u = (np.arange(n) + 0.5) / n
    return u, np.array([NormalDist().inv_cdf(x) for x in u])
