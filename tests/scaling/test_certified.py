"""The certified numbers: what the published tables give, to the digits that can be held.

The optimum needs no random numbers and is held to 1e-9. Intervals and standard errors come from 4,000
bootstrap refits and are held to their spread over seeds: interval ends 2%, standard errors 6% (B 15%).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scaling import datasets, fit_chinchilla, load_runs
from scaling.result import ChinchillaFit
from scaling.runs import RunTable

#: 240 of the 245 points of Hoffmann et al. 2022, Figure 4, as read off by Besiroglu et al. 2024.
OBJECTIVE_240 = 1.0182740178006e-3
LAW_240 = {"E": 1.817218, "A": 477.826, "B": 2143.417, "alpha": 0.347310, "beta": 0.367172}
SE_240 = {"A": 124.5, "B": 1293.0, "E": 0.02566, "alpha": 0.01540, "beta": 0.0206}


@cache
def _embedded() -> RunTable:
    return load_runs(datasets.builtin("hoffmann2022"))


@cache
def _points(path: Path, drop: int) -> RunTable:
    return load_runs(datasets.chinchilla_240(path, drop=drop))


@cache
def _fit_240(path: Path) -> ChinchillaFit:
    return fit_chinchilla(_points(path, 5), n_boot=4000)


def test_optimum_of_the_embedded_table() -> None:
    fit = fit_chinchilla(_embedded(), n_boot=0)
    assert fit.n_runs == 234
    assert fit.objective == pytest.approx(8.3994e-4, rel=1e-5)
    law = fit.law
    assert law.E == pytest.approx(1.78360, abs=5e-6)
    assert law.A == pytest.approx(441.47, abs=5e-3)
    assert law.B == pytest.approx(1267.5, abs=5e-2)
    assert law.alpha == pytest.approx(0.342537, abs=5e-7)
    assert law.beta == pytest.approx(0.341834, abs=5e-7)
    assert fit.tokens_at(1e9).value == pytest.approx(22.69e9, rel=3e-4)


def test_interval_of_the_embedded_table() -> None:
    answer = fit_chinchilla(_embedded(), n_boot=4000).tokens_at("1B")
    assert answer.low == pytest.approx(19.6e9, rel=0.02)
    assert answer.high == pytest.approx(27.0e9, rel=0.02)
    assert answer.level == 0.95 and answer.unit == "tokens"


def test_every_start_reaches_the_optimum_and_the_certificate_says_so() -> None:
    certificate = fit_chinchilla(_embedded(), n_boot=0).certificate
    assert certificate.converged
    assert certificate.n_starts >= 10
    assert certificate.share_at_best == 1.0
    assert certificate.n_basins == 1 and certificate.second_basin_gap is None
    assert certificate.decrement < 1e-11


@pytest.mark.public_data
def test_optimum_of_the_240_points(public_table: Callable[[str], Path]) -> None:
    fit = _fit_240(public_table("epoch_chinchilla"))
    assert fit.n_runs == 240
    assert fit.objective == pytest.approx(OBJECTIVE_240, rel=1e-9)
    for name, value in LAW_240.items():
        assert getattr(fit.law, name) == pytest.approx(value, rel=5e-6), name
    assert fit.tokens_at(1e9).value == pytest.approx(22.6e9, rel=2e-3)


@pytest.mark.public_data
def test_standard_errors_of_the_240_points(public_table: Callable[[str], Path]) -> None:
    draws = _fit_240(public_table("epoch_chinchilla")).draws
    for name, value in SE_240.items():
        assert np.std(getattr(draws, name)) == pytest.approx(value, rel=0.15 if name == "B" else 0.06), name


@pytest.mark.public_data
def test_interval_of_the_240_points(public_table: Callable[[str], Path]) -> None:
    answer = _fit_240(public_table("epoch_chinchilla")).tokens_at(1e9)
    assert answer.low == pytest.approx(19.3e9, rel=0.02)
    assert answer.high == pytest.approx(26.9e9, rel=0.02)


@pytest.mark.public_data
def test_interval_clustered_by_model_size(public_table: Callable[[str], Path]) -> None:
    fit = fit_chinchilla(_points(public_table("epoch_chinchilla"), 5), groups="model_size", n_boot=4000)
    assert fit.settings.resample == "cluster" and fit.settings.n_clusters == 41
    answer = fit.tokens_at(1e9)
    assert answer.low == pytest.approx(18.9e9, rel=0.02)
    assert answer.high == pytest.approx(27.9e9, rel=0.02)


@pytest.mark.public_data
def test_all_245_points(public_table: Callable[[str], Path]) -> None:
    fit = fit_chinchilla(_points(public_table("epoch_chinchilla"), 0), n_boot=4000)
    assert fit.n_runs == 245
    assert fit.law.alpha == pytest.approx(0.3493, abs=5e-5)
    assert fit.law.beta == pytest.approx(0.4531, abs=1e-4)
    answer = fit.tokens_at(1e9)
    assert answer.value == pytest.approx(20.35e9, rel=1e-3)
    assert answer.low == pytest.approx(17.2e9, rel=0.02)
    assert answer.high == pytest.approx(25.1e9, rel=0.02)


@pytest.mark.public_data
def test_tokens_per_parameter_are_no_constant(public_table: Callable[[str], Path]) -> None:
    fit = _fit_240(public_table("epoch_chinchilla"))
    ratios = [fit.tokens_per_param(n).value for n in (1e8, 1e9, 1e10)]
    assert ratios == pytest.approx([25.6, 22.6, 20.0], abs=0.05)
