"""Money of a plan: what is no price is an error, what is only rounded is none."""

from __future__ import annotations

import pytest

from economics import check_plan


def codes(plan, severity="error"):
    return {f.code for f in check_plan(plan) if f.severity == severity}


@pytest.mark.parametrize("price", [0.01, 0.001, 1e-9, 0.05, 99.99, 101, 700, 1e6])
@pytest.mark.parametrize("key", ["usd_per_gpu_hour", "on_demand_usd_per_gpu_hour"])
def test_what_is_no_price(price, key):
    run = {"gpu": "H100 SXM", "n_gpus": 8, key: price}
    assert codes({"run": run}) == {"price_impossible"}
    assert codes({"run": {**run, "market": "on-demand"}}) == {"price_impossible"}


@pytest.mark.parametrize("price", [0.001, 1e-9, 700, 1e6])
def test_what_is_no_price_of_any_accelerator(price):
    assert codes({"run": {"usd_per_gpu_hour": price}}) == {"price_impossible"}


def test_the_price_of_a_machine_is_suspected():
    plan = {"run": {"gpu": "H100 SXM", "n_gpus": 512, "usd_per_gpu_hour": 1200}}
    assert "Is it the price of all 512?" in check_plan(plan).errors[0].message


def test_prices_that_are_ones():
    for name, price in (("T4", 0.11), ("H100 SXM", 1.5), ("H100 SXM", 12.3), ("B200", 18.5), ("A100", 0.4)):
        assert not codes({"run": {"gpu": name, "usd_per_gpu_hour": price}})


def test_a_price_compared_with_nothing_is_said():
    run = {"gpu": "H100 SXM", "usd_per_gpu_hour": 2.5, "market": "on-demand"}
    plan = {"date": "2015-01-01", "run": run}
    assert "price_not_compared" in codes(plan, "info")


def budget(usd, *lines):
    return {"budget": {"usd": usd, "lines": [{"name": f"l{i}", "usd": x} for i, x in enumerate(lines)]}}


@pytest.mark.parametrize(
    "plan",
    [
        budget(100, 33.4, 33.4, 33.3),  # 100.1: thirds, rounded
        budget(1010, 338, 338, 338),  # 1014, 0.4% over
        budget(1.01e6, 5.05e5, 5.08e5),  # 0.3%
        budget(101, 50.7, 50.7),  # 0.4%
        budget(100, 33.3, 33.3, 33.3),
    ],
)
def test_sums_that_are_rounded(plan):
    assert not check_plan(plan).findings


@pytest.mark.parametrize("over", [1.01, 1.02, 1.1, 2.0])
def test_sums_that_are_over(over):
    assert codes(budget(50, 26 * over, 24 * over)) == {"over_budget"}
    assert codes(budget(120000, 120000 * over)) == {"over_budget"}


def test_exact_dollars_are_not_rounded():
    assert codes(budget(1234567, 1234567, 3)) == {"over_budget"}


@pytest.mark.parametrize("seed", range(20))
def test_three_digits_never_contradict(seed):
    import numpy as np

    rng = np.random.default_rng(seed)
    lines = [float(x) for x in rng.uniform(100, 10_000, 6)]
    rounded = [float(f"{x:.3g}") for x in lines]
    assert not codes(budget(float(f"{sum(lines):.3g}"), *rounded))


def test_a_run_that_is_its_budget_rounded():
    run = {"n_gpus": 8, "hours": 369, "usd_per_gpu_hour": 2.19}  # 6,465
    assert not codes({"run": run, "budget": {"usd": 6460}})
    assert codes({"run": run, "budget": {"usd": 6000}}) == {"run_over_budget"}
