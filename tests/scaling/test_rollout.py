"""Predictions beyond the runs: rollouts, what they make of a fit's draws, and leave-future-out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.benchmarks.rollout import cuts, left_out, score, table
from scaling import ChinchillaFit, RunTable, datasets, fit_chinchilla, load_runs
from scaling.calibration import PUBLISHED, Sample, calibrate, design_effect, rollout_samples
from scaling.errors import DataError
from scaling.foresight import interval_score, leave_future_out
from scaling.laws.base import Array
from scaling.single_run import law_error, offsets
from tests.scaling.fit_worlds import crossed


def wide(noise: float = 0.0, seed: int = 0) -> tuple[Array, Array, Array]:
    return crossed(10, 8, noise=noise, seed=seed, params=(1e7, 5e9), tokens=(5e8, 2e11))


def fitted(n: Array, d: Array, loss: Array, **options: object) -> ChinchillaFit:
    return fit_chinchilla(params=n, tokens=d, loss=loss, **{"n_boot": 100, **options})  # type: ignore[arg-type]


def test_a_law_that_holds_needs_less_than_published_ones_and_one_that_bends_more() -> None:
    """A second power of ln C in the losses: what no law of this form follows."""
    n, d, loss = wide(0.003)
    decades = np.log10(n * d / (n * d).min())
    straight, bent = fitted(n, d, loss), fitted(n, d, loss * np.exp(0.006 * decades**2))
    prior = math.sqrt(design_effect(80, 5))
    assert 1 <= straight.calibration.inflation < prior < bent.calibration.inflation
    assert straight.calibration.n_rollouts == bent.calibration.n_rollouts == 6
    # Losses that bend up come out above the law, and the centre moves that way.
    assert bent.calibration.shift > straight.calibration.shift > PUBLISHED.shift


def test_the_sampling_theory_behind_the_prior() -> None:
    """Kish's design effect of 101 rows at rho 0.1 is 11; of them 6 are lost to five coefficients and one."""
    assert design_effect(101, 5) == pytest.approx(11 * 95 / 101)
    assert design_effect(6, 5) == 1.0 and design_effect(240, 5, rho=0.0) == 1.0


def test_rollouts_weigh_as_degrees_of_freedom() -> None:
    fit = fitted(*wide(0.003))
    base = calibrate(fit, samples=())
    assert base.n_rollouts == 0 and base.dof == PUBLISHED.dof and base.shift == PUBLISHED.shift
    expected = design_effect(40, 5)
    as_expected = calibrate(fit, samples=(Sample(40, expected, 0.0),) * 3)
    assert as_expected.inflation == pytest.approx(base.inflation)
    assert as_expected.shift == pytest.approx(PUBLISHED.shift * 12 / 15)
    # One wild cut counts as nine times what was expected, no more.
    wild = calibrate(fit, samples=(Sample(40, 1e9, 1e9),))
    assert wild.inflation**2 == pytest.approx(base.inflation**2 * (12 + 9) / 13)


def test_intervals_widen_with_distance_whatever_is_held() -> None:
    """The draws of a law with E held narrow again where N and D are huge; single runs do not."""
    n, d, loss = wide(0.003)
    for fixed in ({}, {"E": 1.82}):
        fit = fitted(n, d, loss, fixed=fixed)
        far = np.exp(np.arange(9) / 2)
        error = law_error(fit, 7e9 * far, 1.4e11 * far, 0.95)
        assert (np.diff(error) > -1e-3 * error[1:]).all()
        low, high = offsets(fit.calibration, error, 0.95)
        assert (low < 0).all() and (high > 0).all()


def test_a_table_too_small_to_cut_says_so() -> None:
    small = fitted(*crossed(4, 3, noise=0.01))
    found = small.calibration.finding
    assert found is not None and found.code == "not_calibrated" and "12 runs" in found.message
    assert "published tables" in str(small.calibration) and "cuts" not in str(small.calibration)
    assert fitted(*wide(0.003)).calibration.finding is None


def test_a_fit_without_draws_is_calibrated_and_predicts_no_interval() -> None:
    fit = fitted(*wide(0.003), n_boot=0)
    assert fit.calibration.n_rollouts == 6 and rollout_samples(fit) == rollout_samples(fit)
    assert math.isnan(fit.predict(1e9, 2e10).prediction.low)


@pytest.mark.filterwarnings("ignore::scaling.errors.ExtrapolationWarning")
def test_intervals_of_single_runs_hold_those_of_the_law_at_every_level() -> None:
    fit = fitted(*wide(0.003))
    width = 0.0
    for level in (0.5, 0.8, 0.95, 0.99):
        found = fit.predict(2e10, 1e12, level=level)
        single, mean = found.prediction, found.mean
        assert single.low <= mean.low <= mean.high <= single.high and single.low < mean.value < single.high
        assert single.high - single.low > width
        width = single.high - single.low
    assert "6 cuts of these runs" in repr(found)


def test_interval_score_by_hand() -> None:
    """Width 2; a miss by 1 costs 2/0.05 more."""
    low, high = np.zeros(3), np.full(3, 2.0)
    assert interval_score(low, high, np.array([1.0, 3.0, -0.5]), 0.95) == pytest.approx([2.0, 42.0, 22.0])


def test_predictions_of_larger_runs_hold_where_draws_of_the_law_do_not() -> None:
    """The embedded points cut at 55% of compute: 105 larger runs, up to 2.1 decades away."""
    found = score("a", "hoffmann", load_runs(datasets.builtin("hoffmann2022")), 0.55, n_boot=200)
    assert found is not None and (found.n_fitted, found.n_scored) == (129, 105)
    assert found.covered("calibrated").mean() >= 0.9
    assert found.covered("draws alone").mean() < 0.5
    best = found.score("calibrated").mean()
    assert all(
        best < found.score(m).mean() for m in ("draws alone", "constant, random", "constant, by compute")
    )
    again = found.under(PUBLISHED)
    assert np.allclose(again, found.ends["calibrated"], atol=1e-9)
    assert "| **" in table([found]) and "| hoffmann | 129 |" in cuts([found])
    n, d, loss = wide(0.003)
    other = score("b", "other", RunTable.from_arrays(params=n, tokens=d, loss=loss), 0.5, 60)
    assert other is not None and left_out([found, other]).count("\n") == 3


def test_leave_future_out_of_a_fit_is_that_of_its_runs() -> None:
    n, d, loss = wide(0.003)
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss)
    weights = np.where(np.arange(80) % 3, 1.0, 2.0)
    fit = fit_chinchilla(runs, n_boot=60, weights=weights, fixed={"E": 1.82})
    seen = leave_future_out(fit, shares=(0.5, 0.75), n_boot=60)
    assert seen == leave_future_out(runs, shares=(0.5, 0.75), n_boot=60, weights=weights, fixed={"E": 1.82})
    assert seen.cuts[0].n_below + seen.cuts[0].n_above == 80
    assert all(c.coverage > 0.8 and c.absolute_error < 0.02 for c in seen.cuts)
    assert "Yes, within what was said" in repr(seen) and seen.to_dict()["cuts"][1]["n_above"] == 20
    with pytest.raises(DataError, match="share lies between 0 and 1"):
        leave_future_out(runs, shares=(40,))


def test_leave_future_out_says_where_the_small_runs_determine_nothing() -> None:
    """All small runs at one D: no law below the cut."""
    n, d = np.geomspace(1e7, 1e9, 12), np.r_[np.full(8, 2e9), 2e10, 4e10, 8e10, 1.6e11]
    loss = 1.8 + 480 / n**0.35 + 2100 / d**0.37
    seen = leave_future_out(RunTable.from_arrays(params=n, tokens=d, loss=loss), shares=(0.6,), n_boot=0)
    assert seen.cuts[0].verdict == "refused" and "all rows share D" in seen.cuts[0].refusal
    assert "determines a law" in seen.sentence() and seen.cuts[0].refusal in repr(seen)
