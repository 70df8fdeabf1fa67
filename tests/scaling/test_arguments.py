"""Senseless arguments of a fit are typed errors that name the argument, never accidents of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scaling import BootstrapWarning, DataError, RunTable, ScalingError, TooFewRunsError, fit_chinchilla
from scaling.errors import NotIdentifiedError
from tests.scaling.fit_worlds import T, crossed

N, D, LOSS = crossed(noise=0.003)
ONES = np.ones(24)
NAN, INF = float("nan"), float("inf")


def fit(**changes: Any) -> Any:
    return fit_chinchilla(**{"params": N, "tokens": D, "loss": LOSS, "n_boot": 40, **changes})


@pytest.mark.parametrize(
    ("changes", "column", "message"),
    [
        ({"delta": 0}, "delta", "must be a positive number, got 0"),
        ({"delta": -1}, "delta", "positive"),
        ({"delta": NAN}, "delta", "positive"),
        ({"delta": "small"}, "delta", "positive"),
        ({"delta": None}, "delta", "positive"),
        ({"n_boot": -1}, "n_boot", "whole number from 0 up, got -1"),
        ({"n_boot": 1.5}, "n_boot", "whole number"),
        ({"n_boot": "10"}, "n_boot", "whole number"),
        ({"n_boot": None}, "n_boot", "whole number"),
        ({"n_boot": INF}, "n_boot", "whole number"),
        ({"n_boot": NAN}, "n_boot", "whole number"),
        ({"seed": -1}, "seed", "whole number from 0 up, got -1"),
        ({"seed": 0.5}, "seed", "whole number"),
        ({"seed": None}, "seed", "whole number"),
        ({"level": 95}, "level", "95% is level=0.95"),
        ({"level": "95%"}, "level", "between 0 and 1"),
        ({"level": None}, "level", "between 0 and 1"),
        ({"interval": "basic"}, "interval", "percentile, bias-corrected"),
        ({"weights": "heavy"}, "weights", "one number per row"),
        ({"weights": 2.0}, "weights", r"shape \(\), the table has 24 rows"),
        ({"weights": ONES[:5]}, "weights", r"shape \(5,\), the table has 24 rows"),
        ({"weights": np.where(N == N[0], NAN, 1)}, "weights", r"rows \[0, 6, 12, 18\]"),
        ({"weights": np.where(N == N[0], -1, 1)}, "weights", r"rows \[0, 6, 12, 18\]"),
        ({"weights": 0 * ONES}, "weights", "not all zero"),
        ({"weights": 1e300 * ONES}, "weights", "at most 1e"),
        ({"sigma": 0 * ONES}, "sigma", "positive and finite in every row"),
        ({"sigma": np.where(N == N[0], NAN, 1)}, "sigma", r"rows \[0, 6, 12, 18\]"),
        ({"sigma": 0.01}, "sigma", r"shape \(\)"),
        ({"sigma": ["a"] * 24}, "sigma", "one number per row"),
        ({"fixed": {"e": 1}}, "fixed", "'e' is none of E, A, B, alpha, beta"),
        ({"fixed": {"E": 99}}, "fixed", "not below the smallest loss"),
        ({"fixed": {"E": -1}}, "fixed", "must be positive"),
        ({"fixed": {"alpha": 0}}, "fixed", "must be positive"),
        ({"fixed": {"E": "low"}}, "fixed", "must be a finite number"),
        ({"fixed": {"E": None}}, "fixed", "must be a finite number"),
        ({"fixed": {"E": np.array([1.0, 2.0])}}, "fixed", "must be a finite number"),
        ({"fixed": "E"}, "fixed", "must map coefficients to values"),
        ({"fixed": ["E"]}, "fixed", "must map coefficients to values"),
        ({"fixed": {"alpha": 0.3, "beta": 0.4}, "tied": True}, "fixed", "two values"),
        ({"loss": np.where(N == N[0], NAN, LOSS)}, "loss", "position 0: missing"),
        ({"loss": -LOSS}, "loss", "is not positive"),
        ({"loss": np.ma.array(LOSS, mask=np.arange(24) == 7)}, "loss", "position 7: missing"),
        ({"params": 0 * N}, "params", "is not positive"),
        ({"params": N[:5]}, None, "tokens has 24 values and params has 5"),
        ({"params": N * 1e290}, "params", r"between 1e-100 and 1e\+100"),
        ({"tokens": D * 1e290}, "tokens", r"between 1e-100 and 1e\+100"),
        ({"loss": LOSS * 1e-300}, "loss", r"row 0 has 4\.\d+e-300"),
    ],
)
def test_senseless_arguments_are_named(changes: dict[str, Any], column: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        fit(**changes)
    if column is not None:
        assert caught.value.column == column


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to fit: give runs, or params, tokens and loss"),
        ({"params": N, "loss": LOSS}, r"missing: tokens"),
        ({"runs": "no_such_file.csv"}, "no such file"),
        ({"runs": 3}, "cannot read a table from int"),
        ({"runs": RunTable.from_arrays(params=N, tokens=D, loss=LOSS), "params": N}, "not runs and params"),
        ({"runs": RunTable.from_arrays(params=N, tokens=D, loss=LOSS), "where": "x"}, "is read already"),
    ],
)
def test_runs_given_wrongly(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_chinchilla(**given)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
@pytest.mark.parametrize("name", ["params", "tokens", "loss"])
def test_unusual_units_are_fine(name: str, factor: float) -> None:
    value = {"params": N, "tokens": D, "loss": LOSS}[name]
    assert fit(**{name: value * factor}).law.alpha == pytest.approx(fit().law.alpha, rel=1e-6)


def test_weights_that_leave_too_little_are_refused_like_a_table_of_the_rest() -> None:
    with pytest.raises(TooFewRunsError, match="5 usable runs"):
        fit(weights=np.isin(np.arange(24), [0, 3, 7, 10, 14]))
    with pytest.raises(NotIdentifiedError, match="only 2 distinct sizes"):
        fit(weights=N < 6e7)
    with pytest.raises(NotIdentifiedError, match="all rows share D = 1B"):
        fit(weights=D < 2e9)
    assert fit(weights=N > 3e7).n_runs == 20


@pytest.mark.parametrize(("n_boot", "level", "enough"), [(1, 0.95, 40), (39, 0.95, 40), (100, 0.99, 200)])
def test_too_few_replicates_for_the_level_are_warned_about(n_boot: int, level: float, enough: int) -> None:
    with pytest.warns(BootstrapWarning, match=f"n_boot={enough} or more can"):
        found = fit(n_boot=n_boot, level=level)
    assert found.draws.E.size == n_boot


@pytest.mark.parametrize(
    "loss",
    [
        np.full(24, 3.0),
        1 / LOSS,
        np.random.default_rng(1).uniform(2, 3, 24),
        np.where(N == N[0], 1e9, LOSS),
        T.loss(N, D),
        10 * LOSS.max() - LOSS,
    ],
    ids=["equal", "rising", "random", "wild", "exact", "mirrored"],
)
@pytest.mark.filterwarnings("error", "ignore::scaling.errors.ScalingWarning")
def test_any_losses_give_a_verdict_or_a_typed_error_and_no_stray_warning(loss: np.ndarray) -> None:
    found = fit(loss=loss)
    assert found.verdict in ("identified", "weak", "not identified")
    assert "verdict" in found.summary() and "<table>" in found._repr_html_()
    for ask in (lambda: found.tokens_at(1e9), lambda: found.optimal(1e21), lambda: found.regime(1e9, 1e10)):
        try:
            ask()
        except ScalingError as error:
            assert str(error)
    found.predict(1e9, 1e10)
