"""Nine defects of real price tables, each caught by its code, and what an honest row looks like."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import given, strategies as st

from economics import PriceError, PriceRow
from economics.price_book import check_quotes, check_spot, context, shipped_book
from economics.price_checks import DEFECTS, FLOOR_USD_PER_TFLOPS, check_quote
from economics.price_rows import Quote, market_kind

TODAY = date(2026, 11, 29)
HONEST = Quote(
    provider="aws",
    gpu="H100-80GB-SXM",
    market="on-demand",
    price="55.04",
    count="8",
    date="2026-10-10",
    source="price list",
    currency="USD",
    memory_gb=80,
    region="us-east-1",
    sku="p5.48xlarge",
    where="line 7",
)


def _codes(**changes: object) -> set[str]:
    found = check_quote(replace(HONEST, **changes), context(TODAY))
    return set() if isinstance(found, PriceRow) else {finding.code for finding in found}


def test_an_honest_quote_becomes_a_row():
    row = check_quote(HONEST, context(TODAY))
    assert isinstance(row, PriceRow)
    assert row.usd_per_gpu_hour == 6.88
    assert row.date == date(2026, 10, 10)


# Each defect with the forms in which it was met.
FAULTS = {
    "price_floor": [
        {"price": 0},
        {"price": "$0.00"},
        {
            "price": 8 * 0.5,
            "gpu": "MI300X",
            "sku": "",
            "provider": "runpod",
            "memory_gb": 192,
        },  # $0.50 of 1307 TFLOP/s
        {"price": 0.12, "count": 1, "sku": ""},
        {"price": 8.0, "note": "min_bid: the lowest bid a host takes", "market": "spot", "sku": ""},
        {"price": 8.0, "note": "price reflects min live offer", "sku": ""},
        {"price": 9.44, "note": "spot estimated as 56% off", "market": "spot", "sku": ""},
    ],
    "price_sentinel": [
        {"price": 0.01, "count": 1, "sku": ""},
        {"price": 700},
        {"price": 999.99, "count": 1, "sku": ""},
        {"price": -1},
        {"price": "contact sales"},
        {"price": ""},
        {"price": float("nan")},
        {"price": 8 * 500.0},
    ],
    "price_currency": [
        {"price": "€44.03"},
        {"price": "44.03 EUR"},
        {"currency": "EUR"},
        {"price": "¥400"},
        {"provider": "scaleway", "currency": None, "sku": "H100-SXM-2-80G", "count": 2, "price": 6.2},
    ],
    "price_per_node": [
        {"count": 1, "sku": ""},  # $55.04 as the price of one GPU: 8 times the real one
        {"price": 98.32, "count": 1, "sku": ""},
        {"price": 21.9576, "count": 1, "gpu": "A100-40GB-SXM", "sku": "", "memory_gb": 40},
        {"price_per_gpu": 55.04},
        {"price": 6.88, "price_per_gpu": 6.88},
        {"price": 142.416, "count": 1, "sku": ""},
    ],
    "price_sku": [
        {"gpu": "NVIDIA B300 SXM6 AC MIG 1g.34gb", "price": 4.0},
        {"note": "Modified 48GB variant"},
        {"sku": "p4d.24xlarge"},  # an A100 instance under the name of an H100
        {"count": 0.125},
        {"count": "0"},
        {"gpu": "Quadro P4000"},
        {"market": "serverless"},
        {"market": "spot(prototyping)"},
        {"note": "interruptible"},
        {"market": "reserved"},
        {"commit": "1y"},
    ],
    "price_form_factor": [
        {"gpu": "H100", "sku": ""},
        {"gpu": "A100 80GB", "sku": "", "memory_gb": None, "price": 16},
        {"gpu": "A100", "sku": "", "memory_gb": None, "price": 16},
    ],
    "price_memory": [
        {"memory_gb": 81920},  # MiB in a column of GB
        {"memory_gb": 80e3},
        {"memory_gb": 80 * 2**30},
        {
            "memory_gb": 40,
            "gpu": "A100-80GB-SXM",
            "sku": "p4de.24xlarge",
            "price": 27.4,
        },  # 40960 MiB for the 80 GB part
        {"memory_gb": 288, "gpu": "MI325X", "sku": "", "price": 30},
    ],
    "price_date": [
        {"date": ""},
        {"date": None},
        {"date": "2023-10/2024-02"},
        {"date": "2026-08 (repo)"},
        {"date": "2026-11-30"},
        {"date": datetime(2027, 1, 1, 12)},
        {"date": "1970-01-01"},
    ],
}


@pytest.mark.parametrize(("code", "changes"), [(code, c) for code, cs in FAULTS.items() for c in cs])
def test_defects_of_one_quote(code, changes):
    assert _codes(**changes) == {code}


def test_spot_not_below_on_demand():
    """Seen: $2.17 "spot" beside $1.49 on demand (a serverless price), and a TPU at 3.686 against 3.22."""
    firm = replace(
        HONEST, price=1.49, count=1, gpu="A100-80GB-SXM", sku="", provider="runpod", memory_gb=80, where="a"
    )
    active = replace(firm, price=2.17, market="spot", where="b")
    equal = replace(firm, price=1.49, market="spot", where="c")
    cheap = replace(firm, price=0.79, market="spot", where="d")
    elsewhere = replace(firm, price=2.17, market="spot", region="eu", where="e")
    for spot, bad in ((active, True), (equal, True), (cheap, False), (elsewhere, False)):
        rows, rejected = check_quotes([firm, spot], context(TODAY))
        assert [f.code for found in rejected.values() for f in found] == ["price_spot_not_cheaper"] * bad
        assert len(rows) == 2 - bad


def test_nine_defects_and_every_one_has_a_fixture():
    assert len(DEFECTS) == 9
    assert set(DEFECTS) == set(FAULTS) | {"price_spot_not_cheaper"}


def test_a_finding_says_where_what_and_why():
    (finding,) = check_quote(replace(HONEST, count=1, sku=""), context(TODAY))
    assert finding.severity == "error"
    assert finding.message.startswith("line 7: aws H100-80GB-SXM: $55.04")
    assert finding.evidence["price"] == "55.04"
    assert finding.evidence["times_usual"] > 6


def test_a_quote_may_have_several_faults():
    assert _codes(price="€0", date="") == {"price_currency", "price_date"}


def test_the_instance_type_closes_an_open_form_factor():
    """Catalogs say "A100, 80 GB"; p4de holds the SXM part, an NC24ads the PCIe one."""
    for provider, sku, name, count in (
        ("aws", "p4de.24xlarge", "A100-80GB-SXM", 8),
        ("azure", "Standard_NC24ads_A100_v4", "A100-80GB-PCIe", 1),
    ):
        row = check_quote(
            replace(HONEST, provider=provider, gpu="A100 80GB", sku=sku, price=3.4 * count, count=count),
            context(TODAY),
        )
        assert isinstance(row, PriceRow)
        assert row.gpu == name


@pytest.mark.parametrize("memory", [22, 24, 23.0])
def test_memory_as_programs_see_it_is_fine(memory):
    """The L4 prints 24 GB and shows 22 to 23."""
    quote = replace(HONEST, gpu="L4", sku="g6.xlarge", price=0.8, count=1, memory_gb=memory)
    assert isinstance(check_quote(quote, context(TODAY)), PriceRow)


def test_no_source_no_row():
    assert _codes(source="") == {"price_source"}
    assert _codes(provider=" ", sku="") == {"price_source"}


_ODD = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["H100 SXM", "A100", "8", "€2"]),
)


@given(
    price=_ODD,
    count=_ODD,
    when=_ODD,
    memory=_ODD,
    gpu=st.text(max_size=12) | st.just("L4"),
    provider=st.text(max_size=8),
)
def test_whatever_a_catalog_says_is_a_row_or_findings(price, count, when, memory, gpu, provider):
    quote = replace(
        HONEST,
        price=price,
        count=count,
        date=when,
        memory_gb=memory,
        gpu=gpu,
        provider=provider,
        sku="",
        currency=None,
    )
    found = check_quote(quote, context(TODAY))
    if isinstance(found, PriceRow):
        assert found.date <= TODAY
        assert 0 < found.usd_per_gpu_hour <= 100
    else:
        assert found
        assert {finding.code for finding in found} <= {*DEFECTS, "price_source"}


@pytest.mark.parametrize("word", ["Preemptible", "interruptible", "spot "])
def test_names_of_a_market(word):
    assert market_kind(word) == "spot"


@pytest.mark.parametrize("word", ["serverless", "cheap", ""])
def test_what_is_no_market(word):
    with pytest.raises(PriceError, match="no market is called"):
        market_kind(word)


# --- integrity of the book that ships -------------------------------------------------------------


@pytest.mark.parametrize(
    "row", shipped_book().rows, ids=lambda r: f"{r.provider} {r.gpu} {r.market} {r.region} {r.sku} {r.date}"
)
def test_every_shipped_row_passes(row):
    quote = Quote.from_row(
        {**row.to_dict(), "includes_host": {True: "yes", False: "no", None: ""}[row.includes_host]}, "row"
    )
    assert check_quote(quote, context(date(2026, 11, 29))) == row
    assert row.licence
    assert row.provider == row.provider.casefold()
    assert not row.commit


def test_shipped_rows_agree_with_each_other():
    rows = tuple(shipped_book())
    assert check_spot(rows) == {}
    offers = [(row.offer, row.date) for row in rows]
    assert len(set(offers)) == len(offers)
    assert {row.market for row in rows} == {"on-demand", "spot", "marketplace", "community"}


def test_the_floor_lies_below_every_real_price():
    from economics import gpu

    ratios = {
        row: row.usd_per_gpu_hour
        / (gpu(row.gpu).dense_tflops.get("bf16") or gpu(row.gpu).dense_tflops["fp16"])
        for row in shipped_book()
    }
    assert FLOOR_USD_PER_TFLOPS < min(ratios.values()) == pytest.approx(7.6e-4, rel=0.01)
