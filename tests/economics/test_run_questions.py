"""What if, compare, sensitivity: costs beside each other, on shared draws."""

from __future__ import annotations

import json

import numpy as np
import pytest

from economics import RunCost, cost
from scaling.errors import DataError

DAY = "2026-10-10"
ASKED = {"N": "7B", "D": "2T", "gpu": "H100 SXM", "n_gpus": 512, "as_of": DAY, "region": 400}


@pytest.fixture(scope="module")
def run() -> RunCost:
    return cost(**ASKED)


def test_what_if_of_nothing_changes_nothing_bit_for_bit(run):
    same = run.what_if()
    for name in ("gpu_hours", "wall_hours", "usd", "co2_kg", "breakdown"):
        assert getattr(same, name) == getattr(run, name)
    np.testing.assert_array_equal(same.outcome.total_usd, run.outcome.total_usd)
    assert all(e.value == e.low == e.high == 0.0 for e in same.difference.values())
    assert "what if nothing" in repr(same)


def test_what_if_shares_the_draws_of_what_did_not_change(run):
    dearer = run.what_if(price=run.plan.price.median)
    np.testing.assert_array_equal(dearer.variates.mfu, run.variates.mfu)
    np.testing.assert_array_equal(dearer.outcome.work, run.outcome.work)
    doubled = run.what_if(D="4T")
    # Twice the tokens is twice the work in every draw, so their ratio has no noise.
    ratio = doubled.outcome.work / run.outcome.work
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-12)
    assert doubled.ratio.high - doubled.ratio.low < 0.02
    independent = cost(**{**ASKED, "D": "4T", "seed": 1})
    assert np.std(independent.outcome.total_usd - run.outcome.total_usd) > 1.2 * np.std(
        doubled.outcome.total_usd - run.outcome.total_usd
    )


def test_what_if_is_a_cost_that_can_be_asked_again(run):
    first = run.what_if(gpu="A100-80GB-SXM", mfu="41%")
    assert isinstance(first, RunCost) and first.before is run
    second = first.what_if(mfu="45%")
    assert second.plan.part.name == "A100-80GB-SXM" and second.usd.value < first.usd.value
    text = repr(first)
    for word in ("before", "after", "difference", "MFU", "> 41.0% (given)", "peak"):
        assert word in text
    plain = json.loads(json.dumps(first.to_dict()))
    assert plain["changes"] == {"gpu": "A100-80GB-SXM", "mfu": "41%"}
    assert plain["difference"]["usd"]["value"] == first.difference["usd"].value
    assert first._repr_html_().startswith("<pre>")
    with pytest.raises(DataError, match="no argument gpus"):
        run.what_if(gpus=8)


def test_compare_orders_marks_and_reports_failures(run):
    found = run.compare(["H100 SXM", "A100 SXM 80GB", "T4", "H1000", "GB200"], n_gpus=[256, 512])
    costs = [r.usd.value for r in found.runs]
    assert costs == sorted(costs) and len(found) >= 6
    assert [name for name, _ in found.failures].count("H1000") == 1
    front = found.pareto
    assert front[0] is found.runs[0]
    times = [r.wall_hours.value for r in front]
    assert times == sorted(times, reverse=True)
    for r in found.runs:  # nothing beats a run of the front in both
        for f in front:
            assert not (r.usd.value < f.usd.value and r.wall_hours.value < f.wall_hours.value)
    text = repr(found)
    assert "no answer: no accelerator is called 'H1000'" in text and "*" in text
    assert any(line.startswith("  ! ") or line.startswith("  * ") for line in text.splitlines())
    json.dumps(found.to_dict())
    assert "<pre>" in found._repr_html_()


def test_compare_says_what_does_not_carry_over(run):
    kept = run.what_if(price=2.0, mfu=0.4).compare(["H100 SXM", "A100 SXM 80GB"])
    assert kept.findings[0].code == "kept_for_all"
    assert not run.compare(["H100 SXM", "A100 SXM 80GB"]).findings
    markets = run.compare(n_gpus=[8, 512], market="reserved", price=2.0)
    assert {r.plan.market for r in markets.runs} == {"reserved"}


def test_sensitivity_names_what_moves_the_answer(run):
    found = run.sensitivity()
    assert found.top in ("MFU", "price of a GPU-hour")
    sizes = [s.size for s in found.swings]
    assert sizes == sorted(sizes, reverse=True)
    certain = run.what_if(price=2.0).sensitivity()
    assert certain.top == "MFU"
    assert "price of a GPU-hour" not in {s.factor for s in certain.swings}
    mfu = next(s for s in certain.swings if s.factor == "MFU")
    assert mfu.at_low < mfu.at_high and mfu.low > mfu.high, "less utilisation is more money"
    spot = run.what_if(market="spot", price=2.0).sensitivity("wall_hours")
    assert spot.top == "preemption rate"
    assert "####" in repr(found) and "$" in repr(found)
    json.dumps(found.to_dict())


def test_sensitivity_of_energy_and_co2(run):
    kwh = run.sensitivity("energy_kwh")
    assert {"MFU", "PUE", "share of rated power drawn"} <= {s.factor for s in kwh.swings}
    assert "price of a GPU-hour" not in {s.factor for s in kwh.swings}
    assert kwh.middle == pytest.approx(run.energy_kwh.value, rel=0.1)
    assert not any(s.factor.startswith("grid") for s in run.sensitivity("co2_kg").swings)
    nowhere = run.what_if(region=None).sensitivity("co2_kg")
    assert any(s.factor.startswith("grid") for s in nowhere.swings)
    with pytest.raises(DataError, match="usd, gpu_hours"):
        run.sensitivity("loss")


def test_nothing_uncertain():
    sure = cost(
        N=1e9, D=1e10, gpu="A100 SXM 80GB", n_gpus=8, mfu=0.4, price=2, overheads="none", mfu_kind="run"
    )
    assert sure.sensitivity().top is None
    assert "nothing is uncertain" in repr(sure.sensitivity())


def test_many_what_ifs_draw_nothing_again(monkeypatch):
    """The work of a what-if does not grow with how many there were: the draws of a seed are kept."""
    from economics import run_draws

    base = cost(N="7B", D="2T", gpu="H100 SXM", n_gpus=64, as_of=DAY, draws=1000, market="spot")
    _ = base.usd
    seeds = []
    original = run_draws._rng
    monkeypatch.setattr(
        run_draws, "_rng", lambda seed, stream: seeds.append(stream) or original(seed, stream)
    )
    values = [base.what_if(checkpoint_every=every).usd.value for every in np.linspace(0.02, 2.0, 50)]
    assert seeds == [] and len(set(values)) == 50


def test_a_difference_says_that_it_is_no_difference_of_medians(run):
    change = run.what_if(gpu="B200")
    apart = change.usd.value - run.usd.value
    assert change.difference["usd"].value != pytest.approx(apart, rel=0.05)
    assert "not the difference of two medians" in repr(change)


def test_columns_stay_apart_however_long_a_run_takes():
    """A run of 2,000 years once had its three times written without a space between them."""
    shown = repr(cost(N="175B", D="2T", gpu="T4", n_gpus=1, price=0.5, draws=1000))
    line = next(line for line in shown.splitlines() if line.startswith("  wall time"))
    assert [word for word in line.split() if word == "years"] == ["years"] * 3
    assert "on 1 GPU:" in shown
    assert "1 month after" in shown
