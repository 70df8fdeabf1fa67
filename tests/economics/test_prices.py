"""What a GPU-hour costs: markets apart, providers with one vote each, age that widens, no silent stand-in."""

from __future__ import annotations

import math
import warnings
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from economics import PriceBook, PriceError, PriceRow, StalePriceWarning, UnknownGPU, fixed_price, gpu, prices
from economics.price_book import shipped_book
from economics.price_quote import DRIFT, PriceQuote, ProviderPrice

DAY = "2026-10-10"


def _row(provider: str, usd: float, day: str = DAY, **more: object) -> PriceRow:
    fields = {
        "gpu": "H100-80GB-SXM",
        "market": "on-demand",
        "gpus_per_instance": 1,
        "source": "toy",
        "includes_host": True,
    }
    return PriceRow(provider=provider, usd_per_instance_hour=usd, date=day, **{**fields, **more})


def _book(*rows: PriceRow) -> PriceBook:
    return PriceBook(rows, "toy")


# --- providers, not rows --------------------------------------------------------------------------


def test_one_vote_a_provider():
    """Twenty regions of one cloud do not outvote four price lists."""
    regions = [_row("azure", 12.29 + i, region=f"region{i}") for i in range(20)]
    lists = [_row(name, usd) for name, usd in (("a", 2.0), ("b", 2.5), ("c", 3.0), ("d", 4.0))]
    quote = prices("H100 SXM", as_of=DAY, book=_book(*regions, *lists))
    assert [p.provider for p in quote.providers] == ["a", "b", "c", "d", "azure"]
    assert quote.median == pytest.approx(3.0)
    assert quote.quantile(1.0) == pytest.approx(12.29), "the cheapest region speaks for a provider"
    assert len(quote.rows) == 5


def test_sizes_of_one_provider_count_by_their_median():
    sizes = [
        _row("lambda", n * usd, gpus_per_instance=n, sku=f"{n}x")
        for n, usd in ((1, 4.29), (2, 4.19), (8, 3.99))
    ]
    assert prices("H100 SXM", as_of=DAY, book=_book(*sizes)).median == pytest.approx(4.19)
    node = prices("H100 SXM", as_of=DAY, gpus_per_instance=8, book=_book(*sizes))
    assert node.median == pytest.approx(3.99)
    with pytest.raises(PriceError, match=r"gpus_per_instance 4; there are 1, 2, 8"):
        prices("H100 SXM", as_of=DAY, gpus_per_instance=4, book=_book(*sizes))


def test_only_the_newest_day_of_a_provider_counts():
    rows = [
        _row("aws", 98.32, "2025-04-23", gpus_per_instance=8),
        _row("aws", 55.04, "2025-06-05", gpus_per_instance=8),
    ]
    assert prices("H100 SXM", as_of="2025-06-05", book=_book(*rows)).median == pytest.approx(6.88)


def test_a_region_alone():
    rows = [
        _row("azure", 12.29, region="eastus"),
        _row("azure", 15.98, region="westeurope"),
        _row("global", 4.0),
    ]
    assert (
        prices("H100 SXM", provider="Azure", region="westeurope", as_of=DAY, book=_book(*rows)).median
        == 15.98
    )
    assert len(prices("H100 SXM", region="westeurope", as_of=DAY, book=_book(*rows)).providers) == 2
    with pytest.raises(PriceError, match="there are eastus, westeurope"):
        prices("H100 SXM", provider="azure", region="mars", as_of=DAY, book=_book(*rows[:2]))


# --- markets --------------------------------------------------------------------------------------


def test_markets_are_kept_apart():
    on_demand, spot = (prices("A100 SXM 80GB", market, as_of=DAY) for market in ("on-demand", "spot"))
    assert {row.market for row in on_demand.rows} == {"on-demand"}
    assert {row.market for row in spot.rows} == {"spot"}
    assert spot.median < on_demand.median
    with pytest.raises(PriceError, match="no market is called 'cheap'"):
        prices("A100 SXM 80GB", "cheap")


def test_a_market_without_quotes_names_those_there_are():
    with pytest.raises(PriceError, match=r"market 'reserved'.*Quotes for it: .*on-demand.*add_price"):
        prices("H100 SXM", "reserved", as_of=DAY)
    with pytest.raises(PriceError, match="none at all"):
        prices("H800 SXM")
    with pytest.raises(UnknownGPU):
        prices("H9000")


def test_u49_the_node_and_its_gpus():
    """$28.66 an hour for eight is $3.5825 a GPU; a price without its host says so."""
    quote = prices("H100 SXM", provider="own", as_of=DAY, book=_book(_row("own", 28.66, gpus_per_instance=8)))
    assert quote.median == 3.5825
    bare = _row("bare", 2.0, includes_host=False)
    with_host = prices("H100 SXM", as_of=DAY, book=_book(_row("own", 4.0), bare))
    assert [p.provider for p in with_host.providers] == ["own"]
    assert [f.code for f in with_host.findings] == ["price_without_host", "price_few_providers"]
    both = prices("H100 SXM", as_of=DAY, book=_book(_row("own", 4.0), bare), include_hostless=True)
    assert [p.provider for p in both.providers] == ["bare", "own"]
    alone = prices("H100 SXM", as_of=DAY, book=_book(bare))
    assert alone.findings[0].severity == "warning"
    assert "on top" in alone.findings[0].message


# --- days -----------------------------------------------------------------------------------------


def test_u48_an_old_quote_warns_with_its_age():
    """A quote of 2024-07-28 asked for on 2026-09-30 is 794 days old."""
    book = _book(_row("some", 3.29, "2024-07-28"))
    with pytest.warns(StalePriceWarning, match="794 days old") as caught:
        quote = prices("H100 SXM", as_of="2026-09-30", book=book)
    assert caught[0].message.age_days == quote.age_days == 794
    assert quote.findings[-1].severity == "warning"
    assert quote.low < 3.29 / 1.8 < 3.29 * 1.8 < quote.high


@pytest.mark.parametrize(
    ("age", "codes", "warned"),
    [(0, [], 0), (90, [], 0), (91, ["price_age"], 0), (180, ["price_age"], 0), (181, ["price_age"], 1)],
)
def test_age_is_mentioned_then_warned_of(age, codes, warned):
    day = date(2026, 10, 10) + timedelta(days=age)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        quote = prices("H100 SXM", provider="a", as_of=day, book=_book(_row("a", 3.0)))
    assert [f.code for f in quote.findings] == codes
    assert len(seen) == warned


def test_u48_prices_are_those_of_the_day():
    """AWS fell from $12.29 to $6.88 in a day: both are right, each on its day."""
    aws = {"gpu": "H100 SXM", "provider": "aws", "region": "us-east-1"}
    assert prices(**aws, as_of="2025-06-04").median == pytest.approx(12.29, rel=0.01)
    assert prices(**aws, as_of="2025-06-05").median == pytest.approx(6.88)
    assert prices(**aws, as_of=date(2026, 10, 10)).median == pytest.approx(6.88)


def test_no_look_ahead_and_no_key_error():
    book = _book(_row("a", 3.0, "2024-05-01"), _row("a", 2.0, "2026-05-01"))
    with pytest.warns(StalePriceWarning, match="245 days"):
        assert prices("H100 SXM", as_of="2025-01-01", book=book).providers[0].date == date(2024, 5, 1)
    with pytest.raises(PriceError, match="on or before 2023-01-01; the first is of 2024-05-01"):
        prices("H100 SXM", as_of="2023-01-01", book=book)
    with pytest.raises(PriceError, match="as_of must be a day"):
        prices("H100 SXM", as_of="autumn")


def test_old_providers_are_not_mixed_with_new_ones():
    book = _book(_row("new", 3.0), _row("old", 1.0, "2026-05-24"))
    quote = prices("H100 SXM", as_of=DAY, book=book)
    assert [p.provider for p in quote.providers] == ["new"]
    assert quote.findings[0].evidence["providers"] == ["old"]


# --- the interval ---------------------------------------------------------------------------------


def _quote(usd: list[float], ages: list[int], market: str = "on-demand") -> PriceQuote:
    as_of = date(2026, 11, 29)
    return PriceQuote(
        "H100-80GB-SXM",
        market,
        as_of,
        tuple(
            ProviderPrice(f"p{i}", price, as_of - timedelta(days=age), "", ())
            for i, (price, age) in enumerate(sorted(zip(usd, ages, strict=True)))
        ),
    )


def test_a_fresh_quote_is_exact_and_age_widens_it():
    widths = []
    for age in (0, 30, 90, 180, 365, 1000):
        quote = _quote([2.0], [age])
        assert quote.median == pytest.approx(2.0)
        widths.append(math.log(quote.high / quote.low))
        # 80% of a normal distribution lie within 1.2816 standard deviations.
        assert widths[-1] == pytest.approx(2 * 1.2816 * 0.4 * math.sqrt(age / 365.25), rel=0.01, abs=1e-12)
    assert widths[0] == 0
    assert all(a < b for a, b in pairwise(widths))


@given(
    st.lists(st.floats(0.1, 50), min_size=1, max_size=8),
    st.integers(0, 1500),
    st.lists(st.floats(0, 1), min_size=2, max_size=5),
)
def test_quantiles_rise_and_age_only_widens(usd, age, qs):
    quote = _quote(usd, [age] * len(usd))
    values = [quote.quantile(q) for q in sorted(qs)]
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(values))
    fresh = _quote(usd, [0] * len(usd))
    assert fresh.quantile(0) == pytest.approx(min(usd))
    assert fresh.quantile(1) == pytest.approx(max(usd))
    slack = 1.01  # the grid of 201 x 201 points is that exact where providers differ fifty-fold
    assert quote.quantile(0.02) <= fresh.quantile(0.02) * slack
    assert quote.quantile(0.98) * slack >= fresh.quantile(0.98)


@pytest.mark.parametrize("age", [0, 200])
def test_draws_follow_the_quantiles(age):
    quote = _quote([1.5, 2.0, 3.0, 9.0], [age] * 4)
    draws = quote.sample(np.random.default_rng(0), 200_000)
    assert draws.shape == (200_000,)
    assert (draws > 0).all()
    for q in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert np.quantile(draws, q) == pytest.approx(quote.quantile(q), rel=0.02)
    assert np.array_equal(draws[:10], quote.sample(np.random.default_rng(0), 200_000)[:10])


def test_spot_drifts_faster():
    assert _quote([1.0], [365], "spot").high > _quote([1.0], [365]).high


def test_a_quantile_is_a_share():
    with pytest.raises(PriceError, match="between 0 and 1"):
        _quote([1.0], [0]).quantile(90)


def test_drift_is_what_the_book_shows():
    """sd of ln(price) after a year, from pairs of days of one offer: 0.40 on demand, 0.48 in one spot pair."""
    series: dict[tuple[str, str, str, bool | None], dict[date, float]] = {}
    for row in shipped_book():
        prices_of = series.setdefault((row.provider, row.gpu, row.market, row.includes_host), {})
        prices_of[row.date] = min(row.usd_per_gpu_hour, prices_of.get(row.date, math.inf))
    squares: dict[str, list[float]] = {}
    for (_, _, market, _), prices_of in series.items():
        for (a, x), (b, y) in pairwise(sorted(prices_of.items())):
            squares.setdefault(market, []).append(math.log(y / x) ** 2 / ((b - a).days / 365.25))
    drift = {market: math.sqrt(np.mean(found)) for market, found in squares.items()}
    assert drift["on-demand"] == pytest.approx(DRIFT["on-demand"], rel=0.05)
    assert len(squares["on-demand"]) > 50
    assert drift["spot"] == pytest.approx(DRIFT["spot"], rel=0.1)
    assert drift["community"] < DRIFT["community"], "one provider that hardly moves: no ground to claim less"


# --- the shipped book, and a price in hand --------------------------------------------------------


def test_known_prices_of_the_shipped_book():
    assert prices(
        "NVIDIA H100 80GB HBM3", provider="lambda", gpus_per_instance=8, as_of=DAY
    ).median == pytest.approx(3.99)
    assert prices("B200", provider="aws", as_of=DAY).median == pytest.approx(14.2416)
    assert prices("TPU v5e", region="us-west4", market="spot", as_of=DAY).median == pytest.approx(
        0.51, rel=0.02
    )
    for name in ("H100 SXM", "A100 SXM 80GB", "H200", "B200", "L40S"):
        assert len(prices(name, as_of=DAY).providers) >= 8


def test_a_fixed_price_has_no_spread():
    quote = fixed_price(1.79, gpu="A100 SXM 80GB")
    assert (quote.low, quote.median, quote.high) == (1.79, 1.79, 1.79)
    assert quote.age_days == 0
    assert set(quote.sample(np.random.default_rng(1), 5)) == {1.79}
    assert fixed_price(2).gpu == "any"
    for bad in (0, -1, math.nan, "cheap"):
        with pytest.raises(PriceError, match="positive"):
            fixed_price(bad)


def test_a_gpu_of_ones_own_is_looked_up_by_its_name():
    assert prices(gpu("H100 SXM", tdp_w=500), as_of=DAY).gpu == "H100-80GB-SXM"


def test_text_and_dict():
    quote = prices("H100 SXM", "spot", as_of=DAY)
    assert str(quote).splitlines()[0].startswith("H100-80GB-SXM spot, 2026-10-10: $2.46 per GPU-hour, 80% [$")
    assert quote.to_dict()["usd_per_gpu_hour"]["level"] == 0.8
    assert quote.to_dict()["providers"][0]["rows"][0]["source"]
    assert quote.estimate.unit == "$/GPU-hour"
