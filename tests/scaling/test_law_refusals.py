"""What every law's fit does with tables and arguments it cannot use, and with losses in another unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scaling import DataError, NotIdentifiedError, RunTable, TooFewRunsError
from scaling.law_fit import LawFit
from scaling.law_names import LAWS, fit_law
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.laws.coupled import CoupledLaw
from scaling.laws.data_constrained import DataConstrainedLaw
from scaling.laws.kaplan import KaplanLaw
from scaling.laws.overtraining import OvertrainingLaw
from scaling.laws.penalty import RepetitionPenaltyLaw
from scaling.laws.power import PowerLaw
from tests.scaling.fit_worlds import T

BASE = (T.E, T.A, T.B, T.alpha, T.beta)
TRUTHS: dict[str, Any] = {
    "coupled": CoupledLaw(1.8, 3e8**0.45, 2e10**0.5, 0.45, 0.5, 0.6),
    "data-constrained": DataConstrainedLaw(*BASE, 12.0, 6.0),
    "kaplan": KaplanLaw(6.4e13, 1.8e13, 0.076, 0.103),
    "overtraining": OvertrainingLaw(1.84, 200.0, 450.0, 0.14),
    "power": PowerLaw(1.6, 60.0, 0.08),
    "repetition-penalty": RepetitionPenaltyLaw(*BASE, 0.03, 0.5),
}
EACH = pytest.mark.parametrize("name", sorted(TRUTHS))


def columns(name: str) -> dict[str, Any]:
    """Five sizes, three counts of unique tokens, 1 to 60 epochs: 60 exact runs."""
    n, u, e = (a.ravel() for a in np.meshgrid(np.geomspace(3e7, 6e9, 5), [5e8, 4e9, 3e10], [1, 3, 10, 60.0]))
    at = {"power": (6 * n * u * e,), "data-constrained": (n, u * e, u), "repetition-penalty": (n, u * e, u)}
    loss = TRUTHS[name].loss(*at.get(name, (n, u * e)))
    return {"params": n, "tokens": u * e, "unique_tokens": u, "loss": loss}


def table(name: str, rows: Any = slice(None), **other: Any) -> RunTable:
    return RunTable.from_arrays(**{k: np.asarray(v)[rows] for k, v in (columns(name) | other).items()})


def same(fit: LawFit, truth: Any, unit: float = 1.0, rel: float = 1e-6) -> None:
    """The law came back, from losses multiplied by `unit`."""
    power = {"E": 1.0, "A": 1.0, "B": 1.0, "a": 1.0, "b": 1.0, "P": 1.0}
    if "k" in truth.COEFFICIENTS:
        power |= {"A": 1 / truth.k, "B": 1 / truth.k}
    if isinstance(truth, KaplanLaw):
        power = {"Nc": 1 / truth.alpha_N, "Dc": 1 / truth.alpha_D}
    for coefficient in truth.COEFFICIENTS:
        expected = getattr(truth, coefficient) * unit ** power.get(coefficient, 0.0)
        assert getattr(fit.law, coefficient) == pytest.approx(expected, rel=rel), coefficient


def test_every_law_is_tried() -> None:
    assert {*TRUTHS, "chinchilla"} == set(LAWS)


@EACH
def test_exact_runs_give_the_law_back_in_any_unit(name: str) -> None:
    data = columns(name)
    plain = fit_law(name, RunTable.from_arrays(**data), n_boot=6)
    assert isinstance(plain, LawFit)
    assert {f.code for f in plain.findings} <= {"plain_law", "few_draws"}, plain.findings
    same(plain, TRUTHS[name])
    for unit in (1e-3, 1e3):
        fit = fit_law(name, RunTable.from_arrays(**(data | {"loss": unit * data["loss"]})), n_boot=0)
        assert isinstance(fit, LawFit)
        same(fit, TRUTHS[name], unit)
        assert fit.condition_number == pytest.approx(plain.condition_number, rel=1e-4, nan_ok=True)


@EACH
def test_counts_in_words_and_copies_of_rows_change_nothing(name: str) -> None:
    data = columns(name)
    words = {k: [f"{v / 1e9!r}B" for v in data[k].tolist()] for k in ("params", "unique_tokens")}
    words["tokens"] = [f"{v / 1e12!r}T" for v in data["tokens"].tolist()]
    same(fit_law(name, RunTable.from_arrays(**(data | words)), n_boot=0), TRUTHS[name])  # type: ignore[arg-type]
    twice = {k: np.tile(v, 2) for k, v in data.items()}
    same(fit_law(name, RunTable.from_arrays(**twice), n_boot=0), TRUTHS[name])  # type: ignore[arg-type]


@EACH
def test_few_rows_are_refused_and_copies_do_not_count(name: str) -> None:
    order = np.random.default_rng(0).permutation(60)
    needed = {"power": 4, "overtraining": 5, "kaplan": 6, "coupled": 7}.get(name, 8)
    for n in (1, 2, needed - 1):
        with pytest.raises((TooFewRunsError, NotIdentifiedError)):
            fit_law(name, table(name, order[:n]), n_boot=0)
    spread = np.linspace(0, 59, needed - 1).astype(int)
    with pytest.raises(
        NotIdentifiedError, match=rf"{needed - 1} runs \({3 * (needed - 1)} rows, the others exact"
    ):
        fit_law(name, table(name, np.tile(spread, 3)), n_boot=0)
    if name != "power":
        data = columns(name)
        with pytest.raises(TooFewRunsError, match="1 sizes"):
            fit_law(name, table(name, data["params"] == data["params"][0]), n_boot=0)


@EACH
def test_losses_that_say_nothing_are_refused_or_not_identified(name: str) -> None:
    with pytest.raises(NotIdentifiedError, match=r"all 60 losses of arrays are 2\.5"):
        fit_law(name, table(name, loss=np.full(60, 2.5)), n_boot=0)
    if name in ("overtraining", "power", "repetition-penalty"):  # the others take long to find nothing
        fit = fit_law(name, table(name, loss=2.5 * wiggle(60)), n_boot=20)
        assert fit.verdict == "not identified", fit
    with pytest.raises(DataError, match="loss must be finite and positive: position 3"):
        table(name, loss=np.where(np.arange(60) == 3, np.nan, 2.5))


@pytest.mark.parametrize("name", ["data-constrained", "repetition-penalty"])
def test_epochs_below_one_are_data_seen_once(name: str) -> None:
    """A run that sees 1e9 tokens of 3e9 unique ones has seen 1e9 unique ones."""
    data = columns(name)
    ample = np.where(data["tokens"] == data["unique_tokens"], 3 * data["tokens"], data["unique_tokens"])
    same(fit_law(name, table(name, unique_tokens=ample), n_boot=0), TRUTHS[name])  # type: ignore[arg-type]
    with pytest.raises(NotIdentifiedError, match=r"no row .* sees a token twice \(.*at most 0.333"):
        fit_law(name, table(name, unique_tokens=3 * data["tokens"]), n_boot=0)


def test_data_without_a_penalty_are_called_that() -> None:
    data = columns("coupled")
    loss = T.loss(data["params"], data["tokens"])
    for fixed in ({}, {"kappa": 0.5}):
        fit = fit_law("repetition-penalty", table("coupled", loss=loss), n_boot=10, fixed=fixed)
        assert fit.verdict == "not identified"
        found = next(f for f in fit.findings if f.code == "no_penalty")  # type: ignore[union-attr]
        assert "These runs show no cost of repetition" in found.message


@pytest.mark.parametrize(
    ("name", "fixed", "message"),
    [
        ("coupled", {"k": 100.0}, r"fixed\['k'\] = 100 lies outside 0.05 to 20, where k is searched"),
        ("coupled", {"k": 1e-9}, r"fixed\['k'\] = 1e-09 lies outside"),
        ("coupled", {"alpha": 50.0}, r"fixed\['alpha'\] = 50 lies outside 0.001 to 4"),
        ("coupled", {"A": 1e300}, "no law with these coefficients comes near these losses"),
        ("data-constrained", {"R_D": 1e9}, r"fixed\['R_D'\] = 1e\+09 lies outside 0.01 to 1e\+06"),
        ("data-constrained", {"beta": 1e-9}, r"fixed\['beta'\] = 1e-09 lies outside"),
        ("repetition-penalty", {"kappa": 100.0}, r"fixed\['kappa'\] = 100 lies outside"),
        ("repetition-penalty", {"B": 1e300}, "no law with these coefficients"),
        ("overtraining", {"eta": 9.0}, r"fixed\['eta'\] = 9 lies outside 0.0005 to 2"),
        ("power", {"alpha": 50.0}, r"fixed\['alpha'\] = 50 lies outside"),
        ("chinchilla", {"A": 1e300}, "no law with these coefficients"),
    ],
)
def test_coefficients_held_where_nothing_is_searched(
    name: str, fixed: dict[str, float], message: str
) -> None:
    data = table("coupled" if name == "chinchilla" else name)
    with pytest.raises(DataError, match=message) as caught:
        fit_law(name, data, n_boot=0, fixed=fixed)
    assert caught.value.column == "fixed"


def test_profiles_stay_where_the_law_is_searched() -> None:
    fit = fit_law(
        "overtraining", table("overtraining", loss=columns("overtraining")["loss"] * wiggle(60)), n_boot=10
    )
    assert isinstance(fit, LawFit)
    found = fit.profile("eta", n_boot=2)
    assert found.values[0] >= 0.0005 and found.values[-1] == 2.0 and np.isfinite(found.excess).all()
    for values in ([], [np.nan], ["x"], [1.0, np.inf]):
        with pytest.raises(DataError, match="values must be"):
            fit.profile("eta", values=values)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="outside"):
        fit.profile("eta", values=np.array([100.0]), n_boot=2)


def wiggle(n: int) -> Any:
    return np.exp(0.005 * np.random.default_rng(1).normal(size=n))


@pytest.mark.parametrize("name", [3, None, ["coupled"], "nope"])
def test_what_is_no_law(name: Any) -> None:
    with pytest.raises(DataError, match=r"no law is called .*: there are chinchilla, coupled"):
        fit_law(name, table("coupled"))


def test_a_base_that_is_no_law() -> None:
    for base in (ChinchillaLaw(np.array([1.0]), 1.0, 1.0, 0.3, 0.3), "hoffmann", 3):
        with pytest.raises(DataError, match="base must be one ChinchillaLaw"):
            fit_law("data-constrained", table("data-constrained"), base=base)
    with pytest.raises(DataError, match=r"fixed\['E'\] = 50.0 is not below the smallest loss"):
        fit_law("data-constrained", table("data-constrained"), base=ChinchillaLaw(50.0, 1.0, 1.0, 0.3, 0.3))


def test_draws_too_few_for_an_interval_are_told() -> None:
    runs = table("overtraining", loss=columns("overtraining")["loss"] * wiggle(60))
    fit = fit_law("overtraining", runs, n_boot=3)
    assert isinstance(fit, LawFit) and fit.verdict == "weak"
    found = fit.finding("few_draws")
    assert (
        found is not None and "3 refits cannot place the ends of a 95% interval: n_boot=40" in found.message
    )
    with pytest.raises(DataError, match="runs must be a RunTable, got NoneType"):
        fit.fitted(None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="none of flops, params, tokens"):
        fit_law("power", runs, variable=["flops"])
