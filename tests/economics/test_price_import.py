"""Fresh prices: gpuhunt and SkyPilot through the nine checks, the user's own quotes, and the book they go to."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from economics import (
    MissingExtraError,
    PriceBook,
    PriceError,
    add_price,
    import_skypilot,
    prices,
    refresh_prices,
)
from economics.price_book import load_book, shipped_book, today, user_book_path
from scaling.errors import DataError

# --- gpuhunt --------------------------------------------------------------------------------------


@dataclass
class Item:
    """The fields of gpuhunt's CatalogItem that a price needs (gpuhunt 0.1.34)."""

    provider: str
    instance_name: str
    location: str
    price: float
    gpu_count: int
    gpu_name: str
    gpu_memory: float
    spot: bool = False
    provider_data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Loaded:
    version: str


class FakeCatalog:
    """What `gpuhunt.default_catalog()` returns, with faults that such catalogs have had."""

    def __init__(self, *items: Item, versions: dict[str, str] | None = None) -> None:
        self.items = items
        self.catalog = {name: Loaded(version) for name, version in (versions or {}).items()}
        self.asked: dict[str, Any] = {}

    def query(self, **filters: Any) -> list[Item]:
        self.asked = filters
        return list(self.items)


GOOD = (
    Item("aws", "p5.48xlarge", "us-east-1", 55.04, 8, "H100", 80),
    Item("aws", "p5.48xlarge", "us-east-1", 31.5, 8, "H100", 80, spot=True),
    Item("azure", "Standard_NC24ads_A100_v4", "eastus", 3.673, 1, "A100", 80),
    Item("lambdalabs", "gpu_8x_h100_sxm5", "us-east-1", 31.92, 8, "H100", 80),
    Item("verda", "1L40S.20V", "FIN-01", 1.5425, 1, "L40S", 48),
    Item("vastai", "31001", "Sweden", 0.41, 1, "RTX4090", 24),
    Item("runpod", "NVIDIA L40S", "US-TX-3", 1.09, 1, "L40S", 48),
    Item("runpod", "NVIDIA L40S", "US", 0.79, 1, "L40S", 48),
)
BAD = {
    "price_form_factor": Item("runpod", "NVIDIA H100", "EU-1", 3.29, 1, "H100", 80),
    "price_floor": Item(
        "vastai", "31001", "Sweden", 0.2, 1, "RTX4090", 24, spot=True, provider_data={"min_bid": 0.2}
    ),
    "price_sku": Item("runpod", "NVIDIA A2000", "EU-1", 0.12, 1, "A2000", 6),
    "price_memory": Item("vultr", "vcg-mi325x", "ord", 20.0, 8, "MI325X", 288),
    "price_spot_not_cheaper": Item("verda", "1L40S.20V", "FIN-01", 1.5425, 1, "L40S", 48, spot=True),
    "price_sentinel": Item("oci", "BM.GPU.L40S.4", "us", 700.0, 4, "L40S", 48),
}


def test_refresh_takes_what_passes_and_names_what_does_not(own_book):
    catalog = FakeCatalog(*GOOD, *BAD.values(), versions={"aws": "20261010-318"})
    report = refresh_prices(catalog)
    assert catalog.asked == {"provider": None, "min_gpu_count": 1}
    assert len(report.accepted) == len(GOOD)
    assert Counter(f.code for f in report.findings) == dict.fromkeys(BAD, 1)
    assert report.path == own_book
    by = {(row.provider, row.market): row for row in report.accepted}
    assert by["aws", "on-demand"].usd_per_gpu_hour == 6.88
    assert by["aws", "on-demand"].gpu == "H100-80GB-SXM", "the instance type closes what the name leaves open"
    assert by["azure", "on-demand"].gpu == "A100-80GB-PCIe"
    assert by["vast", "marketplace"].gpu == "RTX-4090"
    assert by["runpod", "on-demand"].usd_per_gpu_hour == 1.09
    assert by["runpod", "community"].usd_per_gpu_hour == 0.79
    assert by["lambda", "on-demand"].gpu == "H100-80GB-SXM"
    assert by["aws", "spot"].date == date(2026, 10, 10), "the day of the catalog, not of the download"
    assert by["verda", "on-demand"].date == today()
    text = str(report)
    assert "8 prices accepted" in text
    assert "6 rejected" in text
    assert all(code in text for code in BAD)


def test_refreshed_prices_are_found(own_book):
    refresh_prices(FakeCatalog(*GOOD))
    quote = prices("L40S", provider="verda")
    assert quote.age_days == 0
    assert quote.median == pytest.approx(1.5425)
    assert str(own_book) in load_book().source
    # Again tomorrow: the same offers of the same day stand once.
    refresh_prices(FakeCatalog(*GOOD))
    assert len(PriceBook.read(own_book)) == len(GOOD)


def test_refresh_of_some_providers_on_a_stated_day_without_writing(own_book):
    catalog = FakeCatalog(*GOOD)
    report = refresh_prices(catalog, providers=["aws"], day="2026-11-01", write=False)
    assert catalog.asked["provider"] == ["aws"]
    assert {row.date for row in report.accepted} == {date(2026, 11, 1)}
    assert report.path is None
    assert not own_book.exists()
    with pytest.raises(PriceError, match="day must be a day"):
        refresh_prices(catalog, day="yesterday")
    with pytest.raises(PriceError, match="no offer with a GPU"):
        refresh_prices(FakeCatalog())


def test_without_gpuhunt_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    with pytest.raises(MissingExtraError, match=r"isoflop\[prices\]"):
        refresh_prices()


# --- SkyPilot -------------------------------------------------------------------------------------

HEADER = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice,AvailabilityZone"


def _info(name: str, mib: int) -> str:
    return f"\"{{'Gpus': [{{'Name': '{name}', 'Count': 8.0, 'MemoryInfo': {{'SizeInMiB': {mib}}}}}]}}\""


def _catalog(tmp_path: Path, cloud: str, *lines: str) -> Path:
    path = tmp_path / "catalogs" / "v8" / cloud / "vms.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join((HEADER, *lines)) + "\n", encoding="utf-8")
    return path


def test_skypilot_catalog(tmp_path, own_book):
    path = _catalog(
        tmp_path,
        "aws",
        "m5.large,,,2.0,8.0,0.096,us-east-1,,0.04,us-east-1a",
        f"p5.48xlarge,H100,8.0,192.0,2048.0,55.04,us-east-1,{_info('H100', 81920)},31.0,us-east-1a",
        f"p5.48xlarge,H100,8.0,192.0,2048.0,55.04,us-east-1,{_info('H100', 81920)},33.0,us-east-1b",
        f"p5.48xlarge,H100,8.0,192.0,2048.0,55.04,us-east-1,{_info('H100', 81920)},60.0,us-east-1c",
        f"p4d.24xlarge,A100,8.0,96.0,1152.0,21.9576,us-east-1,{_info('A100', 40960)},,us-east-1a",
        f"p4de.24xlarge,A100-80GB,8.0,96.0,1152.0,27.4471,us-east-1,{_info('A100', 40960)},,us-east-1a",
        f"g4dn.xlarge,T4,1.0,4.0,16.0,0.526,us-east-1,{_info('T4', 16384)},0.0,us-east-1a",
        f"dl1.24xlarge,Gaudi HL-205,8.0,96.0,768.0,13.1,us-east-1,{_info('Gaudi', 32768)},,us-east-1a",
    )
    report = import_skypilot(path, day="2026-10-10")
    got = {(row.gpu, row.market): row for row in report.accepted}
    assert set(got) == {
        ("H100-80GB-SXM", "on-demand"),
        ("H100-80GB-SXM", "spot"),
        ("A100-40GB-SXM", "on-demand"),
        ("T4", "on-demand"),
    }
    assert got["H100-80GB-SXM", "on-demand"].usd_per_gpu_hour == 6.88
    assert got["H100-80GB-SXM", "spot"].usd_per_instance_hour == 33.0, "median of the zones"
    assert report.without_gpu == 1
    assert report.merged == 4
    assert sorted(f.code for f in report.findings) == ["price_floor", "price_memory", "price_sku"]
    assert any("line 7" in where for where in report.rejected), "found again in the file"
    assert prices("H100 SXM", "spot", provider="aws", as_of="2026-10-10").median == pytest.approx(4.125)


def test_skypilot_accelerator_without_its_host(tmp_path):
    """A catalog row without an instance type is the accelerator alone; its host is another row (a2: $0.94)."""
    path = _catalog(tmp_path, "gcp", f",L4,1.0,,,0.56,us-central1,{_info('L4', 23034)},0.2,us-central1-a")
    report = import_skypilot(path, day="2026-10-10")
    assert {row.includes_host for row in report.accepted} == {False}


def test_skypilot_foreign_currency_and_open_names(tmp_path):
    path = _catalog(
        tmp_path,
        "scaleway",
        f"L4-1-24G,L4,1.0,8.0,48.0,0.75,fr-par,{_info('L4', 24576)},,",
        f"H100-1-80G,H100,1.0,24.0,240.0,2.73,fr-par,{_info('H100', 81920)},,",
    )
    report = import_skypilot(path, day="2026-10-10")
    assert not report.accepted
    assert Counter(f.code for f in report.findings) == {"price_currency": 2, "price_form_factor": 1}
    assert report.path is None


def test_skypilot_needs_a_day_and_its_columns(tmp_path):
    path = _catalog(tmp_path, "aws", "m5.large,,,2.0,8.0,0.096,us-east-1,,,")
    before = path.read_text(encoding="utf-8")
    for missing in (None, "", "yesterday"):
        with pytest.raises(PriceError, match="day") as caught:
            import_skypilot(path, day=missing)
        assert caught.value.column == "day"
    with pytest.raises(DataError, match="input itself"):
        import_skypilot(path, day="2026-10-10", path=path.parent / ".." / path.parent.name / path.name)
    assert path.read_text(encoding="utf-8") == before
    with pytest.raises(PriceError, match="no row with an accelerator"):
        import_skypilot(path, day="2026-10-10")
    path.write_text("a,b\n1,2\n")
    with pytest.raises(PriceError, match="no column InstanceType, AcceleratorName"):
        import_skypilot(path, day="2026-10-10")


# --- one's own quotes -----------------------------------------------------------------------------


def test_add_price_and_use_it(own_book):
    row = add_price(
        "My Cloud", "H100 SXM", usd_per_instance_hour=20, gpus_per_instance=8, market="reserved", commit="1y"
    )
    assert row.provider == "my cloud"
    assert row.source == "own quote"
    assert row.date == today()
    quote = prices("H100 SXM", "reserved")
    assert quote.median == 2.5
    assert quote.rows[0].commit == "1y"
    with own_book.open(encoding="utf-8", newline="") as stream:
        assert next(csv.DictReader(stream))["usd_per_instance_hour"] == "20"
    # A corrected quote of the same day replaces the first.
    add_price(
        "my cloud", "H100 SXM", usd_per_instance_hour=19, gpus_per_instance=8, market="reserved", commit="1y"
    )
    assert prices("H100 SXM", "reserved").median == pytest.approx(19 / 8)
    assert len(PriceBook.read(own_book)) == 1


def test_add_price_in_another_currency(own_book):
    with pytest.raises(PriceError, match="EUR"):
        add_price("scaleway", "L4", usd_per_gpu_hour=0.79, currency="EUR")
    row = add_price("scaleway", "L4", usd_per_gpu_hour=0.79, currency="EUR", usd_per_unit=1.17)
    assert row.usd_per_gpu_hour == pytest.approx(0.9243)
    assert row.note == "0.79 EUR at 1.17 USD"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"usd_per_gpu_hour": 28.66, "day": "2026-10-10"}, "that of a node"),
        ({"usd_per_gpu_hour": 0.01}, "no price"),
        ({"usd_per_gpu_hour": 2, "day": "2031-01-01"}, "after today"),
        ({"usd_per_gpu_hour": 2, "gpu": "H100"}, "left open"),
        ({"usd_per_gpu_hour": 2, "market": "reserved"}, "without a term"),
    ],
)
def test_a_quote_that_is_none_is_refused(changes, match, own_book):
    with pytest.raises(PriceError, match=match) as caught:
        add_price(**{"provider": "x", "gpu": "H100 SXM", **changes})
    assert caught.value.findings
    assert not own_book.exists()


def test_one_price_not_two():
    for both in ({}, {"usd_per_gpu_hour": 2, "usd_per_instance_hour": 16}):
        with pytest.raises(DataError, match="give one price"):
            add_price("x", "H100 SXM", **both)
    with pytest.raises(DataError, match="must be a rate"):
        add_price("x", "L4", usd_per_gpu_hour=1, currency="JPY", usd_per_unit=-1)


# --- the book -------------------------------------------------------------------------------------


def test_a_book_of_ones_own_is_checked_on_reading(tmp_path):
    path = tmp_path / "book.csv"
    shipped_book().write(path)
    assert PriceBook.read(path).rows == shipped_book().rows == shipped_book().merged(()).rows
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3].replace("2026", "2036")
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(PriceError, match="line 4") as caught:
        PriceBook.read(path)
    assert caught.value.rows == (4,)
    path.write_text("provider,gpu\nx,y\n", encoding="utf-8")
    with pytest.raises(PriceError, match="no column date"):
        PriceBook.read(path)


def test_where_the_own_book_lives(monkeypatch, own_book):
    assert user_book_path() == own_book
    monkeypatch.delenv("ISOFLOP_PRICES")
    assert user_book_path().name == "prices.csv"
    assert "isoflop" in user_book_path().parts


def test_a_book_named_stands_alone(tmp_path):
    path = tmp_path / "only.csv"
    add_price("only", "H100 SXM", usd_per_gpu_hour=2.5, path=path)
    assert [p.provider for p in prices("H100 SXM", book=path).providers] == ["only"]
    assert "PriceBook(1 rows" in repr(load_book(path))
