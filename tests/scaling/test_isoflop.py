"""IsoFLOP analysis end to end: recovery, units, order, reports, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from scaling import (
    ChinchillaLaw,
    DataError,
    Estimate,
    ExtrapolationWarning,
    NotIdentifiedError,
    RunTable,
    TooFewRunsError,
)
from scaling.isoflop import IsoflopFit, QualityRules, fit_isoflop
from tests.scaling.isoflop_worlds import BESIROGLU, SKEWED, world


def noisy(seed: int = 0, **kwargs: Any) -> dict[str, Any]:
    options = {"noise": 0.003, "rng": np.random.default_rng(seed)} | kwargs
    return world(**options)


@pytest.fixture(scope="module")
def fit() -> IsoflopFit:
    return fit_isoflop(**noisy(), surface=BESIROGLU)


# --- the truth is found ---------------------------------------------------------------------------


@pytest.mark.parametrize("law", [BESIROGLU, SKEWED, ChinchillaLaw(1.69, 400.0, 400.0, 0.465, 0.155)])
def test_noise_free_optimum_is_exact_once_the_sum_of_exponents_is_right(law: ChinchillaLaw) -> None:
    fit = fit_isoflop(**world(law, width=1.0, offset=0.2), exponent_sum=law.alpha + law.beta, surface=None)
    assert fit.exponents == pytest.approx((law.alpha, law.beta), rel=1e-5)
    for b in fit.used:
        best = law.optimal(b.flops)
        assert b.law is not None
        assert b.law.params.value == pytest.approx(best.params, rel=1e-6)
        assert b.law.tokens.value == pytest.approx(best.tokens, rel=1e-6)
        assert b.law.loss.value == pytest.approx(best.loss, rel=1e-9)
    assert fit.frontier.params.exponent.value == pytest.approx(law.params_exponent, abs=1e-7)
    assert fit.frontier.exponent_sum.value == pytest.approx(1.0, abs=1e-9)
    with pytest.warns(ExtrapolationWarning):
        far = fit.optimal(1e24)
    assert far.params.value == pytest.approx(law.optimal(1e24).params, rel=1e-5)
    assert far.loss is not None and far.loss.value == pytest.approx(law.optimal(1e24).loss, rel=1e-5)


def test_given_exponents_make_it_exact_without_any_search() -> None:
    fit = fit_isoflop(**world(SKEWED), exponents=(SKEWED.alpha, SKEWED.beta), surface=None)
    assert fit.skew is not None and fit.skew.low == fit.skew.high == pytest.approx(SKEWED.beta - SKEWED.alpha)
    for b in fit.used:
        assert b.law is not None
        assert b.law.params.value == pytest.approx(SKEWED.optimal(b.flops).params, rel=1e-9)


@pytest.mark.parametrize("total", [0.5, 0.9])
def test_a_wrong_sum_of_exponents_hardly_moves_the_optimum(total: float) -> None:
    """What `scaling.isoflop.shape` claims: the sum enters at fourth order, the skew at third."""
    fit = fit_isoflop(**world(SKEWED, n=15, width=1.0), exponent_sum=total, surface=None)
    for b in fit.used:
        assert b.law is not None and b.parabola is not None
        truth = np.log(SKEWED.optimal(b.flops).params)
        assert abs(np.log(b.law.params.value) - truth) < 0.02
        assert abs(np.log(b.parabola.params.value) - truth) > 0.1  # U10: -10.7%


def test_tokens_are_read_off_the_runs_not_off_the_flops_column() -> None:
    """A flops column by another convention labels the budgets; N* and D* belong to the runs."""
    table = noisy()
    labels = np.repeat([1.2e18, 1.2e19, 1.2e20, 1.2e21], 9)
    fit = fit_isoflop(**table, flops=labels, surface=None)
    assert [b.flops for b in fit.used] == [1.2e18, 1.2e19, 1.2e20, 1.2e21]
    b = fit.used[1]
    assert b.law is not None
    assert 6 * b.law.params.value * b.law.tokens.value == pytest.approx(1e19, rel=1e-6)
    # A column that drifts against 6ND makes a + b differ from 1, and the fit says so.
    drifting = fit_isoflop(**table, flops=np.repeat([1.0e18, 1.1e19, 1.3e20, 1.6e21], 9), surface=None)
    assert drifting.frontier.exponent_sum.value == pytest.approx(1 / (1 + np.log10(1.6) / 3), abs=0.01)
    assert drifting.finding("exponents_do_not_sum_to_one") is not None
    # And one that is out of all proportion is not believed.
    wild = fit_isoflop(**table, flops=labels * 10, surface=None)
    assert wild.finding("flops_disagree") is not None
    assert wild.used[0].flops == pytest.approx(1e18)


# --- U10: the fit prices its own parabola -----------------------------------------------------------


def test_the_fit_reports_the_bias_of_its_own_design_and_recommends_the_surface() -> None:
    fit = fit_isoflop(**noisy(law=SKEWED, n=15, width=1.0), surface=SKEWED, extrapolate_to=1e24)
    bias = fit.bias["parabola"]
    assert 100 * bias.relative_extrapolated == pytest.approx(-10.7, abs=0.05)
    assert abs(fit.bias["law"].relative_extrapolated) < 0.01
    finding = fit.finding("parabola_biased")
    assert finding is not None and "Approach 3" in finding.message
    assert abs(finding.evidence["relative"]) > finding.evidence["half_width"]
    assert "bias of the parabola curve: N* -10.7%" in repr(fit)
    # The measured difference between the two curves is that bias.
    for b in fit.used:
        assert b.law is not None and b.parabola is not None
        assert b.parabola.params.value / b.law.params.value == pytest.approx(0.893, abs=0.05)


def test_a_narrow_design_on_a_symmetric_surface_is_left_in_peace(fit: IsoflopFit) -> None:
    assert abs(fit.bias["parabola"].relative_extrapolated) < 0.01
    assert fit.finding("parabola_biased") is None


def test_the_surface_is_fitted_to_the_same_runs_by_default() -> None:
    table = noisy(law=SKEWED, n=15, width=1.0)
    fitted = fit_isoflop(**table, extrapolate_to=1e24)
    assert 100 * fitted.bias["parabola"].relative_extrapolated == pytest.approx(-10.7, abs=2)
    without = fit_isoflop(**table, surface=None, extrapolate_to=1e24)
    assert set(without.bias) == {"parabola"} and "shared" in without.bias["parabola"].source
    assert 100 * without.bias["parabola"].relative_extrapolated == pytest.approx(-10.7, abs=3)
    assert fitted.frontier.params.exponent == without.frontier.params.exponent


# --- properties -----------------------------------------------------------------------------------

factors = st.floats(-6, 6).map(lambda e: 10.0**e)


@settings(max_examples=25, deadline=None)
@given(n=factors, d=factors, loss=factors)
def test_units_of_params_tokens_and_loss_do_not_matter(n: float, d: float, loss: float) -> None:
    table = noisy(law=SKEWED)
    plain = fit_isoflop(**table, surface=None)
    scaled = fit_isoflop(
        params=table["params"] * n, tokens=table["tokens"] * d, loss=table["loss"] * loss, surface=None
    )
    assert scaled.skew is not None and plain.skew is not None
    assert scaled.skew.interval == pytest.approx(plain.skew.interval, rel=1e-5, abs=1e-6)
    for a, b in zip(plain.used, scaled.used, strict=True):
        for kind in ("parabola", "law"):
            one, other = a.curves[kind], b.curves[kind]  # type: ignore[index]
            assert other.flops == pytest.approx(one.flops * n * d)
            assert other.params.interval == pytest.approx([v * n for v in one.params.interval], rel=1e-5)
            assert other.tokens.interval == pytest.approx([v * d for v in one.tokens.interval], rel=1e-5)
            assert other.loss.interval == pytest.approx([v * loss for v in one.loss.interval], rel=1e-6)
    for kind, frontier in plain.frontiers.items():
        other_frontier = scaled.frontiers[kind]
        assert other_frontier.params.exponent.interval == pytest.approx(
            frontier.params.exponent.interval, rel=1e-5
        )
        assert frontier.loss is not None and other_frontier.loss is not None
        assert other_frontier.loss.at(1e20 * n * d).interval == pytest.approx(
            [v * loss for v in frontier.loss.at(1e20).interval], rel=1e-5
        )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_does_not_matter(seed: int) -> None:
    table = noisy()
    order = np.random.default_rng(seed).permutation(len(table["loss"]))
    plain = fit_isoflop(**table, surface=None)
    mixed = fit_isoflop(**{k: v[order] for k, v in table.items()}, surface=None)
    assert mixed.frontier.params.exponent == plain.frontier.params.exponent
    assert [b.law.params for b in mixed.used if b.law] == [b.law.params for b in plain.used if b.law]


def test_sigma_weights_the_losses_by_their_relative_size_alone() -> None:
    table = noisy()
    rough = table["loss"].copy()
    rough[[1, 7, 12, 20, 30]] += 0.02
    sigma = np.where(rough != table["loss"], 0.05, 0.003)
    rules = QualityRules(outlier_z=None)
    weighted = fit_isoflop(**(table | {"loss": rough}), sigma=sigma, surface=None, rules=rules)
    truth = fit_isoflop(**table, surface=None)
    even = fit_isoflop(**(table | {"loss": rough}), surface=None, rules=rules)

    def miss(fit: IsoflopFit) -> float:
        pairs = zip(fit.used, truth.used, strict=True)
        return max(abs(np.log(a.law.params.value / b.law.params.value)) for a, b in pairs if a.law and b.law)

    assert miss(weighted) < miss(even) / 3
    again = fit_isoflop(**(table | {"loss": rough}), sigma=7 * sigma, surface=None, rules=rules)
    exponent = weighted.frontier.params.exponent
    assert again.frontier.params.exponent.interval == pytest.approx(exponent.interval, rel=1e-7)


# --- inputs and outputs ---------------------------------------------------------------------------


def test_tables_frames_and_plain_objects_give_the_same(fit: IsoflopFit, tmp_path: Any) -> None:
    table = noisy()
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "runs.csv", index=False)
    for runs in (RunTable.from_arrays(**table), SimpleNamespace(**table), frame, tmp_path / "runs.csv"):
        other = fit_isoflop(runs, surface=BESIROGLU)
        assert other.frontier.params.exponent.value == pytest.approx(
            fit.frontier.params.exponent.value, rel=1e-9
        )


def test_named_budgets_and_rows_that_belong_to_none() -> None:
    table = noisy()
    fit = fit_isoflop(**table, budgets=[1e18, 1e19], surface=None)
    assert [b.flops for b in fit.budgets] == [1e18, 1e19]
    finding = fit.finding("no_budget")
    assert finding is not None and finding.evidence["rows"] == list(range(18, 36))
    with pytest.raises(DataError, match="no row is within"):
        fit_isoflop(**table, budgets=[1e25])
    with pytest.raises(DataError, match="budgets"):
        fit_isoflop(**table, budgets=[-1.0])


def test_repr_tells_the_whole_story(fit: IsoflopFit) -> None:
    text = repr(fit)
    assert text.startswith("IsoFLOP analysis of 36 runs (arrays): 4 of 4 budgets and 36 runs used")
    for word in ("1e18", "1e21", "law-shaped curve", "parabola", "N* ~ C^a", "a + b = 1.000", "beta - alpha"):
        assert word in text
    assert len(text.splitlines()) < 15
    assert repr(fit.used[0]).startswith("Budget(C=1e18, 9 of 9 runs, N* ")
    assert repr(fit.used[0].law).startswith("CurveFit(law at C=1e+18: N*=")
    assert repr(fit.optimal(1e20)).startswith("C=1e20: N* ")


def test_headline_numbers_are_estimates_and_the_dict_is_json(fit: IsoflopFit) -> None:
    law = fit.frontier.params
    point = fit.optimal(1e20)
    for e in (law.coefficient, law.exponent, point.params, point.tokens, point.loss, fit.skew):
        assert isinstance(e, Estimate) and e.low <= e.value <= e.high
    back = json.loads(json.dumps(fit.to_dict()))
    assert back["frontiers"]["law"]["params"]["exponent"]["value"] == law.exponent.value
    assert back["budgets"][0]["curves"]["parabola"]["kind"] == "parabola"
    with pytest.raises(AttributeError):
        fit.level = 0.5  # type: ignore[misc]


def test_level_and_choice_of_curve(fit: IsoflopFit) -> None:
    narrow = fit_isoflop(**noisy(), level=0.5, curve="parabola", surface=None)
    assert (
        set(narrow.frontiers) == {"parabola"} and narrow.skew is None and narrow.frontier.kind == "parabola"
    )
    wide = fit.frontiers["parabola"].params.exponent
    assert narrow.frontier.params.exponent.value == wide.value
    assert narrow.frontier.params.exponent.high < wide.high
    assert fit.optimal(1e20, curve="parabola").params.value != fit.optimal(1e20).params.value
    assert fit.optimal(1e20, level=0.5).params.high < fit.optimal(1e20).params.high
    with pytest.raises(DataError, match="no 'law' frontier"):
        narrow.optimal(1e20, curve="law")
    with pytest.raises(DataError, match="flops"):
        fit.optimal(-1.0)


def test_two_budgets_give_a_line_without_a_check() -> None:
    fit = fit_isoflop(**noisy(budgets=[1e19, 1e20]), surface=None)
    assert fit.finding("two_budgets") is not None
    assert fit.frontier.loss is None
    a = fit.frontier.params.exponent
    assert a.low < BESIROGLU.params_exponent < a.high


# --- refusals -------------------------------------------------------------------------------------


def test_one_budget_has_an_optimum_but_no_frontier() -> None:
    with pytest.raises(NotIdentifiedError, match="one usable budget, C=1e19") as error:
        fit_isoflop(**noisy(budgets=[1e19]))
    assert error.value.quantities == ("a", "b", "G", "H")
    (budget,) = error.value.partial
    assert budget.law.params.low < BESIROGLU.optimal(1e19).params < budget.law.params.high
    assert error.value.remedy is not None and "second budget" in error.value.remedy


def test_every_dropped_budget_is_in_the_refusal() -> None:
    table = noisy(n=4)
    with pytest.raises(NotIdentifiedError) as error:
        fit_isoflop(**table)
    assert str(error.value).count("too_few_points") == 4


def test_fewer_than_three_runs() -> None:
    with pytest.raises(TooFewRunsError) as error:
        fit_isoflop(params=[1e8, 2e8], tokens=[1e9, 5e8], loss=[3.0, 3.1])
    assert (error.value.n_runs, error.value.needed) == (2, 3)


def test_three_points_a_budget_leave_no_shape_to_estimate() -> None:
    rules = QualityRules(min_points=3, curvature_level=None, outlier_z=None)
    fit = fit_isoflop(**world(n=3, width=0.3), rules=rules, surface=None)
    assert set(fit.frontiers) == {"parabola"}
    assert fit.finding("no_shape") is not None
    assert np.isnan(fit.used[0].curves["parabola"].params.low)  # no degree of freedom, no interval
    given = fit_isoflop(**world(n=3, width=0.3), rules=rules, exponents=(0.35, 0.37), surface=None)
    assert set(given.frontiers) == {"parabola", "law"}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"level": 1.0}, "level"),
        ({"curve": "cubic"}, "curve"),
        ({"group_tol": 0.0}, "group_tol"),
        ({"exponents": (0.3, -0.1)}, "exponents"),
        ({"exponent_sum": 0.0}, "exponent_sum"),
        ({"surface": "guess"}, "surface"),
        ({"surface": object()}, "surface"),
        ({"loss": None}, "loss"),
        ({"params": [1.0, 2.0]}, "tokens"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], word: str) -> None:
    with pytest.raises(DataError, match=word):
        fit_isoflop(**(noisy() | options))


def test_runs_and_arrays_exclude_each_other() -> None:
    with pytest.raises(DataError, match="not neither"):
        fit_isoflop()
    with pytest.raises(DataError, match="not both"):
        fit_isoflop(RunTable.from_arrays(**noisy()), loss=[1.0])


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, scaling.isoflop; "
        "print([m for m in ('pandas', 'scipy', 'statsmodels', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
