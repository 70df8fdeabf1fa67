"""A decision put together: against brute force, against its own draws, and in words that follow the verdict."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from economics import cost, plan, solve_budget
from economics.decide import NoMachineError
from economics.proposal.offer import front
from scaling import datasets, fit_chinchilla
from scaling.errors import IdentificationWarning
from tests.scaling.fit_worlds import crossed

DAY = "2026-10-10"
GPUS = ("A100-80GB-SXM", "H100-80GB-SXM")
ASKED = {"gpu": GPUS, "as_of": DAY, "draws": 400, "act_ckpt": False}
FACTORS = (0.5, 1.0)
#: Few runs to choose the next ones from: the search for them is tested elsewhere.
NEXT = {"splits": [0.2], "sizes": "20M,80M", "token_counts": "200M,1B"}


@pytest.fixture(scope="module")
def fit():
    return fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=120)


@pytest.fixture(scope="module")
def known(fit):
    """The published points identify a law."""
    return plan(
        fit, 50, factors=FACTORS, **NEXT, serve_tokens="10B", unique_tokens="2B", prior="hoffmann2022", **ASKED
    )  # fmt: skip


@pytest.fixture(scope="module")
def weak():
    """Nine runs: determined, but by few."""
    n, d, loss = crossed(3, 3, noise=0.005, seed=2)
    made = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=120)
    assert made.verdict == "weak"
    return plan(made, 50, factors=[1.0], **NEXT, **{**ASKED, "gpu": GPUS[0]}, markets="on-demand")


@pytest.fixture(scope="module")
def sweep():
    with pytest.warns(IdentificationWarning):
        return fit_chinchilla(datasets.builtin("cpu_sweep"), n_boot=120)


@pytest.fixture(scope="module")
def unknown(sweep):
    assert sweep.verdict == "not identified"
    return plan(sweep, 50, **NEXT, **{**ASKED, "gpu": GPUS[0]}, markets="on-demand")


# --- words follow the verdict --------------------------------------------------------------------------------


def test_the_headline_says_what_it_leaves_out_of_account(known, weak):
    """Asked about 2B unique tokens and 10B served: the plain optimum counts neither."""
    said, times = str(known), known.best.tokens.value / 2e9
    assert times > 1 and " ".join(f"the 2B there are {times:.3g} times".split()) in " ".join(said.split())
    assert "counts training alone" in said
    assert "takes every token for a new one" not in str(weak) and "counts training alone" not in str(weak)


def test_identified_recommends(known):
    text = str(known)
    assert known.usable and known.verdict == "identified"
    assert "the runs determine this" in text and "loosely" not in text and "About" not in text.split("\n")[0]
    assert text.index("That has the lowest predicted loss for $50.00") < text.index("next runs ")


def test_weak_says_so_everywhere(weak):
    first, verdict, *rest = str(weak).split("\n")
    assert weak.usable and first.startswith("$50.00: About ") and "only loosely" in verdict
    assert any("first guess" in line for line in rest)
    assert "as far as the runs at hand tell" in weak.report().html


def test_not_identified_recommends_nothing_and_puts_next_runs_first(unknown):
    text, page = str(unknown), unknown.report().html
    assert unknown.best is None and not unknown.steps and unknown.cap is None and unknown.safe is None
    assert "No size and token count from these runs" in text and "the runs do not determine this" in text
    assert "lowest predicted loss" not in text and "recommended" not in page.split("</section>")[0]
    assert page.index('id="next-runs"') < page.index('id="known"') < page.index('id="money"')
    split = unknown.learning.suggested
    assert split is not None and split.runs is not None and split.usd == 50
    assert split.runs.after.value < split.runs.before.value
    assert all(o.params * o.tokens > 0 and math.isnan(o.loss) for o in unknown.offers)


def test_a_published_law_speaks_only_if_asked_and_as_such(unknown, known):
    assert unknown.published is None and "published law" not in str(unknown).split("next runs")[0]
    assert known.published is not None and known.published.params.value != known.best.params.value
    asked = plan(None, 50, prior="hoffmann2022", **NEXT, **{**ASKED, "gpu": GPUS[0]}, markets="on-demand")
    assert asked.best is None and "no runs yet" in str(asked)
    assert asked.learning.suggested.runs.usd.value <= 50.5
    assert "As such, and not from these runs" in str(asked) and 'id="published"' in asked.report().html


def test_an_identified_law_is_not_asked_for_what_lies_too_far_away():
    """Runs of up to 50M parameters say nothing of a million dollars, however well they fit."""
    n, d, loss = crossed(6, 4, noise=0.003, params=(2e6, 5e7), tokens=(5e7, 2e9))
    made = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=60)
    assert made.verdict == "identified"
    found = plan(made, "1M", **{**ASKED, "gpu": GPUS[1]}, markets="on-demand", **{**NEXT, "splits": [1e-5]})
    assert not found.usable and "too far from them" in str(found) and "decades" in found.basis.refusal
    assert str(found).split("\n")[1].split()[1:3] == ["not", "identified:"]


# --- numbers against brute force -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def brute(fit):
    """For each sum of money every kind of machine by `solve_budget`, lowest loss first."""
    return {50 * f: _every(fit, 50 * f) for f in FACTORS}


def _every(fit, usd: float):
    rest = {k: v for k, v in ASKED.items() if k != "gpu"}
    found = []
    for gpu in GPUS:
        for market in ("on-demand", "spot"):
            one = solve_budget(usd, fit=fit, gpu=gpu, market=market, **rest)
            found.append((one.loss.value, gpu, market, one))
    return sorted(found, key=lambda row: row[0])


def test_the_recommended_run_is_that_of_all_machines_tried(known, brute):
    (loss, gpu, market, one), second, *_ = brute[50]
    plan_ = known.best.cost.plan
    assert (plan_.part.name, plan_.market, plan_.n_gpus) == (gpu, market, one.cost.plan.n_gpus)
    assert known.best.loss.value == pytest.approx(loss, abs=5e-4)
    assert known.best.params.value == pytest.approx(one.params, rel=0.1)  # flat: 10% are 0.0005 of loss
    assert known.best.usd.value == pytest.approx(50, rel=1e-6)
    assert known.runner_up.gpu == second[1] and known.runner_up.loss == pytest.approx(second[0], abs=5e-4)


def test_money_against_loss_is_complete_and_nothing_on_it_is_beaten(known, fit, brute):
    points = [(usd, *row[:3]) for usd, rows in brute.items() for row in rows]
    wanted = {
        (usd, gpu, market) for usd, loss, gpu, market in points
        if not any(u <= usd and x <= loss and (u, x) != (usd, loss) for u, x, *_ in points)
    }  # fmt: skip
    assert {(s.offer.budget_usd, s.offer.gpu, s.offer.market) for s in known.steps} == wanted
    for s in known.steps:
        assert s.law.value == pytest.approx(fit.law.loss(s.offer.params, s.offer.tokens), rel=1e-12)
        assert s.one_run.low <= s.law.low <= s.law.high <= s.one_run.high
        assert s.offer.usd.value == pytest.approx(s.offer.budget_usd, rel=1e-5)


def test_front_against_every_pair():
    rng = np.random.default_rng(0)
    points = [(float(a), float(b)) for a, b in rng.integers(0, 9, (60, 2))]

    def beaten(p):
        return any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)

    assert {points[i] for i in front(points)} == {p for p in points if not beaten(p)}


def test_breaking_the_cap_is_the_share_of_the_draws_above_it(known):
    for found, cap in ((known.best, known.cap), (known.safe.answer, known.safe.cap)):
        spent = np.atleast_1d(found.cost.outcome.total_usd)
        assert cap.over == np.mean(spent > 50)
        assert cap.overrun_usd == pytest.approx(np.mean(spent[spent > 50]) - 50)
        again = cost(**{**found.cost.asked, "N": found.params.value, "D": found.tokens.value})
        assert again.usd.value == pytest.approx(found.usd.value)
    assert known.cap.over == pytest.approx(0.5, abs=0.01)
    assert known.safe.cap.over <= 0.1 + 1e-9 and known.safe.answer.loss.value > known.best.loss.value
    edges, shares = (known.distribution[k] for k in ("edges_usd", "shares"))
    for name, over in (("recommended", known.cap.over), ("safe", known.safe.cap.over)):
        right = sum(s for s, low in zip(shares[name], edges[:-1], strict=True) if low >= 50)
        assert sum(shares[name]) == pytest.approx(1) and right == pytest.approx(over)


def test_a_cost_that_is_known_breaks_no_cap(fit):
    sure = {
        "gpu": GPUS[0],
        "markets": "on-demand",
        "mfu": "40%",
        "mfu_kind": "run",
        "price": 1.5,
        "overheads": "none",
    }
    found = plan(fit, 50, factors=[1.0], **NEXT, **sure)
    assert found.best.usd.low == found.best.usd.high == pytest.approx(50)
    assert (
        found.cap.over == 0
        and found.safe.cap.over == 0
        and found.safe.loss_lost == pytest.approx(0, abs=1e-6)
    )


def test_spot_in_the_words_of_its_run(known):
    s, run = known.spot, known.best.cost
    assert s.recommended and run.plan.preempted
    hourly = run.plan.n_gpus * run.plan.price.median
    assert s.one_usd == pytest.approx(hourly * (run.plan.interval / 2 + run.plan.restart_hours))
    assert s.worst_usd == pytest.approx(s.one_usd + hourly * run.plan.interval / 2)
    assert 0 < s.untouched < 1 and 0 < s.lost_usd.value < run.usd.value
    assert s.on_demand_usd.value > 0 and 0 <= s.dearer <= 1


def test_learning_first_is_weighed_with_the_regret_of_every_law(known, fit):
    """By hand: for each law held possible, its own best size for the money against the recommended one."""
    split = known.learning.splits[0]
    assert split.usd == 10 and split.runs.usd.value <= 10.1  # the median of a sum, not the sum of medians
    assert split.loss_lost == pytest.approx(split.final.loss - known.best.loss.value) and split.loss_lost > 0
    assert split.final.usd.value == pytest.approx(40, rel=1e-5)
    assert 0 <= known.learning.regret_mean <= known.learning.regret_high
    settings = {k: v for k, v in known.best.cost.asked.items() if k not in ("N", "D")}
    sizes = known.best.params.value * np.exp(np.linspace(-1, 1, 21))
    tokens = np.array([solve_budget(50, N=float(n), **settings).tokens for n in sizes])
    draws = [vars(fit.draws)[k][:, None] for k in ("E", "A", "B", "alpha", "beta")]
    losses = draws[0] + draws[1] / sizes ** draws[3] + draws[2] / tokens ** draws[4]
    regret = (losses[:, 10] - losses.min(axis=1)).mean()
    assert known.learning.regret_mean == pytest.approx(regret, abs=1.5e-4)
    assert known.learning.worth is (split.loss_lost < known.learning.regret_mean)


def test_other_answers_move_as_they_must(known):
    serving, data = known.others
    assert serving.answer.params.value < known.best.params.value
    assert serving.answer.tokens.value > known.best.tokens.value
    assert serving.answer.loss.value == pytest.approx(known.best.loss.value, rel=1e-3)
    assert data.answer.more["epochs"].value > 1 and data.answer.loss.value > known.best.loss.value
    assert "smaller model on more tokens" in serving.words and "times" in data.words


# --- machines ------------------------------------------------------------------------------------------------


def test_a_deadline_takes_more_gpus(fit, known):
    hours = 0.5 * known.best.hours.value
    fast = plan(fit, 50, factors=[1.0], **NEXT, deadline_hours=hours, **ASKED)
    assert all(o.hours.value <= hours for o in fast.offers)
    assert fast.best.cost.plan.n_gpus > known.best.cost.plan.n_gpus
    assert fast.best.loss.value >= known.best.loss.value - 1e-3 and 0 < fast.cap.late <= 0.5 + 0.01


def test_an_unmeasured_part_is_shown_and_not_recommended(fit):
    found = plan(fit, 50, gpu=["A100-80GB-SXM", "RTX 6000 Ada"], factors=[1.0], **NEXT, as_of=DAY, draws=200)
    assert found.offers[0].gpu == "RTX-6000-Ada" and not found.offers[0].measured
    assert found.machine.gpu == "A100-80GB-SXM" and found.unmeasured is not None
    assert "nobody measured its speed" in str(found)


def test_what_does_not_fit_is_never_recommended(fit):
    """$5,000 want more parameters than one 24 GB card holds."""
    asked = {
        "n_gpus": 1,
        "as_of": DAY,
        "draws": 200,
        "markets": "on-demand",
        "factors": [1.0],
        "splits": [0.2],
    }
    with pytest.raises(NoMachineError, match="do not fit into 1 of them"):
        plan(fit, "5k", gpu="RTX 4090", **asked)
    free = plan(fit, "5k", gpu=["RTX 4090", "H100 SXM"], **{**asked, "n_gpus": None})
    assert all(o.cost.memory is None or o.cost.memory.fits for o in free.offers)
    assert free.best.cost.memory.fits


def test_plain_types_and_no_draws_in_the_block(known):
    content = json.loads(known.to_json())
    assert content["format"] == "isoflop-proposal" and content["usable"] is True
    assert content["best"]["params"]["value"] == known.best.params.value
    assert len(str(known)) < 8000
