"""What a sum of money buys: round trips with `cost`, the best of its kind, honest refusals."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from economics import BudgetPlan, cost, solve_budget
from economics.budget_solver import BudgetError
from scaling import datasets, fit_chinchilla
from scaling.errors import DataError
from scaling.laws.chinchilla import ChinchillaLaw

DAY = "2026-10-10"
#: The 240-point re-fit of Hoffmann et al. 2022 by Besiroglu et al. 2024.
LAW = ChinchillaLaw(E=1.817218, A=477.826, B=2143.417, alpha=0.347310, beta=0.367172)
NODES = {"gpu": "H100 SXM", "n_gpus": 512, "as_of": DAY}
SMALL = {"gpu": "A100 SXM 80GB", "n_gpus": 1, "price": 1.10, "draws": 500}


@pytest.fixture(scope="module")
def fit():
    return fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=200)


def test_what_does_1m_buy_for_a_7b_model(fit):
    """By hand: $1M / $4.50 is 222k H100 hours; at a third of 989 TFLOP/s 2.6e23 FLOP, 6T tokens at the most."""
    plan = solve_budget("$1M", fit=fit, N="7B", **NODES)
    assert plan.params == 7e9
    assert 3e12 < plan.tokens < 7e12
    assert plan.usd.value == pytest.approx(1e6, rel=1e-8)
    assert plan.affordable.low < plan.tokens < plan.affordable.high
    assert plan.affordable.value == pytest.approx(plan.tokens, rel=1e-3)
    assert plan.loss.low < plan.loss.value < plan.loss.high
    assert plan.loss.value == pytest.approx(float(fit.law.loss(plan.params, plan.tokens)))
    assert plan.one_run.high - plan.one_run.low > plan.loss.high - plan.loss.low
    assert any(f.code == "extrapolation" for f in plan.findings)
    without_law = solve_budget(1e6, N=7e9, **NODES)
    assert without_law.tokens == plan.tokens and without_law.loss is None


def test_the_best_size_is_the_best(fit):
    best = solve_budget("1M", fit=fit, **NODES)
    others = [solve_budget("1M", fit=fit, N=best.params * f, **NODES) for f in (0.5, 0.8, 1.25, 2.0)]
    assert all(o.loss.value >= best.loss.value - 1e-7 for o in others)
    low, high = best.range_params
    assert low < best.params < high
    for end in (low, high):
        there = solve_budget("1M", fit=fit, N=end, **NODES)
        assert there.loss.value == pytest.approx(1.005 * best.loss.value, rel=1e-3)


def test_without_anything_but_flops_it_is_the_optimum_of_the_law():
    """Where money is proportional to 6·N·D, the best run is the law's compute-optimal one."""
    plan = solve_budget(
        1e5, law=LAW, gpu="H100 SXM", n_gpus=64, price=2.0, mfu=0.4, mfu_kind="run", overheads="none"
    )
    flops = 1e5 / 2.0 * 3600 * 0.4 * 989.4e12
    n, d, loss = LAW.optimal(flops)
    assert plan.params == pytest.approx(n, rel=0.01)
    assert plan.params * plan.tokens == pytest.approx(n * d, rel=1e-6)
    assert plan.loss.value == pytest.approx(loss, rel=1e-6)
    assert np.isnan(plan.loss.low)


def test_round_trip():
    plan = solve_budget(50, law=LAW, **SMALL)
    again = cost(N=plan.params, D=plan.tokens, **SMALL)
    assert again.usd == plan.usd
    assert again.usd.value == pytest.approx(50, rel=1e-8)


@settings(max_examples=15, deadline=None)
@given(
    usd=st.floats(20, 1e7),
    params=st.floats(1e7, 1e10),
    quantile=st.sampled_from([0.5, 0.9]),
    market=st.sampled_from(["on-demand", "spot"]),
)
def test_round_trip_of_any_budget(usd, params, quantile, market):
    asked = {"gpu": "A100 SXM 80GB", "n_gpus": 8, "price": 1.2, "market": market, "draws": 400}
    plan = solve_budget(usd, N=params, quantile=quantile, **asked)
    again = cost(N=plan.params, D=plan.tokens, **asked)
    assert again.usd_quantile(quantile) == pytest.approx(usd, rel=1e-6)
    assert again.usd == plan.usd


def test_more_money_buys_more():
    plans = [solve_budget(usd, law=LAW, **SMALL) for usd in (20, 100, 1000)]
    for few, more in pairwise(plans):
        assert more.params > few.params and more.tokens > few.tokens and more.loss.value < few.loss.value


def test_a_safe_budget_buys_less(fit):
    even, safe = (solve_budget(50, fit=fit, quantile=q, **SMALL) for q in (0.5, 0.9))
    assert (
        safe.usd.high == pytest.approx(50, rel=1e-6) and safe.tokens * safe.params < even.tokens * even.params
    )


def test_gpus_that_nobody_chose_end_in_about_a_month(fit):
    plan = solve_budget("1M", fit=fit, gpu="H100 SXM", as_of=DAY)
    assert 100 < plan.usd.value / plan.cost.plan.price.median / plan.cost.plan.n_gpus < 1500
    assert any(f.code == "n_gpus_chosen" for f in plan.findings)
    again = cost(N=plan.params, D=plan.tokens, gpu="H100 SXM", as_of=DAY, n_gpus=plan.cost.plan.n_gpus)
    assert again.usd.value == pytest.approx(1e6, rel=1e-6)


def test_draws_of_a_law_give_an_interval():
    draws = ChinchillaLaw(
        *(np.linspace(0.99, 1.01, 50) * getattr(LAW, k) for k in ("E", "A", "B", "alpha", "beta"))
    )
    plan = solve_budget(50, law=draws, N="100M", **SMALL)
    assert plan.loss.low < plan.loss.value < plan.loss.high


def test_a_mixture_and_a_shape():
    plan = solve_budget("1M", N="47B", N_active="13B", law=LAW, **NODES)
    assert plan.cost.plan.active == 13e9
    assert any(f.code == "law_of_dense_models" for f in plan.findings)
    shaped = solve_budget("1M", arch="llama-2-7b", **NODES)
    assert shaped.params == 6_738_415_616


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.1, 95, "high", float("nan"), True, [0.9]])
def test_a_level_is_a_share_with_or_without_a_law(level):
    """Unchecked, it was ignored where nothing was drawn, and a fault of numpy where it was."""
    for more in ({"N": "1B"}, {"law": LAW}, {"law": LAW, "N": "1B"}):
        with pytest.raises(DataError, match="level must be a number between 0 and 1") as caught:
            solve_budget(1000, level=level, **more, **SMALL)
        assert caught.value.column == "level"


def test_what_to_do_without_identification_is_one_of_two():
    with pytest.raises(DataError, match="unidentified must be 'raise' or 'return'"):
        solve_budget(1000, N="1B", unidentified="maybe", **SMALL)


def test_refusals():
    with pytest.raises(BudgetError, match=r"start-up") as caught:
        solve_budget(1, N="7B", **NODES)
    assert caught.value.needed_usd > 100
    with pytest.raises(BudgetError):
        solve_budget(1, law=LAW, **NODES)
    with pytest.raises(DataError, match="a fit or law"):
        solve_budget(50, **SMALL)
    with pytest.raises(DataError, match="leave it out"):
        solve_budget(50, N="1B", D="20B", **SMALL)
    with pytest.raises(DataError, match="usd must be positive"):
        solve_budget(0, N="1B", **SMALL)
    with pytest.raises(DataError, match="n_gpu is no setting"):
        solve_budget(50, N="1B", gpu="A100 SXM 80GB", n_gpu=8)
    for quantile in (1.5, "150%", True, "high", None):
        with pytest.raises(DataError, match="quantile"):
            solve_budget(50, N="1B", quantile=quantile, **SMALL)
    with pytest.raises(DataError, match="law must be a law"):
        solve_budget(50, N="1B", law="Hoffmann Approach 3", **SMALL)


def test_a_fit_and_a_law_contradict(fit):
    with pytest.raises(DataError, match="give one of them"):
        solve_budget(50, fit=fit, law=LAW, **SMALL)


def test_a_quantile_may_be_a_percentage():
    safe, same = (solve_budget(50, N="1B", quantile=q, **SMALL) for q in (0.9, "90%"))
    assert safe.tokens == same.tokens and same.quantile == 0.9


def test_money_that_may_not_even_start_the_machines():
    """$800 on 512 GPUs: starting them takes more in 4 draws of 10, which a ratio of whole costs cannot show."""
    plan = solve_budget(800, N="7B", **NODES)
    assert plan.affordable.low == 0.0
    assert plan.affordable.value == pytest.approx(plan.tokens, rel=0.02)
    (finding,) = [f for f in plan.findings if f.code == "budget_may_buy_nothing"]
    assert 0.3 < finding.evidence["share"] < 0.5


def test_what_is_affordable_is_the_share_of_draws_that_cost_less():
    plan = solve_budget(50, N="1B", **SMALL)
    for end, at in ((plan.affordable.low, 0.9), (plan.affordable.high, 0.1)):
        assert cost(N="1B", D=end, **SMALL).usd_quantile(at) == pytest.approx(50, rel=1e-3)


def test_words_and_plain_types(fit):
    plan = solve_budget(50, fit=fit, **SMALL)
    assert isinstance(plan, BudgetPlan)
    text = repr(plan)
    for word in ("$50.00", "parameters", "tokens", "loss", "one run", "P50"):
        assert word in text
    plain = json.loads(json.dumps(plan.to_dict()))
    assert plain["tokens"] == plan.tokens
    assert plan._repr_html_().startswith("<pre>")
