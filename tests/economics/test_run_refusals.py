"""Arguments of a cost that contradict each other, that no run has, or that are spelt in another way."""

from __future__ import annotations

import pytest

from economics import GPU, PriceError, add_price, cost, gpu, inference_cost, memory_fit, prices
from economics.price_book import shipped_book
from scaling.errors import DataError
from scaling.published_archs import arch

DAY = "2026-10-10"
RUN = {"N": "7B", "D": "140B", "n_gpus": 64, "as_of": DAY, "draws": 500}


def _codes(run: object) -> set[str]:
    return {f.code for f in run.findings}


# --- prices and what they were given for ----------------------------------------------------------


def test_a_price_of_one_part_on_another_is_told():
    """An H100 at the A100's $1.79 is no comparison of parts."""
    a100 = cost(**RUN, gpu="A100 SXM 80GB", price=1.79)
    kept = a100.what_if(gpu="H100 SXM")
    (finding,) = [f for f in kept.findings if f.code == "kept_for_all"]
    assert finding.severity == "warning"
    assert "price=1.79 was given for A100-80GB-SXM on-demand" in finding.message
    assert "kept_for_all" in _codes(a100.compare(["H100 SXM"]))
    assert "kept_for_all" in _codes(a100.what_if(market="spot"))
    for fair in (
        a100.what_if(gpu="H100 SXM", price=None),
        a100.what_if(n_gpus=128),
        a100.compare(n_gpus=[64, 128]),
        a100.compare(["H100 SXM"], price=None),
    ):
        assert "kept_for_all" not in _codes(fair)
    market = a100.what_if(gpu="H100 SXM", price=None).plan.price.median
    assert market == pytest.approx(prices("H100 SXM", as_of=DAY).median)


def test_a_quote_of_another_market_is_refused():
    on_demand = prices("A100 SXM 80GB", as_of=DAY)
    with pytest.raises(DataError, match="price is a quote of the on-demand market, market='spot'"):
        cost(**RUN, gpu="A100 SXM 80GB", price=on_demand, market="spot")
    run = cost(**RUN, gpu="A100 SXM 80GB", price=on_demand)
    with pytest.raises(DataError, match="contradict"):
        run.what_if(market="spot")
    assert run.what_if(market="spot", price=None).usd.value != run.usd.value
    spot = cost(**RUN, gpu="A100 SXM 80GB", price=prices("A100 SXM 80GB", "spot", as_of=DAY))
    assert spot.plan.market == "spot"
    with pytest.raises(DataError, match="contradict"):
        spot.what_if(market="on-demand")


# --- spelling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"), [("fp8", "FP8"), ("fp8", "float8"), ("bf16", "BF16"), ("bf16", None)]
)
def test_the_spelling_of_a_dtype_changes_nothing(one, other):
    first, second = (cost(**RUN, gpu="H100 SXM", dtype=d) for d in (one, other))
    assert first.usd == second.usd and first.findings == second.findings
    served, same = (inference_cost("7B", gpu="H100 SXM", price=2.0, dtype=d) for d in (one, other))
    assert served.usd_per_million_tokens == same.usd_per_million_tokens


# --- numbers that no run has ----------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"N": 1e30}, {"N": 0.001}, {"D": 1e30}, {"D": 1e-3}, {"n_gpus": 1e12}])
def test_numbers_that_no_run_has(wrong):
    with pytest.raises(DataError, match=next(iter(wrong))):
        cost(**{**RUN, **wrong}, gpu="H100 SXM", price=2.0)


def test_a_run_without_end_is_printed_in_words():
    hopeless = cost(
        N="70B", D="2T", gpu="H100 SXM", n_gpus=512, market="spot", checkpoint_every=None, as_of=DAY
    )
    text = repr(hopeless)
    assert "never" in text or "million years" in text
    assert max(map(len, text.replace(",", "").split())) < 60


# --- one thing where several are compared ---------------------------------------------------------


def test_one_part_is_a_comparison_of_one():
    run = cost(**RUN, gpu="A100 SXM 80GB")
    assert [r.plan.part.name for r in run.compare("H100 SXM").runs] == ["H100-80GB-SXM"]
    assert [r.plan.n_gpus for r in run.compare(n_gpus=8).runs] == [8]
    for nothing in ({"gpus": []}, {"n_gpus": []}, {"gpus": 5}):
        with pytest.raises(DataError, match="one or more"):
            run.compare(**nothing)
    (failure,) = run.compare([5]).failures
    assert "must be a name" in failure[1]


# --- things of another kind -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"provider": 5}, "provider must be a name"),
        ({"gpu": 5}, "gpu must be a name"),
        ({"book": 5}, "book must be a PriceBook"),
        ({"book": "no/such/book.csv"}, "no price book is at"),
        ({"energy": 5}, "energy must be a mapping"),
        ({"energy": {"fraction": "much"}}, "fraction"),
        ({"energy": {"server": "big"}}, "server"),
        ({"energy": {"pue": 1.2}, "pue": 1.3}, "give one of them"),
        ({"pue": [1.2]}, "pue must be a number"),
        ({"region": [1]}, "region must be a name"),
        ({"spot": 5}, "spot must be a mapping"),
        ({"spot": {"mean_up_hours": "long"}}, "mean_up_hours"),
        ({"spot": {"growth": "fast"}}, "growth"),
        ({"spot": {"growth": -3}}, "growth"),
        ({"spot": False, "market": "spot"}, "contradict"),
        ({"price": "cheap"}, "price is a positive number"),
        ({"dtype": 5}, "dtype"),
        ({"draws": 10**12}, "draws"),
        ({"checkpoint_every": True}, "checkpoint_every"),
        ({"spot": {"restart_hours": True}}, "restart_hours"),
    ],
)
def test_things_of_another_kind_are_refused_by_name(wrong, match):
    with pytest.raises(DataError, match=match):
        cost(**{**RUN, "gpu": "H100 SXM", **wrong})


def test_numbers_as_people_write_them():
    asked = {**RUN, "gpu": "H100 SXM"}
    assert (
        cost(**asked, energy={"fraction": "70%"}).energy_kwh
        == cost(**asked, energy={"fraction": 0.7}).energy_kwh
    )
    assert cost(**asked, price="$2.50/h").usd == cost(**asked, price=2.5).usd
    six, same = (cost(**asked, market="spot", spot={"mean_up_hours": h}) for h in ("6", 6.0))
    assert six.usd == same.usd
    assert cost(**asked, book=shipped_book()).usd == cost(**asked).usd


def test_other_doors_are_kept_as_well():
    run = cost(**RUN, gpu="H100 SXM")
    assert run.usd_quantile("90%") == run.usd_quantile(0.9)
    with pytest.raises(DataError, match="quantile"):
        run.usd_quantile("most")
    with pytest.raises(DataError, match="training must be"):
        inference_cost("7B", gpu="H100 SXM", price=2.0).lifetime_usd("1T", training=5)
    by_name = memory_fit("llama-2-7b", "H100 SXM", micro_batch=1, seq_len=4096)
    assert (
        by_name.total_gb == memory_fit(arch("llama-2-7b"), "H100 SXM", micro_batch=1, seq_len=4096).total_gb
    )
    for shape, part in ((5, "H100 SXM"), ("llama-2-7b", float("inf")), ("llama-2-7b", True)):
        with pytest.raises(DataError):
            memory_fit(shape, part, micro_batch=1, seq_len=4096)
    for fields in ({"memory_gb": True}, {"memory_gb": 80, "matmul_ceiling_tflops": 200}):
        with pytest.raises(DataError):
            GPU("mine", dense_tflops={"bf16": 100}, **fields)
    own = GPU("H100-80GB-SXM", 80, {"bf16": 989.4})
    assert add_price("acme", own, usd_per_gpu_hour=2.0).gpu == "H100-80GB-SXM"
    assert add_price("acme", own, usd_per_gpu_hour=2.0, gpus_per_instance="8").usd_per_instance_hour == 16.0
    for wrong in ({"provider": 5}, {"currency": 5}, {"currency": "EUR", "usd_per_unit": "x"}):
        with pytest.raises(DataError):
            add_price(**{"provider": "acme", "gpu": own, "usd_per_gpu_hour": 2.0, **wrong})


def test_the_driver_of_a_gh200_names_the_memory_of_its_cpu():
    """nvidia-smi: "NVIDIA GH200 120GB" with 97,871 MiB; 120 GB is the LPDDR5X beside it."""
    assert gpu("NVIDIA GH200 120GB").name == "GH200-96GB"


def test_columns_of_a_comparison_keep_apart():
    """5,895,970 GPU-hours and 7.48e+03 MWh were written as 5,895,9707.48e+03."""
    run = cost(N="70B", D="15T", gpu="H100 SXM", n_gpus=16384, as_of=DAY, draws=200)
    lines = repr(run.compare(["H100 SXM", "A100 SXM 80GB"], n_gpus=[64, 16384])).splitlines()
    for line in lines[1:5]:
        hours, energy = line.split()[-2:]
        assert float(hours.replace(",", "")) > 1e6 and float(energy.replace(",", "")) > 1e3, line


@pytest.mark.parametrize("day", ["2026-13-01", "10/10/2026", 5])
def test_a_day_that_is_none_is_refused_with_a_price_too(day):
    with pytest.raises(PriceError, match="as_of must be a day"):
        cost(N="7B", D="2T", gpu="H100 SXM", n_gpus=8, price=2, as_of=day)


def test_a_price_is_of_the_day_that_was_asked_for():
    run = cost(N="7B", D="2T", gpu="H100 SXM", n_gpus=8, price=2, as_of="2025-03-01")
    assert str(run.plan.price.as_of) == "2025-03-01"


def test_what_a_price_leaves_unused_is_named():
    asked = {"N": "7B", "D": "2T", "gpu": "H100 SXM", "n_gpus": 8, "price": 2}
    run = cost(**asked, provider="aws", book="no_such_book.csv")
    assert "price is given, so provider and book are not looked up." in {f.message for f in run.findings}
