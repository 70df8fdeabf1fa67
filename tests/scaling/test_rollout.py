"""Predictions beyond the runs: rollouts, what they make of a fit's draws, and leave-future-out."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks.rollout import cuts, left_out, score, table
from scaling import ChinchillaFit, RunTable, datasets, fit_chinchilla, load_runs
from scaling.errors import DataError
from scaling.foresight import _with_options, interval_score, leave_future_out
from scaling.laws.base import Array
from scaling.open_form.calibration import calibrate, evidence
from scaling.open_form.posterior import PUBLISHED
from scaling.open_form.single_run import single_run
from tests.scaling.fit_worlds import crossed


def wide(noise: float = 0.0, seed: int = 0) -> tuple[Array, Array, Array]:
    return crossed(10, 8, noise=noise, seed=seed, params=(1e7, 5e9), tokens=(5e8, 2e11))


def fitted(n: Array, d: Array, loss: Array, **options: object) -> ChinchillaFit:
    return fit_chinchilla(params=n, tokens=d, loss=loss, **{"n_boot": 100, **options})  # type: ignore[arg-type]


def test_larger_runs_fall_on_the_side_rollouts_show() -> None:
    """A second power of ln C in the losses: what no law of this form follows."""
    n, d, loss = wide(0.003)
    decades = np.log10(n * d / (n * d).min())
    straight = fitted(n, d, loss).calibration
    up, down = (fitted(n, d, loss * np.exp(b * decades**2)).calibration for b in (0.006, -0.006))
    assert len(straight.rollouts) == len(up.rollouts) == 2
    assert all(r > 1 for r in up.rollouts) and up.shift > straight.shift > down.shift


def test_rollouts_move_and_widen_against_a_weight_that_says_neither() -> None:
    fit = fitted(*wide(0.003))
    nothing, mild = calibrate(fit, seen=()), calibrate(fit, seen=(1.0, 0.5))
    assert nothing.shift == 0.0 and nothing.inflation == mild.inflation == 1.0
    assert mild.shift == pytest.approx(1.5 / 4)
    # One wild cut counts as three standard errors, no more.
    wild = calibrate(fit, seen=(1e9,))
    assert wild.shift == pytest.approx(3.0 / 3) and wild.inflation**2 == pytest.approx((4 + 9) / 5)
    ends = [single_run(c, np.array([2e10]), np.array([1e12]), 0.95)[:, 0] for c in (nothing, wild)]
    assert (ends[1][2] - ends[1][0]) / (ends[0][2] - ends[0][0]) == pytest.approx(wild.inflation, rel=0.1)
    known = evidence(fit)
    assert known.n_units == 80 and known.spread == pytest.approx(np.abs(fit.residuals).sum() / 75)


@pytest.mark.parametrize("fixed", [{}, {"E": 1.82}])
def test_intervals_widen_with_distance_whatever_is_held(fixed: dict[str, float]) -> None:
    """Draws of a law with E held narrow again where N and D are huge; with E open they do not."""
    n, d, loss = wide(0.003)
    fit = fitted(n, d, loss, fixed=fixed)
    far = np.exp(np.arange(9) / 2)
    low, middle, high = single_run(fit.calibration, 7e9 * far, 1.4e11 * far, 0.95)
    assert (low < middle).all() and (middle < high).all()
    if not fixed:
        assert (np.diff(high - low) > 0).all()


def test_a_table_too_small_to_cut_says_so() -> None:
    small = fitted(*crossed(3, 3, noise=0.01))
    found = small.calibration.finding
    assert found is not None and found.code == "not_calibrated" and "9 runs" in found.message
    assert "published laws" in str(small.calibration) and "cut" not in str(small.calibration)
    assert fitted(*wide(0.003)).calibration.finding is None


def test_a_fit_without_draws_says_as_much_of_a_single_run() -> None:
    without, with_draws = (fitted(*wide(0.003), n_boot=n).predict(1e9, 2e10) for n in (0, 100))
    assert math.isnan(without.mean.low) and without.prediction == with_draws.prediction
    assert without.prediction.kind == "median" and without.mean.kind == "optimum"


@pytest.mark.filterwarnings("ignore::scaling.errors.ExtrapolationWarning")
def test_intervals_of_single_runs_widen_with_the_level() -> None:
    fit = fitted(*wide(0.003))
    width = 0.0
    for level in (0.5, 0.8, 0.95, 0.99):
        found = fit.predict(2e10, 1e12, level=level)
        single = found.prediction
        assert single.low < single.value < single.high and single.high - single.low > width
        width = single.high - single.low
    assert "2 cuts of these runs" in repr(found) and "form of the law is left open" in found.basis


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


def test_leave_future_out_without_a_bootstrap_and_of_a_file_read_by_name(tmp_path: Path) -> None:
    n, d, loss = wide(0.003)
    with (tmp_path / "runs.csv").open("w") as out:
        out.write("size,seen,score\n" + "\n".join(f"{a},{b},{c}" for a, b, c in zip(n, d, loss, strict=True)))
    names = {"params": "size", "tokens": "seen", "loss": "score"}
    seen = leave_future_out(tmp_path / "runs.csv", shares=(0.6,), n_boot=0, columns=names)
    assert seen.cuts[0].coverage > 0.8 and "Yes, within" in seen.sentence()


def test_leave_future_out_of_a_fit_keeps_its_units_and_ways() -> None:
    n, d, loss = wide(0.003)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0, groups=np.arange(80) // 2)
    assert _with_options(fit, {})[1]["groups"] is fit.cluster
    wild = fit_chinchilla(
        params=n, tokens=d, loss=loss, n_boot=20, resample="wild", interval="bias-corrected"
    )
    options = _with_options(wild, {})[1]
    assert options["resample"] == "wild" and options["interval"] == "bias-corrected"


def test_rows_without_weight_move_nothing() -> None:
    """Twenty runs with 30% more loss beside eighty: with no weight to speak of they are as good as absent."""
    n, d, loss = wide(0.003)
    many = [np.r_[v, v[::4]] for v in (n, d)]
    weights = np.r_[np.ones(80), np.full(20, 1e-9)]
    both = fit_chinchilla(
        params=many[0], tokens=many[1], loss=np.r_[loss, 1.3 * loss[::4]], weights=weights, n_boot=0
    )
    alone = fitted(n, d, loss, n_boot=0)
    assert evidence(both).n_units == pytest.approx(80, rel=1e-6)
    assert both.calibration.noise == pytest.approx(alone.calibration.noise, rel=0.1)
    assert both.calibration.rollouts == pytest.approx(alone.calibration.rollouts, abs=0.3)


def test_leave_future_out_says_where_the_small_runs_determine_nothing() -> None:
    """All small runs at one D: no law below the cut."""
    n, d = np.geomspace(1e7, 1e9, 12), np.r_[np.full(8, 2e9), 2e10, 4e10, 8e10, 1.6e11]
    loss = 1.8 + 480 / n**0.35 + 2100 / d**0.37
    seen = leave_future_out(RunTable.from_arrays(params=n, tokens=d, loss=loss), shares=(0.6,), n_boot=0)
    assert seen.cuts[0].verdict == "refused" and "all rows share D" in seen.cuts[0].refusal
    assert "determines a law" in seen.sentence() and seen.cuts[0].refusal in repr(seen)
