"""Over-training, coupled and penalty laws on the same solver: recovery, identities, intervals, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scaling import DataError, NotIdentifiedError, RunTable, TooFewRunsError, fit_chinchilla, load_runs
from scaling.coupled import fit_coupled
from scaling.data_constrained import fit_repetition_penalty
from scaling.datasets import builtin
from scaling.law_fit import LawFit
from scaling.law_names import LAWS, fit_law
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.laws.coupled import CoupledLaw
from scaling.laws.overtraining import OvertrainingLaw
from scaling.laws.penalty import RepetitionPenaltyLaw, over_fitting_load
from scaling.overtraining import fit_overtraining
from tests.scaling.fit_worlds import BESIROGLU, T, crossed, table


def runs_of(law: Any, noise: float = 0.0, seed: int = 0) -> RunTable:
    """Six sizes by six token counts over three and four decades."""
    n, d, _ = crossed(6, 6, params=(2e7, 5e9), tokens=(3e8, 1e12))
    loss = law.loss(n, d) * np.exp(noise * np.random.default_rng(seed).normal(size=n.size))
    return RunTable.from_arrays(params=n, tokens=d, loss=loss)


def coupled(k: float, alpha: float = 0.35, beta: float = 0.37) -> CoupledLaw:
    """A law whose two terms are 1 at 3e8 parameters and at 2e10 tokens."""
    return CoupledLaw(1.8, 3e8**alpha, 2e10**beta, alpha, beta, k)


# --- over-training --------------------------------------------------------------------------------


@given(eta=st.floats(0.05, 0.3), a=st.floats(20, 900), b=st.floats(20, 900), e=st.floats(0.0, 2.0))
@settings(max_examples=15, deadline=None)
def test_overtraining_is_the_tied_law_in_other_variables(eta: float, a: float, b: float, e: float) -> None:
    law = OvertrainingLaw(e, a, b, eta)
    n, d, _ = crossed()
    assert law.loss(n, d) == pytest.approx(law.chinchilla.loss(n, d), rel=1e-12)
    again = OvertrainingLaw.of(law.chinchilla)
    assert (again.a, again.b, again.eta) == pytest.approx((a, b, eta), rel=1e-12)
    # The M of least loss is that of the tied law at every budget.
    for flops in (1e18, 1e23):
        best = law.chinchilla.optimal(flops)
        assert law.best_tokens_per_param == pytest.approx(best.tokens / best.params, rel=1e-9)


def test_overtraining_fit_is_the_tied_fit_to_1e_9() -> None:
    """One optimiser: same objective, same law, same draws."""
    runs = table(noise=0.004)
    ours, tied = fit_overtraining(runs, n_boot=40), fit_chinchilla(runs, tied=True, n_boot=40)
    assert ours.objective == pytest.approx(tied.objective, rel=1e-12)
    for name in ("E", "A", "B", "alpha"):
        mine, theirs = (getattr(law, name) for law in (ours.law.chinchilla, tied.law))
        assert mine == pytest.approx(theirs, rel=1e-9), name
        mine, theirs = (getattr(law, name) for law in (ours.draws.chinchilla, tied.draws))
        assert mine == pytest.approx(theirs, rel=1e-9), name
    assert ours.condition_number == pytest.approx(tied.diagnostics.condition_number, rel=1e-9)
    assert ours.predict(1e9, 2e10).value == pytest.approx(tied.law.loss(1e9, 2e10), rel=1e-9)
    assert 2 * fit_overtraining(runs, fixed={"eta": 0.15}, n_boot=0).law.chinchilla.alpha == 0.6


def test_laws_with_two_exponents_are_no_overtraining_laws() -> None:
    with pytest.raises(DataError, match="tied=True"):
        OvertrainingLaw.of(T)


# --- coupled --------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.3, 0.7, 1.0, 1.6, 3.0])
@pytest.mark.parametrize(("alpha", "beta"), [(0.35, 0.37), (0.2, 0.45)])
def test_coupled_laws_come_back_exactly(k: float, alpha: float, beta: float) -> None:
    truth = coupled(k, alpha, beta)
    fit = fit_coupled(runs_of(truth), n_boot=0)
    for name in CoupledLaw.COEFFICIENTS:
        assert getattr(fit.law, name) == pytest.approx(getattr(truth, name), rel=1e-7), name
    assert fit.law.tokens_at(1e9) == pytest.approx(
        ChinchillaLaw(1, truth.A, truth.B, alpha, beta).tokens_at(1e9), rel=1e-6
    )


def test_laws_without_a_floor_come_back_from_its_edge() -> None:
    """E = 0 is a bound of the search: the solver goes on along it."""
    truth = CoupledLaw(0.0, 14.0, 34.0, 0.1, 0.12, 0.8)
    fit = fit_coupled(runs_of(truth), n_boot=0)
    for name in CoupledLaw.COEFFICIENTS:
        assert getattr(fit.law, name) == pytest.approx(getattr(truth, name), rel=1e-6, abs=1e-9), name
    assert fit.verdict == "not identified" or fit.law.E > 0


def test_k_of_one_is_the_main_law_to_1e_9() -> None:
    runs = load_runs(builtin("hoffmann2022"))
    ours, main = fit_coupled(runs, fixed={"k": 1.0}, n_boot=0), fit_chinchilla(runs, n_boot=0)
    assert ours.objective == pytest.approx(main.objective, rel=1e-12)
    for name in ("E", "A", "B", "alpha", "beta"):
        assert getattr(ours.law, name) == pytest.approx(getattr(main.law, name), rel=1e-7), name
    assert ours.condition_number == pytest.approx(main.diagnostics.condition_number, rel=1e-6)


def test_runs_near_one_ray_do_not_identify_k() -> None:
    """12 runs within a factor 2 of 20 tokens per parameter see hardly any bend; crossed runs do."""
    n, m = (a.ravel() for a in np.meshgrid(np.geomspace(5e7, 1e9, 4), [10.0, 20.0, 40.0]))
    wiggle = np.exp(0.01 * np.random.default_rng(1).normal(size=12))
    near = RunTable.from_arrays(params=n, tokens=m * n, loss=T.loss(n, m * n) * wiggle)
    fit = fit_coupled(near, n_boot=50)
    found, plain = fit.finding("wide_k"), fit.finding("plain_law")
    assert fit.verdict == "not identified" and found is not None and plain is not None
    assert found.severity == "error" and "k is not identified" in found.message
    assert "1 lies inside the interval of k" in plain.message
    profile = fit.profile("k", values=np.array([0.2, 0.5, 1.0, 2.0, 4.0]), n_boot=10)
    assert profile.low < 0.8 and profile.high > 2.0
    crossed_runs = fit_coupled(table(noise=0.01), n_boot=50)
    assert crossed_runs.verdict == "identified" and 0.8 < crossed_runs.law.k < 1.2
    assert crossed_runs.condition_number < fit.condition_number / 5


def test_the_interval_of_k_covers() -> None:
    """Nominal 95% over 8 worlds: 6 or more (chance of fewer 1%)."""
    truth, inside = coupled(0.7), 0
    for seed in range(8):
        found = fit_coupled(runs_of(truth, 0.002, seed), n_boot=40).ci("k")
        inside += found.low <= truth.k <= found.high
    assert inside >= 6


# --- penalty --------------------------------------------------------------------------------------


def repeated(law: RepetitionPenaltyLaw, noise: float = 0.0, seed: int = 0) -> RunTable:
    n, u, e = (a.ravel() for a in np.meshgrid(np.geomspace(3e7, 3e9, 5), [5e8, 4e9, 3e10], [1, 3, 10, 60.0]))
    loss = law.loss(n, u * e, u) * np.exp(noise * np.random.default_rng(seed).normal(size=n.size))
    return RunTable.from_arrays(params=n, tokens=u * e, unique_tokens=u, loss=loss)


def penalised(p: float, kappa: float) -> RepetitionPenaltyLaw:
    return RepetitionPenaltyLaw(T.E, T.A, T.B, T.alpha, T.beta, p, kappa)


@pytest.mark.parametrize("p", [0.01, 0.1])
@pytest.mark.parametrize("kappa", [0.3, 0.9])
def test_penalties_come_back_exactly(p: float, kappa: float) -> None:
    truth = penalised(p, kappa)
    runs = repeated(truth)
    for base in (T, None):
        fit = fit_repetition_penalty(runs, base=base, n_boot=0)
        for name in RepetitionPenaltyLaw.COEFFICIENTS:
            assert getattr(fit.law, name) == pytest.approx(getattr(truth, name), rel=1e-6), name


def test_a_penalty_lets_the_loss_rise_and_vanishes_for_new_data() -> None:
    law = penalised(0.05, 0.8)
    assert law.loss(1e9, 1e9, 1e9) == law.loss(1e9, 1e9) == T.loss(1e9, 1e9)
    losses = law.loss(1e9, 1e9 * np.array([1, 4, 16, 64, 256.0]), 1e9)
    assert losses.argmin() in (1, 2) and losses[-1] > losses[0]
    assert over_fitting_load(1e9, 3e9, 1e9) == pytest.approx(2.0)
    # More parameters, more penalty: with 64 epochs the larger model is the worse one.
    assert law.loss(1e9, 6.4e10, 1e9) > law.loss(1e8, 6.4e10, 1e9)


def test_without_a_penalty_none_is_claimed() -> None:
    plain = repeated(penalised(1e-12, 0.5), noise=0.004)
    fit = fit_repetition_penalty(plain, base=T, n_boot=60)
    assert fit.law.penalty(1e8, 4e9, 1e9) < 0.01
    assert fit.verdict == "not identified"
    once = plain.select(plain.tokens == plain.unique_tokens)
    with pytest.raises(NotIdentifiedError, match="P is not identified: no row"):
        fit_repetition_penalty(once, base=T, n_boot=0)


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(LAWS) - {"chinchilla"}))
def test_every_law_has_one_interface_and_is_kept_whole(name: str, tmp_path: Path) -> None:
    runs = repeated(penalised(0.02, 0.5), noise=0.003)
    fit = fit_law(name, runs, n_boot=20, **({"base": T} if "re" in name or "data" in name else {}))
    assert isinstance(fit, LawFit) and fit.name == name
    assert fit.fitted(runs).shape == fit.residuals.shape == (len(runs),)
    assert fit.verdict in ("identified", "weak", "not identified")
    fit.save(tmp_path / "fit.json")
    again = LawFit.load(tmp_path / "fit.json")
    assert repr(again) == repr(fit) and again.law == fit.law and again.findings == fit.findings
    for coefficient in fit.law.COEFFICIENTS:
        assert np.array_equal(getattr(again.draws, coefficient), getattr(fit.draws, coefficient))


def test_the_main_law_goes_by_its_name_too() -> None:
    runs = table()
    fit = fit_law("chinchilla", runs, n_boot=0)
    assert fit.law.loss(1e9, 2e10) == pytest.approx(T.loss(1e9, 2e10), rel=1e-9)
    assert fit.residuals == pytest.approx(0, abs=1e-12)
    assert BESIROGLU.loss(1e9, 2e10) < 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: fit_law("farseer", r), DataError, "no law is called 'farseer': there are chinchilla"),
        (lambda r: fit_law("kaplan", r, tied=True), DataError, "'kaplan' has no option tied"),
        (lambda r: fit_overtraining(r, fixed={"a": 1.0}), DataError, "only E and eta"),
        (lambda r: fit_overtraining(r.select([0, 1, 2])), TooFewRunsError, "5 runs"),
        (lambda r: fit_coupled(r, fixed={"k": -1.0}), DataError, "must be positive"),
        (lambda r: fit_coupled(r, fixed={"E": 50.0}), DataError, "smallest loss"),
        (lambda r: fit_coupled(r.select(r.params == r.params[0])), TooFewRunsError, "1 sizes"),
        (lambda r: fit_repetition_penalty(r), DataError, "no column unique_tokens"),
        (lambda r: fit_coupled(r, n_boot=0).profile("z"), DataError, "none of E, A"),
        (lambda r: fit_law("kaplan", r, n_boot=5).profile("Nc"), DataError, "cannot be held"),
        (lambda r: LawFit.from_json("{}"), DataError, "not a saved fit: format None"),
    ],
)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(table(noise=0.003))
