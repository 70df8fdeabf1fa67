"""Faults people really met when fitting (numbered as in the list of cases), each with its right value.

The faults of reading tables are in test_reading_cases.py; U04 (failed resamples) is in test_solver.py, U10 and
U11 (IsoFLOP) in test_isoflop_bias.py and test_isoflop_quality.py, U05, U23, U24 also in test_laws.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scaling import (
    BootstrapWarning,
    ChinchillaLaw,
    DataWarning,
    ExtrapolationWarning,
    IdentificationWarning,
    NotIdentifiedError,
    RunTable,
    TooFewRunsError,
    datasets,
    fit_chinchilla,
    load_runs,
)
from scaling.laws.chinchilla import attach
from scaling.newton import Objective
from scaling.profile import profile
from scaling.published import published
from scaling.sensitivity import perturb_params
from scaling.solver import solve
from tests.scaling.fit_worlds import T, crossed, scattered, table

#: The starts named in the cases: Hoffmann et al.'s own, and two that plain BFGS goes astray from.
STARTS = ((6.0, 6.0, 0.53, 0.34, 0.28), (5.0, 10.0, 0.0, 0.5, 0.5), (0.0, 0.0, -1.0, 0.001, 0.001))


def test_u01_u02_every_start_and_every_scale_ends_at_one_optimum() -> None:
    """scipy's BFGS from these starts puts beta at 0.285, 0.477 and 0.311 on the published points."""
    runs = load_runs(datasets.builtin("hoffmann2022"))
    log_loss, one = np.log(runs.loss), np.ones(len(runs))
    attached = attach(runs.params, runs.tokens, log_loss)
    starts = np.stack(
        [
            attached.plain(ChinchillaLaw(math.exp(e), math.exp(a), math.exp(b), alpha, beta))
            for a, b, e, alpha, beta in STARTS
        ]
    )
    for scale in (1e-6, 1.0, 1e6):
        ends = solve(Objective(attached.form, log_loss, scale * one, one, 1e-3), starts, cold=True)
        laws = attached.law(ends.plain)
        assert ends.converged.all()
        assert ends.objective == pytest.approx(np.full(3, scale * 8.3994e-4), rel=1e-5)
        assert laws.alpha == pytest.approx(np.full(3, 0.342537), rel=1e-5)
        assert laws.beta == pytest.approx(np.full(3, 0.341834), rel=1e-5)


def test_u02_a_second_basin_near_the_best_is_reported_with_what_it_would_say() -> None:
    n, d, loss = scattered(20, 68, noise=0.02)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0)
    assert fit.certificate.n_basins == 2
    assert fit.certificate.second_basin_gap == pytest.approx(0.00719, rel=1e-3)
    finding = fit.diagnostics.finding("second_basin")
    assert finding is not None and finding.severity == "warning"
    here, there = finding.evidence["tokens_at"]
    assert there / here == pytest.approx(1.42, abs=0.02)


def test_u05_published_laws_are_unrounded_where_that_is_known() -> None:
    full = published("Hoffmann Approach 3 (unrounded)").law
    assert isinstance(full, ChinchillaLaw)
    assert full.tokens_per_param(1e9) == pytest.approx(29.1, abs=0.05)
    with pytest.warns(DataWarning, match="two digits"):
        printed = published("Hoffmann Approach 3 (as printed)").law
    assert isinstance(printed, ChinchillaLaw)
    assert printed.tokens_per_param(1e9) == pytest.approx(44.0, abs=0.05)


def test_u13_one_token_count_is_refused_with_what_can_be_said() -> None:
    """Another library returns beta = 0.70, E = 0 and no warning from these runs."""
    n = np.geomspace(2e7, 2e9, 6)
    with pytest.raises(NotIdentifiedError, match="all rows share D = 10B") as caught:
        fit_chinchilla(params=n, tokens=np.full(6, 1e10), loss=T.loss(n, 1e10))
    error = caught.value
    assert {"beta", "B", "E", "tokens_at"} <= set(error.quantities)
    assert "alpha" not in error.quantities and "alpha, A and E + B/D^beta" in str(error)
    law = error.partial.law
    assert law.alpha == pytest.approx(T.alpha, rel=1e-6)
    assert law.A == pytest.approx(T.A, rel=1e-5)
    assert law.E == pytest.approx(T.E + T.B / 1e10**T.beta, rel=1e-7)
    assert error.remedy is not None and "other token counts" in error.remedy


def test_u14_rows_that_carry_the_answer_are_named_and_kept() -> None:
    n, d, loss = crossed(8, 6, noise=0.002, seed=4, params=(3e7, 5e9))
    worst = np.argsort(-loss)[:1]
    loss[worst] *= 1.25
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=200)
    assert fit.n_runs == 48 and not fit.audit.dropped
    assert fit.diagnostics.influence is not None
    assert fit.diagnostics.influence.highest_loss_rows == tuple(worst)
    without = fit.diagnostics.influence.without_highest_losses
    exact = fit_chinchilla(params=n, tokens=d, loss=loss, weights=np.arange(48) != worst, n_boot=0)
    assert without.alpha == pytest.approx(exact.law.alpha, rel=1e-6)


@pytest.mark.public_data
def test_u14_five_of_245_rows(public_table: Callable[[str], Path]) -> None:
    """Leaving out the five highest losses moves beta from 0.453 to 0.367 and D*(1e9) from 20.3B to 22.6B."""
    path = public_table("epoch_chinchilla")
    fit = fit_chinchilla(datasets.chinchilla_240(path, drop=0), n_boot=400)
    found = fit.diagnostics.influence
    assert found is not None and len(found.highest_loss_rows) == 5
    assert set(found.highest_loss_rows) == set(np.argsort(-fit.runs.loss)[:5].tolist())
    assert found.without_highest_losses.beta == pytest.approx(0.367172, abs=5e-6)
    assert found.without_highest_losses.tokens_at(1e9) == pytest.approx(22.6e9, rel=2e-3)
    finding = fit.diagnostics.finding("outlier_sensitive")
    assert finding is not None
    assert "beta 0.453 -> 0.367" in finding.message and "None was dropped" in finding.message


@pytest.mark.parametrize("rows", [2, 5])
def test_u15_too_few_runs_are_counted(rows: int) -> None:
    n, d, loss = (a[[0, 3, 7, 10, 14][:rows]] for a in crossed())
    with pytest.raises(TooFewRunsError, match=f"{rows} usable runs: the law has 5 coefficients") as caught:
        fit_chinchilla(params=n, tokens=d, loss=loss)
    assert (caught.value.n_runs, caught.value.needed) == (rows, 6)


def test_u15_six_runs_make_a_law_and_eight_an_interval() -> None:
    at = [0, 3, 7, 10, 14, 17, 20, 23]
    n, d, loss = crossed(noise=0.001, seed=2)
    with pytest.warns(BootstrapWarning, match="7 runs are too few for intervals"):
        seven = fit_chinchilla(params=n[at[:7]], tokens=d[at[:7]], loss=loss[at[:7]], n_boot=50)
    assert seven.settings.resample == "none" and math.isnan(seven.ci("alpha").low)
    eight = fit_chinchilla(params=n[at], tokens=d[at], loss=loss[at], n_boot=50)
    assert eight.draws.E.size > 0 and eight.ci("alpha").low < eight.ci("alpha").high


def test_u15_copies_of_five_runs_are_five_runs() -> None:
    n, d, loss = (np.tile(a[[0, 3, 7, 10, 14]], 4) for a in crossed())
    with pytest.raises(TooFewRunsError, match=r"5 usable runs \(20 rows, the others exact copies"):
        fit_chinchilla(params=n, tokens=d, loss=loss)


def test_u16_a_floor_the_losses_do_not_show() -> None:
    """E at its bound is said, not hidden; E may be held, and its profile has no lower end."""
    n, d, loss = crossed(noise=0.01, seed=5, law=ChinchillaLaw(0.02, 20.0, 40.0, 0.12, 0.14))
    with pytest.warns(IdentificationWarning, match="E is not identified"):
        fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=100)
    assert fit.verdict == "not identified"
    assert fit.diagnostics.e_zero_share > 0.025
    assert profile(fit, "E", n_boot=50).low == 0.0
    held = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=100, fixed={"E": 0.02})
    assert held.law.E == 0.02 and held.ci("E").interval == (0.02, 0.02)
    assert held.diagnostics.finding("e_at_bound") is None
    assert held.law.alpha == pytest.approx(0.12, abs=0.02)


def test_u17_far_answers_say_how_far() -> None:
    """Runs of 2.7e16 to 4.8e20 FLOP, asked for 1e9 parameters on 2e13 tokens: 2.4 decades beyond."""
    n, d, loss = crossed(8, 6, noise=0.003, params=(1e7, 2e9), tokens=(2.7e16 / 6e7, 4.8e20 / 1.2e10))
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=100)
    with pytest.warns(ExtrapolationWarning, match=r"2\.4 decades of compute beyond the runs"):
        far = fit.predict(1e9, 2e13)
    assert far.decades_outside == pytest.approx(math.log10(1.2e23 / 4.8e20), abs=1e-9)
    assert "2.4 decades of compute beyond the data" in repr(far)
    inside = fit.predict(1e9, 1e10)
    assert inside.decades_outside == 0.0 and "beyond" not in repr(inside)
    assert far.prediction.high - far.prediction.low > 1.3 * (inside.prediction.high - inside.prediction.low)
    with pytest.raises(NotIdentifiedError, match="decades of compute beyond the runs fitted") as caught:
        fit.optimal(1e25)
    assert "It takes runs of about 3e+23 FLOP" in str(caught.value)
    with pytest.warns(ExtrapolationWarning):
        assert fit.optimal(1e25, unidentified="return").params.value > 0


@pytest.mark.parametrize("seed", range(3))
def test_u18_a_law_that_cannot_bend_is_found_out(seed: int) -> None:
    n, d, loss = crossed(8, 6, noise=0.003, seed=seed, params=(3e7, 5e9))
    straight = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0)
    assert straight.diagnostics.finding("curvature_in_residuals") is None
    bent = fit_chinchilla(params=n, tokens=d, loss=loss + 0.05 * (n > 5e8), n_boot=0)
    finding = bent.diagnostics.finding("curvature_in_residuals")
    assert finding is not None and "fit a sub-range" in finding.message
    assert finding.evidence["p_value"] < 0.01


def test_u19_noise_levels_sharpen_the_answer() -> None:
    """Twelve runs with sd 0.02 below 2e8 parameters, twelve with 0.002 above."""
    errors = []
    for seed in range(20):
        n, d, loss = crossed()
        sigma = np.where(n < 2e8, 0.02, 0.002)
        loss = loss + np.random.default_rng(seed).normal(size=24) * sigma
        errors.append(
            [
                fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0, sigma=s).law.log_tokens_at(1e9)
                for s in (None, sigma)
            ]
        )
    plain, weighted = np.std(errors, axis=0)
    assert weighted < 0.8 * plain
    # A sigma column of the table is used without being asked for.
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss, sigma=sigma)
    fit = fit_chinchilla(runs, n_boot=0)
    assert fit.settings.sigma_used
    assert fit.law.log_tokens_at(1e9) == errors[-1][1]


def test_u20_pasted_duplicates_do_not_shrink_the_interval() -> None:
    n, d, loss = crossed(noise=0.005, seed=1)
    once = pd.DataFrame({"params": n, "tokens": d, "loss": loss})
    with pytest.warns(DataWarning):
        pasted = fit_chinchilla(pd.concat([once] * 4, ignore_index=True), n_boot=200)
    alone = fit_chinchilla(once, n_boot=200)
    assert pasted.n_runs == 24
    assert pasted.tokens_at(1e9).interval == alone.tokens_at(1e9).interval


def test_u22_a_law_is_not_one_run_and_says_which_split_it_predicts() -> None:
    n, d, loss = crossed(8, 6, noise=0.02, params=(3e7, 5e9))
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss, loss_kind="validation")
    fit = fit_chinchilla(runs, n_boot=200)
    answer = fit.predict(8.7e9, 178e9)
    assert answer.prediction.low < answer.mean.low < answer.mean.high < answer.prediction.high
    assert "(validation loss)" in repr(answer) and "one run" in repr(answer)
    # Normal noise of 2%: where the law is well known a single run spans about four standard deviations.
    near = fit.predict(5e8, 1e10)
    law, single = ((e.high - e.low) / e.value for e in (near.mean, near.prediction))
    assert single > 2 * law
    assert single == pytest.approx(4 * 0.02, rel=0.3)


def test_u23_a_fit_gives_the_ratio_at_every_size() -> None:
    fit = fit_chinchilla(table(8, 6, params=(1e8, 1e11), tokens=(2e9, 2e12)), n_boot=0)
    for size, ratio in ((1e8, 25.4), (1e9, 22.7), (1e10, 20.2), (1e11, 18.1)):
        assert fit.tokens_per_param(size).value == pytest.approx(ratio, abs=0.06)


def test_u25_parameters_counted_otherwise() -> None:
    """A factor common to all sizes moves A alone, by its alpha-th power."""
    n, d, loss = crossed(noise=0.003)
    fit, other = (fit_chinchilla(params=n * f, tokens=d, loss=loss, n_boot=0) for f in (1.0, 1.15))
    for name in ("E", "B", "alpha", "beta"):
        assert getattr(other.law, name) == pytest.approx(getattr(fit.law, name), rel=1e-6), name
    assert other.law.A == pytest.approx(fit.law.A * 1.15**fit.law.alpha, rel=1e-6)


def test_u25_sensitivity_to_what_counts_as_a_parameter() -> None:
    fit = fit_chinchilla(table(8, 6, noise=0.003, params=(3e7, 5e9)), n_boot=0)
    small, large = (perturb_params(fit, spread, n=60) for spread in (0.05, 0.15))
    for found in (small, large):
        assert found.alpha.low < fit.law.alpha < found.alpha.high
        assert found.tokens.low < fit.law.tokens_at(1e9) < found.tokens.high
    width = [found.alpha.high - found.alpha.low for found in (small, large)]
    assert width[1] / width[0] == pytest.approx(3, rel=0.35)
    again = perturb_params(fit, 0.15, n=60, params="1B")
    assert again.tokens == large.tokens
