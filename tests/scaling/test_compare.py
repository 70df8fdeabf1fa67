"""Laws ranked by their errors on larger runs."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from scaling import ChinchillaLaw, DataError, RunTable, TooFewRunsError, compare_laws, fit_chinchilla
from scaling.compare import TIED
from scaling.law_names import LAWS
from tests.scaling.fit_worlds import T, crossed


def runs_of(law: Any, noise: float = 0.0, seed: int = 0) -> RunTable:
    n, d, loss = crossed(7, 6, noise=noise, seed=seed, law=law, params=(1e7, 3e9), tokens=(5e8, 1e11))
    return RunTable.from_arrays(params=n, tokens=d, loss=loss)


def test_the_law_that_made_the_runs_foresees_them_best() -> None:
    found = compare_laws(runs_of(T, 0.002), ["kaplan", "power", "chinchilla"])
    assert found.laws[0].name == "chinchilla"
    assert found.laws[0].error < 0.01 < found.laws[-1].error
    assert found.n_below[0] + found.n_above[0] == 42 and len(found.n_below) == 3
    assert "chinchilla" in repr(found) and "fit, rms" in repr(found)


def test_foresight_ranks_not_fit() -> None:
    """Tied exponents fit no better than free ones, ever; where they are true they foresee better."""
    law = ChinchillaLaw(1.8, 480.0, 1500.0, 0.35, 0.35)
    free, tied = [], []
    for seed in range(3):
        found = {s.name: s for s in compare_laws(runs_of(law, 0.01, seed), ["chinchilla", TIED]).laws}
        assert found["chinchilla"].rms < 1.05 * found[TIED].rms
        free.append(found["chinchilla"].error)
        tied.append(found[TIED].error)
    assert np.mean(tied) < np.mean(free)


def test_any_function_that_fits_is_compared() -> None:
    def floor_known(runs: RunTable, **options: Any) -> Any:
        return fit_chinchilla(runs, fixed={"E": T.E}, **options)

    def never(runs: RunTable, **options: Any) -> Any:
        raise DataError("nothing here: try another")

    found = compare_laws(
        runs_of(T, 0.01), {"floor": floor_known, "free": fit_chinchilla, "never": never}, n_boot=60
    )
    assert {law.name for law in found.laws[:2]} == {"floor", "free"}
    assert all(law.coverage > 0.8 and law.score > 2 * law.error for law in found.laws[:2])
    assert found.laws[-1].n_cuts == 0 and found.laws[-1].refusal == "nothing here"
    assert math.isnan(found.to_dict()["laws"][-1]["error"]) and "0 of 3 cuts" in repr(found)


def test_an_unknown_law_is_named() -> None:
    with pytest.raises(DataError, match="no law is called 'chincilla'"):
        compare_laws(runs_of(T), ["chincilla"])
    with pytest.raises(DataError, match="no law to compare"):
        compare_laws(runs_of(T), [])


def test_runs_that_cannot_be_cut_are_told_why() -> None:
    one = RunTable.from_arrays(params=[1e8], tokens=[1e9], loss=[3.0])
    with pytest.raises(TooFewRunsError, match=r"arrays holds 1 run: .* runs of different compute are needed"):
        compare_laws(one)
    level = RunTable.from_arrays(params=[1e8, 2e8], tokens=[2e9, 1e9], loss=[3.0, 3.1])
    with pytest.raises(TooFewRunsError, match=r"2 runs of one compute, 1.2e\+18 FLOP"):
        compare_laws(level)
    most = RunTable.from_arrays(params=[1e8, 2e8, 4e8], tokens=[1e9, 2e9, 1e9], loss=[3.2, 3.0, 3.1])
    with pytest.raises(DataError, match=r"no share cuts the 3 runs .*: shares 0\.9 leave no run above"):
        compare_laws(most, ["power"], shares=[0.9])
    with pytest.raises(DataError, match="a share lies between 0 and 1"):
        compare_laws(runs_of(T), ["power"], shares=[2.0])


def test_arguments_are_refused_at_once_and_not_listed_as_refusals_of_laws() -> None:
    for bad, message in (({"n_boot": -1}, "n_boot must be"), ({"seed": "x"}, "seed must be")):
        with pytest.raises(DataError, match=message):
            compare_laws(runs_of(T), ["power"], **bad)
    with pytest.raises(DataError, match="is no function that fits"):
        compare_laws(runs_of(T), {"mine": 3})  # type: ignore[dict-item]
    with pytest.raises(DataError, match="no law is called 3"):
        compare_laws(runs_of(T), [3])  # type: ignore[list-item]


def test_laws_that_cannot_be_fitted_are_listed_with_what_they_lack() -> None:
    """Seven runs, no unique tokens: some laws need more of one or the other, the rest are ranked."""
    runs = runs_of(T, 0.01).select(np.linspace(0, 41, 9).astype(int))
    found = {law.name: law for law in compare_laws(runs).laws}
    assert set(found) == {*LAWS, TIED}
    assert "no column unique_tokens" in found["data-constrained"].refusal
    assert found["power"].n_cuts == 3 and not found["power"].refusal
    assert re.search(r"\d runs? with .* are too few .*: 7 runs with 3 sizes", found["coupled"].refusal)
    assert "6 runs are needed" in found["chinchilla"].refusal
    assert all(law.refusal or law.n_cuts == 3 for law in found.values())
    # An option that one law lacks is its refusal, not the end of the comparison.
    tied = {law.name: law for law in compare_laws(runs_of(T), ["kaplan", "chinchilla"], tied=True).laws}
    assert "has no option tied" in tied["kaplan"].refusal and tied["chinchilla"].n_cuts == 3
