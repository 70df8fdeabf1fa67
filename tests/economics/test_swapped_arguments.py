"""Arguments of the planning functions in the wrong place, or of the wrong kind: one short line that names them."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

from economics import plan, suggest
from economics.decide import (
    best_by_deadline,
    best_for_budget,
    cheapest_for_loss,
    gpus_needed,
    smaller_model,
)
from scaling import fit_chinchilla, optima
from scaling.errors import DataError, ScalingError, shown
from scaling.units import format_count
from tests.scaling.fit_worlds import T, scattered

DAY = "2026-10-10"
RUN: dict[str, Any] = {"gpu": "H100 SXM", "n_gpus": 8, "draws": 100, "as_of": DAY}
LOOK: dict[str, Any] = {"sizes": "20M,100M", "token_counts": "200M,1B"}
#: Arguments of `cost` that every one of them hands on.
COSTS = ("n_gpus", "mfu", "price", "market", "checkpoint_every", "seq_len", "overheads", "spot")


@pytest.fixture(scope="module")
def fit():
    n, d, loss = scattered(60, seed=1)
    return fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=40)


def calls(fit: Any) -> list[tuple[Any, dict[str, Any], tuple[str, ...]]]:
    """Each function with arguments that are sound, and names of settings beyond its own."""
    few = {k: v for k, v in RUN.items() if k != "n_gpus"}
    next_runs = {"gpu": "A100 SXM 80GB", "price": 1.5, "draws": 100, "n_laws": 3, "sigma": 0.003, **LOOK}
    return [
        (best_for_budget, {"usd": 100, "fit": fit, **RUN}, COSTS),
        (best_by_deadline, {"hours": 10, "fit": fit, "up_to": 2, **few}, COSTS[1:]),
        (cheapest_for_loss, {"fit": fit, "loss": 2.6, **RUN}, COSTS),
        (gpus_needed, {"N": "1B", "D": "20B", "hours": 100, **few}, COSTS[1:]),
        (smaller_model, {"fit": fit, "params": "500M", "flops": 1e20, **RUN}, COSTS),
        (suggest, {"runs": None, "budget": 20, **next_runs}, COSTS),
        (plan, {"runs": fit, "budget": 20, "gpu": "A100 SXM 80GB", "as_of": DAY, "draws": 100, **LOOK}, COSTS),
        (optima.inference_optimal, {"fit": fit, "served": 1e12, "flops": 1e20}, ()),
        (optima.data_limited_optimal, {"fit": fit, "unique_tokens": 1e9, "flops": 1e20}, ()),
        (optima.cheapest_for_loss, {"fit": fit, "loss": 2.6}, ()),
        (optima.overtraining, {"fit": fit, "params": 1e8, "flops": 1e20}, ()),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_a_fit_in_the_place_of_anything_else_is_named_in_one_line(fit):
    """Its own text has a dozen lines: what is wrong would drown in it."""
    seen = 0
    for function, sound, more in calls(fit):
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        for name in dict.fromkeys([*names, *more]):
            if name in ("fit", "runs"):
                continue
            with pytest.raises(ScalingError) as caught:
                function(**{**sound, name: fit})
            text = str(caught.value)
            where = (function.__name__, name, text)
            assert "\n" not in text and len(text) < 650, where
            assert "a ChinchillaFit" in text or "give " in text, where  # or of two that exclude each other
            assert name in text or name == getattr(caught.value, "column", None) or name == "like", where
            seen += 1
    assert seen > 130


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "odd",
    [True, 10**400, math.nan, np.array([1.0, 2.0]), object(), "x" * 3000, float],
    ids=lambda v: shown(v)[:12],
)
def test_nothing_else_is_a_fault_either(fit, odd):
    """An answer, or an error of ours in one line; the slow functions are asked about what fails at once."""
    for function, sound, more in calls(fit):
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        quick = function not in (suggest, plan)
        for name in dict.fromkeys([*names, *(more if quick else ())]):
            if name == "law" or (
                not quick and name in ("reading", "prior", "serving", "level", "unidentified", "runs")
            ):
                continue
            try:
                function(**{**sound, name: odd})
            except ScalingError as error:
                assert "\n" not in str(error) and len(str(error)) < 1000, (
                    function.__name__,
                    name,
                    str(error),
                )


def test_money_and_fit_the_wrong_way_round(fit):
    for one in (fit, T):
        with pytest.raises(DataError, match=r"usd comes first and fit second, got a Chinchilla.* swapped"):
            best_for_budget(one, 100, **RUN)
        with pytest.raises(DataError, match="hours comes first and fit second"):
            best_by_deadline(one, 100, **RUN)
    with pytest.raises(
        DataError, match="fit must be what fit_chinchilla returns, or one ChinchillaLaw; got float"
    ):
        cheapest_for_loss(2.6, fit, **RUN)
    with pytest.raises(DataError, match="budget: a ChinchillaFit is not a number"):
        plan(50, fit)


@pytest.mark.parametrize(
    ("function", "asked", "words"),
    [
        (best_for_budget, {"usd": 100, "served": -1}, "served must be 0 or more tokens served"),
        (best_by_deadline, {"hours": 0}, r"hours must be hours above 0 \(0.5 or '30 min' or '3 d'\), got 0$"),
        (best_by_deadline, {"hours": 1e30}, "hours is more than a century"),
        (best_by_deadline, {"hours": 10, "up_to": 4}, r"give n_gpus=\.\.\. or up_to=\.\.\., one of them"),
        (best_for_budget, {"usd": 100, "worth_share": 2}, "worth_share must lie between 0 and 1, got 2"),
        (best_for_budget, {"usd": 100, "repetition": 15.4}, "repetition must be a Repetition, got 15.4"),
        (best_for_budget, {"usd": 100, "market": "flea"}, "no market is called 'flea'"),
        (cheapest_for_loss, {"loss": 2.6, "gpus": ["H100 SXM", "A1000"]}, "no accelerator is called 'A1000'"),
        (cheapest_for_loss, {"loss": 2.6, "gpus": 3}, "gpus must be a name or several names, got 3"),
        (smaller_model, {"params": 5e8, "flops": 1e20, "serving": {"colour": 1}}, "serving has no 'colour'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_as_it_is(function, asked, words):
    with pytest.raises(DataError, match=words):
        function(fit=T, **{**RUN, **asked})


def test_nothing_served_is_an_answer():
    assert best_for_budget(100, T, served=0, **RUN).params == best_for_budget(100, T, **RUN).params


def test_a_value_is_shown_on_one_short_line(fit):
    assert shown("1B") == "'1B'" and shown(-1) == "-1" and shown([1, 2]) == "[1, 2]"
    assert shown(fit) == "a ChinchillaFit" and shown([fit]) == "a list" and shown(object()) == "an object"
    assert len(shown("x" * 500)) == len(shown(10**400)) == 60


def test_ends_of_intervals_have_no_thousand_of_the_largest_suffix():
    """9.9996e17 was 1e+03Q."""
    assert format_count(9.9996e17) == "1.00e+18" and format_count(9.94e17) == "994Q"
    for x in np.geomspace(1e17, 1e19, 999):
        assert "e+03" not in format_count(float(x)), x
