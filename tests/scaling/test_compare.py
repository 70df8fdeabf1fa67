"""Laws ranked by their errors on larger runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from scaling import ChinchillaLaw, DataError, RunTable, compare_laws, fit_chinchilla
from scaling.compare import TIED
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
