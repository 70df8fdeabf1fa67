"""Runs among interruptions that save nothing, or seldom: their best size by brute force, and those that never end."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from economics import cost, plan, suggest
from economics.decide import best_by_deadline, best_for_budget, cheapest_for_loss, smaller_model
from economics.decide.costs import surface
from economics.decide.endless import flops_within
from economics.decide.machines import hours_quantile
from economics.decide.unsaved import Unsaved
from economics.run_search import BudgetError, RunSearch
from scaling import fit_chinchilla
from scaling.errors import DataError
from scaling.optima.overtrained import tokens_for
from tests.scaling.fit_worlds import T, scattered

DAY = "2026-10-10"
#: One machine, taken away every 3.2 hours, and nothing saved.
BARE: dict[str, Any] = {
    "gpu": "A100-80GB-SXM", "market": "spot", "checkpoint_every": None, "as_of": DAY, "draws": 200, "act_ckpt": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def fit():
    n, d, loss = scattered(60, seed=1)
    return fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=60)


def on_a_grid(limit: float, measure: Any, settings: dict[str, Any], middle: float) -> tuple[float, float]:
    """Lowest loss, and its size, over runs whose exact cost meets the limit."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in middle * np.exp(np.arange(-1.2, 1.25, 0.1)):
            run = RunSearch(limit, measure, settings, lambda *_: BudgetError("too dear")).run(n)
            found.append((float(T.loss(n, run.plan.tokens)), float(n)))
    return min(found)


@pytest.mark.parametrize(
    ("usd", "n_gpus", "quantile", "every"),
    [(1, 1, 0.5, None), (5, 1, 0.5, None), (50, 1, 0.9, None), (50, 8, 0.5, None), (20, 8, 0.5, "20 h")],
)
def test_the_best_run_for_money_is_that_of_a_grid(usd, n_gpus, quantile, every):
    settings = {**BARE, "n_gpus": n_gpus, "checkpoint_every": every}
    best = best_for_budget(usd, T, quantile=quantile, **settings)
    loss, size = on_a_grid(usd, lambda run: run.usd_quantile(quantile), settings, best.params.value)
    assert best.loss.value <= loss * (1 + 2e-5)
    assert best.params.value == pytest.approx(size, rel=0.15)
    assert best.cost.usd_quantile(quantile) == pytest.approx(usd, rel=1e-6)


def test_the_best_run_for_time_and_the_cheapest_for_a_loss_are_those_of_a_grid():
    settings = {**BARE, "n_gpus": 1}
    best = best_by_deadline(4, T, **settings)
    loss, _ = on_a_grid(4.0, lambda run: hours_quantile(run, 0.5), settings, best.params.value)
    assert best.loss.value <= loss * (1 + 2e-5)
    cheapest = cheapest_for_loss(T, 3.6, **settings)
    sizes = cheapest.params.value * np.exp(np.arange(-1.0, 1.05, 0.1))
    tokens = [float(tokens_for(T, n, 3.6)) for n in sizes]
    grid = [
        cost(N=n, D=d, **settings).usd.value for n, d in zip(sizes, tokens, strict=True) if math.isfinite(d)
    ]
    assert cheapest.usd.value <= min(grid) * 1.002


def test_every_draw_spends_its_limit():
    """At the nodes and between them the tokens of a limit, priced by themselves, cost it: to 1% in between."""
    costs = surface({**BARE, "n_gpus": 1}, 3e7, 1e8, lambda n: 1e18 / (6 * n))
    assert isinstance(costs, Unsaved)
    x = np.linspace(costs.x[0], costs.x[-1], 7)
    chosen = np.arange(0, BARE["draws"], 3)
    here = costs.at(x, chosen)
    tokens = here.tokens(6.0, "usd", 0.0)
    assert tokens.shape == (chosen.size, 7) and (tokens > 1).mean() > 0.9
    spent = np.where(tokens > 1, here.usd(np.maximum(tokens, 1.0), 0.0), 6.0)
    np.testing.assert_allclose(spent[:, [0, -1]], 6.0, rtol=1e-6)
    np.testing.assert_allclose(spent, 6.0, rtol=1e-2)
    run = cost(N=math.exp(costs.x[1]), D=tokens[:, 0].mean(), **{**BARE, "n_gpus": 1})
    exact = run.outcome.total_usd[chosen]
    at = costs.at(costs.x[1:2], chosen).usd(np.full((chosen.size, 1), run.plan.tokens), 0.0)
    np.testing.assert_allclose(at[:, 0], exact, rtol=1e-9)


def test_a_run_without_end_is_refused_and_what_helps_is_said(fit):
    """The median of $50 is reached by a run that takes thousands in one case of ten."""
    with pytest.raises(
        BudgetError, match=r"\$50\.00 .* does not end: .* every 3\.24 h and nothing is saved"
    ) as caught:
        best_for_budget(50, fit, n_gpus=1, **BARE)
    for remedy in (
        {"checkpoint_every": "optimal"},
        {"market": "on-demand"},
        {"n_gpus": 8},
        {"quantile": 0.9},
    ):
        assert next(iter(remedy)) in str(caught.value)
        asked = {**BARE, "n_gpus": 1, "unidentified": "return", **remedy}
        assert best_for_budget(50, fit, **asked).loss.value < 4
    with pytest.raises(BudgetError, match="it never does"):
        best_for_budget("1M", fit, n_gpus=1, **BARE)
    with pytest.raises(BudgetError, match="saves are 20 h apart"):
        best_for_budget(50, fit, n_gpus=1, **{**BARE, "checkpoint_every": 20})
    with pytest.raises(BudgetError, match="less time"):
        best_by_deadline("3 d", fit, n_gpus=1, **BARE)


def test_a_page_for_a_little_money(fit):
    page = plan(fit, 5, **{k: v for k, v in BARE.items() if k not in ("market", "act_ckpt")}, markets="spot")
    assert page.usable and page.best.usd.value == pytest.approx(5, rel=1e-6)
    assert max(step.offer.budget_usd for step in page.steps) < 20  # more of it does not end
    assert "no checkpoints" in str(page).lower()


def test_what_a_token_costs_is_no_question_without_saves():
    """Runs of minutes have one; of hours, none."""
    with pytest.raises(DataError, match="checkpoint_every='optimal'"):
        suggest(None, 50, sigma=0.003, **BARE)
    assert suggest(None, 5, sigma=0.003, max_hours="15 min", n_laws=3, **BARE).usd.value < 6
    many = {
        **BARE,
        "checkpoint_every": "optimal",
        "n_gpus": 256,
        "gpu": "H100 SXM",
    }  # lost every 6 minutes, but saved
    assert suggest(None, 3000, sigma=0.003, n_laws=3, **many).runs
    with pytest.raises(DataError, match="checkpoint_every='optimal'"):
        smaller_model(T, "50M", like=("100M", "2B"), n_gpus=1, **BARE)


def test_where_runs_end_a_search_begins_in_proportion():
    for market in ("on-demand", "spot"):
        asked = {**BARE, "market": market, "n_gpus": 8, "checkpoint_every": "optimal"}
        one, two = (flops_within(usd, asked, lambda run: run.usd.value) for usd in (100.0, 200.0))
        assert two == pytest.approx(2 * one, rel=1e-9)


def test_more_money_than_there_are_machines_for():
    asked = {"gpu": "H100 SXM", "as_of": DAY, "draws": 100}
    with pytest.raises(DataError, match="more GPUs than there are to rent: give n_gpus") as caught:
        best_for_budget(1e12, T, **asked)
    assert "interruption" not in str(caught.value)
    with pytest.raises(DataError, match="usd is more money than there is"):
        best_for_budget(1e30, T, n_gpus=8, **asked)
    assert best_for_budget(1e12, T, n_gpus=8, **asked).usd.value == pytest.approx(1e12)
