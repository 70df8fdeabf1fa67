"""L(C) and Kaplan's joint law on the same solver: recovery, intervals, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from scaling import DataError, RunTable, TooFewRunsError, fit_kaplan, fit_power_law
from scaling.laws.base import Array
from scaling.laws.kaplan import KaplanLaw
from scaling.laws.power import PowerLaw
from scaling.published import published
from tests.scaling.fit_worlds import crossed, table

C = np.geomspace(1e17, 1e22, 12)


def frontier(loss: Array) -> RunTable:
    """Runs at 20 tokens per parameter with compute C."""
    n = np.sqrt(C / 120)
    return RunTable.from_arrays(params=n, tokens=20 * n, loss=loss)


@pytest.mark.parametrize("floor", [0.0, 0.4, 1.6])
@pytest.mark.parametrize("alpha", [0.05, 0.16])
@pytest.mark.parametrize("fixed", [(), ("E",), ("alpha",), ("E", "alpha")])
def test_exact_recovery_of_loss_against_compute(floor: float, alpha: float, fixed: tuple[str, ...]) -> None:
    """With the floor free and pinned, down to no floor at all."""
    truth = PowerLaw(floor, 30.0, alpha)
    held = {name: getattr(truth, name) for name in fixed}
    fit = fit_power_law(frontier(truth.loss(C)), fixed=held, n_boot=0)
    assert fit.law.E == pytest.approx(floor, abs=1e-7)
    assert fit.law.alpha == pytest.approx(alpha, rel=1e-7)
    assert fit.law.A == pytest.approx(30.0, rel=1e-6)
    assert fit.predict(1e24).value == pytest.approx(truth.loss(1e24), rel=1e-8)
    assert fit.variables == ("flops",) and fit.certificate.converged


@pytest.mark.parametrize("variable", ["params", "tokens"])
def test_one_variable_at_a_time(variable: str) -> None:
    truth = PowerLaw(1.8, 400.0, 0.33)
    x = np.geomspace(1e8, 1e11, 9)
    arrays: dict[str, Array] = {"params": np.full(9, 1e9), "tokens": np.full(9, 1e10)} | {variable: x}
    fit = fit_power_law(
        RunTable.from_arrays(**arrays, loss=truth.loss(x)),
        variable,  # type: ignore[arg-type]
        n_boot=0,
    )
    assert fit.law.alpha == pytest.approx(0.33, rel=1e-7)
    assert fit.predict("20B").value == pytest.approx(truth.loss(2e10), rel=1e-9)


@given(
    alpha=st.floats(0.03, 0.3), ratio=st.floats(0.4, 2.5), log_nc=st.floats(11, 15), log_dc=st.floats(11, 15)
)
@settings(max_examples=15, deadline=None)
def test_exact_recovery_of_kaplans_law(alpha: float, ratio: float, log_nc: float, log_dc: float) -> None:
    truth = KaplanLaw(10**log_nc, 10**log_dc, alpha, alpha * ratio)
    n, d, _ = crossed(8, 6, params=(1e6, 1e9), tokens=(1e8, 1e11))
    share = (truth.Nc / n) ** (truth.alpha_N / truth.alpha_D) / (truth.Dc / d)
    # Where one term is nowhere seen its scale is nowhere said.
    assume(share.min() < 0.3 and share.max() > 3)
    fit = fit_kaplan(RunTable.from_arrays(params=n, tokens=d, loss=truth.loss(n, d)), n_boot=0)
    for name in KaplanLaw.COEFFICIENTS:
        rel = 1e-4 if name in ("Nc", "Dc") else 1e-6
        assert getattr(fit.law, name) == pytest.approx(getattr(truth, name), rel=rel), name


def test_kaplans_published_law_comes_back() -> None:
    truth = published("Kaplan joint").law
    assert isinstance(truth, KaplanLaw)
    n, d, _ = crossed(8, 6, params=(1e6, 1e9), tokens=(1e8, 1e11))
    fit = fit_kaplan(RunTable.from_arrays(params=n, tokens=d, loss=truth.loss(n, d)), n_boot=0)
    for name in KaplanLaw.COEFFICIENTS:
        assert getattr(fit.law, name) == pytest.approx(getattr(truth, name), rel=1e-6), name
    assert truth.loss(1e9, 1e30) == pytest.approx((truth.Nc / 1e9) ** truth.alpha_N, rel=1e-6)


def test_intervals_contain_the_truth_and_pinning_narrows_them() -> None:
    truth = PowerLaw(1.6, 60.0, 0.08)
    noise = np.exp(0.003 * np.random.default_rng(4).normal(size=12))
    runs = frontier(truth.loss(C) * noise)
    free = fit_power_law(runs, n_boot=300)
    pinned = fit_power_law(runs, n_boot=300, fixed={"E": 1.6})
    for name in ("E", "A", "alpha"):
        found = free.ci(name)
        assert found.low <= getattr(truth, name) <= found.high, name
    assert pinned.ci("E").interval == (1.6, 1.6)
    width = [f.ci("alpha").high - f.ci("alpha").low for f in (free, pinned)]
    assert width[1] < 0.5 * width[0]
    assert "(held)" in pinned.summary() and "PowerLaw in flops: 12 runs" in repr(free)


def test_no_interval_of_a_floor_goes_below_zero() -> None:
    """Stretched for few units, an interval would pass the bound that no draw can."""
    fit = fit_power_law(table(noise=0.003), n_boot=200)
    assert (np.asarray(fit.draws.E) >= 0).all()
    assert fit.ci("E").low >= 0.0


def test_clusters_and_seeds_work_as_in_the_main_fit() -> None:
    truth = KaplanLaw(6.4e13, 1.8e13, 0.076, 0.103)
    n, d, _ = crossed(params=(1e6, 1e9), tokens=(1e8, 1e11))
    loss = truth.loss(n, d) * np.exp(0.003 * np.random.default_rng(2).normal(size=24))
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss, run_id=np.repeat(np.arange(12), 2))
    fit = fit_kaplan(runs, n_boot=60)
    assert fit.n_units == 12
    again, other = fit_kaplan(runs, n_boot=60), fit_kaplan(runs, n_boot=60, seed=1)
    assert np.array_equal(fit.draws.Nc, again.draws.Nc)
    assert not np.array_equal(fit.draws.Nc, other.draws.Nc)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: fit_power_law(r, "size"), DataError, "none of flops, params, tokens"),
        (lambda r: fit_power_law(r, fixed={"E": 99}), DataError, "smallest loss"),
        (lambda r: fit_power_law(r, fixed={"A": 9}), DataError, "only E and alpha can be held"),
        (lambda r: fit_power_law(r, fixed={"alpha": -1}), DataError, "must be positive"),
        (lambda r: fit_power_law(r, fixed={"alpha": "x"}), DataError, "finite number"),
        (lambda r: fit_power_law(r, n_boot=-1), DataError, "whole number"),
        (lambda r: fit_power_law(r, delta=0), DataError, "delta"),
        (lambda r: fit_power_law(r, interval="basic"), DataError, "interval"),
        (lambda r: fit_power_law(r, level=95), DataError, "level=0.95"),
        (lambda r: fit_power_law(r.params), DataError, "must be a RunTable, got ndarray"),
        (lambda r: fit_power_law(r.select([0, 1, 2])), TooFewRunsError, "4 runs at 3 distinct values"),
        (lambda r: fit_power_law(r.select(r.params == r.params[0]), "params"), TooFewRunsError, "distinct"),
        (lambda r: fit_kaplan(r.select([0, 1, 2])), TooFewRunsError, "6 runs with 2 of each"),
        (lambda r: fit_kaplan(r, seed=-1), DataError, "seed"),
        (lambda r: fit_kaplan(r, n_boot=0).ci("E"), DataError, "none of Nc, Dc, alpha_N, alpha_D"),
        (lambda r: fit_kaplan(r, n_boot=0).predict(1e9), DataError, "takes params, tokens"),
        (lambda r: fit_kaplan(r, n_boot=0).predict(-1e9, 1e9), DataError, "params must be positive"),
    ],
)
def test_what_cannot_be_fitted_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(table(noise=0.003))
