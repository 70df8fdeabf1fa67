"""What the runs determine, what they leave open, and what is refused for it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from scaling import (
    BootstrapWarning,
    ChinchillaFit,
    ChinchillaLaw,
    DataError,
    ExtrapolationWarning,
    IdentificationWarning,
    NotIdentifiedError,
    RunTable,
    datasets,
    fit_chinchilla,
)
from scaling.jacobian import condition_number
from scaling.residuals import noise_sd
from scaling.undetermined import needed_levels
from tests.scaling.fit_worlds import BESIROGLU, T, crossed, table


@cache
def hoffmann() -> ChinchillaFit:
    return fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=400)


@cache
def cpu_sweep() -> ChinchillaFit:
    with pytest.warns(IdentificationWarning, match="E is not identified"):
        return fit_chinchilla(datasets.builtin("cpu_sweep"), n_boot=400)


def codes(fit: ChinchillaFit) -> set[str]:
    return {f.code for f in fit.diagnostics.findings}


# -- the two tables that ship ----------------------------------------------------------------------


def test_published_points_identify_the_law() -> None:
    fit = hoffmann()
    assert fit.verdict == "identified" and fit.status == "converged"
    assert not fit.diagnostics.identification and fit.diagnostics.remedy == ""
    assert 25 < fit.diagnostics.condition_number < 65
    assert fit.diagnostics.e_zero_share == 0.0
    # What is wrong with them is said all the same: digitised points that bend away from the law, and from its form.
    assert codes(fit) == {"curvature_in_residuals", "form_rejected"}
    assert "inside the range of the runs" in fit.summary()


def test_a_sweep_on_two_cores_does_not() -> None:
    fit = cpu_sweep()
    assert fit.verdict == "not identified"
    floor = fit.diagnostics.finding("e_at_bound")
    assert floor is not None and floor.severity == "error"
    assert floor.evidence["e_zero_share"] > 0.025
    edge = fit.diagnostics.finding("optimum_outside")
    assert edge is not None and "below the smallest run" in edge.message
    assert edge.evidence["params"] < fit.runs.params.min()
    mixed = fit.diagnostics.finding("covariate_explains_residuals")
    assert mixed is not None and mixed.evidence["covariate"] == "batch_tokens"
    assert mixed.evidence["gap"] > 0.02 and "mixes recipes" in mixed.message
    assert "Adding runs at" in fit.diagnostics.remedy


def test_the_sweep_has_no_answer_at_1b() -> None:
    """5.8 decades of compute away; the number is to be had only by asking for it."""
    fit = cpu_sweep()
    with pytest.raises(NotIdentifiedError, match=r"5\.\d decades of compute beyond") as caught:
        fit.tokens_at("1B")
    error = caught.value
    assert error.quantities == ("D*(1B)",)
    assert error.condition_number == fit.diagnostics.condition_number
    assert error.remedy is not None and "FLOP or more" in error.remedy and "Adding runs" in error.remedy
    assert "unidentified='return'" in str(error)
    with pytest.warns(ExtrapolationWarning):
        answer = fit.tokens_at("1B", unidentified="return")
    assert answer.high > 100 * answer.low
    assert "is not identified by these 52 runs" in fit.summary()
    # Inside the sweep there is an answer.
    assert fit.tokens_at(5e4).value > 0


def test_one_recipe_of_the_sweep_leaves_the_covariate_out() -> None:
    with pytest.warns(IdentificationWarning):
        fit = fit_chinchilla(datasets.builtin("cpu_sweep"), where="batch_tokens == 512", n_boot=200)
    assert "covariate_explains_residuals" not in codes(fit)
    assert fit.verdict == "not identified"


# -- designs that determine nothing ----------------------------------------------------------------

SIX = np.geomspace(2e7, 2e9, 6)


def test_one_size_leaves_alpha_open() -> None:
    d = np.geomspace(1e9, 1e11, 8)
    with pytest.raises(NotIdentifiedError, match="all rows share N = 1B") as caught:
        fit_chinchilla(params=np.full(8, 1e9), tokens=d, loss=T.loss(1e9, d), n_boot=50)
    error = caught.value
    assert {"A", "alpha", "E"} <= set(error.quantities) and "beta" not in error.quantities
    law = error.partial.law
    assert law.alpha == pytest.approx(T.beta, rel=1e-6)
    assert law.E == pytest.approx(T.E + T.A / 1e9**T.alpha, rel=1e-7)
    assert error.partial.predict(2e10).value == pytest.approx(T.loss(1e9, 2e10), rel=1e-9)


def test_twenty_tokens_per_parameter_throughout_is_one_variable() -> None:
    n = np.geomspace(1e7, 1e10, 10)
    with pytest.raises(NotIdentifiedError, match="D = 20 N: parameters and tokens moved together") as caught:
        fit_chinchilla(params=n, tokens=20 * n, loss=T.loss(n, 20 * n))
    error = caught.value
    assert error.condition_number == math.inf
    assert {"A", "B", "alpha", "beta", "tokens_at"} <= set(error.quantities)
    # Along the line the losses are known, as a law in C.
    partial = error.partial
    assert partial.variables == ("flops",)
    assert partial.predict(6 * 20 * 3e8**2).value == pytest.approx(T.loss(3e8, 6e9), rel=2e-3)


def test_nearly_proportional_is_fitted_and_doubted() -> None:
    n = np.geomspace(1e7, 1e10, 24)
    d = 20 * n * np.exp(np.random.default_rng(0).normal(0, 0.1, 24))
    loss = T.loss(n, d) * np.exp(np.random.default_rng(1).normal(0, 0.003, 24))
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=200)
    assert {"ill_conditioned", "narrow_tokens_per_param"} <= codes(fit)
    assert fit.diagnostics.condition_number > 100
    assert fit.verdict != "identified" and "Adding runs at" in fit.diagnostics.remedy


@pytest.mark.parametrize(("axis", "symbol", "value"), [(0, "N", "20M"), (1, "D", "1B")])
def test_two_levels_are_one_too_few(axis: int, symbol: str, value: str) -> None:
    """The partial law is of one level alone: mixing two would put their difference into an exponent."""
    runs = crossed(6, 6)
    two = np.isin(runs[axis], np.unique(runs[axis])[:2])
    n, d, loss = (a[two] for a in runs)
    with pytest.raises(NotIdentifiedError, match="3 distinct") as caught:
        fit_chinchilla(params=n, tokens=d, loss=loss)
    partial = caught.value.partial
    assert len(partial.runs) == 6
    assert f"Fitted to the 6 runs at {symbol} = {value}" in str(caught.value)
    assert partial.law.alpha == pytest.approx(T.beta if axis == 0 else T.alpha, rel=1e-5)
    assert caught.value.remedy == f"add a third value of {symbol}, a factor 4 or more away"


def test_two_levels_are_enough_where_the_floor_is_held() -> None:
    n, d, loss = (a[np.isin(crossed()[1], np.unique(crossed()[1])[:2])] for a in crossed())
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, fixed={"E": T.E}, n_boot=100)
    assert fit.law.beta == pytest.approx(T.beta, rel=1e-6)
    assert fit.verdict == "identified" and fit.n_failed < 10


@pytest.mark.parametrize(
    ("fixed", "tied", "needed"),
    [
        ((), False, (3, 3, 6)),
        (("E",), False, (2, 2, 5)),
        (("alpha", "beta"), False, (2, 2, 4)),
        (("A", "B"), False, (2, 2, 4)),
        ((), True, (2, 2, 5)),
        (("alpha",), True, (2, 2, 4)),
        (("E", "A", "B", "alpha", "beta"), False, (1, 1, 1)),
    ],
)
def test_levels_needed_for_what_is_free(
    fixed: tuple[str, ...], tied: bool, needed: tuple[int, int, int]
) -> None:
    """Checked against the rank of the Jacobian on grids of every size: one level less and it drops."""
    assert needed_levels(fixed, tied) == needed
    least_n, least_d, together = needed
    for sizes in range(1, 5):
        for counts in range(1, 5):
            n, d, _ = crossed(sizes, counts)
            enough = sizes >= least_n and counts >= least_d and sizes + counts >= together
            condition = condition_number(T, n, d, np.ones(n.size), fixed, tied)
            assert (condition < 1e7) == enough, (sizes, counts, condition)


# -- single findings -------------------------------------------------------------------------------


def test_condition_number_is_that_of_what_is_free() -> None:
    n, d, _ = crossed(6, 4)
    one = np.ones(24)
    everything = condition_number(T, n, d, one)
    assert 25 < everything < 65
    assert condition_number(T, n, d, one, ("E",)) < everything
    assert condition_number(T, n, d, one, tied=True) < everything
    assert condition_number(T, n, d, one, ("E", "A", "B", "alpha", "beta")) == 1.0
    assert condition_number(T.scaled(params=1e-6), n * 1e-6, d, one) == pytest.approx(everything)
    assert condition_number(T, n, d, np.where(n > n.min(), 1.0, 1e-12)) > everything


def test_few_units_are_said() -> None:
    n, d, loss = crossed(8, 6, noise=0.003)
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss, trunk_id=np.unique(n, return_inverse=True)[1])
    fit = fit_chinchilla(runs, n_boot=60)
    finding = fit.diagnostics.finding("few_units")
    assert finding is not None and finding.evidence["n_units"] == 8
    assert fit.verdict == "weak"
    assert fit.settings.resample == "cluster" and fit.settings.cluster_key == "trunk_id"
    assert "over 8 trunk_id clusters" in fit.summary()


def test_a_fit_without_draws_is_judged_by_its_design() -> None:
    fit = fit_chinchilla(table(noise=0.003), n_boot=0)
    assert fit.verdict == "weak"
    finding = fit.diagnostics.finding("no_draws")
    assert finding is not None and 0 < finding.evidence["predicted_se_ln_tokens"] < 0.2
    assert "no bootstrap was made" in fit.summary()
    assert math.isnan(fit.tokens_at(1e9).low) and "(no interval)" in repr(fit.tokens_at(1e9))
    assert fit.regime(1e9, 1e9).label == "not judged: no interval"


def test_noise_that_swamps_the_law_is_not_identified() -> None:
    n, d, _ = crossed()
    loss = np.random.default_rng(0).uniform(2, 3, 24)
    with pytest.warns(IdentificationWarning):
        fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=60)
    assert fit.verdict == "not identified"
    with pytest.raises(NotIdentifiedError):
        fit.tokens_at(1e9)
    assert "not identified" in fit.summary() and "not identified" in fit._repr_html_()


# -- guards ----------------------------------------------------------------------------------------


def test_guards_raise_warn_or_return() -> None:
    fit = fit_chinchilla(table(8, 6, noise=0.003, law=BESIROGLU), n_boot=200)
    top = float(fit.runs.compute.max())
    assert fit.optimal(top).decades_outside == 0.0
    with pytest.warns(ExtrapolationWarning, match=r"2\.0 decades of compute beyond") as seen:
        fit.optimal(100 * top)
    assert seen[0].filename == __file__  # the line that asked, not one of ours
    with pytest.raises(NotIdentifiedError, match=r"3\.3 decades"):
        fit.optimal(2000 * top)
    with pytest.warns(ExtrapolationWarning):
        assert fit.optimal(2000 * top, unidentified="return").decades_outside == pytest.approx(3.30, abs=0.01)
    below = float(fit.runs.compute.min()) / 100
    with pytest.warns(ExtrapolationWarning):
        assert fit.optimal(below).decades_outside == pytest.approx(2.0)
    for ask in (fit.tokens_at, fit.params_at, fit.tokens_per_param):
        with pytest.raises(DataError, match="'raise' or 'return'"):
            ask(1e9, unidentified="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["tokens_at", "params_at", "tokens_per_param", "optimal", "regime", "predict"]
)
def test_warnings_point_at_whoever_asked(name: str) -> None:
    fit = fit_chinchilla(table(8, 6, noise=0.003, law=BESIROGLU), n_boot=60)
    far = {
        "tokens_at": (5e10,),
        "params_at": (1e12,),
        "tokens_per_param": (5e10,),
        "optimal": (1e23,),
        "regime": (2e10, 1e12),
        "predict": (2e10, 1e12),
    }[name]
    with pytest.warns(ExtrapolationWarning) as seen:
        getattr(fit, name)(*far)
    assert {w.filename for w in seen} == {__file__}


def test_a_law_held_whole_needs_no_verdict() -> None:
    law = {k: getattr(T, k) for k in vars(T)}
    fit = fit_chinchilla(table(noise=0.01), fixed=law, n_boot=60)
    assert fit.law == ChinchillaLaw(**law)
    assert fit.ci("alpha").interval == (T.alpha, T.alpha)
    assert fit.verdict == "identified"


def test_three_runs_with_many_checkpoints_get_no_interval() -> None:
    """Most resamples of three runs lack one: what is left are permutations, and covered 0 of 40 worlds."""
    params = np.repeat([1e8, 3e8, 1e9], 8)
    tokens = np.tile(np.geomspace(1e9, 3e10, 8), 3)
    luck = np.repeat(np.exp(np.random.default_rng(1).normal(size=3) * 0.005), 8)
    loss = ChinchillaLaw(1.82, 482.0, 2085.0, 0.348, 0.366).loss(params, tokens) * luck
    with pytest.warns(BootstrapWarning, match="only 3 independent groups clusters: 4 are needed"):
        fit = fit_chinchilla(params=params, tokens=tokens, loss=loss, groups=np.repeat(list("abc"), 8))
    assert fit.settings.n_boot == 0
    assert np.isnan(fit.tokens_at(1e9).low)


def test_a_gross_outlier_is_named() -> None:
    n, d = (a.ravel() for a in np.meshgrid(np.geomspace(1e7, 3e9, 6), np.geomspace(1e9, 1e11, 4)))
    loss = ChinchillaLaw(1.82, 482.0, 2085.0, 0.348, 0.366).loss(n, d)
    loss = loss * np.exp(np.random.default_rng(1).normal(size=24) * 0.003)
    clean = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=50)
    assert clean.diagnostics.finding("gross_outlier") is None
    loss[3] *= 7
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=50)
    finding = fit.diagnostics.finding("gross_outlier")
    assert finding is not None and finding.evidence["rows"] == [3]
    assert "but 1 finding below speaks against the law" in fit.summary() or fit.verdict != "identified"


def test_copied_rows_are_doubted() -> None:
    n, d = (a.ravel() for a in np.meshgrid(np.geomspace(1e7, 3e9, 6), np.geomspace(1e9, 1e11, 4)))
    loss = ChinchillaLaw(1.82, 482.0, 2085.0, 0.348, 0.366).loss(n, d)
    loss = loss * np.exp(np.random.default_rng(1).normal(size=24) * 0.003)
    fit = fit_chinchilla(params=np.tile(n, 4), tokens=np.tile(d, 4), loss=np.tile(loss, 4), n_boot=50)
    finding = fit.diagnostics.finding("copied_rows")
    assert finding is not None and finding.evidence["copies"] == 72


def test_noise_of_a_fit_that_passes_through_runs_is_not_zero() -> None:
    """Eight runs, five coefficients: five residuals vanish whatever the noise."""
    residuals = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.004, -0.005, 0.006])
    assert noise_sd(residuals, 5) == pytest.approx(1.4826 * 0.005)


@pytest.mark.parametrize("n_boot", [0, 20])
def test_a_law_held_entirely_is_judged_without_a_fit(n_boot: int) -> None:
    held = {"E": 1.82, "A": 482.0, "B": 2085.0, "alpha": 0.348, "beta": 0.366}
    fit = fit_chinchilla(datasets.builtin("hoffmann2022"), fixed=held, n_boot=n_boot)
    assert fit.law.to_dict() == pytest.approx(held)
