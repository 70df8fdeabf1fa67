"""Optima in dollars and hours: against brute force over costs, the signs they must have, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from economics import cost, inference_cost, solve_budget
from economics.decide import (
    NoMachineError,
    best_by_deadline,
    best_for_budget,
    cheapest_for_loss,
    gpus_needed,
    smaller_model,
)
from economics.run_search import BudgetError
from scaling import fit_chinchilla, optima
from scaling.cli.output import plain
from scaling.errors import DataError, NotIdentifiedError
from scaling.optima import MUENNIGHOFF, Repetition
from scaling.optima.overtrained import tokens_for
from tests.scaling.fit_worlds import T, scattered

DAY = "2026-10-10"
#: Dollars in proportion to FLOPs: nothing but compute, at one speed and one price.
PLAIN = {
    "gpu": "H100 SXM",
    "n_gpus": 8,
    "mfu": "40%",
    "mfu_kind": "run",
    "price": 2.0,
    "overheads": "none",
    "draws": 200,
}
#: What a team would be charged: speed grows with size, starts and storage are paid.
REAL = {"gpu": "A100 SXM 80GB", "n_gpus": 16, "as_of": DAY, "draws": 400, "act_ckpt": False}
SERVING = {"prefill_mfu": 0.5, "bandwidth_share": 0.6, "busy": 0.5}
CERTAIN = Repetition(MUENNIGHOFF.R_D, MUENNIGHOFF.R_N, (MUENNIGHOFF.R_D, MUENNIGHOFF.R_D))


@pytest.fixture(scope="module")
def fit():
    n, d, loss = scattered(80, seed=1)
    return fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=150)


def dollars_of(flops: float) -> float:
    """By hand: FLOP over 40% of 989.5 TFLOP/s, at $2 per GPU-hour."""
    run = cost(N=1e9, D=1e10, **PLAIN)
    assert run.usd.value == pytest.approx(6e19 / (0.4 * run.plan.peak) / 3600 * 2)
    return flops / (0.4 * run.plan.peak) / 3600 * 2


# --- where dollars are FLOPs, the answers are those in FLOPs -------------------------------------------------


def test_money_that_is_compute():
    best = best_for_budget(dollars_of(1e21), T, **PLAIN)
    known = T.optimal(1e21)
    assert best.params.value == pytest.approx(known.params, rel=5e-3)
    assert best.loss.value == pytest.approx(known.loss, rel=1e-7)
    assert best.usd.value == pytest.approx(dollars_of(1e21), rel=1e-8)
    assert best.flops.value == pytest.approx(1e21, rel=1e-6)


def test_twice_the_price_moves_no_optimum():
    """Homogeneity: for a loss the run stays and costs twice as much; for money, twice of it buys the same run."""
    once, twice = (cheapest_for_loss(T, 2.3, **{**PLAIN, "price": p}) for p in (2.0, 4.0))
    assert once.params.value == pytest.approx(twice.params.value, rel=1e-9)
    assert once.tokens.value == pytest.approx(twice.tokens.value, rel=1e-9)
    assert twice.usd.value == pytest.approx(2 * once.usd.value, rel=1e-9)
    assert once.params.value == pytest.approx(optima.cheapest_for_loss(T, 2.3).params.value, rel=5e-3)
    poor, rich = (best_for_budget(m, T, **{**PLAIN, "price": p}) for m, p in ((500, 2.0), (1000, 4.0)))
    assert poor.params.value == pytest.approx(rich.params.value, rel=1e-9)


def test_draws_of_a_price_alone_move_no_size(fit):
    """For a loss, what multiplies every dollar leaves N* as sure as it is in FLOPs."""
    priced = cheapest_for_loss(fit, 2.4, **{**PLAIN, "price": None, "as_of": DAY})
    known = optima.cheapest_for_loss(fit, 2.4)
    assert priced.params.low == pytest.approx(known.params.low, rel=0.02)
    assert priced.params.high == pytest.approx(known.params.high, rel=0.02)
    assert priced.usd.high > 1.2 * priced.usd.value


# --- brute force over costs ------------------------------------------------------------------------------------


def test_no_run_on_a_grid_is_cheaper_for_a_loss():
    """P50 of the dollars, 3% apart over a factor 30 of sizes: none is more than 0.2% below the answer."""
    best = cheapest_for_loss(T, 2.4, **REAL)
    assert T.loss(best.params.value, best.tokens.value) == pytest.approx(2.4, rel=1e-12)
    sizes = best.params.value * np.exp(np.arange(-1.2, 2.2, 0.03))
    grid = [cost(N=n, D=tokens_for(T, n, 2.4), **REAL).usd.value for n in sizes]
    assert best.usd.value <= min(grid) * 1.002
    flops = optima.cheapest_for_loss(T, 2.4).params.value
    assert best.params.value > 1.02 * flops  # larger models use the machine better


def test_no_run_on_a_grid_is_better_for_money(fit):
    """As `solve_budget`, which searches with exact costs: the same loss to 1e-5, the size to its flatness."""
    best = best_for_budget(300, fit, **REAL)
    known = solve_budget(300, fit=fit, **REAL)
    assert best.loss.value == pytest.approx(known.loss.value, rel=1e-5)
    assert best.params.value == pytest.approx(known.params, rel=0.03)
    assert best.usd.value == pytest.approx(300, rel=1e-8)
    assert best.params.low < best.params.value < best.params.high
    safe = best_for_budget(300, fit, quantile=0.9, **REAL)
    assert safe.cost.usd_quantile(0.9) == pytest.approx(300, rel=1e-8) and safe.loss.value > best.loss.value


def test_draws_are_optima_of_their_own(fit):
    """One draw of law and cost, looked for on a fine grid of exact costs: what the search found for that pair."""
    from economics.decide.search import find
    from economics.decide.tasks import Within
    from scaling.laws.chinchilla import ChinchillaLaw
    from scaling.optima.subject import subject

    s = subject(fit)
    found = find(s, Within(fit.law, 300.0, "usd", 0.5), REAL, 5e8, lambda n: 1e19 / n, None)
    chosen = np.random.default_rng([0, 31]).permutation(np.arange(found.law_draws.size) % REAL["draws"])
    for pair in (3, 700, 1500):
        j, k = found.law_draws[pair], chosen[pair]
        one = ChinchillaLaw(*(float(v[j]) for v in vars(fit.draws).values()))
        losses = []
        for n in found.drawn.params[pair] * np.exp(np.arange(-0.6, 0.61, 0.1)):
            start, run = (cost(N=n, D=d, **REAL).outcome.total_usd for d in (1.0, 1e10))
            each = (run[k] - start[k]) / (1e10 - 1.0)
            losses.append(float(one.loss(n, (300.0 - start[k]) / each)))
        assert found.losses[pair] == pytest.approx(min(losses), rel=2e-3)
        assert found.losses[pair] <= min(losses) * (1 + 2e-4)


def test_serving_makes_it_smaller_in_dollars_too():
    """U24 with prices: against brute force (steps of batch and GPUs make it rough: 1%), and the sign."""
    runs = [
        cheapest_for_loss(T, like=(1e9, 2.265e10), served=s, serving=SERVING, **REAL) for s in (0, 1e10, 1e12)
    ]
    sizes = [r.params.value for r in runs]
    ratios = [r.tokens_per_param.value for r in runs]
    assert sizes[0] > sizes[1] > sizes[2] and ratios[0] < ratios[1] < ratios[2]
    best, loss = runs[2], T.loss(1e9, 2.265e10)
    totals = []
    sizes = best.params.value * np.exp(np.arange(-0.7, 1.2, 0.1))
    for n in sizes[np.isfinite(tokens_for(T, sizes, loss))]:
        served = inference_cost(n, gpu="A100 SXM 80GB", as_of=DAY, draws=400, **SERVING)
        trained = cost(N=n, D=tokens_for(T, n, loss), **REAL)
        totals.append(served.lifetime_usd(1e12, trained).value)
    assert best.more["lifetime_usd"].value <= min(totals) * 1.01
    assert best.more["lifetime_usd"].value == pytest.approx(
        best.serving.lifetime_usd(1e12, best.cost).value, rel=1e-12
    )


def test_the_cheapest_of_several_machines():
    """Each at its own best size; what has no price, or cannot hold the model, is said and not chosen."""
    asked = {"as_of": DAY, "draws": 400}
    machines = {"gpus": ["H100 SXM", "A100 SXM 80GB", "T4"], "markets": ["on-demand", "community"]}
    best = cheapest_for_loss(T, 2.6, **machines, **asked)
    assert [o.lifetime_usd.value for o in best.options] == sorted(o.lifetime_usd.value for o in best.options)
    assert ("T4, community" in dict(best.failures)) and len(best.options) + len(best.failures) == 6
    alone = [
        cheapest_for_loss(T, 2.6, gpu=g, market=m, **asked).usd.value
        for g in ("H100 SXM", "A100 SXM 80GB")
        for m in ("on-demand", "community")
    ]
    assert best.usd.value == pytest.approx(min(alone), rel=1e-6)
    assert best.cost.plan.part.name == best.options[0].gpu
    assert best.options[0].usd == best.usd and best.options[0].hours == best.hours
    quick = cheapest_for_loss(T, 2.6, gpus=["H100 SXM", "T4"], hours=5, **asked)
    assert quick.hours.value <= 5.2 and quick.cost.plan.n_gpus > 1
    json.dumps(plain(quick.to_dict()), allow_nan=False)
    with pytest.raises(NoMachineError, match=r"T4.*no number of T4 ends this run") as caught:
        cheapest_for_loss(T, 2.6, gpus=["T4", "H100 SXM"], hours="1 min", **asked)
    assert len(caught.value.failures) == 2
    with pytest.raises(BudgetError, match="no number of T4"):
        cheapest_for_loss(T, 2.6, gpu="T4", hours="1 min", **asked)


# --- scarce data, deadlines, smaller models --------------------------------------------------------------------


def test_scarce_data_for_money():
    """Where dollars are FLOPs, the answer in FLOPs; with the published range the interval holds both its ends."""
    money = dollars_of(1e21)
    best = best_for_budget(money, T, unique_tokens=5e9, repetition=CERTAIN, **PLAIN)
    known = optima.data_limited_optimal(T, 5e9, 1e21, repetition=CERTAIN)
    assert best.params.value == pytest.approx(known.params.value, rel=5e-3)
    assert best.loss.value == pytest.approx(known.loss.value, rel=1e-7)
    assert best.more["epochs"].value == pytest.approx(known.more["epochs"].value, rel=5e-3)
    wide = best_for_budget(money, T, unique_tokens=5e9, worth_share=0.8, **PLAIN)
    assert wide.more["epochs_worth"].value == pytest.approx(1 + MUENNIGHOFF.R_D * np.log(1 / 0.8))
    assert wide.more["epochs"].low < wide.more["epochs"].value < wide.more["epochs"].high
    assert wide.finding("repetition_uncertain") is not None and "one_run" not in wide.more


def test_data_that_are_plenty_change_nothing():
    """Off the line of compute-optimal runs too, where larger models are faster: nothing repeated, nothing lost."""
    plain, plenty = (best_for_budget(300, T, unique_tokens=u, **REAL) for u in (None, "1T"))
    assert (plenty.params.value, plenty.loss.value) == (plain.params.value, plain.loss.value)
    assert plenty.finding("data_not_limiting") is not None
    losses = [best_for_budget(300, T, unique_tokens=u, **REAL).loss.value for u in (1e9, 4e9, 16e9)]
    assert sorted(losses, reverse=True) == losses and losses[-1] >= plain.loss.value


def test_a_deadline():
    best = best_by_deadline("12 h", T, **REAL)
    assert best.hours.value == pytest.approx(12, rel=1e-8)
    losses = []
    for n in best.params.value * np.exp(np.arange(-1.0, 1.01, 0.1)):
        start, run = (cost(N=n, D=d, **REAL).wall_hours.value for d in (1.0, best.tokens.value))
        losses.append(float(T.loss(n, (12 - start) / (run - start) * best.tokens.value)))
    assert best.loss.value <= min(losses) * (1 + 1e-4)
    more = best_by_deadline(12, T, up_to=24, **{**REAL, "n_gpus": None})
    assert more.cost.plan.n_gpus == 24 and more.loss.value < best.loss.value
    assert {o.n_gpus for o in more.options} == {1, 2, 4, 8, 16, 24}
    assert best_by_deadline(12, T, quantile=0.9, **REAL).tokens.value < best.tokens.value


def test_gpus_that_a_deadline_needs():
    """The fewest: one less is too slow."""
    asked = {k: v for k, v in REAL.items() if k != "n_gpus"}
    for hours in (10.0, 30.0, 100.0):
        run = gpus_needed("1B", "20B", hours, **asked)
        n = run.plan.n_gpus
        assert run.wall_hours.value <= hours and (n <= 8 or n % 8 == 0)
        fewer = cost(N="1B", D="20B", n_gpus=n - 1 if n <= 8 else n - 8, **asked)
        assert fewer.wall_hours.value > hours
    with pytest.raises(BudgetError, match="no number of A100-80GB-SXM ends this run"):
        gpus_needed("1B", "20B", "10 min", **asked)


def test_a_smaller_model_in_dollars(fit):
    """By hand, with one price and speed: extra dollars are extra FLOPs; even is where serving has saved them."""
    found = smaller_model(T, "500M", like=("1B", "22.65B"), serving=SERVING, **PLAIN)
    needed = found.flops.tokens.value
    extra = dollars_of(6 * (5e8 * needed - 1e9 * 2.265e10))
    assert found.usd_extra.value == pytest.approx(extra, rel=1e-6)
    both = [
        inference_cost(n, gpu="H100 SXM", price=2.0, draws=200, **SERVING).token_usd_draws[0]
        for n in (1e9, 5e8)
    ]
    assert found.break_even.value == pytest.approx(extra / (both[0] - both[1]), rel=1e-6)
    assert found.same_usd_tokens == pytest.approx(4.53e10, rel=1e-6)
    assert found.loss_lost.value == pytest.approx(T.loss(5e8, 4.53e10) - T.loss(1e9, 2.265e10), rel=1e-6)
    wide = smaller_model(fit, "500M", like=("1B", "22.65B"), **REAL)
    assert 0 < wide.break_even.low < wide.break_even.value < wide.break_even.high
    json.dumps(wide.to_dict(), allow_nan=False)


def test_checkpointing_is_decided_for_all_sizes_alike():
    """`cost` assumes it from 5B on: a step at which optima would pile up, with an interval far too narrow."""
    asked = {**REAL, "n_gpus": 64, "act_ckpt": None}
    best = cheapest_for_loss(T, 2.22, **asked)
    assert best.cost.asked["act_ckpt"] == (best.params.value >= 5e9)
    assert best.finding("act_ckpt_assumed").severity == "warning"
    told = cheapest_for_loss(T, 2.22, **{**asked, "act_ckpt": best.cost.asked["act_ckpt"]})
    assert (
        told.params.value == pytest.approx(best.params.value, rel=1e-6)
        and told.finding("act_ckpt_assumed") is None
    )


def test_a_loss_reached_with_nine_chances_in_ten_in_dollars(fit):
    likely, sure = (cheapest_for_loss(fit, 2.4, probability=p, **PLAIN) for p in (0.5, 0.9))
    flops = optima.cheapest_for_loss(fit, 2.4, probability=0.9)
    assert sure.usd.value == pytest.approx(dollars_of(flops.flops.value), rel=3e-3)
    assert sure.usd.value > likely.usd.value and sure.params.low == sure.params.high
    assert sure.more["one_run"].value < 2.4


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: best_for_budget(100, T), DataError, "give gpu"),
        (lambda: best_for_budget(100, T, gpu="H100 SXM", N="1B"), DataError, "N is what is looked for"),
        (lambda: best_for_budget(100, T, gpu="H100 SXM", arch="llama-3-8b"), DataError, "arch is what"),
        (lambda: best_for_budget(100, T, gpu="H100 SXM", colour="red"), DataError, "colour is no setting"),
        (lambda: best_for_budget(-1, T, **PLAIN), DataError, "usd must be positive"),
        (lambda: best_for_budget(100, T, quantile=2, **PLAIN), DataError, "quantile"),
        (lambda: best_for_budget(100, T, served="x", **PLAIN), DataError, "served"),
        (lambda: best_for_budget(100, T, serving=SERVING, **PLAIN), DataError, "served, the tokens"),
        (lambda: best_for_budget(100, T, served=1e9, serving={"mood": 1}, **PLAIN), DataError, "no 'mood'"),
        (lambda: best_for_budget(100, T, unique_tokens=0, **PLAIN), DataError, "unique_tokens"),
        (lambda: best_for_budget(100, "law", **PLAIN), DataError, "fit must be"),
        (lambda: best_for_budget(0.5, T, **REAL), BudgetError, "before the first token"),
        (lambda: best_by_deadline(0.01, T, **REAL), BudgetError, "starting 16 x A100"),
        (lambda: best_by_deadline(5, T, gpu="H100 SXM"), DataError, "or up_to"),
        (lambda: best_by_deadline("soon", T, **REAL), DataError, "hours must be"),
        (lambda: cheapest_for_loss(T, **PLAIN), DataError, "give loss"),
        (lambda: cheapest_for_loss(T, 2.4, like=(1e9, 1e10), **PLAIN), DataError, "give loss"),
        (lambda: cheapest_for_loss(T, 2.4, gpus=[], **PLAIN), DataError, "one or more"),
        (lambda: cheapest_for_loss(T, 1.5, **PLAIN), NotIdentifiedError, "floor at E"),
        (lambda: cheapest_for_loss(T, 2.4, probability=0.9, **PLAIN), DataError, "needs a fit"),
        (lambda: gpus_needed("1B", "20B", 10, gpu="H100 SXM", n_gpus=8), DataError, "looked for"),
        (lambda: smaller_model(T, "10M", like=("1B", "22B"), **PLAIN), NotIdentifiedError, "never reach"),
    ],
)
def test_what_cannot_be_asked(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


def test_money_that_often_buys_nothing(fit):
    """In a tenth of the draws the start takes all: N, D have no lower end, and that is no answer unless asked for."""
    asked = {"gpu": "RTX-4090", "market": "community", "as_of": DAY, "draws": 400}
    with pytest.raises(NotIdentifiedError):
        best_for_budget(0.2, fit, **asked)
    best = best_for_budget(0.2, fit, unidentified="return", **asked)
    assert best.params.low == best.tokens.low == 0.0 and best.loss.high == np.inf
    assert best.finding("often_out_of_reach").severity == "warning"


def test_an_optimum_at_the_edge_is_no_answer():
    """So many tokens served that the best model is smaller than any looked at."""
    best = cheapest_for_loss(T, 4.5, served="1e17", serving=SERVING, **REAL)
    assert best.finding("edge_of_search").severity == "error"


def test_a_law_that_its_runs_leave_open_is_refused():
    n, d, loss = scattered(12, seed=3, noise=0.08)
    with pytest.warns(Warning):
        loose = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=60)
    with pytest.raises(NotIdentifiedError):
        best_for_budget(300, loose, **REAL)
