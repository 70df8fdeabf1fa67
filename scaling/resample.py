"""Resampling plans: which rows go together, and the weights of every bootstrap replicate.

Replicates are integer weights on the shared points, never copies of them, and are made block by
block: replicate r depends on (seed, r) alone, so 1,000 draws are the first 1,000 of 4,000, and memory
does not grow with the number of replicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError
from scaling.laws.base import Array, Index, Mask

Resample = Literal["auto", "pairs", "cluster", "wild"]

#: Replicates whose random numbers share one generator.
BLOCK = 50
#: Sorted ln N (or ln D) jumps by more than this between levels: digitised sizes scatter by under 1%.
LEVEL = 0.01
#: And no level is wider than this in ln: where no gap tells values apart, their distance does.
WIDTH = 0.05


@dataclass(frozen=True)
class Plan:
    """How rows are resampled.

    Parameters
    ----------
    method : {"pairs", "cluster", "wild"}
        What is drawn: rows, clusters of rows, or signs of residuals (one per cluster).
    cluster : int array, shape (n,)
        Cluster of every row, numbered from 0; each row its own where rows are independent.
    key : str
        Where the clusters come from: a column, ``"groups"``, ``"model_size"`` or ``"row"``.
    """

    method: Literal["pairs", "cluster", "wild"]
    cluster: Index
    key: str

    @property
    def n_clusters(self) -> int:
        """Number of units drawn."""
        return int(self.cluster.max()) + 1

    def blocks(self, n_boot: int, seed: int) -> Iterator[Array]:
        """Yield arrays of shape (up to BLOCK, n): integer weights, or signs for ``"wild"``."""
        n_clusters = self.n_clusters
        for block, start in enumerate(range(0, n_boot, BLOCK)):
            size = min(BLOCK, n_boot - start)
            rng = np.random.default_rng([seed, block])
            if self.method == "wild":
                units = rng.choice([-1.0, 1.0], size=(BLOCK, n_clusters))
            else:
                picks = rng.integers(0, n_clusters, size=(BLOCK, n_clusters))
                picks += np.arange(BLOCK)[:, None] * n_clusters
                units = np.bincount(picks.ravel(), minlength=BLOCK * n_clusters).astype(float)
                units = units.reshape(BLOCK, n_clusters)
            yield units[:size, self.cluster]


def labels(keys: ArrayLike) -> Index:
    """Return the distinct values of `keys` numbered from 0, by their text where types mix."""
    values = np.asarray(keys)
    if values.dtype == object:
        values = values.astype(str)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


def _missing(keys: ArrayLike) -> Mask:
    """Tell which labels are missing: None or nan."""
    return np.array([value is None or value != value for value in np.asarray(keys).tolist()], dtype=bool)


def _labels_or_alone(keys: ArrayLike) -> Index:
    """Return labels numbered from 0; a row without one belongs with no other row."""
    out, missing = labels(keys), _missing(keys)
    if missing.any():
        out[missing] = int(out.max()) + 1 + np.arange(int(missing.sum()))
        out = np.asarray(np.unique(out, return_inverse=True)[1], dtype=np.int64)
    return out


def model_sizes(params: Array) -> Index:
    """Return model sizes numbered from 0: a new one begins where sorted ln N jumps by more than 1%."""
    return levels(params, LEVEL, width=np.inf)


def levels(values: Array, tolerance: float, width: float = WIDTH) -> Index:
    """Return positive values grouped and numbered from 0, in ascending order.

    A group begins where sorted logs jump by more than `tolerance`, and where the group would become
    wider than `width`: thousands of runs scattered over a decade leave no gaps, and are not one value.
    """
    log = np.log(values)
    order = np.argsort(log, kind="stable")
    ordered = log[order]
    begins = np.concatenate([[True], np.diff(ordered) > tolerance])
    starts = np.flatnonzero(begins)
    for first, after in zip(starts, [*starts[1:], len(ordered)], strict=True):
        here = first
        while ordered[after - 1] - ordered[here] > width:
            here += int(np.searchsorted(ordered[here:after], ordered[here] + width, side="right"))
            begins[here] = True
    out = np.empty(len(values), dtype=np.int64)
    out[order] = np.cumsum(begins) - 1
    return out


def plan(runs: Any, resample: Resample, groups: ArrayLike | str | None) -> Plan:
    """Choose how to resample a table of runs.

    Parameters
    ----------
    runs : RunTable
        The runs; ``trunk_id`` and ``run_id`` are looked at.
    resample : {"auto", "pairs", "cluster", "wild"}
        ``"auto"`` clusters when a key is given or repeats, and draws rows otherwise. A row without a
        ``trunk_id`` or ``run_id`` stands alone.
    groups : array, str or None
        Cluster of every row; ``"model_size"``, ``"trunk_id"`` or ``"run_id"`` name one.

    Returns
    -------
    Plan

    Raises
    ------
    DataError
        When `groups` does not fit the table or clusters were asked for and none can be told.
    """
    if resample not in get_args(Resample):
        raise DataError(
            f"resample must be one of {', '.join(get_args(Resample))}, got {resample!r}", column="resample"
        )
    n = len(runs)
    cluster, key = _clusters(runs, groups)
    clustered = cluster is not None and len(np.unique(cluster)) < n
    if resample == "cluster" and cluster is None:
        raise DataError(
            "resample='cluster' needs to know which rows belong together: a column run_id or trunk_id, "
            "or groups= (an array, or 'model_size')",
            column="groups",
        )
    if resample == "pairs" or not (clustered or resample == "cluster"):
        method: Literal["pairs", "cluster", "wild"] = "wild" if resample == "wild" else "pairs"
        return Plan(method, np.arange(n), "row")
    assert cluster is not None
    if cluster.max() == 0:
        raise DataError(
            f"all {n} rows are in one cluster ({key}): no interval can be had from a single independent run",
            column=key,
        )
    return Plan("wild" if resample == "wild" else "cluster", cluster, key)


def _clusters(runs: Any, groups: ArrayLike | str | None) -> tuple[Index | None, str]:
    """Return the cluster of every row and the name of the key, by groups > trunk_id > run_id."""
    if isinstance(groups, str):
        if groups == "model_size":
            return model_sizes(runs.params), groups
        column = getattr(runs, groups, None) if groups in ("trunk_id", "run_id", "seed") else None
        if column is None and runs.frame is not None and groups in runs.frame:
            column = runs.frame[groups].to_numpy()
        if column is None:
            raise DataError(
                f"groups={groups!r} is no column of {runs.source or 'the table'}; use 'model_size', 'run_id', "
                "'trunk_id', a column's name or an array with one value per row",
                column=groups,
            )
        return _labels_or_alone(column), groups
    if groups is not None:
        values = np.asarray(groups)
        if values.shape != (len(runs),):
            raise DataError(
                f"groups has shape {values.shape}, the table has {len(runs)} rows", column="groups"
            )
        missing = np.flatnonzero(_missing(values))
        if missing.size:
            raise DataError(
                f"groups has no value at positions {missing[:10].tolist()}: give every row a group (its own if it "
                "belongs with no other)",
                column="groups",
                rows=runs.row[missing].tolist(),
            )
        return labels(values), "groups"
    for name in ("trunk_id", "run_id"):
        column = getattr(runs, name)
        if column is not None:
            found = _labels_or_alone(column)
            # An identifier that never repeats says that rows are independent.
            if found.max() + 1 < len(runs):
                return found, name
    return None, ""
