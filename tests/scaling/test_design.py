"""Predicted standard errors are the ones that come true, and suggested runs are worth making."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from scaling import ChinchillaLaw, DataError, RunTable, fit_chinchilla
from scaling.bootstrap import search
from scaling.design import Suggestion, predicted_se, suggest_runs
from scaling.jacobian import COLUMNS, free_columns, gradient, log_jacobian
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import attach
from scaling.newton import Objective
from scaling.targets import target_function
from tests.scaling.fit_worlds import BESIROGLU, T, crossed, table

TARGETS = ("ln_tokens@1B", "alpha", "beta", "E")


def realised(
    n: Array, d: Array, sd: Any, *, worlds: int = 1000, groups: Index | None = None, rho: float = 0.0
) -> dict[str, float]:
    """Standard deviations over worlds of runs with normal noise, correlated by `rho` within groups."""
    rng = np.random.default_rng(0)
    clean = np.log(BESIROGLU.loss(n, d))
    noise = rng.normal(size=(worlds, n.size))
    if groups is not None:
        shared = rng.normal(size=(worlds, groups.max() + 1))[:, groups]
        noise = math.sqrt(1 - rho) * noise + math.sqrt(rho) * shared
    attached, one = attach(n, d, clean), np.ones(n.size)
    problem = Objective(attached.form, clean + noise * sd, one, one, 1e-3)
    laws = attached.law(search(problem, attached.plain(BESIROGLU)[None], cold=False).plain)
    values = {"ln_tokens@1B": laws.log_tokens_at(1e9), "alpha": laws.alpha, "beta": laws.beta, "E": laws.E}
    return {name: float(np.std(v)) for name, v in values.items()}


def fisher(n: Array, d: Array, sd: Any, target: str) -> float:
    """The Gaussian bound: what least squares on normal noise of known size would reach."""
    jacobian = log_jacobian(BESIROGLU, np.log(n), np.log(d), n, d) / np.broadcast_to(sd, n.shape)[:, None]
    g = gradient(target_function(target), BESIROGLU)
    return math.sqrt(g @ np.linalg.solve(jacobian.T @ jacobian, g))


# -- predicted and realised ------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.003, 0.01])
@pytest.mark.parametrize(("sizes", "counts"), [(6, 4), (8, 6)])
def test_predicted_errors_come_true(sizes: int, counts: int, sd: float) -> None:
    n, d, _ = crossed(sizes, counts)
    found = realised(n, d, sd)
    for target in TARGETS:
        predicted = predicted_se((n, d), target, law=BESIROGLU, sigma=sd)
        assert predicted == pytest.approx(found[target], rel=0.1), target


def test_the_plan_of_three_sizes() -> None:
    """5M, 25M and 100M parameters on 5 token counts from 0.1B to 2.5B, noise 0.01 nats.

    The Gaussian bound puts ln D*(1B) within a factor 1.39 at 95%; a fit at delta = 1e-3, which gives up some
    precision for its indifference to outliers, comes within 1.45, and that is what the worlds show.
    """
    n, d = (a.ravel() for a in np.meshgrid([5e6, 25e6, 1e8], np.geomspace(1e8, 2.5e9, 5)))
    sd = 0.01 / BESIROGLU.loss(n, d)
    assert math.exp(1.96 * fisher(n, d, sd, "ln_tokens@1B")) == pytest.approx(1.386, abs=0.002)
    predicted = predicted_se((n, d), "ln_tokens@1B", law=BESIROGLU, sigma=sd)
    assert math.exp(1.96 * predicted) == pytest.approx(1.455, abs=0.005)
    assert predicted == pytest.approx(realised(n, d, sd)["ln_tokens@1B"], rel=0.08)


@pytest.mark.parametrize(("rho", "factor"), [(0.5, 1.61), (0.8, 1.72), (0.9, 1.77)])
def test_the_same_plan_on_three_trunks(rho: float, factor: float) -> None:
    """Points of one trunk share most of their noise: fifteen of them say less than fifteen runs."""
    n, d = (a.ravel() for a in np.meshgrid([5e6, 25e6, 1e8], np.geomspace(1e8, 2.5e9, 5)))
    sd, trunk = 0.01 / BESIROGLU.loss(n, d), np.unique(n, return_inverse=True)[1]
    options = {"law": BESIROGLU, "sigma": sd, "rho": rho, "groups": trunk}
    predicted = predicted_se((n, d), "ln_tokens@1B", **options)  # type: ignore[arg-type]
    assert math.exp(1.96 * predicted) == pytest.approx(factor, abs=0.01)
    found = realised(n, d, sd, groups=trunk, rho=rho)
    assert predicted == pytest.approx(found["ln_tokens@1B"], rel=0.1)


def test_the_plan_of_six_sizes() -> None:
    """6 sizes from 5M to 200M on 4 token counts: 1.25 by the Gaussian bound, 1.29 as fitted."""
    n, d = (a.ravel() for a in np.meshgrid(np.geomspace(5e6, 2e8, 6), np.geomspace(1e8, 2.5e9, 4)))
    sd = 0.01 / BESIROGLU.loss(n, d)
    assert math.exp(1.96 * fisher(n, d, sd, "ln_tokens@1B")) == pytest.approx(1.245, abs=0.005)
    predicted = predicted_se((n, d), "ln_tokens@1B", law=BESIROGLU, sigma=sd)
    assert math.exp(1.96 * predicted) == pytest.approx(1.287, abs=0.005)
    assert predicted == pytest.approx(realised(n, d, sd)["ln_tokens@1B"], rel=0.08)


def test_a_wide_delta_reaches_the_gaussian_bound() -> None:
    n, d, _ = crossed(8, 6)
    for target in TARGETS:
        wide = predicted_se((n, d), target, law=BESIROGLU, sigma=0.003, delta=0.1)
        assert wide == pytest.approx(fisher(n, d, 0.003, target), rel=1e-6)
        narrow = predicted_se((n, d), target, law=BESIROGLU, sigma=0.003, delta=1e-6)
        # Least absolute deviations: sqrt(pi/2) = 1.2533 times the bound.
        assert narrow == pytest.approx(math.sqrt(math.pi / 2) * wide, rel=1e-3)


def test_a_fit_foretells_the_spread_of_its_own_draws() -> None:
    fit = fit_chinchilla(table(10, 8, noise=0.005, seed=1), n_boot=400)
    for target, draws in (("alpha", fit.draws.alpha), ("ln_tokens@1B", fit.draws.log_tokens_at(1e9))):
        assert predicted_se(fit, target) == pytest.approx(float(np.std(draws)), rel=0.35), target


def test_a_fit_brings_its_clusters_and_what_it_held() -> None:
    n, d, loss = crossed(8, 6, noise=0.003)
    run = np.unique(n, return_inverse=True)[1]
    loss = loss * np.exp(np.random.default_rng(5).normal(0, 0.01, 8))[run]
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss, run_id=run)
    clustered, rows = fit_chinchilla(runs, n_boot=0), fit_chinchilla(runs, n_boot=0, resample="pairs")
    assert predicted_se(clustered, "alpha") > 1.3 * predicted_se(rows, "alpha")
    assert predicted_se(rows, "alpha", groups=run) == predicted_se(clustered, "alpha")
    held = fit_chinchilla(runs, n_boot=0, fixed={"E": T.E})
    assert predicted_se(held, "E") == 0.0
    plan = {"law": T, "sigma": 0.01}
    assert predicted_se((n, d), "alpha", fixed=["E"], **plan) < predicted_se((n, d), "alpha", **plan)
    assert predicted_se((n, d), "alpha", tied=True, **plan) < predicted_se((n, d), "alpha", **plan)


# -- what is left open -----------------------------------------------------------------------------


def test_what_a_plan_leaves_open_is_infinite() -> None:
    n, d = np.geomspace(2e7, 2e9, 6), np.full(6, 1e10)
    plan = {"law": T, "sigma": 0.01}
    assert predicted_se((n, d), "ln_tokens@1B", **plan) == math.inf
    assert predicted_se((n, d), "beta", **plan) == math.inf
    # One token count still determines alpha, and the losses at that count.
    assert predicted_se((n, d), "alpha", **plan) < 1
    assert predicted_se((n, d), "loss@1B,10B", **plan) < 0.02
    assert predicted_se((n, 20 * n), "ln_tokens@1B", **plan) > 1e3


def test_suggested_runs_close_what_is_open() -> None:
    n, d = np.geomspace(2e7, 2e9, 6), np.full(6, 1e10)
    found = suggest_runs((n, d), "ln_tokens@1B", law=T, n_runs=3)
    assert found.se_before == math.inf and found.se_after < 5
    assert "from infinite to" in str(found) and "ln D*(1B)" in str(found)
    more = np.array(found.runs)
    assert np.unique(more[:, 1]).size >= 2
    plan = (np.append(n, more[:, 0]), np.append(d, more[:, 1]))
    assert predicted_se(plan, "ln_tokens@1B", law=T, sigma=0.01) == pytest.approx(found.se_after)
    one = suggest_runs((n, d), "ln_tokens@1B", law=T, n_runs=1)
    assert one.se_after == math.inf and "would not yet identify" in str(one)


def test_suggested_runs_are_the_best_of_their_grid_and_affordable() -> None:
    n, d, _ = crossed()
    found = suggest_runs((n, d), "ln_tokens@1B", law=T, n_runs=1)
    (params, tokens) = found.runs[0]
    assert params * tokens <= 4 * (n * d).max() and found.se_after < found.se_before
    assert params <= 4 * n.max() and tokens <= 4 * d.max()
    for other in np.geomspace(n.min(), 4 * n.max(), 9)[::2]:
        if other * tokens <= 4 * (n * d).max():
            plan = (np.append(n, other), np.append(d, tokens))
            assert predicted_se(plan, "ln_tokens@1B", law=T, sigma=0.01) >= found.se_after * (1 - 1e-12)
    two = suggest_runs((n, d), "ln_tokens@1B", law=T, n_runs=2)
    assert two.runs[0] == found.runs[0] and two.se_after < found.se_after


def test_a_run_suggested_twice_is_written_once() -> None:
    text = str(Suggestion(((8e9, 4e9), (8e9, 4e9)), 0.3, 0.2, "ln D*(1B)"))
    assert text == (
        "Adding runs at N=8B, D=4B (2 times) would take the predicted standard error of ln D*(1B) from 0.3 to 0.2."
    )


# -- targets, derivatives, refusals ----------------------------------------------------------------


def test_targets_by_name() -> None:
    expected = {
        "ln_tokens@1B": math.log(T.tokens_at(1e9)),
        "ln_params@20B": math.log(T.params_at(2e10)),
        "loss@1B,20B": T.loss(1e9, 2e10),
        "alpha": T.alpha,
        "params_exponent": T.params_exponent,
    }
    for name, value in expected.items():
        assert target_function(name)(T) == pytest.approx(value, rel=1e-12), name
    assert target_function(lambda law: law.E)(T) == T.E


def test_derivatives_in_log_coefficients() -> None:
    n, d, _ = crossed()
    jacobian = log_jacobian(T, np.log(n), np.log(d), n, d)
    for column in range(5):
        found = [
            gradient(lambda law, i=i: math.log(law.loss(n[i], d[i])), T)[column]
            for i in (0, 7, 23)  # type: ignore[misc]
        ]
        assert jacobian[[0, 7, 23], column] == pytest.approx(found, rel=1e-6), COLUMNS[column]


@pytest.mark.parametrize(
    ("fixed", "tied", "directions"),
    [((), False, 5), (("E",), False, 4), ((), True, 4), (("alpha",), True, 3), (("beta",), True, 3)],
)
def test_free_directions(fixed: tuple[str, ...], tied: bool, directions: int) -> None:
    free = free_columns(fixed, tied)
    assert free.shape == (5, directions)
    if tied and not fixed:
        assert (free[COLUMNS.index("alpha")] == free[COLUMNS.index("beta")]).all()


N, D, _ = crossed()


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ((N, D), {"sigma": 0.01}, "no law of its own"),
        ((N, D), {"law": T}, "no residuals: give sigma"),
        ((N, D[:4]), {"law": T, "sigma": 0.01}, "24 params and 4 tokens"),
        ((-N, D), {"law": T, "sigma": 0.01}, "params must be finite and positive"),
        ((N, D), {"law": T, "sigma": -1}, "sigma must be positive"),
        ((N, D), {"law": T, "sigma": [0.1, 0.2]}, "one per run"),
        ((N, D), {"law": T, "sigma": "x"}, "one number"),
        ((N, D), {"law": T, "sigma": 0.01, "rho": 2}, "correlation between 0 and 1"),
        ((N, D), {"law": T, "sigma": 0.01, "groups": [1, 2]}, r"groups has shape \(2,\) for 24 runs"),
        ((N, D), {"law": T, "sigma": 0.01, "delta": 0}, "delta"),
        (3, {"law": T, "sigma": 0.01}, "got int"),
        (table(), {}, "a table has no law of its own"),
    ],
)
def test_plans_that_cannot_be(runs: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        predicted_se(runs, "alpha", **options)


@pytest.mark.parametrize("target", ["gamma", "E@3", "loss@1B", "ln_tokens@x", "ln_tokens@-1", 3, None])
def test_targets_that_cannot_be(target: Any) -> None:
    with pytest.raises(DataError):
        predicted_se((N, D), target, law=T, sigma=0.01)


def test_suggestions_that_cannot_be() -> None:
    with pytest.raises(DataError, match="n_runs"):
        suggest_runs((N, D), "alpha", law=T, n_runs=0)
    with pytest.raises(DataError, match="no law"):
        suggest_runs((N, D), "alpha")
    assert isinstance(suggest_runs(table(noise=0.003), ChinchillaLaw.params_exponent.fget, law=T), Suggestion)
