"""Quotes that are sound alone and wrong together, or wrong in a way that a single rule does not see."""

from __future__ import annotations

import math

import numpy as np
import pytest

from economics import (
    PriceBook,
    PriceError,
    PriceRow,
    add_price,
    cost,
    fixed_price,
    gpus,
    inference_cost,
    prices,
)
from economics.price_book import context, shipped_book
from economics.price_checks import NODE_RATIO, SINGLE_RATIO
from economics.price_import import take
from economics.price_quote import BETWEEN
from economics.price_rows import Quote

DAY = "2026-10-10"


# --- a book that its own writer could not read any more -------------------------------------------


@pytest.mark.parametrize(("first", "second"), [("on-demand", "spot"), ("spot", "on-demand")])
def test_a_quote_that_contradicts_the_own_book_is_not_written(first, second, own_book):
    """Spot at $3.00 and on demand at $2.50 of one offer: either would make the whole book unreadable."""
    usd = {"on-demand": 2.5, "spot": 3.0}
    add_price("acme", "H100 SXM", usd_per_gpu_hour=usd[first], market=first, day=DAY)
    before = own_book.read_bytes()
    with pytest.raises(PriceError, match="contradicts") as caught:
        add_price("acme", "H100 SXM", usd_per_gpu_hour=usd[second], market=second, day=DAY)
    assert caught.value.findings[0].code == "price_spot_not_cheaper"
    assert own_book.read_bytes() == before
    assert prices("H100 SXM", first, provider="acme", as_of=DAY).median == pytest.approx(usd[first])
    add_price(
        "acme", "H100 SXM", usd_per_gpu_hour=2.0, market="spot", day=DAY
    )  # and the book is still in use
    assert prices("H100 SXM", "spot", provider="acme", as_of=DAY).median == pytest.approx(2.0)


def _quote(usd: float, market: str, where: str) -> Quote:
    return Quote("acme", "H100 SXM", market, usd, 1, DAY, "catalog", currency="USD", where=where)


def test_a_second_import_of_a_day_keeps_the_book_readable(own_book):
    first = take("noon", [_quote(3.0, "on-demand", "a"), _quote(2.0, "spot", "b")], path=own_book, write=True)
    assert len(first.accepted) == 2
    second = take("night", [_quote(1.5, "on-demand", "c")], path=own_book, write=True)
    assert not second.accepted and second.rejected["c"][0].code == "price_spot_not_cheaper"
    assert prices("H100 SXM", provider="acme", as_of=DAY).median == pytest.approx(3.0)
    both = take("next", [_quote(1.5, "on-demand", "d"), _quote(1.2, "spot", "e")], path=own_book, write=True)
    assert len(both.accepted) == 2 and len(PriceBook.read(own_book)) == 2, "a sound pair replaces both"


# --- a node under the name of a GPU ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "usd"), [("H100 SXM", 24.0), ("H100 SXM", 20.0), ("A100 SXM 80GB", 14.30), ("L40S", 8 * 1.86)]
)
def test_a_node_of_usual_gpus_is_no_price_of_one(gpu, usd, own_book):
    """$24 is 8 x $3: six times the usual price was too wide a gate for a machine of eight."""
    with pytest.raises(PriceError, match="that of a node"):
        add_price("acme", gpu, usd_per_gpu_hour=usd)
    assert add_price("acme", gpu, usd_per_instance_hour=usd, gpus_per_instance=8).usd_per_gpu_hour == usd / 8


def test_the_gates_lie_above_every_price_of_the_book():
    usual = context().usual
    times = [(r.usd_per_gpu_hour / usual[r.gpu], r.gpus_per_instance) for r in shipped_book()]
    assert 0.85 * NODE_RATIO < max(t for t, _ in times) < NODE_RATIO
    assert 0.7 * SINGLE_RATIO < max(t for t, n in times if n == 1) < SINGLE_RATIO


def test_an_instance_type_has_the_gpus_it_has(own_book):
    with pytest.raises(PriceError, match=r"p5\.48xlarge has 8 GPUs, not 4"):
        add_price("aws", "H100 SXM", usd_per_instance_hour=32.0, gpus_per_instance=4, sku="p5.48xlarge")


@pytest.mark.parametrize("term", ["1y", "3 years", "6 months", "30d", "1-year"])
def test_terms_of_a_commitment(term, own_book):
    row = add_price("acme", "H100 SXM", usd_per_gpu_hour=2.0, market="reserved", commit=term)
    assert row.commit == term


def test_a_word_that_is_no_term(own_book):
    with pytest.raises(PriceError, match="'banana' is no term"):
        add_price("acme", "H100 SXM", usd_per_gpu_hour=2.0, market="reserved", commit="banana")


def test_a_note_that_denies_is_believed(own_book):
    add_price("acme", "H100 SXM", usd_per_gpu_hour=2.0, note="not a spot price, non-preemptible")
    with pytest.raises(PriceError, match="described as 'spot'"):
        add_price("acme", "H100 SXM", usd_per_gpu_hour=2.0, note="not cheap for a spot price")


# --- a market of one provider, a region of none, a price that is none -----------------------------


def _row(provider: str, usd: float, gpu: str = "H100-80GB-SXM", **more: object) -> PriceRow:
    fields = {"market": "marketplace", "gpus_per_instance": 1, "source": "toy", **more}
    return PriceRow(provider=provider, gpu=gpu, usd_per_instance_hour=usd, date=DAY, **fields)


def test_one_provider_is_no_market():
    """$4.00 of one marketplace: 80% [4, 4] was claimed. Providers of one part differ by sd 0.53 of ln(price)."""
    alone = prices("H100 SXM", "marketplace", as_of=DAY, book=PriceBook((_row("vast", 4.0),)))
    assert alone.median == pytest.approx(4.0)
    assert alone.low == pytest.approx(4.0 * math.exp(-1.2816 * 0.53), rel=0.01)
    assert alone.high == pytest.approx(4.0 * math.exp(1.2816 * 0.53), rel=0.01)
    assert [(f.code, f.severity) for f in alone.findings] == [("price_few_providers", "warning")]
    run = cost(N="1B", D="20B", gpu="H100 SXM", n_gpus=8, mfu=0.4, price=alone, overheads="none")
    assert run.usd.high / run.usd.low == pytest.approx(alone.high / alone.low, rel=0.03)
    assert "price_few_providers" in {f.code for f in run.findings}


def test_two_providers_show_half_and_three_are_left_alone():
    rows = [_row(name, 4.0) for name in ("a", "b", "c")]
    quotes = [
        prices("H100 SXM", "marketplace", as_of=DAY, book=PriceBook(tuple(rows[:n]))) for n in (1, 2, 3)
    ]
    widths = [math.log(q.high / q.low) for q in quotes]
    assert widths[1] == pytest.approx(widths[0] / math.sqrt(2), rel=0.01) and widths[2] == 0
    assert [f.severity for f in quotes[1].findings] == ["info"] and not quotes[2].findings


def test_a_provider_that_is_asked_for_is_exact():
    one = prices("H100 SXM", "marketplace", provider="vast", as_of=DAY, book=PriceBook((_row("vast", 4.0),)))
    assert one.low == one.high == pytest.approx(4.0) and not one.findings


@pytest.mark.filterwarnings("ignore::economics.StalePriceWarning")
def test_the_spread_between_providers_is_what_the_book_shows():
    for market in ("on-demand", "spot"):
        squares, freedom = 0.0, 0
        for name in gpus():
            try:
                logs = np.log([p.usd_per_gpu_hour for p in prices(name, market, as_of=DAY).providers])
            except PriceError:
                continue
            squares, freedom = squares + logs.var() * logs.size, freedom + logs.size - 1
        assert freedom >= 9
        assert math.sqrt(squares / freedom) == pytest.approx(BETWEEN[market], abs=0.01)


def test_no_serverless_price_is_filed_as_a_machine():
    assert "modal" not in {row.provider for row in shipped_book()}


def test_a_region_that_no_row_has_is_a_misspelling():
    """The price of all other providers, without a word, was the answer."""
    with pytest.raises(PriceError, match=r"'us-esat-1': did you mean us-east-1"):
        prices("H100 SXM", region="us-esat-1", as_of=DAY)
    right = prices("H100 SXM", region="US-East-1", as_of=DAY)
    assert "aws" in {p.provider for p in right.providers}
    (left_out,) = [f for f in right.findings if f.code == "price_region_left_out"]
    assert "azure" in left_out.message and left_out.evidence["providers"]


@pytest.mark.parametrize("price", [0.01, 1e-9, True, 700, 99.99, 250.0, 0.05, "700", "1e-9"])
def test_a_price_in_hand_is_checked_like_any_other(price):
    with pytest.raises(PriceError, match="price"):
        cost(N="1B", D="20B", gpu="H100 SXM", n_gpus=8, mfu=0.4, price=price)


@pytest.mark.parametrize(
    ("gpu", "price"),
    [("A100 SXM 80GB", 8 * 1.79), ("A100 SXM 80GB", 14), ("H100 SXM", "14"), ("H100 SXM", 28), ("L40S", 8.0)],
)
def test_a_price_in_hand_that_looks_like_a_node_is_doubted(gpu, price):
    """A warning that names the price of one of 8, wherever the price goes."""
    run = cost(N="1B", D="20B", gpu=gpu, n_gpus=8, mfu=0.4, price=price)
    served = inference_cost(N="7B", gpu=gpu, price=price)
    for findings in (run.findings, served.findings, fixed_price(float(price), gpu).findings):
        (finding,) = [f for f in findings if f.code == "price_per_node"]
        assert finding.severity == "warning"
        assert f"${float(price) / 8:.4g} per GPU-hour" in finding.message
    fair = run.what_if(price=float(price) / 8)
    assert "price_per_node" not in {f.code for f in fair.findings}


@pytest.mark.parametrize(
    ("gpu", "price", "each"), [("A100 SXM 80GB", 40.97, 5.121), ("H100 SXM", 98.32, 12.29), ("TPU v2", 8, 1)]
)
def test_a_price_far_above_the_dearest_is_refused(gpu, price, each):
    """One cloud's node of 8 A100 is $40.97 an hour, its node of 8 H100 was $98.32."""
    with pytest.raises(PriceError, match=rf"price={each}\. Above 5 times the dearest") as caught:
        cost(N="1B", D="20B", gpu=gpu, n_gpus=8, mfu=0.4, price=price)
    assert [f.code for f in caught.value.findings] == ["price_per_node"]


def test_quotes_of_the_book_are_no_prices_of_nodes():
    """Given as prices in hand none is refused, and those doubted are the dearest regions of the largest clouds."""
    doubted = [row for row in shipped_book() if fixed_price(row.usd_per_gpu_hour, row.gpu).findings]
    assert len(doubted) < 0.02 * len(shipped_book())
    assert {row.provider for row in doubted} <= {"aws", "azure"}
