"""From a table of runs to slices of equal compute: which rows belong to one IsoFLOP curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scaling.errors import DataError
from scaling.findings import Finding
from scaling.runs import RunTable

Floats = NDArray[np.float64]

#: A flops column is taken as the label of the budget while every row is within this factor of 6ND.
FLOPS_AGREE = 2.0
#: Rows go to the nearest of explicitly named budgets while they are within this factor of it.
NAMED_BUDGET_REACH = 1.2


class Runs(Protocol):
    """What the analysis reads of a table; optional columns may be absent or None."""

    @property
    def params(self) -> Floats:
        """Parameter counts, (n,)."""
        ...

    @property
    def tokens(self) -> Floats:
        """Tokens seen, (n,)."""
        ...

    @property
    def loss(self) -> Floats:
        """Losses, (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class Slice:
    """The runs of one compute budget.

    Parameters
    ----------
    flops : float
        The budget C: the common value of the flops column, or the median of 6ND.
    rows : ndarray of int, (n,)
        Row numbers as the table counts them.
    params, tokens, loss, compute : ndarray, (n,)
        The runs; `compute` is 6ND.
    weights : ndarray, (n,)
        Relative precision of each loss (1 without a sigma column, else mean(sigma^2)/sigma_i^2 with
        the mean taken over the whole table).
    seeds : ndarray of object, (n,), or None
        Seed labels, which tell a rerun from a row that was entered twice.
    """

    flops: float
    rows: NDArray[np.int64]
    params: Floats
    tokens: Floats
    loss: Floats
    compute: Floats
    weights: Floats
    seeds: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.params)

    @property
    def x(self) -> Floats:
        """Log parameters ln N, (n,)."""
        return np.log(self.params)

    @property
    def flops_text(self) -> str:
        """The budget as people write it: ``1e19``."""
        return flops_text(self.flops)

    def take(self, keep: NDArray[Any]) -> Slice:
        """Return the slice of the chosen runs (mask or positions)."""
        return Slice(
            self.flops,
            self.rows[keep],
            self.params[keep],
            self.tokens[keep],
            self.loss[keep],
            self.compute[keep],
            self.weights[keep],
            None if self.seeds is None else self.seeds[keep],
        )


def flops_text(flops: float) -> str:
    """Write a compute budget as people do.

    Examples
    --------
    >>> flops_text(1e19), flops_text(2.58e18)
    ('1e19', '2.58e18')
    """
    return f"{flops:.3g}".replace("e+", "e")


def as_runs(runs: Any, arrays: Mapping[str, Any]) -> RunTable:
    """Return a checked table from a table, a file, a DataFrame, an object with columns, or arrays.

    Raises
    ------
    DataError
        Neither or both were given, or a column fails the checks of `RunTable.from_arrays`.
    """
    given = {name: value for name, value in arrays.items() if value is not None}
    if (runs is None) == (not given):
        raise DataError(
            "give either a table of runs or the arrays params=, tokens=, loss= (and flops=, sigma=), not "
            + ("both" if given else "neither"),
            column="runs",
        )
    if runs is None:
        missing = [name for name in ("params", "tokens", "loss") if name not in given]
        if missing:
            raise DataError(f"{', '.join(missing)} missing: give one value per run", column=missing[0])
        return RunTable.from_arrays(**given)
    if isinstance(runs, RunTable):
        return runs
    if all(hasattr(runs, name) for name in ("params", "tokens", "loss")) and not hasattr(runs, "iloc"):
        names = ("params", "tokens", "loss", "flops", "sigma", "params_active", "seed", "row")
        columns: dict[str, Any] = {name: getattr(runs, name, None) for name in names}
        return RunTable.from_arrays(**columns)
    from scaling.table import load_runs

    return load_runs(runs)


def group_budgets(
    runs: RunTable, *, budgets: Sequence[float] | None, group_tol: float
) -> tuple[list[Slice], list[Finding]]:
    """Sort rows into budgets.

    The compute of a row is its flops column where the table has one and every row is within a factor
    of 2 of 6ND (a flops column is what the runs were *designed* to; 6ND scatters around it when
    embeddings, attention or digitisation errors enter), else 6ND. Sorted by ln C, a new budget starts
    where ln C jumps by more than `group_tol`; a budget may therefore be wider than the tolerance, and
    one that is too wide to be an IsoFLOP curve is named by the quality checks.

    Parameters
    ----------
    runs : RunTable
        The table.
    budgets : sequence of float, optional
        The budgets in FLOPs. Each row goes to the nearest in ln C; rows further than a factor
        1.2 from all of them belong to none, and a finding counts them.
    group_tol : float
        Largest step of ln C inside a budget.

    Returns
    -------
    slices : list of Slice, by rising budget
    findings : list of Finding

    Raises
    ------
    DataError
        `budgets` or `group_tol` is not positive, or no row is near a named budget.
    """
    findings: list[Finding] = []
    compute = runs.compute
    flops = _label(runs, findings)
    if budgets is None:
        if not (np.isfinite(group_tol) and group_tol > 0):
            raise DataError(f"group_tol is a positive step of ln C, not {group_tol!r}", column="group_tol")
        order = np.argsort(flops, kind="stable")
        starts = np.flatnonzero(np.diff(np.log(flops[order])) > group_tol) + 1
        groups = list(np.split(order, starts))
        labels = [float(np.median(flops[g])) for g in groups]
    else:
        groups, labels = _named(runs, flops, budgets, findings)
    weights = np.ones(len(runs)) if runs.sigma is None else np.mean(runs.sigma**2) / runs.sigma**2
    # One order of rows inside a budget, whatever the order in the table: sums then round alike.
    groups = [g[np.lexsort((runs.loss[g], runs.tokens[g], runs.params[g]))] for g in groups]
    slices = [
        Slice(
            label,
            runs.row[g],
            runs.params[g],
            runs.tokens[g],
            runs.loss[g],
            compute[g],
            weights[g],
            None if runs.seed is None else runs.seed[g],
        )
        for label, g in zip(labels, groups, strict=True)
    ]
    return slices, findings


def _label(runs: RunTable, findings: list[Finding]) -> Floats:
    if runs.flops is None:
        return runs.compute
    ratio = runs.flops / runs.compute
    low, high = float(ratio.min()), float(ratio.max())
    evidence = {"ratio_low": low, "ratio_high": high}
    if low < 1 / FLOPS_AGREE or high > FLOPS_AGREE:
        findings.append(
            Finding(
                "flops_disagree",
                "warning",
                f"the flops column is {low:.3g} to {high:.3g} times 6ND, so 6ND sorts the rows into budgets; "
                "if the column is right, name the budgets with budgets=",
                evidence,
            )
        )
        return runs.compute
    if high / low > 1.02:
        findings.append(
            Finding(
                "flops_convention",
                "info",
                f"budgets come from the flops column, which is {low:.3g} to {high:.3g} times 6ND: N* and D* "
                "are read off the runs, so 6 N* D* need not equal C",
                evidence,
            )
        )
    return runs.flops


def _named(
    runs: RunTable, flops: Floats, budgets: Sequence[float], findings: list[Finding]
) -> tuple[list[NDArray[np.int64]], list[float]]:
    named = np.unique(np.asarray(budgets, dtype=float))
    if named.size == 0 or not (np.isfinite(named).all() and (named > 0).all()):
        raise DataError(f"budgets are positive numbers of FLOPs, not {budgets!r}", column="budgets")
    distance = np.abs(np.log(flops)[:, None] - np.log(named)[None, :])
    nearest = distance.argmin(axis=1)
    far = distance.min(axis=1) > np.log(NAMED_BUDGET_REACH)
    groups = [np.flatnonzero((nearest == k) & ~far) for k in range(len(named))]
    filled = [(g, float(c)) for g, c in zip(groups, named, strict=True) if g.size]
    if not filled:
        raise DataError(
            f"no row is within a factor {NAMED_BUDGET_REACH} of the budgets "
            f"{', '.join(flops_text(c) for c in named)}: compute runs from {flops_text(flops.min())} to "
            f"{flops_text(flops.max())}",
            column="budgets",
            rows=runs.row.tolist(),
        )
    if far.any():
        rows = runs.row[far].tolist()
        findings.append(
            Finding(
                "no_budget",
                "warning",
                f"{far.sum()} rows are further than a factor {NAMED_BUDGET_REACH} from every named budget "
                f"and belong to none: rows {', '.join(map(str, rows[:10]))}{' ...' * (len(rows) > 10)}",
                {"rows": rows},
            )
        )
    return [g for g, _ in filled], [c for _, c in filled]
