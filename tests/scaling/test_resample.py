"""What is resampled: rows, clusters or signs; which rows belong together; replicates that do not depend on others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scaling import DataError, RunTable, fit_chinchilla
from scaling.resample import BLOCK, Plan, labels, levels, model_sizes, plan
from tests.scaling.fit_worlds import crossed


def runs(**columns: Any) -> RunTable:
    n, d, loss = crossed(noise=0.003)
    return RunTable.from_arrays(params=n, tokens=d, loss=loss, **columns)


# -- which rows belong together --------------------------------------------------------------------


def test_rows_are_independent_where_nothing_says_otherwise() -> None:
    for table in (runs(), runs(run_id=[f"r{i}" for i in range(24)])):
        found = plan(table, "auto", None)
        assert (found.method, found.n_clusters, found.key) == ("pairs", 24, "row")


def test_what_repeats_clusters_by_default() -> None:
    run_id, trunk_id = np.repeat(np.arange(12), 2), np.repeat(np.arange(6), 4)
    found = plan(runs(run_id=run_id), "auto", None)
    assert (found.method, found.n_clusters, found.key) == ("cluster", 12, "run_id")
    found = plan(runs(run_id=run_id, trunk_id=trunk_id), "auto", None)
    assert (found.n_clusters, found.key) == (6, "trunk_id")
    found = plan(runs(run_id=run_id, trunk_id=trunk_id), "auto", np.arange(24) // 8)
    assert (found.n_clusters, found.key) == (3, "groups")
    found = plan(runs(run_id=run_id), "auto", "model_size")
    assert (found.n_clusters, found.key) == (6, "model_size")
    assert plan(runs(run_id=run_id, trunk_id=trunk_id), "auto", "run_id").n_clusters == 12


def test_an_id_that_never_repeats_gives_way_to_one_that_does() -> None:
    found = plan(runs(trunk_id=np.arange(24), run_id=np.repeat(np.arange(8), 3)), "auto", None)
    assert (found.key, found.n_clusters) == ("run_id", 8)


def test_a_choice_is_kept() -> None:
    table = runs(run_id=np.repeat(np.arange(12), 2))
    assert plan(table, "pairs", None).n_clusters == 24
    assert plan(table, "wild", None).n_clusters == 12
    assert plan(table, "wild", None).method == "wild"
    assert plan(runs(), "wild", None).n_clusters == 24


def test_a_row_without_a_label_stands_alone() -> None:
    """A table of trunks and of single runs, whose trunk_id is empty."""
    found = plan(runs(trunk_id=["a"] * 6 + ["b"] * 6 + [None] * 12), "auto", None)
    assert found.n_clusters == 14
    assert len(set(found.cluster[12:].tolist())) == 12


def test_a_column_of_the_frame_may_group() -> None:
    pd = pytest.importorskip("pandas")
    n, d, loss = crossed(noise=0.003)
    frame = pd.DataFrame({"params": n, "tokens": d, "loss": loss, "lab": list("uvwxyz") * 4})
    fit = fit_chinchilla(frame, groups="lab", n_boot=40)
    assert (fit.settings.cluster_key, fit.settings.n_clusters) == ("lab", 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [1, 2, 3]}, r"groups has shape \(3,\), the table has 24 rows"),
        ({"groups": np.zeros((24, 2))}, "groups has shape"),
        ({"groups": np.zeros(24)}, "all 24 rows are in one cluster"),
        ({"groups": [None, *range(23)]}, r"groups has no value at positions \[0\]"),
        ({"groups": [*range(23), float("nan")]}, r"groups has no value at positions \[23\]"),
        ({"groups": "lab"}, "no column of arrays"),
        ({"groups": "run_id"}, "no column of arrays"),
        ({"resample": "cluster"}, "needs to know which rows belong together"),
        ({"resample": "jackknife"}, "resample must be one of"),
    ],
)
def test_groups_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_chinchilla(runs(), **options)


def test_labels_of_any_kind() -> None:
    assert labels(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert labels(np.array([3, "x", 3.0, None], dtype=object)).max() == 3
    assert labels(np.array([2.5, 1.5, 2.5])).tolist() == [1, 0, 1]


# -- levels ----------------------------------------------------------------------------------------


def test_digitised_sizes_are_one_size_within_a_hundredth() -> None:
    assert levels(np.array([1.009, 2.0, 1.0, 2.03, 1.005]), 0.01).tolist() == [0, 1, 0, 2, 0]


def test_a_crowd_without_gaps_is_many_values() -> None:
    """10,000 sizes scattered over 2.5 decades are not "all rows share N = 565M"."""
    crowd = 10 ** np.random.default_rng(0).uniform(7.5, 10, 10_000)
    assert model_sizes(crowd).max() < 5
    found = levels(crowd, 0.01)
    assert found.max() > 100
    widths = [np.ptp(np.log(crowd[found == g])) for g in range(found.max() + 1)]
    assert max(widths) <= 0.05


@given(st.lists(st.floats(1e3, 1e12), min_size=1, max_size=40))
def test_levels_follow_the_order_of_values(values: list[float]) -> None:
    array = np.array(values)
    found = levels(array, 0.01)
    order = np.argsort(array, kind="stable")
    steps = np.diff(found[order])
    assert found[order][0] == 0 and set(steps.tolist()) <= {0, 1}
    assert (np.diff(np.log(array[order]))[steps == 0] <= 0.01).all()


# -- replicates ------------------------------------------------------------------------------------


@given(st.integers(2, 40), st.integers(0, 10_000), st.integers(1, 130))
@settings(max_examples=30, deadline=None)
def test_weights_are_copies_of_clusters(n_clusters: int, seed: int, n_boot: int) -> None:
    cluster = np.arange(3 * n_clusters) % n_clusters
    blocks = list(Plan("cluster", cluster, "groups").blocks(n_boot, seed))
    weights = np.concatenate(blocks)
    assert weights.shape == (n_boot, 3 * n_clusters) and max(len(b) for b in blocks) <= BLOCK
    assert (weights.sum(axis=1) == 3 * n_clusters).all()
    for g in range(n_clusters):
        assert (np.ptp(weights[:, cluster == g], axis=1) == 0).all()


def test_wild_replicates_flip_signs_of_whole_clusters() -> None:
    cluster = np.repeat(np.arange(5), 4)
    signs = next(Plan("wild", cluster, "groups").blocks(50, 0))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert (np.ptp(signs.reshape(50, 5, 4), axis=2) == 0).all()
    assert abs(signs[:, ::4].mean()) < 0.2


def test_a_replicate_depends_on_its_seed_and_number_alone() -> None:
    some = Plan("pairs", np.arange(30), "row")
    few, many = (np.concatenate(list(some.blocks(n, 7))) for n in (73, 200))
    assert np.array_equal(few, many[:73])
    other = np.concatenate(list(some.blocks(73, 8)))
    assert not np.array_equal(few, other)


def test_weights_look_like_draws_with_replacement() -> None:
    weights = np.concatenate(list(Plan("pairs", np.arange(50), "row").blocks(2000, 1)))
    assert weights.mean() == 1.0
    assert weights.var() == pytest.approx(1 - 1 / 50, rel=0.03)
    assert (weights == 0).mean() == pytest.approx((1 - 1 / 50) ** 50, rel=0.02)
