"""The best run where unique tokens are scarce: against brute force, at its limits, and how unsure it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scaling import fit_chinchilla
from scaling.errors import DataError
from scaling.estimate import Estimate
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.laws.data_constrained import DataConstrainedLaw
from scaling.optima import MUENNIGHOFF, Repetition, data_limited_optimal
from scaling.optima.data_limited import best_size
from scaling.optima.repetition import worth
from tests.scaling.fit_worlds import T, scattered

CERTAIN = Repetition(15.387756, 5.309743, (15.387756, 15.387756))
#: C4, tied exponents (Muennighoff et al. 2023).
C4 = ChinchillaLaw(E=1.8691435, A=520.7, B=1487.7, alpha=0.3526596, beta=0.3526596)


@settings(max_examples=40, deadline=None)
@given(st.floats(8.5, 12.0), st.floats(19.0, 24.0), st.floats(1.0, 1e3), st.floats(1.0, 1e3))
def test_no_size_on_a_fine_grid_is_better(log_unique, log_flops, r_d, r_n):
    """Sizes 0.2% apart over 15 decades: none has a lower loss for the same compute."""
    law, u, c = DataConstrainedLaw(2.0, 480.0, 2100.0, 0.35, 0.37, r_d, r_n), 10**log_unique, 10**log_flops
    best, loss = best_size(law, c, u, None)
    sizes = np.exp(np.arange(np.log(1e3), np.log(c / 6e3), 2e-3))
    grid = law.loss(sizes, c / 6 / sizes, u)
    assert loss <= grid.min() * (1 + 1e-12)
    assert best.params * best.tokens * 6 == pytest.approx(c, rel=1e-12)


def test_enough_data_is_the_plain_optimum():
    best = data_limited_optimal(T, 1e15, 1e21)
    plain = T.optimal(1e21)
    assert best.params.value == pytest.approx(plain.params, rel=1e-6)
    assert best.more["loss_lost"].value == 0.0
    assert best.finding("data_not_limiting") is not None


def test_scarce_data_is_seen_again_and_the_model_is_smaller():
    """Muennighoff et al. 2023, sec. 4: with scarce data epochs should grow faster than parameters."""
    losses, epochs = [], []
    for unique in (1e12, 1e11, 1e10):
        best = data_limited_optimal(C4, unique, 1e22, repetition=CERTAIN)
        losses.append(best.loss.value)
        epochs.append(best.more["epochs"].value)
        free = C4.optimal(1e22)
        assert best.params.value <= free.params * 1.001
        assert best.loss.value - free.loss == pytest.approx(best.more["loss_lost"].value, abs=1e-9)
    assert losses == sorted(losses) and epochs == sorted(epochs)


def test_worth_of_a_repetition():
    """After 4 epochs a token is worth 82% of a new one at R_D = 15.4: e^(-3/15.39); and half after 11.7 epochs."""
    assert worth(4.0, MUENNIGHOFF.R_D) == pytest.approx(0.823, abs=1e-3)
    assert worth(0.3, MUENNIGHOFF.R_D) == 1.0
    until = MUENNIGHOFF.epochs_until(0.5)
    assert until.value == pytest.approx(1 + 15.387756 * np.log(2))
    assert (until.low, until.high) == (pytest.approx(1 + 4 * np.log(2)), np.inf)


def test_the_interval_holds_every_worth_that_fits():
    """Answers at the ends of the ranges, and at the refitted optimum, lie in the interval at the published values."""
    best = data_limited_optimal(C4, 1e10, 1e22)
    assert best.finding("repetition_uncertain").severity == "warning"
    for r_d, r_n in (*MUENNIGHOFF.pairs, (95.4, 1.71)):
        one = data_limited_optimal(C4, 1e10, 1e22, repetition=Repetition(r_d, r_n, (r_d, r_d)))
        for name in ("epochs", "token_worth"):
            found = best.more[name]
            assert found.low * (1 - 1e-6) <= one.more[name].value <= found.high * (1 + 1e-6)
        assert best.params.low * (1 - 1e-6) <= one.params.value <= best.params.high * (1 + 1e-6)
    assert best.more["epochs"].high / best.more["epochs"].low > 2


def test_draws_of_the_law_come_on_top():
    n, d, loss = scattered(80, seed=1)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=100)
    certain = data_limited_optimal(fit, "10B", 1e22, repetition=CERTAIN)
    wide = data_limited_optimal(fit, "10B", 1e22)
    assert wide.params.low < certain.params.low < certain.params.value == wide.params.value
    assert certain.params.high < wide.params.high
    one = ChinchillaLaw(*(float(v[7]) for v in vars(fit.draws).values()))
    drawn, _ = best_size(DataConstrainedLaw(*vars(fit.draws).values(), 15.387756, 5.309743), 1e22, 1e10, 100)
    alone, _ = best_size(DataConstrainedLaw(*vars(one).values(), 15.387756, 5.309743), 1e22, 1e10, None)
    assert drawn.params[7] == pytest.approx(alone.params, rel=1e-6)
    json.dumps(certain.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Repetition(0, 5, (0, 1)), "R_D must lie"),
        (lambda: Repetition(15, 5, (20, 30)), "around R_D"),
        (lambda: Repetition(15, 5, 4), "two numbers"),
        (lambda: Repetition(15, float("nan"), (4, 20)), "R_N"),
        (lambda: MUENNIGHOFF.epochs_until(50), "share must lie"),
        (lambda: data_limited_optimal(T, 0, 1e21), "unique_tokens must be positive"),
        (lambda: data_limited_optimal(T, 1e10, "x"), "flops"),
        (lambda: data_limited_optimal(T, 1e10, 1e21, repetition=15.4), "must be a Repetition"),
    ],
)
def test_arguments_that_cannot_be(ask, message):
    with pytest.raises(DataError, match=message):
        ask()


def test_constants_of_a_fit_of_ones_own():
    """What `fit_data_constrained` finds, with its intervals as ranges; an open end is the edge."""

    class Found:
        runs = range(7)

        def ci(self, name, level):
            ends = {"R_D": (95.0, 4.4, np.inf), "R_N": (1.7, 0.25, 23.0)}[name]
            return Estimate(*ends, level)

    found = Repetition.fitted(Found())
    assert found.pairs == ((95.0, 1.7), (4.4, 23.0), (1e6, 0.25))
    assert found.source == "fitted to 7 runs"
