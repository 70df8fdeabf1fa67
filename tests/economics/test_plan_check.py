"""A plan against itself: one test for each contradiction of the plan this project was handed, and other plans."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from economics import check_plan, prices
from economics.hardware import gpu
from scaling.flops import flops_per_token
from scaling.shapes import solve_shape

FOLDER = Path(__file__).parents[2] / "experiments" / "X1-pretraining"
WRITTEN = FOLDER / "plan-as-written.toml"
CORRECTED = FOLDER / "plan.toml"


@pytest.fixture(scope="module")
def written():
    return check_plan(WRITTEN)


def as_written(**sections):
    """The plan as written, with keys of its sections replaced."""
    plan = tomllib.loads(WRITTEN.read_text(encoding="utf-8"))
    for name, changes in sections.items():
        plan[name] = {**plan.get(name, {}), **changes} if isinstance(changes, dict) else changes
    return plan


def one(result, code):
    found = [f for f in result if f.code == code]
    assert len(found) == 1, f"{code}: {found}"
    return found[0]


def codes(result, severity=None):
    return {f.code for f in result if severity in (None, f.severity)}


# --- the plan as written: every bullet of its review ---------------------------------------------------


def test_rule_is_inverted(written):
    finding = one(written, "rule_inverted")
    assert finding.severity == "error"
    assert "100B parameters" in finding.message and "D = 20 N" in finding.message


def test_twenty_is_a_rule_of_thumb(written):
    """The 240-point law gives 25.6 tokens per parameter at 1e8, 22.6 at 1e9, 20.0 at 1e10."""
    finding = one(written, "rule_of_thumb")
    assert "25.6 at 100M" in finding.message
    assert "22.6 at 1B" in finding.message
    assert "20.0 at 10B" in finding.message


def test_fifty_million_are_240(written):
    finding = one(written, "params_disagree")
    assert finding.severity == "error"
    assert finding.evidence["total"] == pytest.approx(240.0e6, rel=5e-4)
    assert "240M" in finding.message and "4.8 times" in finding.message


def test_with_the_vocabulary_of_llama_3_they_are_300():
    finding = one(check_plan(as_written(model={"vocab": 128256})), "params_disagree")
    assert finding.evidence["total"] == pytest.approx(299.9e6, rel=5e-4)


def test_a_real_fifty_million():
    """8 x 512, 8 heads, 2 KV heads, FFN 1408 = 48.3M, of which 53% are embeddings."""
    real = {"layers": 8, "d_model": 512, "heads": 8, "kv_heads": 2, "d_ff": 1408}
    result = check_plan(as_written(model=real))
    assert "params_disagree" not in codes(result)
    assert one(result, "embedding_share").evidence["share"] == pytest.approx(0.533, abs=0.002)
    assert "53% of the 48.3M" in one(result, "embedding_share").message
    speed = one(result, "speed")
    assert speed.evidence["mfu"] == pytest.approx(0.545, abs=0.0005)
    assert speed.evidence["mfu"] > speed.evidence["high"]  # above the 80% interval of set-ups like it
    assert speed.evidence["mfu_6n"] == pytest.approx(0.464, abs=0.0005)


def test_five_billion_tokens_in_a_day(written):
    finding = one(written, "time_disagrees")
    assert finding.severity == "error"
    assert finding.evidence["needed_hours"] == pytest.approx(2.78, abs=0.005)
    assert finding.evidence["implied_tokens_per_s"] == pytest.approx(57_870, abs=1)
    assert "2.78 h, not 24 h" in finding.message and "57,870 tokens/s" in finding.message


def test_half_a_million_tokens_per_second_cannot_be(written):
    finding = one(written, "mfu_impossible")
    assert finding.evidence["mfu"] == pytest.approx(2.79, abs=0.005)
    assert finding.evidence["mfu_6n"] == pytest.approx(2.31, abs=0.005)
    assert "279.1%" in finding.message and "For the 50M claimed" in finding.message


def test_three_step_rates(written):
    finding = one(written, "step_rates_disagree")
    assert finding.severity == "error"
    assert "3 step rates" in finding.message
    assert "1 steps/s" in finding.message and "30 min are 1,800" in finding.message
    assert sorted(finding.evidence["steps_per_s"]) == pytest.approx([1000 / 1800, 1e5 / 18000, 5e4 / 1800])


def test_fifty_thousand_steps_are_25_billion_tokens(written):
    messages = [f.message for f in written if f.code == "more_steps_than_run"]
    assert any("50,000 steps of 500K tokens are 25B tokens, 5 times" in m for m in messages)


def test_200_gigabytes(written):
    finding = one(written, "stored_size")
    assert finding.evidence["expected_gb"] == [10, 20]
    assert "10 GB in uint16 or 20 GB in uint32" in finding.message


def test_storage_and_egress_are_two_costs(written):
    assert one(written, "two_costs_in_one_line").evidence["line"] == 3


def test_fixed_tokens_and_fixed_compute(written):
    finding = one(written, "sweep_fixed_twice")
    assert finding.severity == "error"
    assert finding.evidence["fixed"] == ["tokens", "compute"]


def test_cost_of_an_incident(written):
    finding = one(written, "formula_units")
    assert finding.severity == "error"
    assert "twice the speed would cost twice as much" in finding.message
    assert "550 x 500K / 500K / 3600 x 1.1 = $0.168" in finding.message


def test_lines_are_47_of_50(written):
    finding = one(written, "lines_do_not_sum")
    assert (finding.evidence["sum"], finding.evidence["budget"]) == (47, 50)
    assert "26 + 3 + 13 + 5 = 47 of 50" in finding.message


def test_on_demand_costs_72_dollars(written):
    assert one(written, "on_demand_over_budget").evidence["usd"] == pytest.approx(72.44, abs=0.005)


def test_rework_uses_up_the_buffer(written):
    """30-minute checkpoints, 3.24 h between preemptions: $4 to $6, 80 to 120% of $5 that also pay for debugging."""
    finding = one(written, "rework_uses_up_buffer")
    assert finding.severity == "error"
    low, high = finding.evidence["usd"]
    assert 4.0 <= low < high <= 6.0
    assert 0.80 <= low / finding.evidence["there"] and high / finding.evidence["there"] <= 1.20
    assert "also there for debugging" in finding.message


def test_three_sizes_at_one_token_count_determine_nothing(written):
    finding = one(written, "sweep_not_identified")
    assert finding.severity == "error"
    assert finding.evidence["rank"] == 3 and finding.evidence["coefficients"] == 5
    assert "D*(1B)" in finding.message and "no degrees of freedom" in finding.message


def test_four_hours_each_are_not_one_token_count(written):
    """Whatever the speeds: with 736k, 479k and 188k tokens/s they are 10.6B, 6.9B and 2.7B."""
    assert one(written, "hours_are_not_tokens").severity == "error"
    speeds = ["736k", "479k", "187.5k"]
    finding = one(check_plan(as_written(sweep={"tokens_per_s": speeds})), "hours_are_not_tokens")
    assert finding.evidence["tokens"] == pytest.approx([10.6e9, 6.9e9, 2.7e9], rel=5e-3)


def test_a_grid_determines_it(written):
    """3 sizes x 5 token counts of 0.1 to 2.5B cost at most $10.3 and give D*(1B) within a factor of 1.45."""
    grid = {"tokens": [float(d) for d in np.geomspace(0.1e9, 2.5e9, 5)], "fixed": []}
    finding = one(check_plan(as_written(sweep=grid)), "sweep")
    assert finding.evidence["rank"] == 5
    assert finding.evidence["factor"] == pytest.approx(1.455, abs=0.005)
    cost = one(check_plan(as_written(sweep=grid)), "sweep_cost").evidence["usd"]
    assert cost <= 10.3
    assert f"${cost:.2f}" in one(written, "sweep_not_identified").message  # proposed with its price
    shared = check_plan(as_written(sweep={**grid, "noise_correlation": 0.5}))
    assert one(shared, "sweep").evidence["factor"] > finding.evidence["factor"]


def test_more_sizes_say_more():
    sizes = [float(n) for n in np.geomspace(5e6, 1e8, 6)]
    tokens = [float(d) for d in np.geomspace(0.1e9, 2.5e9, 4)]
    result = check_plan(as_written(sweep={"params": sizes, "tokens": tokens, "fixed": []}))
    assert one(result, "sweep").evidence["factor"] < 1.4


def test_five_million_with_this_vocabulary_do_not_exist(written):
    finding = one(written, "size_impossible")
    assert finding.evidence["params"] == 5e6
    assert "bounds d_model by 99" in finding.message and "non_embedding" in finding.message


# --- other plans -----------------------------------------------------------------------------------------


def test_the_corrected_plan_passes():
    result = check_plan(CORRECTED)
    assert result.passed, result
    assert not codes(result, "warning")
    assert {"speed", "sweep", "sweep_cost", "preemptions"} <= codes(result)


FAULTY = """
name = "another one"
tokens_rule = "20 tokens per parameter"
[model]
params = "13B"
layers = 32
d_model = 4096
heads = 32
kv_heads = 8
d_ff = 14336
vocab = 128256
tied = false
[data]
tokens = "2T"
unique_tokens = "300B"
stored_gb = 600
stored_bytes_per_token = 2
[run]
gpu = "H100 SXM"
n_gpus = 64
seq_len = 8192
batch_tokens = "4M"
tokens_per_s = "600k"
mfu = "41%"
hours = 700
flops = 3.2e22
market = "on-demand"
usd_per_gpu_hour = 28.0
[[step_rates]]
where = "evaluation"
steps = 1000
hours = 1
[[formulas]]
name = "cost of a day"
formula = "24 h × 64 GPUs × $3.5"
gives = "usd"
[budget]
usd = 120000
[[budget.lines]]
name = "pretraining"
usd = 130000
hours = 600
covers = ["compute"]
"""


def test_another_faulty_plan_is_caught():
    result = check_plan(tomllib.loads(FAULTY))
    assert codes(result, "error") == {
        "params_disagree",  # 8.03B
        "token_width",  # 128,256 in 2 bytes
        "time_disagrees",  # 926 h
        "mfu_disagrees",  # 58%
        "flops_disagree",  # the forward pass alone
        "step_rates_disagree",
        "formula_units",  # hours are left over
        "line_disagrees",  # 600 h x $1,792
        "hours_not_paid",  # 600 of 700
        "over_budget",
    }
    assert codes(result, "warning") == {"many_epochs", "price_unusual"}
    assert "forward pass alone" in one(result, "flops_disagree").message
    assert "Is $28.00 the price of all 64?" not in one(result, "price_unusual").message


def test_spot_without_checkpoints_and_dear_spot():
    plan = tomllib.loads(FAULTY)
    plan["run"] |= {"market": "spot", "usd_per_gpu_hour": 4.0, "on_demand_usd_per_gpu_hour": 3.5}
    result = check_plan(plan)
    assert {"no_checkpoints", "spot_not_cheaper"} <= codes(result, "error")


def test_a_rate_of_preemptions_nobody_stated_is_no_contradiction():
    plan = as_written()
    plan["run"].pop("hours_between_preemptions")
    finding = one(check_plan(plan), "rework_uses_up_buffer")
    assert finding.severity == "warning" and "assumed" in finding.message


def test_a_model_that_does_not_fit():
    plan = tomllib.loads(FAULTY)
    plan["run"] |= {"gpu": "T4", "n_gpus": 1, "dtype": "fp16"}
    assert "memory" in codes(check_plan(plan), "error")


def test_faults_of_shape_and_accelerator_are_findings():
    plan = tomllib.loads(FAULTY)
    plan["model"]["kv_heads"] = 5
    plan["run"]["gpu"] = "H1000"
    assert {"shape_impossible", "gpu_unknown"} <= codes(check_plan(plan), "error")
    plan["run"] |= {"gpu": "V100-32GB-SXM2", "dtype": "bf16"}
    assert "dtype_unknown" in codes(check_plan(plan), "error")


def test_the_other_count_is_told_apart_from_a_wrong_one():
    model = {
        "params": "22.6M",
        "layers": 8,
        "d_model": 512,
        "heads": 8,
        "kv_heads": 2,
        "d_ff": 1408,
        "vocab": 50257,
    }
    finding = one(check_plan({"model": model}), "params_kind")
    assert finding.severity == "warning" and "non_embedding" in finding.message


def test_what_is_missing_is_said():
    result = check_plan({"data": {"tokens": "5B"}, "run": {"hours": 24}})
    assert result.verdict == "nothing checked" and not result.passed
    assert codes(result) == {"nothing_checked"} and not result.errors
    assert str(result).startswith("plan: nothing checked (0 errors, 1 warnings, 0 checks)")
    assert result.to_dict()["verdict"] == "nothing checked" and result.to_dict()["passed"] is False
    assert result.not_checked["tokens, speed and hours"] == ("run.tokens_per_s or run.mfu",)
    assert "not checked, for want of" in str(result)


def test_a_utilisation_stands_for_a_speed():
    base = {"model": {"params": "7B"}, "data": {"tokens": "100B"}}
    run = {"gpu": "H100 SXM", "n_gpus": 8, "mfu": "40%", "hours": 369}
    assert check_plan({**base, "run": run}).passed  # 6·7e9·1e11 / (8 x 989.4e12 x 0.4) = 369 h
    assert "time_disagrees" in codes(check_plan({**base, "run": {**run, "hours": 37}}), "error")


def test_json_and_order(written):
    text = json.dumps(written.to_dict())
    assert json.loads(text)["passed"] is False
    severities = [f.severity for f in written]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert str(written).startswith("X1, as written: contradicts itself (14 errors, 3 warnings")


# --- sane plans -----------------------------------------------------------------------------------------------

GPUS = ("A100-80GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM", "A100-40GB-SXM", "L40S")


def sane_plan(seed: int) -> dict:
    """A plan whose figures follow from one another, each rounded the way people round."""
    rng = np.random.default_rng(seed)
    vocab = int(rng.choice([32000, 50257, 128256]))
    size = float(10 ** rng.uniform(8.2, 9.9))
    arch = solve_shape(size, vocab, kv_group=int(rng.choice([1, 4])), tied=bool(size < 2e9)).arch
    part = gpu(str(rng.choice(GPUS)))
    n_gpus = int(8 * 2 ** rng.integers(0, 5))
    seq_len = int(rng.choice([1024, 2048, 4096]))
    mfu = float(rng.uniform(0.28, 0.42))
    speed = mfu * n_gpus * part.peak("bf16") / flops_per_token(arch, "palm", seq_len=seq_len)
    speed = float(f"{speed:.2g}")
    tokens = float(f"{arch.params_total * 10 ** rng.uniform(1.2, 2.0):.2g}")
    hours = round(tokens / speed / 3600 * rng.uniform(1.0, 1.15), 1)
    spot = bool(rng.random() < 0.5 and part.name in ("A100-80GB-SXM", "H100-80GB-SXM"))
    market = "spot" if spot else "on-demand"
    price = round(prices(part, market, as_of="2026-10-10").median * rng.uniform(0.9, 1.1), 2)
    compute = hours * n_gpus * price
    width = 2 if vocab <= 65536 else 4
    sizes = [float(f"{s:.2g}") for s in np.geomspace(size / 30, size / 4, 4) if s > 2 * vocab * 256][:4]
    plan = {
        "date": "2026-10-10",
        "tokens_rule": str(rng.choice(["D = 20 N", "20 tokens per parameter", "tokens ≈ 20 × params"])),
        "model": {"params": float(f"{arch.params_total:.2g}"),
                  **{k: getattr(arch, k) for k in ("layers", "d_model", "heads", "kv_heads", "d_ff", "vocab", "tied")}},
        "data": {"tokens": tokens, "stored_gb": round(width * tokens / 1e9, 1), "stored_bytes_per_token": width},
        "run": {"gpu": part.name, "n_gpus": n_gpus, "seq_len": seq_len, "batch_tokens": 2**20, "tokens_per_s": speed,
                "hours": hours, "market": market, "usd_per_gpu_hour": price, "flops": 6 * arch.params_total * tokens},
        "checkpoint": {"minutes": 20},
        "budget": {"usd": float(f"{compute * 3:.3g}"), "lines": [
            {"name": "run", "usd": round(compute), "hours": hours, "covers": ["compute"]},
            {"name": "reserve", "usd": round(compute), "covers": ["rework", "buffer"]},
        ]},
    }  # fmt: skip
    if len(sizes) >= 3:
        plan["sweep"] = {"params": sizes, "tokens": [5e8, 2e9, 8e9, 3e10], "target": size}
    return plan


@pytest.mark.parametrize("seed", range(20))
def test_sane_plans_pass(seed):
    result = check_plan(sane_plan(seed))
    assert result.passed, result
    assert len(result.checked) >= 14


@pytest.mark.parametrize(
    ("section", "key", "factor", "code"),
    [
        ("model", "params", 3.0, "params_disagree"),
        ("data", "stored_gb", 10.0, "stored_size"),
        ("run", "hours", 0.4, "time_disagrees"),
        ("run", "tokens_per_s", 8.0, "mfu_impossible"),
        ("run", "flops", 1 / 3, "flops_disagree"),
        ("budget", "usd", 0.3, "over_budget"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_sane_plan_with_one_figure_wrong_fails(section, key, factor, code, seed):
    plan = sane_plan(seed)
    plan[section][key] *= factor
    assert code in codes(check_plan(plan), "error")


# --- sweeps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "identified"),
    [
        ({"flops": ["1e18", "3e18", "1e19", "3e19"]}, True),
        ({"tokens_per_param": [5, 20, 80, 320]}, True),
        ({"tokens_per_param": [20]}, False),  # D = 20 N throughout
        ({"flops": ["1e19"]}, False),
        ({"tokens": ["2B"]}, False),
        ({"tokens": ["1B"], "flops": ["1e18", "1e19", "1e20"]}, True),
    ],
)
def test_ways_to_say_a_sweep(how, identified):
    sweep = {"params": ["20M", "60M", "200M", "600M"], "target": "1B", **how}
    result = check_plan({"sweep": sweep})
    assert ("sweep_not_identified" in codes(result, "error")) != identified
    assert bool(codes(result) & {"sweep", "sweep_imprecise"}) == identified


def test_a_line_that_does_not_pay_for_its_sweep():
    sweep = {"params": ["50M", "100M"], "tokens": ["1B", "2B"], "tokens_per_s": ["500k", "250k"]}
    run = {"gpu": "A100-80GB-SXM", "n_gpus": 1, "usd_per_gpu_hour": 2.0}
    plan = {
        "sweep": sweep,
        "run": run,
        "budget": {"usd": 50, "lines": [{"name": "s", "usd": 5, "covers": ["sweep"]}]},
    }
    finding = one(check_plan(plan), "sweep_over_line")  # 3e9/500e3 + 3e9/250e3 s = 5 h
    assert finding.severity == "error" and finding.evidence["usd"] == pytest.approx(10)
    del sweep["tokens_per_s"]
    plan["budget"]["lines"][0]["usd"] = 0.5
    assert one(check_plan(plan), "sweep_over_line").severity == "warning"  # the speed is only a prediction
