"""Limits that a plan cannot go beyond: each contradiction is found, and what is just sane is not."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from economics import PlanError, check_plan

MIXTRAL = {
    "layers": 32, "d_model": 4096, "heads": 32, "kv_heads": 8, "d_ff": 14336, "vocab": 32000, "tied": False,
    "experts": 8, "experts_per_token": 2,
}  # fmt: skip


def codes(plan, severity="error"):
    return {f.code for f in check_plan(plan) if f.severity == severity}


def test_a_token_cannot_use_more_than_there_is():
    assert codes({"model": {"params": "7B", "active_params": "13B"}}) == {"active_above_params"}
    assert not codes({"model": {"params": "13B", "active_params": "7B"}})


def test_a_rounded_count_is_not_above_its_shape():
    tiny = {"layers": 8, "d_model": 512, "heads": 8, "kv_heads": 2, "d_ff": 1408, "vocab": 50257}  # 48.3M
    assert not codes({"model": {**tiny, "params": "50M", "active_params": "50M"}})
    assert not codes({"model": {**tiny, "active_params": "50M"}})
    assert codes({"model": {**tiny, "active_params": "60M"}}) == {"active_above_params"}
    assert codes({"model": {**tiny, "params": "48M", "active_params": "60M"}}) == {"active_above_params"}


@pytest.mark.parametrize("hours", [0.1, 0.13])
def test_short_hours_are_rounded(hours):
    plan = {"data": {"tokens": "4.2B"}, "run": {"tokens_per_s": "9.1M", "hours": hours}}  # 0.128 h
    assert not codes(plan)
    assert codes({**plan, "run": {"tokens_per_s": "9.1M", "hours": 0.08}}) == {"time_disagrees"}


@pytest.mark.parametrize(
    ("active", "found"),
    [
        ("12.9B", set()),  # Mixtral 8x7B: 46.7B, of which a token uses 12.9B (Jiang et al. 2024, 2401.04088)
        ("13B", set()),
        ("12.6B", set()),  # without embeddings
        ("3B", {"active_disagrees"}),
        ("46.7B", {"active_disagrees"}),
        ("50B", {"active_above_params"}),
    ],
)
def test_active_parameters_of_a_mixture(active, found):
    assert codes({"model": {**MIXTRAL, "params": "46.7B", "active_params": active}}) == found


def test_positions():
    run = {"seq_len": 4096}
    assert codes({"run": run, "model": {"learned_positions": 1024}}) == {"positions_too_few"}
    assert not codes({"run": run, "model": {"learned_positions": 4096}})
    assert not codes({"run": run, "model": {"learned_positions": 0}})  # rotary


def test_sequences_for_every_gpu():
    run = {"batch_tokens": "64k", "seq_len": 4096, "n_gpus": 64}
    (finding,) = check_plan({"run": run})
    assert (finding.code, finding.severity) == ("batch_below_gpus", "warning")
    assert "16 sequences of 4,096 for 64 GPUs" in finding.message and "262K tokens" in finding.message
    assert codes({"run": {**run, "batch_tokens": "250k"}}, "warning") == set()  # 64 sequences, rounded
    # 405B on 16,384 GPUs with 2,048 sequences: 8 GPUs and more hold a part of the model each.
    llama = {"batch_tokens": "16M", "seq_len": 8192, "n_gpus": 16384}
    assert not codes({"run": llama, "model": {"params": "405B"}}, "warning")


def test_a_step_is_a_sequence_and_no_more_than_the_run():
    assert codes({"run": {"batch_tokens": 2048, "seq_len": 4096}}) == {"batch_below_sequence"}
    assert codes({"run": {"batch_tokens": "1B"}, "data": {"tokens": "500M"}}) == {"batch_above_tokens"}
    assert not codes({"run": {"batch_tokens": "4k", "seq_len": 4096}})


def test_checkpoints_before_the_end():
    (finding,) = check_plan({"run": {"hours": 868}, "checkpoint": {"hours": 5000}})
    assert (finding.code, finding.severity) == ("checkpoint_after_end", "error")
    assert "every 5,000 h, but the run takes 868 h" in finding.message
    assert not codes({"run": {"hours": 868}, "checkpoint": {"hours": 868}})
    by_speed = {"data": {"tokens": "5B"}, "run": {"tokens_per_s": "500k"}, "checkpoint": {"hours": 3}}
    assert codes(by_speed) == {"checkpoint_after_end"}  # 2.78 h


def test_time_left_between_saves():
    assert codes({"checkpoint": {"minutes": 1, "save_minutes": 5}}) == {"save_above_interval"}
    assert codes({"checkpoint": {"minutes": 10, "save_minutes": 5}}, "warning") == {"save_takes_long"}
    assert not check_plan({"checkpoint": {"minutes": 30, "save_minutes": 5}}).findings


def test_a_range_goes_up():
    with pytest.raises(PlanError, match="restart_minutes from 12 to 4: the smaller one comes first"):
        check_plan({"checkpoint": {"minutes": 30, "restart_minutes": [12, 4]}})


def test_work_in_the_hours():
    run = {
        "gpu": "H100 SXM",
        "n_gpus": 8,
        "hours": 24,
        "flops": 3e20,
    }  # at most 8 x 989.4e12 x 86,400 = 6.8e20
    assert not codes({"run": run})
    assert codes({"run": {**run, "flops": 1e21}}) == {"flops_impossible"}


def test_one_price_on_demand():
    run = {"market": "on-demand", "usd_per_gpu_hour": 1.10, "on_demand_usd_per_gpu_hour": 1.79}
    assert codes({"run": run}) == {"on_demand_twice"}
    assert not codes({"run": {**run, "usd_per_gpu_hour": 1.79}})
    assert not codes({"run": {**run, "market": "spot"}})


def test_dates():
    assert codes({"date": date(2999, 1, 1)}) == {"date_ahead"}
    assert codes({"date": date(1999, 1, 1)}) == {"date_too_early"}
    assert not codes({"date": date.today() + timedelta(days=90)})
