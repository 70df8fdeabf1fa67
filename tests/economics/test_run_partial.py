"""What is known is given: a run without published power has no energy, one without a quote has its hours."""

from __future__ import annotations

import json

import pytest

from economics import GPU, NoQuoteError, cost, gpu, gpus
from economics.plots.output import plot_data
from economics.price_doubts import dearest_usd
from economics.price_rows import MARKETS
from scaling.errors import DataError

DAY = "2026-10-10"
RUN = {"N": "7B", "D": "2T", "n_gpus": 64, "as_of": DAY, "draws": 200}


@pytest.mark.parametrize("part", ["TPU v5e", GPU("mine", 24, {"bf16": 100.0})], ids=["table", "own"])
def test_without_published_power_everything_but_energy_is_given(part):
    run = cost(**RUN, gpu=part, price=1.2)
    assert run.usd.value > 0 and run.gpu_hours.value > 0 and run.wall_hours.value > 0
    assert run.energy_kwh is None and run.co2_kg is None
    (finding,) = [f for f in run.findings if f.code == "power_unknown"]
    assert "not published" in finding.message and "energy={'watts': ...}" in finding.message
    assert "region_unknown" not in {f.code for f in run.findings}, "a region would not help"
    for of in ("energy_kwh", "co2_kg"):
        with pytest.raises(DataError, match="not published"):
            run.sensitivity(of)
        with pytest.raises(DataError, match="not published"):
            plot_data(run, "tornado", of=of)
    assert run.sensitivity().top == "MFU" and len(plot_data(run, "tornado"))
    plain = json.loads(json.dumps(run.to_dict()))
    assert plain["energy_kwh"] is plain["co2_kg"] is None and plain["usd"]["value"] == run.usd.value
    assert "unknown" in repr(run) and "unknown" in run._repr_html_()


def test_a_change_to_and_from_unknown_power_has_no_difference_of_energy():
    known = cost(**RUN, gpu="H100 SXM", price=2.0)
    for change in (known.what_if(gpu="TPU v5e"), known.what_if(gpu="TPU v5e").what_if(gpu="H100 SXM")):
        assert change.difference["energy_kwh"] is change.difference["co2_kg"] is None
        assert change.difference["usd"].value != 0
        assert json.loads(json.dumps(change.to_dict()))["difference"]["energy_kwh"] is None
        assert "unknown" in repr(change)
    beside = known.compare(["TPU v5e", "H100 SXM"])
    assert len(beside) == 2 and "unknown" in repr(beside) and len(plot_data(beside, "pareto")) == 2


def test_power_of_ones_own_is_that_of_the_part():
    given = cost(**RUN, gpu="TPU v5e", price=1.2, energy={"watts": "200"})
    assert given.energy_kwh == cost(**RUN, gpu=gpu("TPU v5e", tdp_w=200), price=1.2).energy_kwh
    half = cost(**RUN, gpu="H100 SXM", energy={"watts": 350}).energy_kwh.gpu.value
    assert half == pytest.approx(cost(**RUN, gpu="H100 SXM").energy_kwh.gpu.value / 2)


@pytest.mark.filterwarnings("ignore::economics.StalePriceWarning")
@pytest.mark.parametrize("market", MARKETS)
def test_every_part_on_every_market_is_answered_as_far_as_it_is_known(market):
    """48 parts, with a price and by the book: hours always; dollars unless no quote exists; kWh unless no power."""
    for name in gpus():
        run = cost(**RUN, gpu=name, market=market, price=dearest_usd(gpu(name)))
        assert run.usd.value > 0 and repr(run)
        assert (run.energy_kwh is None) == (gpu(name).tdp_w is gpu(name).measured_power_w is None)
        try:
            assert cost(**RUN, gpu=name, market=market).usd.value > 0
        except NoQuoteError as error:
            assert error.known["gpu_hours"].value == pytest.approx(run.gpu_hours.value)
            assert ("energy_kwh" in error.known) == (run.energy_kwh is not None)
            assert f"no quote for {name}" in str(error) and "GPU-hours" in str(error)
