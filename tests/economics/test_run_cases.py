"""Faults people met when they costed a run, and everything they may write or get wrong."""

from __future__ import annotations

import pytest

from economics import cost, energy, fixed_price, mfu_model, prices
from economics.errors import DtypeError, PriceError, StalePriceWarning, UnknownGPU
from economics.overheads import NO_OVERHEADS, Overheads, read_overheads
from economics.utilisation import MfuError, MfuWarning
from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.flops import flops_per_token

#: One A100 node with everything known.
KNOWN = {"N": 1e9, "D": 20e9, "gpu": "A100 SXM 80GB", "n_gpus": 8, "mfu": 0.4, "price": 1.79}
DAY = "2026-10-10"


def test_a_market_without_quotes_says_what_to_do():
    with pytest.raises(PriceError, match=r"no quote for GB200.*price=\.\.\. in cost"):
        cost(N="7B", D="1T", gpu="GB200", n_gpus=64, market="spot", as_of=DAY)
    assert cost(N="7B", D="1T", gpu="GB200", n_gpus=64, market="spot", price=3.0).plan.preempted > 0


@pytest.mark.parametrize(
    ("written", "meant"),
    [({"N": "1B"}, {"N": 1e9}), ({"D": "20B"}, {"D": 20e9}), ({"mfu": "40%"}, {"mfu": 0.4}),
     ({"price": "$1.79"}, {"price": 1.79}), ({"checkpoint_every": "30 min"}, {"checkpoint_every": 0.5}),
     ({"n_gpus": "8"}, {"n_gpus": 8}), ({"overheads": {"evaluation": "5%"}}, {"overheads": {"evaluation": 0.05}})],
)  # fmt: skip
def test_reads_what_people_write(written, meant):
    assert cost(**{**KNOWN, **written}).usd == cost(**{**KNOWN, **meant}).usd


def test_u40_a_mixture_is_computed_by_its_active_parameters():
    """marin #4447: 131B in memory, 16B a token, 1.02T tokens: 9.8e22 FLOPs and not 8.0e23."""
    run = cost(N="131B", N_active="16B", D="1.02T", gpu="H100 SXM", n_gpus=256, mfu="40%", price=2)
    assert run.plan.flops == pytest.approx(9.792e22)
    assert (run.plan.params, run.plan.active) == (131e9, 16e9)
    assert (
        run.plan.overheads.stored_gb(131e9, 1.02e12) > 3 * 131 * 14
    )  # memory and checkpoints hold all of it
    shaped = cost(arch="mixtral-8x7b", D="1T", gpu="H100 SXM", n_gpus=256, mfu="40%", price=2)
    assert shaped.plan.active == 12_879_925_248 < shaped.plan.params == 46_702_792_704
    with pytest.raises(DataError, match="swapped"):
        cost(N="16B", N_active="131B", D="1T", gpu="H100 SXM", n_gpus=8, price=2)


def test_u42_the_peak_is_that_of_the_named_part_and_dtype():
    run = cost(**KNOWN)
    assert run.plan.peak == 312e12 and run.plan.dtype == "bf16"
    assert cost(**{**KNOWN, "gpu": "V100-32GB-SXM2"}).plan.dtype == "fp16"
    with pytest.raises(DtypeError):
        cost(**{**KNOWN, "gpu": "V100-32GB-SXM2"}, dtype="bf16")
    with pytest.raises(UnknownGPU, match="H100-80GB-SXM"):
        cost(**{**KNOWN, "gpu": "H1000"})


def test_u44_u45_impossible_utilisations():
    """40 was read as 4000%: 2.67 h instead of 267."""
    with pytest.raises(MfuError, match=r"write 0\.4 or '40%'"):
        cost(**{**KNOWN, "mfu": 40})
    with pytest.raises(MfuError):
        cost(**{**KNOWN, "mfu": "338%"})
    with pytest.warns(MfuWarning):
        cost(**{**KNOWN, "mfu": 0.95})
    missing = cost(**{**KNOWN, "mfu": "-100.00%"})  # nanoGPT's mark for "no figure yet"
    assert missing.usd == cost(**{**KNOWN, "mfu": None}).usd


def test_u46_u47_the_convention_is_named_and_the_default_is_a_range():
    arch = Arch(layers=32, d_model=4096, heads=32, kv_heads=8, d_ff=14336, vocab=128256, tied=False)
    common = {"arch": arch, "D": 1e12, "gpu": "H100 SXM", "n_gpus": 64, "price": 2.0, "seq_len": 8192}
    assert cost(**common, mfu="40%").plan.flops == pytest.approx(6 * arch.params_total * 1e12)
    model = cost(**common)
    assert model.plan.convention == "palm"
    assert model.plan.flops == pytest.approx(flops_per_token(arch, "palm", seq_len=8192) * 1e12)
    assert model.plan.mfu.quantile(0.1) < model.plan.mfu.quantile(0.9) < 1.0
    causal = cost(**common, mfu="40%", convention="causal")
    assert causal.plan.flops == pytest.approx(flops_per_token(arch, "causal", seq_len=8192) * 1e12)
    # 37B active, 14.8T tokens, 2.79M H800 hours: 21.6% of the fp8 peak.
    v3 = cost(N=671e9, N_active=37e9, D=14.8e12, gpu="H100 PCIe", n_gpus=2048, price=2, mfu=0.216, dtype="fp8",
              mfu_kind="run", overheads="none")  # fmt: skip
    assert v3.plan.peak == pytest.approx(1.513e15, rel=1e-3)
    assert v3.gpu_hours.value == pytest.approx(2.79e6, rel=0.01)


def test_u48_the_age_of_a_price_is_told_and_widens():
    with pytest.warns(StalePriceWarning):
        old = cost(**{**KNOWN, "price": None}, as_of="2028-01-01")
    fresh = cost(**{**KNOWN, "price": None}, as_of=DAY)
    assert old.usd.high / old.usd.low > fresh.usd.high / fresh.usd.low
    assert any(f.code == "price_age" for f in old.findings)


def test_u49_a_price_of_a_node_is_doubted():
    run = cost(**{**KNOWN, "price": 28.66})
    (finding,) = [f for f in run.findings if f.code == "price_per_node"]
    assert finding.severity == "warning" and "$3.583 per GPU-hour" in finding.message
    assert finding.evidence["of_8"] == pytest.approx(3.5825)


@pytest.mark.filterwarnings("ignore::economics.StalePriceWarning")
def test_defaults_of_storage_and_egress_have_a_day_and_a_source():
    """No date, no fact: a list price says when it was read, in words, in plain types, and when it has grown old."""
    run = cost(**KNOWN, as_of=DAY)
    assert "AWS S3 Standard, us-east-1, first 50 TB, 2026-09-07" in repr(run)
    listed = run.to_dict()["overheads"]["listed"]
    assert set(listed) == {"storage", "egress"}
    assert all(
        entry["date"] == "2026-09-07" and "aws.amazon.com" in entry["source"] for entry in listed.values()
    )
    own = cost(**KNOWN, as_of=DAY, overheads={"storage_usd_gb_month": 0.02, "egress_usd_gb": "0.12"})
    assert own.to_dict()["overheads"]["listed"] == {} and "$0.02 per GB-month (given)" in " ".join(
        repr(own).split()
    )
    codes = [
        {f.code for f in cost(**KNOWN | {"price": None}, as_of=day).findings} for day in (DAY, "2027-06-01")
    ]
    assert ["storage_price_age" in found for found in codes] == [False, True]


def test_u52_overheads_are_stated_and_never_zero_by_accident():
    run = cost(**KNOWN)
    assert all(run.breakdown[name].value > 0 for name in ("evaluation", "start-up", "storage", "egress"))
    assert any(f.code == "final_run_only" for f in run.findings)
    assert "assumed" in repr(run)
    bare = cost(**KNOWN, overheads="none")
    assert all(bare.breakdown[name].value == 0 for name in ("evaluation", "start-up", "storage", "egress"))
    assert bare.usd.value < run.usd.value
    meter = cost(
        N=1e9, D=20e9, gpu="H100 SXM", n_gpus=8, mfu=0.4, price=2, pue=1.25, region="gcp:us-central1"
    )
    assert meter.energy_kwh.value == pytest.approx(
        energy(meter.gpu_hours.value, "H100 SXM", pue=1.25).facility_kwh.value, rel=0.01
    )
    assert meter.energy_kwh.gpu.value < meter.energy_kwh.server.value < meter.energy_kwh.facility.value
    assert meter.energy_kwh.facility.value == meter.energy_kwh.value


def test_overheads_are_read_strictly():
    assert read_overheads(None) == Overheads()
    assert read_overheads("none") is NO_OVERHEADS
    assert read_overheads(None, vocab=128256).bytes_per_token == 4
    for bad, match in (
        ({"evalution": 0.1}, "no overhead 'evalution'"),
        ({"evaluation": 5}, "write '5%'"),
        ({"storage_usd_gb_month": -1}, "cannot be"),
        ({"people_hours": 5}, "go together"),
        ("nothing", "'default', 'none'"),
        ({"start_hours": "soon"}, "must be a number"),
    ):
        with pytest.raises(DataError, match=match):
            read_overheads(bad)


def test_memory_says_what_would_fit():
    run = cost(N="70B", D="1T", gpu="A100 SXM 80GB", n_gpus=8, price=1.79)
    (finding,) = [f for f in run.findings if f.code == "does_not_fit"]
    assert finding.severity == "warning" and "16 GPUs" in finding.message
    assert run.memory is not None and not run.memory.fits
    assert cost(**KNOWN).memory.fits
    mixture = cost(N="1T", N_active="32B", D="1T", gpu="H100 SXM", n_gpus=64, price=2)
    assert any(f.code == "does_not_fit" for f in mixture.findings)


def test_gpus_that_nobody_chose():
    run = cost(N="7B", D="1T", gpu="H100 SXM", price=2)
    assert run.plan.n_gpus in (64, 128) and 200 < run.wall_hours.value < 1000
    assert any(f.code == "n_gpus_chosen" for f in run.findings)
    assert cost(N="10M", D="200M", gpu="H100 SXM", price=2).plan.n_gpus == 1


def test_every_way_to_give_a_utilisation():
    model = mfu_model()
    measured = model.update(200e3, params=1e9, gpu="A100 SXM 80GB", n_gpus=8, seq_len=2048)
    mine = cost(**{**KNOWN, "mfu": measured})
    plain = cost(**{**KNOWN, "mfu": None})
    assert mine.usd.high / mine.usd.low < plain.usd.high / plain.usd.low
    estimate = model.predict(1e9, "A100 SXM 80GB", 8, 2048, kind="run")
    assert cost(**{**KNOWN, "mfu": estimate}).usd == plain.usd
    spread = cost(**{**KNOWN, "mfu": ("35%", 0.45)})
    assert spread.plan.mfu.quantile(0.1) == pytest.approx(0.35)
    assert spread.plan.mfu.quantile(0.9) == pytest.approx(0.45)
    with pytest.raises(DataError, match="predict again"):
        cost(**{**KNOWN, "gpu": "H100 SXM", "mfu": estimate})
    with pytest.raises(DataError, match="10th and 90th"):
        cost(**{**KNOWN, "mfu": (0.5, 0.4)})


def test_every_way_to_give_a_price():
    quote = prices("A100 SXM 80GB", as_of=DAY)
    assert cost(**{**KNOWN, "price": quote}).usd == cost(**{**KNOWN, "price": None}, as_of=DAY).usd
    assert cost(**{**KNOWN, "price": fixed_price(1.79)}).usd == cost(**KNOWN).usd
    lambda_ = cost(**{**KNOWN, "price": None}, provider="lambda", as_of=DAY)
    assert {p.provider for p in lambda_.plan.price.providers} == {"lambda"}
    with pytest.raises(DataError, match="quote for A100"):
        cost(**{**KNOWN, "gpu": "H100 SXM", "price": quote})


@pytest.mark.parametrize(
    ("change", "match"),
    [({"N": None}, "give N"), ({"D": None}, "give D"), ({"gpu": None}, "give gpu"), ({"N": -1}, "N must be positive"),
     ({"D": "lots"}, "not a number"), ({"n_gpus": 0}, "n_gpus must be"), ({"n_gpus": 2.5}, "n_gpus must be"),
     ({"draws": 5}, "draws must be"), ({"price": -1}, "positive number"), ({"checkpoint_every": 0}, "checkpoint_every"),
     ({"checkpoint_every": "often"}, "checkpoint_every"), ({"convention": "8N"}, "6N, palm"),
     ({"convention": "matmul"}, "give arch"), ({"spot": {"mtbf": 3}}, "mtbf"), ({"energy": {"PUE": 1.1}}, "PUE"),
     ({"arch": "llama-2-7b"}, "contradict"), ({"arch": 7}, "arch must be"), ({"region": "Frnce"}, "France"),
     ({"mfu_kind": "log"}, "mfu_kind"), ({"market": "serverless"}, "no market"), ({"seq_len": 0}, "seq_len"),
     ({"arch": "llama-2-7b", "N": None, "N_active": 1e9}, "follows from arch")],
)  # fmt: skip
def test_bad_input_is_a_clear_error(change, match):
    with pytest.raises(DataError, match=match):
        cost(**{**KNOWN, **change})
