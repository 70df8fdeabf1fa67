"""Energy and CO2: published runs, every factor in the open, nothing silently zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from economics.energy_use import energy, energy_factors
from economics.errors import UnknownGPU
from economics.gpu_names import read_table
from economics.grid import UnknownRegion, grid_intensity, regions
from economics.hardware import gpu, gpus
from economics.power import MOST_WATTS, Factor, pue_factor, server_factor
from scaling.errors import DataError


def test_u52_eight_h100_for_a_hundred_hours():
    """10.2 kW x 0.76 x 1.25 x 100 h = 969 kWh at the meter; the rating of the boards alone says 560."""
    run = energy(800, "H100 SXM", pue=1.25)
    assert run.facility_kwh.value == pytest.approx(10.2 * 0.76 * 1.25 * 100) == pytest.approx(969)
    assert run.server_kwh.value == pytest.approx(10.2 * 0.76 * 100)
    boards = energy(800, "H100 SXM", fraction=1.0, server=1.0, pue=1.0)
    assert boards.facility_kwh.value == boards.gpu_kwh.value == pytest.approx(560)
    assert boards.facility_kwh.low == boards.facility_kwh.high == boards.facility_kwh.value


def test_u52_every_factor_is_visible_and_can_be_replaced():
    text = str(energy(800, "H100 SXM", pue=1.25, region="FRA"))
    for part in (
        "700 W",
        "drawn 0.76 [0.5, 1]",
        "1.821 (DGX H100 10.2 kW)",
        "PUE 1.25 (given)",
        "56.039 g/kWh",
    ):
        assert part in text
    changed = energy(800, "H100 SXM", fraction=0.6, server=1.5, pue=1.1, region=100)
    assert changed.facility_kwh.value == pytest.approx(800 * 0.7 * 0.6 * 1.5 * 1.1)
    assert changed.co2_kg.value == pytest.approx(changed.facility_kwh.value / 10)
    assert changed.facility_kwh.low == changed.facility_kwh.high == changed.facility_kwh.value


def test_u52_pue_acts_on_energy_and_is_never_silently_one():
    default = energy(800, "H100 SXM")
    assert default.factors.pue.value == 1.25 and "assumed" in str(default.factors.pue)
    assert default.facility_kwh.value == pytest.approx(1.25 * default.server_kwh.value)
    assert default.facility_kwh.low < energy(800, "H100 SXM", pue=1.08).facility_kwh.value
    with pytest.raises(DataError, match="from 1 to about 2"):
        energy(800, "H100 SXM", pue=0.8)
    with pytest.raises(DataError, match="one of aws, azure, google"):
        energy(800, "H100 SXM", pue="lambda")


def test_u52_a_missing_counter_is_not_zero():
    with pytest.raises(DataError, match="missing counter"):
        energy(800, "H100 SXM", measured_gpu_kwh=0)
    measured = energy(800, "H100 SXM", measured_gpu_kwh=400.0, pue=1.25)
    assert measured.gpu_kwh.value == pytest.approx(400)
    assert measured.facility_kwh.value == pytest.approx(400 * 10.2 / 5.6 * 1.25)


def test_no_region_means_unknown_co2():
    run = energy(800, "H100 SXM")
    assert run.co2_kg is None
    assert "unknown without a region" in str(run)
    assert run.to_dict()["co2_kg"] is None


def test_bloom():
    """1,082,990 A100 hours: 433,196 kWh of boards at their rating, 24.7 t at 57 g/kWh (arXiv 2211.02001).

    With what the machine drew beside them, 256,646 kWh, it is 690 MWh: the servers of the estimate.
    """
    boards = energy(1_082_990, "A100 80GB SXM", fraction=1, server=1, pue=1, region="jean-zay-2022")
    assert boards.facility_kwh.value == pytest.approx(433_196)
    assert boards.co2_kg.value == pytest.approx(24_690, rel=1e-3)
    run = energy(1_082_990, "A100 80GB SXM", pue="jean-zay", region="jean-zay-2022")
    reported = 433_196 + 256_646
    assert run.server_kwh.low < reported < run.server_kwh.high
    assert run.server_kwh.value == pytest.approx(reported, rel=0.04)


def test_gpt3():
    """10,000 V100 for 14.8 days at 330 W a GPU with its host, PUE 1.10: 1,287 MWh, 552 t (arXiv 2104.10350)."""
    hours = 10_000 * 14.8 * 24
    measured = energy(hours, "V100-32GB-SXM2", fraction=0.33 / 0.3 / 2, server=2, pue=1.10, region=429)
    assert measured.facility_kwh.value == pytest.approx(1287e3, rel=3e-3)
    assert measured.co2_kg.value == pytest.approx(552.1e3, rel=3e-3)
    # From the rating of the GPU alone, with the region and the PUE given.
    run = energy(hours, "V100-32GB-SXM2", pue=1.10, region="us-mix-2020")
    assert run.facility_kwh.low < 1287e3 < run.facility_kwh.high
    assert run.co2_kg.low < 552.1e3 < run.co2_kg.high


def test_granite_counts_boards_and_pue():
    """Granite-3.0-8B: 832,102 H100 hours, 757.0 MWh, 295.2 t at PUE 1.3 and 390 g/kWh: no servers in it."""
    run = energy(832_102, "H100 SXM", fraction=1, server=1, pue=1.3, region=390)
    assert run.facility_kwh.value == pytest.approx(757.0e3, rel=1e-3)
    assert run.co2_kg.value == pytest.approx(295.2e3, rel=1e-3)


def test_regions_of_every_kind():
    assert grid_intensity("France") == grid_intensity("fra")
    assert grid_intensity("US-CA") == grid_intensity("california")
    assert grid_intensity("us-central1") == grid_intensity("gcp:us-central1")
    assert grid_intensity("us-east1") != grid_intensity("us-east-1"), "one of Google's, one of Amazon's"
    assert grid_intensity("aws:us-east-1").g_per_kwh == grid_intensity("gcp:us-east4").g_per_kwh
    assert "as gcp:us-east4" in grid_intensity("aws:us-east-1").source
    assert grid_intensity(42.5).g_per_kwh == 42.5
    assert grid_intensity(0).g_per_kwh == 0


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("US", "USA"), ("fr", "FRA"), ("SE", "SWE"), ("CN", "CHN"), ("UK", "GBR"), ("Viet Nam", "VNM"), ("TX", "US-TX"),
        ("us-east-1", "aws:us-east-1"), ("us-east-1a", "aws:us-east-1"), ("AWS us-east-1", "aws:us-east-1"),
        ("europe-west4", "gcp:europe-west4"), ("us-central1-a", "gcp:us-central1"), ("google/us-east1", "gcp:us-east1"),
        ("eastus", "azure:eastus"), ("East US 2", "azure:eastus2"), ("Azure Sweden Central", "azure:swedencentral"),
        ("eu-south-2", "aws:eu-south-2"), ("Republic of Türkiye", "TUR"),
    ],
)  # fmt: skip
def test_regions_as_people_write_them(written, key):
    assert grid_intensity(written) == grid_intensity(key)
    assert grid_intensity(written).region == key


@pytest.mark.parametrize(
    ("written", "words", "first"),
    [
        ("DE", r"DEU \(Germany\) or US-DE \(Delaware\)", "DEU"),
        ("IN", r"IND \(India\) or US-IN \(Indiana\)", "IND"),
        ("CA", r"CAN \(Canada\) or US-CA \(California\)", "CAN"),
        ("DE-BY", "of Germany only the whole is known, DEU", "DEU"),
        ("CA-ON", "of Canada only the whole is known, CAN", "CAN"),
        ("US-XX", "the USA have the states US-AL", "US-AL"),
        ("EU", "give a country", None),
        ("aws:us-central1", "not known", "gcp:us-central1"),
        ("westus3", "did you mean azure:westus", "azure:westus"),
    ],
)
def test_regions_that_leave_something_open_are_refused(written, words, first):
    with pytest.raises(UnknownRegion, match=words) as caught:
        grid_intensity(written)
    assert caught.value.suggestions[:1] == (() if first is None else (first,))


def test_every_spelling_is_one_of_a_row_and_codes_are_whole():
    """Each country has its two letters; no spelling hides another region."""
    countries = {row["region"] for row in read_table("grid_intensity.csv") if row["kind"] == "country"}
    spellings = read_table("region_spellings.csv")
    assert {row["region"] for row in spellings} <= countries
    assert {
        row["region"] for row in spellings if len(row["spelling"]) == 2 and row["source"].startswith("ISO")
    } == countries
    for row in spellings:
        try:
            assert grid_intensity(row["spelling"]).region == row["region"]
        except UnknownRegion as error:
            assert row["region"] in error.suggestions and f"US-{row['spelling']}" in regions()


@pytest.mark.parametrize("written", [400, 400.0, "400", "400 g/kWh", "0.4 kg CO2/kWh", "400 gCO2eq/kWh"])
def test_grams_of_ones_own(written):
    assert grid_intensity(written).g_per_kwh == pytest.approx(400)


@pytest.mark.parametrize("wrong", [None, True, [], b"FRA", math.nan, math.inf, -1, "", "4,0"])
def test_what_is_no_region_is_refused(wrong):
    with pytest.raises(DataError, match="region"):
        grid_intensity(wrong)


def test_unknown_regions_are_refused_with_names():
    with pytest.raises(UnknownRegion, match=r"FRA \(France\)") as caught:
        grid_intensity("Frnce")
    assert caught.value.suggestions[0] == "FRA"
    with pytest.raises(UnknownRegion, match=r"GEO .* or US-GA"):
        grid_intensity("Georgia")
    with pytest.raises(UnknownRegion, match="aws:us-east-1"):
        energy(1, "H100 SXM", region="us-east-9")
    with pytest.raises(UnknownRegion, match="You can also give grams"):
        grid_intensity("the moon")
    with pytest.raises(DataError, match=r"0\.4 kg/kWh are 400 g/kWh"):
        grid_intensity(0.4)


def test_every_row_of_the_grid_table():
    """Plausible, dated, named once, with a source; what points elsewhere points at a figure."""
    rows = {row["region"]: row for row in read_table("grid_intensity.csv")}
    assert len(rows) == len(read_table("grid_intensity.csv")) == len(regions())
    for key, row in rows.items():
        grid = grid_intensity(key)
        assert 2 <= grid.g_per_kwh <= 1400, key
        assert 2018 <= grid.year <= 2025
        assert grid.basis == (
            "lifecycle" if len(grid.region) == 3 or "Our World" in grid.source else "generation"
        )
        assert row["source"] and row["name"]
        assert bool(row["same_as"]) != bool(row["g_per_kwh"])
        assert not row["same_as"] or not rows[row["same_as"]]["same_as"]
        assert row["kind"] in ("country", "state", "cloud", "published")


def test_every_gpu_has_a_power_or_says_why_not():
    for name in gpus():
        part = gpu(name)
        assert (part.tdp_w or 0) <= MOST_WATTS / 3
        if part.tdp_w is None and part.measured_power_w is None:
            assert energy_factors(name).watts is None
            with pytest.raises(DataError, match=r"not published.*watts=") as caught:
                energy(1, name)
            assert name in str(caught.value)
            assert energy_factors(name, watts="200").kw[0] == pytest.approx(0.2 * 0.76)
        else:
            board, server, facility = energy_factors(name).kw
            assert 0 < board < server < facility
    for wrong in (0, 10_200, 0.7, "much", True, math.nan):
        with pytest.raises(DataError, match="watts"):
            energy_factors("TPU v5e", watts=wrong)
    mean = energy_factors("TPU-v4")
    assert mean.drawn.value == 1.0, "a mean that was measured is not reduced again"
    with pytest.raises(UnknownGPU):
        energy(1, "H1000")


def test_server_table_matches_the_gpu_table():
    for row in read_table("server_power.csv"):
        factor = server_factor(gpu(row["gpu"]))
        assert 1.2 < factor.value < 2.1 and row["server"] in factor.source
    assert "assumed" in server_factor(gpu("L40S")).source
    assert server_factor(gpu("V100-32GB-SXM2")).low < server_factor(gpu("V100-32GB-SXM2")).high


def test_pue_table():
    for row in read_table("pue.csv"):
        assert 1 <= float(row["pue"]) <= 1.6 and row["source"]
        assert pue_factor(row["operator"]).value == float(row["pue"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"fraction": 76}, "76% is 0.76"),
        ({"fraction": 0}, "between 0 and 1"),
        ({"server": 0.9}, "at least 1"),
        ({"pue": 15.4}, "facility over server"),
        ({"gpu_hours": -1}, "gpu_hours must be positive"),
        ({"gpu_hours": float("nan")}, "gpu_hours must be positive"),
    ],
)
def test_bad_factors_are_refused(change, match):
    with pytest.raises(DataError, match=match):
        energy(**{"gpu_hours": 1.0, "gpu": "H100 SXM", **change})


def test_factors_are_drawn_over_their_range():
    factor = Factor("share", 0.76, 0.5, 1.0, "", (0.05, 1.0))
    draws = factor.sample(np.random.default_rng(1), 20_000)
    assert np.median(draws) == pytest.approx(0.76, abs=0.01)
    assert np.quantile(draws, 0.05) == pytest.approx(0.5, abs=0.02)
    assert draws.max() <= 1.0
    assert set(Factor("g", 1.1, 1.1, 1.1, "").sample(np.random.default_rng(0), 5)) == {1.1}


@settings(max_examples=40, deadline=None)
@given(
    hours=st.floats(1, 1e7),
    pue=st.floats(1.01, 2.5),
    grid=st.floats(2, 1500),
    name=st.sampled_from(["H100 SXM", "A100 80GB SXM", "L40S", "MI300X"]),
)
def test_energy_rises_with_hours_pue_and_grid(hours, pue, grid, name):
    run = energy(hours, name, pue=pue, region=grid)
    for estimate in (run.gpu_kwh, run.server_kwh, run.facility_kwh, run.co2_kg):
        assert estimate.low <= estimate.value <= estimate.high
    assert run.gpu_kwh.value < run.server_kwh.value < run.facility_kwh.value
    assert energy(2 * hours, name, pue=pue).facility_kwh.value == pytest.approx(2 * run.facility_kwh.value)
    assert energy(hours, name, pue=pue + 0.1).facility_kwh.value > run.facility_kwh.value
    assert energy(hours, name, pue=pue, region=grid + 1).co2_kg.value > run.co2_kg.value
    # The boards do not know the building.
    assert energy(hours, name, pue=pue + 0.1).gpu_kwh.value == run.gpu_kwh.value
