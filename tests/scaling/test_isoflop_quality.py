"""Checks of IsoFLOP curves: case U11, one test per reason, and what must *not* be left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from scaling import DataError, NotIdentifiedError, RunTable
from scaling.isoflop import IsoflopFit, QualityRules, fit_isoflop
from tests.scaling.isoflop_worlds import BESIROGLU, BUDGETS, world


def noisy(n: int = 9, noise: float = 0.003, **kwargs: Any) -> dict[str, Any]:
    return world(n=n, noise=noise, rng=np.random.default_rng(1), **kwargs)


def fit(table: dict[str, Any], **kwargs: Any) -> IsoflopFit:
    return fit_isoflop(RunTable.from_arrays(**table), surface=None, **kwargs)


def extended(table: dict[str, Any], **rows: list[float]) -> dict[str, Any]:
    return {name: np.append(values, rows[name]) for name, values in table.items()}


def codes(result: IsoflopFit) -> dict[str, int]:
    points = Counter(p.code for p in result.dropped_points)
    return dict(points + Counter(b.dropped.code for b in result.dropped if b.dropped))


# --- U11 ------------------------------------------------------------------------------------------


def test_four_points_that_only_fall_do_not_bracket_a_minimum() -> None:
    n = np.array([1e8, 2e8, 4e8, 8e8])
    with pytest.raises(NotIdentifiedError) as error:
        fit_isoflop(params=n, tokens=1e19 / 6 / n, loss=[3.4, 3.2, 3.1, 3.05])
    text = str(error.value)
    assert (
        "minimum not bracketed at C=1e19: losses fall monotonically from N=100M (3.4) to N=800M (3.05)"
        in text
    )
    assert "add larger models" in text
    assert "N*" in error.value.quantities


def test_an_unbracketed_budget_is_dropped_and_named_and_the_others_stay() -> None:
    n = np.array([1e7, 2e7, 4e7, 8e7, 1.6e8])
    bad = {"params": n, "tokens": 1e22 / 6 / n, "loss": [3.4, 3.2, 3.1, 3.05, 3.04]}
    result = fit(extended(noisy(), **{k: list(v) for k, v in bad.items()}))
    (dropped,) = result.dropped
    assert dropped.flops == pytest.approx(1e22)
    assert dropped.dropped is not None and dropped.dropped.code == "minimum_not_bracketed"
    assert "C=1e22" in repr(result) and "minimum_not_bracketed" in repr(result)
    assert len(result.used) == len(BUDGETS)


def test_minimum_outside_the_sampled_sizes_is_not_bracketed_even_where_noise_breaks_the_fall() -> None:
    low = world(budgets=[1e22], n=8, width=0.3, offset=-0.6)
    low["loss"][3] = low["loss"][2] + 1e-4
    result = fit(extended(noisy(), **{k: list(v) for k, v in low.items()}))
    reason = result.dropped[0].dropped
    assert reason is not None and reason.code == "minimum_not_bracketed"
    assert "outside the sampled" in reason.message and "add larger models" in reason.message


# --- one reason after the other -------------------------------------------------------------------


def test_exact_duplicates_count_once() -> None:
    table = noisy()
    doubled = {name: np.concatenate([v, v[:3], v[:3]]) for name, v in table.items()}
    twice, once = fit(doubled), fit(table)
    assert codes(twice) == {"exact_duplicate": 6}
    assert twice.frontier.params.exponent == once.frontier.params.exponent


def test_near_duplicates_need_a_seed_to_count_as_reruns() -> None:
    table = noisy()
    again = {"params": table["params"][4] * 1.002, "tokens": table["tokens"][4] * 1.01, "loss": 3.0}
    again["loss"] = float(table["loss"][4]) + 0.002
    both = extended(table, **{k: [float(v)] for k, v in again.items()})
    result = fit(both)
    assert codes(result) == {"near_duplicate_params": 1}
    # The one whose 6ND is nearest to the budget stays.
    assert result.dropped_points[0].evidence["row"] == len(table["loss"])
    seeded = fit_isoflop(RunTable.from_arrays(**both, seed=[0] * len(table["loss"]) + [1]), surface=None)
    assert codes(seeded) == {}
    # A bit-equal row is a copy unless the seeds differ.
    copies = {name: np.append(v, v[4]) for name, v in table.items()}
    reseeded = fit_isoflop(RunTable.from_arrays(**copies, seed=[0] * len(table["loss"]) + [1]), surface=None)
    assert codes(reseeded) == {}


@pytest.mark.parametrize("position", [0, 3, 8])
@pytest.mark.parametrize("shift", [0.3, -0.3])
def test_a_failed_run_is_an_outlier_wherever_it_sits(position: int, shift: float) -> None:
    table = noisy()
    table["loss"][9 + position] += shift
    result = fit(table)
    assert codes(result) == {"outlier": 1}
    assert result.dropped_points[0].evidence["row"] == 9 + position
    clean = fit(noisy())
    assert result.frontier.params.exponent.value == pytest.approx(
        clean.frontier.params.exponent.value, abs=0.01
    )


def test_far_points_of_a_lopsided_grid_are_off_center() -> None:
    table = world(n=9, width=0.4)
    n_star = BESIROGLU.optimal(1e20).params
    n = n_star * 10.0 ** np.array([0.6, 1.5])
    rows = {"params": n, "tokens": 1e20 / 6 / n, "loss": BESIROGLU.loss(n, 1e20 / 6 / n)}
    result = fit(extended(table, **{k: list(v) for k, v in rows.items()}))
    assert codes(result) == {"off_center": 1}
    assert result.dropped_points[0].evidence["params"] == pytest.approx(n[1])


def test_too_few_points_before_and_after_the_checks() -> None:
    few = world(budgets=[1e22], n=4, width=0.3)
    result = fit(extended(noisy(), **{k: list(v) for k, v in few.items()}))
    reason = result.dropped[0].dropped
    assert reason is not None and reason.code == "too_few_points"
    assert "4 distinct sizes left at C=1e22 (4 rows given): at least 5 are needed" in reason.message
    allowed = fit(extended(noisy(), **{k: list(v) for k, v in few.items()}), rules=QualityRules(min_points=4))
    assert not allowed.dropped
    five = world(budgets=[1e22], n=5, width=0.4)
    five["loss"][2] += 0.5
    spoiled = fit(extended(noisy(), **{k: list(v) for k, v in five.items()}))
    reason = spoiled.dropped[0].dropped
    assert reason is not None and reason.code == "too_few_post_qc"


def test_a_flat_curve_has_weak_curvature() -> None:
    flat = world(budgets=[1e22], n=9, width=0.08, noise=0.01, rng=np.random.default_rng(3))
    result = fit(extended(noisy(noise=0.01), **{k: list(v) for k, v in flat.items()}))
    reason = result.dropped[0].dropped
    assert reason is not None and reason.code in ("weak_curvature", "minimum_not_bracketed")
    hill = world(budgets=[1e22], n=9, width=0.5)
    hill["loss"] = 6 - hill["loss"]
    reason = fit(extended(noisy(), **{k: list(v) for k, v in hill.items()})).dropped[0].dropped
    assert reason is not None and reason.code == "weak_curvature" and "curves downwards" in reason.message


def test_equal_losses_have_no_minimum() -> None:
    level = world(budgets=[1e22], n=9, width=0.5)
    level["loss"] = np.full(9, 3.001)
    reason = fit(extended(noisy(), **{k: list(v) for k, v in level.items()})).dropped[0].dropped
    assert reason is not None and reason.code == "weak_curvature"


def test_a_continuum_of_compute_is_no_isoflop_curve() -> None:
    rng = np.random.default_rng(0)
    n, d = 10 ** rng.uniform(7.5, 9.5, 400), 10 ** rng.uniform(9.5, 11, 400)
    with pytest.raises(NotIdentifiedError, match=r"mixed_compute(.|\n)*budgets="):
        fit_isoflop(params=n, tokens=d, loss=BESIROGLU.loss(n, d))


# --- nothing else is touched ----------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.4, 1.0])
def test_clean_curves_lose_nothing(width: float) -> None:
    """Without noise the smoothest curve has edges its neighbours do not predict: no reason to drop them."""
    assert codes(fit(world(n=15, width=width))) == {}


def test_gaussian_noise_is_not_called_an_outlier() -> None:
    rng = np.random.default_rng(5)
    counts: Counter[str] = Counter()
    for _ in range(25):
        counts.update(codes(fit(world(n=12, width=0.6, noise=[0.01, 0.006, 0.004, 0.003], rng=rng))))
    assert counts["outlier"] <= 2  # of 1,200 points


def test_checks_can_be_switched_off_one_by_one() -> None:
    table = noisy()
    table["loss"][12] += 0.3
    rules = QualityRules(outlier_z=None)
    assert "outlier" not in codes(fit(table, rules=rules))
    for bad in ({"min_points": 2}, {"outlier_z": -1.0}, {"curvature_level": 1.0}, {"max_spread": 0.0}):
        with pytest.raises(DataError, match=next(iter(bad))):
            QualityRules(**bad)  # type: ignore[arg-type]
