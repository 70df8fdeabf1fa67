"""What a fit answers, with which interval, in which words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from scaling import ChinchillaFit, DataError, Estimate, RunTable, datasets, fit_chinchilla
from scaling.summary import correlations
from tests.scaling.fit_worlds import crossed, table


@cache
def hoffmann() -> ChinchillaFit:
    return fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=1000)


@cache
def sweep() -> ChinchillaFit:
    return fit_chinchilla(table(8, 6, noise=0.003, params=(3e7, 5e9)), n_boot=200)


# -- intervals of answers --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["E", "A", "B", "alpha", "beta", "params_exponent", "tokens_exponent"])
def test_intervals_are_quantiles_of_the_draws(name: str) -> None:
    """But for the factor for few units, 1.007 for 234 runs."""
    fit = hoffmann()
    found = fit.ci(name)
    draws = getattr(fit.draws, name)
    ends = np.quantile(np.log(draws) if name in "AB" else draws, [0.025, 0.975])
    ends = np.exp(ends) if name in "AB" else ends
    assert found.interval == pytest.approx(tuple(ends), rel=1e-2)
    assert found.value == getattr(fit.law, name) and found.level == 0.95 and found.kind == "optimum"
    assert found.unit == ("nats/token" if name == "E" else "")


def test_the_question_the_package_exists_for() -> None:
    answer = hoffmann().tokens_at("1B")
    assert answer.value == pytest.approx(22.69e9, rel=3e-4)
    assert repr(answer) == f"D*(1B): {answer!s}"
    assert str(answer).startswith("22.7B tokens, 95% [")


def test_counts_may_be_written_as_people_do() -> None:
    fit = sweep()
    assert fit.tokens_at("1B") == fit.tokens_at(1e9) == fit.tokens_at("1_000_000_000")
    assert fit.optimal("1e21") == fit.optimal(1e21)
    assert fit.predict("1B", "20B").mean == fit.predict(1e9, 2e10).mean


def test_levels_and_methods_change_the_interval_alone() -> None:
    fit = hoffmann()
    half, most = fit.tokens_at(1e9, level=0.5), fit.tokens_at(1e9, level=0.95)
    assert most.low < half.low < half.high < most.high and half.value == most.value
    corrected = replace(fit, settings=replace(fit.settings, interval="bias-corrected"))
    other = corrected.tokens_at(1e9)
    assert other.value == most.value and other.interval != most.interval
    assert other.low == pytest.approx(most.low, rel=0.05)


@pytest.mark.filterwarnings("ignore::scaling.errors.ScalingWarning")
def test_no_coefficient_and_no_loss_goes_below_zero() -> None:
    """Stretched for few units about a small value, an end would pass the bound that no draw can."""
    n, d, loss = crossed(noise=0.02, seed=3)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, groups=np.arange(24) % 4, n_boot=100)
    for name in ("E", "A", "B", "alpha", "beta"):
        assert fit.ci(name).low >= 0


def test_optimal_is_consistent_and_in_words() -> None:
    best = sweep().optimal(1e21)
    assert 6 * best.params.value * best.tokens.value == pytest.approx(1e21)
    assert best.tokens_per_param.value == pytest.approx(best.tokens.value / best.params.value)
    assert (best.params.unit, best.tokens.unit, best.loss.unit) == ("params", "tokens", "nats/token")
    assert repr(best).startswith("compute-optimal run for 1e+21 FLOP\n  N*")
    assert best.to_dict()["params"]["value"] == best.params.value


@pytest.mark.parametrize(
    ("tokens", "label", "side"),
    [
        (2e9, "under-trained", "under by"),
        (4e11, "over-trained", "over by"),
        (None, "within the interval", "by 1"),
    ],
)
def test_regime(tokens: float | None, label: str, side: str) -> None:
    fit = hoffmann()
    at = fit.law.tokens_at(1e9) if tokens is None else tokens
    found = fit.regime(1e9, at)
    assert label in found.label and side in repr(found)
    assert found.factor.value == pytest.approx(at / fit.law.tokens_at(1e9))
    assert found.loss.value == pytest.approx(fit.law.loss(1e9, at))
    # At equal FLOPs nothing beats the optimum, neither for the law nor for any draw of it.
    assert found.excess_loss.value >= -1e-12 and found.excess_loss.low >= -1e-12
    if tokens is None:
        assert found.excess_loss.value == pytest.approx(0, abs=1e-12)


def test_prediction_of_one_run_holds_its_scatter() -> None:
    """About 95 in 100 of the runs fitted lie in the intervals predicted for single runs."""
    fit = hoffmann()
    inside = 0
    rows = range(0, fit.n_runs, 5)
    for i in rows:
        found = fit.predict(float(fit.runs.params[i]), float(fit.runs.tokens[i]))
        inside += found.prediction.low <= fit.runs.loss[i] <= found.prediction.high
        assert found.mean.low <= found.mean.value <= found.mean.high
    assert inside / len(rows) == pytest.approx(0.95, abs=0.07)


def test_residuals_are_those_of_log_losses() -> None:
    fit = sweep()
    expected = np.log(fit.runs.loss / fit.law.loss(fit.runs.params, fit.runs.tokens))
    assert np.allclose(fit.residuals, expected)
    c = np.clip(fit.residuals, -1e-3, 1e-3)
    assert np.sum(c * (fit.residuals - c / 2)) == pytest.approx(fit.objective, rel=1e-12)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda f: f.ci("gamma"), "none of E, A, B"),
        (lambda f: f.ci(3), "none of E, A, B"),
        (lambda f: f.ci("alpha", 95), "level=0.95"),
        (lambda f: f.tokens_at("many"), "params: 'many' is not a number"),
        (lambda f: f.tokens_at(0), "params must be positive and finite, got 0"),
        (lambda f: f.tokens_at(-1e9), "positive"),
        (lambda f: f.tokens_at(float("nan")), "positive and finite"),
        (lambda f: f.tokens_at(None), "params: None is not a number"),
        (lambda f: f.tokens_at([1e9]), "not a number"),
        (lambda f: f.params_at(math.inf), "tokens must be positive and finite"),
        (lambda f: f.optimal(-1), "flops must be positive"),
        (lambda f: f.predict(1e9, 0), "tokens must be positive"),
        (lambda f: f.regime(1e9, "x"), "tokens: 'x'"),
        (lambda f: f.tokens_per_param(True), "params: True is not a number"),
    ],
)
def test_questions_that_cannot_be(ask: Callable[[ChinchillaFit], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ask(sweep())


# -- options of the fit that show in the answer ----------------------------------------------------


def test_wild_and_clustered_bootstraps_answer_too() -> None:
    runs = table(8, 6, noise=0.003, params=(3e7, 5e9))
    for options in (
        {"resample": "wild"},
        {"groups": "model_size"},
        {"resample": "wild", "groups": "model_size"},
    ):
        fit = fit_chinchilla(runs, n_boot=100, **options)  # type: ignore[arg-type]
        answer = fit.tokens_at(1e9)
        assert answer.low < answer.value < answer.high
        assert fit.settings.n_clusters == (8 if "groups" in options else 48)


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    fit_chinchilla(table(noise=0.003), n_boot=120, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(50, 120), (100, 120), (120, 120)]


def test_delta_is_the_threshold_of_huber() -> None:
    """Far above the residuals it is least squares on log losses."""
    n, d, loss = crossed(noise=0.003)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, delta=1.0, n_boot=0)
    assert fit.objective == pytest.approx(float(fit.residuals @ fit.residuals) / 2, rel=1e-12)
    assert fit.settings.delta == 1.0
    assert abs(fit.residuals.sum()) < 1e-6  # E, A, B are free: no residual mean is left


# -- words -----------------------------------------------------------------------------------------


def test_summary_is_one_readable_block() -> None:
    text = hoffmann().summary()
    assert text == repr(hoffmann()) and 8 < len(text.splitlines()) < 25
    for part in (
        "234 runs",
        "verdict    identified",
        "compute-optimal tokens at 1B parameters: 22.7B tokens, 95% [",
        "inside the range of the runs",
        "1000 bootstrap refits over 234 rows resampled (seed 0)",
        "100% of 16 starts",
        "N is total parameters, loss in nats/token",
    ):
        assert part in text, part


def test_summary_names_what_was_held_tied_and_clustered() -> None:
    fit = fit_chinchilla(table(noise=0.003), fixed={"E": 1.82}, tied=True, groups="model_size", n_boot=40)
    text = fit.summary()
    assert "(alpha = beta)" in text and "1.82 nats/token, 95% [1.82, 1.82]  (held)" in text
    assert "over 6 model sizes resampled" in text


def test_html_is_escaped() -> None:
    n, d, loss = crossed(noise=0.003)
    runs = RunTable.from_arrays(params=n, tokens=d, loss=loss, source="<script>", covariates={"<b>": d / n})
    page = fit_chinchilla(runs, n_boot=40)._repr_html_()
    assert page.count("<table>") == 1 and "<script>" not in page
    assert "95% low" in page and "params_exponent" in page


def test_correlations_of_the_draws_are_the_known_ones() -> None:
    """Besiroglu et al.: A and alpha, B and beta are nearly one parameter each."""
    found = correlations(hoffmann())
    assert list(found) == sorted(found, key=lambda pair: -abs(found[pair]))
    assert found["log A, alpha"] > 0.99 and found["log B, beta"] > 0.99
    assert correlations(fit_chinchilla(table(noise=0.003), n_boot=0)) == {}


def test_an_estimate_is_a_number_where_one_is_wanted() -> None:
    answer = sweep().tokens_at(1e9)
    assert isinstance(answer, Estimate) and float(answer) == answer.value
    assert f"{answer}" == answer.format()
