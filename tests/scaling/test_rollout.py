"""Predictions beyond the runs: the drift that smaller runs show towards larger ones of the same table."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.benchmarks.rollout import score, table
from scaling import RunTable, datasets, fit_chinchilla, load_runs
from scaling.laws.base import Array
from scaling.laws.chinchilla import attach
from scaling.newton import Objective
from scaling.rollout import rollout_drift
from scaling.undetermined import needed_levels
from tests.scaling.fit_worlds import crossed


def drift(n: Array, d: Array, loss: Array, weights: Array | None = None) -> float:
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss)
    fit = fit_chinchilla(runs, n_boot=0, weights=weights)
    attached, one = attach(n, d, np.log(loss)), np.ones(n.size)
    problem = Objective(attached.form, np.log(loss), one if weights is None else weights, one, 1e-3)
    return rollout_drift(runs, problem, attached.plain(fit.law), attached, needed_levels((), False))


def wide(noise: float = 0.0, seed: int = 0) -> tuple[Array, Array, Array]:
    return crossed(10, 8, noise=noise, seed=seed, params=(1e7, 5e9), tokens=(5e8, 2e11))


def test_an_exact_law_does_not_drift() -> None:
    assert drift(*wide()) < 1e-6


def test_noise_alone_makes_little_drift() -> None:
    found = [drift(*wide(0.003, seed)) for seed in range(5)]
    assert np.mean(found) < 0.003


@pytest.mark.filterwarnings("ignore::scaling.errors.ExtrapolationWarning")
def test_a_law_that_bends_drifts_by_how_much() -> None:
    """A second power of ln C in the losses: what no law of this form follows."""
    n, d, loss = wide(0.001)
    decades = np.log10(n * d / (n * d).min())
    gentle, strong = (drift(n, d, loss * np.exp(b * decades**2)) for b in (0.002, 0.006))
    assert 0.002 < gentle < strong
    fit = fit_chinchilla(params=n, tokens=d, loss=loss * np.exp(0.006 * decades**2), n_boot=100)
    straight = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=100)
    far = (5e10, 1e12)
    width = [f.predict(*far).prediction for f in (straight, fit)]
    ends = [e.high / e.low - 1 for e in width]
    assert ends[1] > 2 * ends[0]


@pytest.mark.filterwarnings("ignore::scaling.errors.IdentificationWarning")
def test_too_few_runs_to_cut_have_no_drift() -> None:
    assert drift(*crossed(4, 3, noise=0.01)) == 0.0
    # Enough runs, of one budget each side of any cut: nothing lies beyond.
    n = np.geomspace(1e8, 1e9, 24)
    assert drift(n, 1e19 / n * (1 + np.arange(24) % 3 / 50), 3 - 0.1 * np.log10(n)) == 0.0


def test_drift_belongs_to_the_diagnostics() -> None:
    fit = fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=0)
    assert 0.005 < fit.diagnostics.drift < 0.03


def test_predictions_of_larger_runs_hold_where_draws_of_the_law_do_not() -> None:
    """The embedded points cut at 55% of compute: 105 larger runs, up to 2.1 decades away."""
    found = score("hoffmann", load_runs(datasets.builtin("hoffmann2022")), 0.55, n_boot=200)
    assert found is not None and (found.n_fitted, found.n_scored) == (129, 105)
    assert found.single >= 0.9
    assert found.law < 0.5
    assert f"**{100 * found.single:.0f}%**" in table([found])
