"""From an attached law to a fit: the global minimum, its bootstrap, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scaling.arguments import check_magnitudes, check_options
from scaling.bootstrap import bootstrap
from scaling.errors import DataError, NotIdentifiedError, TooFewRunsError
from scaling.findings import Finding
from scaling.intervals import IntervalMethod
from scaling.law_findings import law_findings
from scaling.law_fit import LawFit
from scaling.laws.base import Array, Index
from scaling.newton import Objective, Solution
from scaling.resample import LEVEL, Resample, levels, plan
from scaling.runs import RunTable
from scaling.solver import Certificate, solve, solve_global
from scaling.undetermined import distinct_runs

#: Rounds of search around the best minimum, and minima kept as starts of the bootstrap.
_ROUNDS, _KEPT = 3, 3
_SAME = 1e-7
#: Losses that differ by less than this, relatively, are one number.
_FLAT = 1e-9


class Options(NamedTuple):
    """Arguments that all fits share: see `fit_chinchilla`."""

    delta: float = 1e-3
    resample: Resample = "auto"
    groups: Any = None
    n_boot: int = 1000
    seed: int = 0
    level: float = 0.95
    interval: IntervalMethod = "percentile"


def check_table(runs: RunTable) -> None:
    """Raise `DataError` unless `runs` is a table of computable numbers."""
    if not isinstance(runs, RunTable):
        raise DataError(
            f"runs must be a RunTable, got {type(runs).__name__}: read it with load_runs or RunTable.from_arrays",
            column="runs",
        )
    check_magnitudes(runs)


def counted(runs: RunTable) -> str:
    """Say how many runs there are: exact copies tell nothing new."""
    n = distinct_runs(runs)
    copies = f" ({len(runs)} rows, the others exact copies)" if n < len(runs) else ""
    return f"{n} run{'s' * (n != 1)}{copies}"


def check_levels(
    runs: RunTable, free: Sequence[str], least: tuple[int, int, int]
) -> tuple[tuple[Index, ...], tuple[int, ...]]:
    """Return the levels of N and D of every row, and how many a resample needs.

    Parameters
    ----------
    runs : RunTable
        The runs.
    free : sequence of str
        Coefficients that are fitted.
    least : tuple of int
        Distinct N, distinct D, and both together that they need (`scaling.undetermined.needed_levels`).

    Raises
    ------
    TooFewRunsError
        The runs have fewer.
    """
    sizes, counts = levels(runs.params, LEVEL), levels(runs.tokens, LEVEL)
    have, needed, n = (int(sizes.max()) + 1, int(counts.max()) + 1), len(free) + 1, distinct_runs(runs)
    if n < needed or have[0] < least[0] or have[1] < least[1] or sum(have) < least[2]:
        raise TooFewRunsError(
            f"{counted(runs)} with {have[0]} sizes and {have[1]} token counts are too few for {', '.join(free)}: "
            f"{needed} runs with {least[0]} sizes and {least[1]} token counts are needed",
            n_runs=n,
            needed=needed,
            quantities=tuple(free),
        )
    return (sizes, counts), least[:2]


def fit_attached(
    runs: RunTable,
    attached: Any,
    variables: tuple[str, ...],
    fixed: dict[str, float],
    need: tuple[tuple[Index, ...], tuple[int, ...]],
    options: Options,
    *,
    name: str,
    tied: bool = False,
    judge: Callable[[LawFit], Sequence[Finding]] | None = None,
) -> LawFit:
    """Fit an attached law to its runs.

    Parameters
    ----------
    runs : RunTable
        The runs.
    attached : object
        The law attached to them: ``form``, ``law(plain)`` and, if it has one, ``condition(plain, weights)``.
    variables : tuple of str
        What the law's loss takes.
    fixed : mapping
        Coefficients held.
    need : pair
        Levels of every row on some variables, and how many distinct ones a resample needs.
    options : Options
        Shared arguments.
    name : str
        Name of the law in `scaling.law_names.LAWS`.
    tied : bool
        Whether alpha = beta was imposed.
    judge : callable, optional
        Further findings on a fit, peculiar to the law.

    Raises
    ------
    NotIdentifiedError
        All losses are the same: every law fits them, with any exponents.
    """
    o = options
    check_options(o.delta, o.n_boot, o.seed, o.level, o.interval)
    if len(runs) > 1 and np.ptp(np.log(runs.loss)) <= _FLAT:
        raise NotIdentifiedError(
            f"all {len(runs)} losses of {runs.source} are {runs.loss[0]:.6g}: nothing says how the loss falls with "
            "size or data",
            quantities=("law",),
            remedy="add runs of other sizes and token counts",
        )
    one = np.ones(len(runs))
    problem = Objective(attached.form, np.log(runs.loss), one, one, o.delta)
    minima, lowest, certificate = search_global(problem)
    resampling = plan(runs, o.resample, o.groups)
    drawn = bootstrap(problem, minima, resampling, o.n_boot, o.seed, axes=need[0], min_levels=need[1])
    condition = getattr(attached, "condition", None)
    fit = LawFit(
        law=attached.law(minima[0]),
        variables=variables,
        objective=lowest,
        certificate=certificate,
        draws=attached.law(drawn.plain),
        n_failed=drawn.n_failed,
        runs=runs,
        level=o.level,
        interval=o.interval,
        fixed=fixed,
        n_units=resampling.n_clusters,
        name=name,
        tied=tied,
        delta=o.delta,
        seed=o.seed,
        cluster=resampling.cluster,
        condition_number=float("nan") if condition is None else condition(minima[0], one),
    )
    second = certificate.second_basin
    other = None if second is None else attached.law(np.array(second))
    found = law_findings(fit, other, getattr(attached.form, "extras", ()))
    return replace(fit, findings=(*(judge(fit) if judge is not None else ()), *found))


def search_global(problem: Objective) -> tuple[Array, float, Certificate]:
    """Return the minima found, best first, shape (S, q), the objective at the best, and the evidence.

    A form with a method ``near`` is searched from there as well, on the final objective alone: laws with
    flat valleys have several minima that the smooth objectives of a cold search hide.
    """
    best, lowest, certificate = solve_global(problem)
    near = getattr(problem.form, "near", None)
    if near is None or lowest <= float(problem.rounding()):
        return best[None], lowest, certificate
    ends: Solution | None = None
    n_starts = certificate.n_starts
    for _ in range(_ROUNDS):
        starts = near(best)
        n_starts += len(starts)
        found = solve(problem, starts, cold=False)
        ends = found if ends is None else Solution.join([ends, found])
        at = int(np.argmin(found.objective))
        gained = found.objective[at] < lowest * (1 - _SAME)
        if found.objective[at] <= lowest:
            best, lowest = found.plain[at], float(found.objective[at])
        if not gained:
            break
    assert ends is not None
    noise = float(problem.rounding())
    heights = np.maximum(ends.objective, noise) / max(lowest, noise) - 1.0
    order = np.flatnonzero(ends.converged)[np.argsort(heights[ends.converged], kind="stable")]
    basins: list[int] = []
    for i in order:
        if not basins or heights[i] - heights[basins[-1]] > _SAME * (1 + heights[i]):
            basins.append(int(i))
    others = [i for i in basins if heights[i] > _SAME]
    atop = int(np.argmin(heights))
    return (
        np.concatenate([best[None], ends.plain[others[: _KEPT - 1]]]),
        lowest,
        replace(
            certificate,
            n_starts=n_starts,
            share_at_best=float(np.mean(heights <= _SAME)),
            n_basins=1 + len(others),
            second_basin_gap=float(heights[others[0]]) if others else None,
            second_basin=tuple(float(v) for v in ends.plain[others[0]]) if others else None,
            decrement=float(ends.decrement[atop]),
            converged=bool(ends.converged[atop]),
        ),
    )
