"""The cost of a run: arithmetic by hand, faults people met, and what must hold for every run."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from economics import cost, spot_run
from economics.gpu_names import read_table
from economics.grid import regions
from economics.run_draws import ANY_GRID, gamma_of
from scaling.estimate import Estimate

#: One A100 node with everything known.
KNOWN = {"N": 1e9, "D": 20e9, "gpu": "A100 SXM 80GB", "n_gpus": 8, "mfu": 0.4, "price": 1.79}
DAY = "2026-10-10"


def test_by_hand():
    """6·1e9·20e9 / (312e12 · 0.4 · 3600) = 267.1 GPU-hours; nothing else is in it when nothing else is asked for."""
    run = cost(**KNOWN, overheads="none", spot={"faults_per_gpu_hour": 0})
    assert run.gpu_hours.value == pytest.approx(120e18 / (312e12 * 0.4 * 3600), rel=1e-12)
    assert run.wall_hours.value == pytest.approx(run.gpu_hours.value / 8)
    assert run.usd.value == pytest.approx(run.gpu_hours.value * 1.79)
    assert run.usd.low == run.usd.value == run.usd.high
    assert (run.usd.level, run.usd.kind) == (0.8, "median")


def test_the_example_of_the_design():
    run = cost(N=7e9, D=2e12, gpu="H100-80GB-SXM", n_gpus=512, market="spot", as_of=DAY)
    for estimate in (run.gpu_hours, run.wall_hours, run.usd, run.energy_kwh, run.co2_kg):
        assert isinstance(estimate, Estimate)
        assert 0 < estimate.low < estimate.value < estimate.high < math.inf
    assert {"spot_dearer", "spot_too_often"} <= {f.code for f in run.findings}
    changed = run.what_if(gpu="A100-80GB-SXM", mfu="41%")
    assert changed.plan.part.name == "A100-80GB-SXM" and changed.plan.mfu.value == 0.41


def test_breakdown_adds_up_draw_by_draw():
    extra = {"people_hours": 10, "people_usd_per_hour": 100, "ablations": 0.5, "other_usd": 7}
    run = cost(**{**KNOWN, "mfu": None}, market="spot", overheads=extra)
    total = sum(run.outcome.usd.values())
    np.testing.assert_allclose(total, run.outcome.total_usd, rtol=1e-12)
    np.testing.assert_allclose(sum(run.outcome.gpu_hours.values()), run.outcome.total_gpu_hours, rtol=1e-12)
    assert sum(run.shares.values()) == pytest.approx(1)
    assert {"compute", "rework", "restarts", "saving", "evaluation", "storage", "egress", "people"} <= set(
        run.breakdown
    )
    assert run.breakdown["people"].value == 1000


def test_the_clock_counts_from_the_start_of_the_instances():
    slow = cost(**KNOWN, overheads={"start_hours": 2.0})
    fast = cost(**KNOWN, overheads={"start_hours": 0.0})
    assert slow.wall_hours.value - fast.wall_hours.value == pytest.approx(2.0)
    assert slow.gpu_hours.value - fast.gpu_hours.value == pytest.approx(16.0)


def test_a_whole_run_utilisation_holds_evaluation_and_faults():
    """Published GPU-hours have both in them: they are not added a second time."""
    whole = cost(**KNOWN, mfu_kind="run", overheads={"start_hours": 0})
    steady = cost(**KNOWN, overheads={"start_hours": 0})
    assert whole.gpu_hours.value == pytest.approx(120e18 / (312e12 * 0.4 * 3600), rel=1e-12)
    assert whole.breakdown["evaluation"].value > 0
    assert not whole.plan.interrupted and steady.plan.faults > 0
    assert steady.gpu_hours.value > whole.gpu_hours.value


def test_spot_agrees_with_the_closed_form():
    """The mean over the draws is that of the exact formula, and the spread that of `SpotRun.sample`."""
    common = {**KNOWN, "mfu": 0.4, "market": "spot", "price": 1.0, "overheads": "none", "draws": 100_000}
    for nodes, hours in ((1, 33.4), (4, 8.3)):
        run = cost(**{**common, "n_gpus": 8 * nodes})
        work = run.plan.flops / (run.plan.peak * 0.4 * 3600 * 8 * nodes)
        assert work == pytest.approx(hours, rel=0.01)
        exact = spot_run(work, nodes=nodes, gpus_per_node=8, checkpoint_every=run.plan.interval)
        fixed = run.what_if(seed=1)
        drawn = spot_run(work, nodes=nodes, gpus_per_node=8, checkpoint_every=run.plan.interval).sample(
            np.random.default_rng(0), 100_000
        )
        for ours, theirs in zip((fixed.outcome.wall_hours, fixed.outcome.billed_hours), drawn, strict=True):
            for q in (0.1, 0.5, 0.9):
                assert np.quantile(ours, q) == pytest.approx(np.quantile(theirs, q), rel=0.03)
        assert exact.billed_hours >= work


def test_spot_costs_at_least_the_work():
    run = cost(**{**KNOWN, "mfu": None}, market="spot")
    work = run.outcome.work
    assert np.all(run.outcome.billed_hours >= work)
    assert np.all(run.outcome.wall_hours >= run.outcome.billed_hours)


def test_preemptions_grow_with_nodes_and_faults_with_gpus():
    one, eight = (cost(**{**KNOWN, "n_gpus": n}, market="spot").plan for n in (8, 64))
    assert eight.preempted == pytest.approx(8 * one.preempted)
    assert eight.faults == pytest.approx(8 * one.faults)
    together = cost(**{**KNOWN, "n_gpus": 64}, market="spot", spot={"growth": 0.0}).plan
    assert together.preempted == pytest.approx(one.preempted)


def test_spot_without_checkpoints_on_a_long_run_is_flagged():
    run = cost(**{**KNOWN, "n_gpus": 8, "price": None}, market="spot", checkpoint_every=None, as_of=DAY)
    (finding,) = [f for f in run.findings if f.code == "spot_dearer"]
    assert finding.severity == "error" and run.findings[0] is finding
    assert run.usd.value > cost(**{**KNOWN, "price": None}, as_of=DAY).usd.value
    hopeless = cost(N="7B", D="2T", gpu="H100 SXM", n_gpus=64, market="spot", price=2, checkpoint_every=None)
    assert hopeless.usd.value > 1e30 and "never" in repr(hopeless)


def test_words_and_plain_types():
    run = cost(**{**KNOWN, "mfu": None, "price": None}, market="spot", as_of=DAY, region="FRA")
    text = repr(run)
    for word in (
        "P50",
        "P10",
        "P90",
        "FLOPs",
        "MFU",
        "price",
        "PUE",
        "grid",
        "start-up",
        "France",
        "restart",
    ):
        assert word in text
    assert "array" not in text
    assert "<table>" in run._repr_html_()
    plain = json.loads(json.dumps(run.to_dict()))
    assert plain["usd"]["value"] == run.usd.value
    assert set(plain["energy_kwh"]) == {"gpu", "server", "facility"}
    assert run.usd.format().startswith("$")


def test_the_grid_of_nowhere_is_that_of_all_countries():
    grams = [
        float(r["g_per_kwh"])
        for r in read_table("grid_intensity.csv")
        if r["kind"] == "country" and r["g_per_kwh"]
    ]
    assert len(grams) == 207 and "FRA" in regions()
    got = np.quantile(grams, [0.05, 0.5, 0.95])
    assert (ANY_GRID.low, ANY_GRID.value, ANY_GRID.high) == pytest.approx(tuple(got), rel=0.02)
    unknown, known = (cost(**KNOWN, region=r).co2_kg for r in (None, "FRA"))
    assert unknown.high / unknown.low > 3 * known.high / known.low


def test_gamma_of_is_a_gamma():
    z = np.random.default_rng(0).standard_normal(200_000)
    for shape in (1.0, 3.0, 20.0):
        drawn = gamma_of(np.full(1, 3.0), np.full(1, 9.0 / shape), z)
        exact = np.random.default_rng(1).gamma(shape, 3.0 / shape, 200_000)
        assert drawn.mean() == pytest.approx(3.0, rel=0.02)
        np.testing.assert_allclose(
            np.quantile(drawn, [0.2, 0.5, 0.9]), np.quantile(exact, [0.2, 0.5, 0.9]), rtol=0.1
        )


RUNS = st.fixed_dictionaries(
    {
        "N": st.floats(1e7, 1e11),
        "D": st.floats(1e9, 1e13),
        "gpu": st.sampled_from(["H100 SXM", "A100 SXM 80GB", "L40S", "MI300X"]),
        "n_gpus": st.sampled_from([1, 8, 64, 1024]),
        "mfu": st.one_of(st.none(), st.floats(0.05, 0.4)),
        "price": st.floats(0.1, 5),  # three times that is refused for none of these parts
        "market": st.sampled_from(["on-demand", "spot"]),
        "draws": st.just(400),
        "pue": st.floats(1.0, 2.0),
        "region": st.just(400.0),
    }
)


@settings(max_examples=40, deadline=None)
@given(asked=RUNS, factor=st.floats(1.01, 3.0))
def test_rises_with_tokens_price_and_pue_and_falls_with_utilisation(asked, factor):
    """For every quantile, as the draws are shared."""
    run = cost(**asked)
    for name in ("D", "price"):
        more = run.what_if(**{name: asked[name] * factor})
        assert all(getattr(more.usd, q) >= getattr(run.usd, q) for q in ("low", "value", "high"))
        assert more.usd.value > run.usd.value
    assert run.what_if(pue=asked["pue"] * 1.1).energy_kwh.value > run.energy_kwh.value
    assert run.what_if(pue=asked["pue"] * 1.1).co2_kg.value > run.co2_kg.value
    if asked["mfu"] is not None:
        assert run.what_if(mfu=min(asked["mfu"] * factor, 0.45)).usd.value < run.usd.value
        assert run.what_if(N=asked["N"] * factor).usd.value > run.usd.value
    assert run.what_if(N=asked["N"] * factor).plan.flops > run.plan.flops


@settings(max_examples=25, deadline=None)
@given(asked=RUNS, seed=st.integers(0, 2**31))
def test_the_same_question_has_the_same_answer(asked, seed):
    run = cost(**asked, seed=seed)
    again = run.what_if()
    for name in ("gpu_hours", "wall_hours", "usd", "energy_kwh", "co2_kg"):
        assert getattr(again, name) == getattr(run, name)
        assert again.difference[name].interval == (0.0, 0.0)
    assert run.usd.low <= run.usd.value <= run.usd.high
