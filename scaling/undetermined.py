"""Designs that cannot determine the law are refused before fitting, with what can be said all the same."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.errors import NotIdentifiedError, ScalingError, TooFewRunsError
from scaling.resample import LEVEL, levels
from scaling.runs import RunTable
from scaling.units import format_count

if TYPE_CHECKING:
    from scaling.law_fit import LawFit
    from scaling.other_laws import Variable

#: Three levels are needed to bend a power law through.
_NEEDED_LEVELS = 3
#: D/N constant to this factor: N and D are one variable.
_RAY = 1.02


def check_design(
    runs: RunTable, fixed: dict[str, float], *, tied: bool, needed: int, n_boot: int, seed: int
) -> None:
    """Raise when these runs cannot determine the law, whatever the losses.

    Raises
    ------
    TooFewRunsError
        Fewer than `needed` runs.
    NotIdentifiedError
        Too few distinct sizes or token counts, or D proportional to N; `partial` holds the law in one
        variable that is determined.
    """
    n = distinct_runs(runs)
    if n < needed:
        copies = f" ({len(runs)} rows, the others exact copies)" if n < len(runs) else ""
        raise TooFewRunsError(
            f"{n} usable runs{copies}: the law has 5 coefficients, so {needed} runs are needed to fit it and 8 to "
            "put intervals on it",
            n_runs=n,
            needed=needed,
            quantities=("E", "A", "B", "alpha", "beta"),
        )
    sizes = int(levels(runs.params, LEVEL).max()) + 1
    counts = int(levels(runs.tokens, LEVEL).max()) + 1
    free_n, free_d, together = needed_levels(fixed, tied)
    ratio = runs.tokens / runs.params
    if sizes >= free_n and sizes + counts < together:
        free_d = together - sizes
    if sizes < free_n or counts < free_d:
        _refuse_levels(runs, sizes, counts, (free_n, free_d), n_boot, seed)
    if ratio.max() / ratio.min() < _RAY and not fixed:
        partial = _partial(runs, "flops", n_boot, seed)
        raise NotIdentifiedError(
            f"All {len(runs)} runs have D = {np.median(ratio):.3g} N: parameters and tokens moved together, so "
            "A/N^alpha and B/D^beta cannot be told apart (alpha, beta, A, B and with them D*(N) are not identified). "
            f"{_said(partial, 'Along this line')}To identify the law, repeat some sizes at a quarter of and at "
            "four times their tokens.",
            quantities=("A", "B", "alpha", "beta", "tokens_at", "params_at", "optimal"),
            condition_number=float("inf"),
            remedy="repeat some sizes at a quarter of and at four times their tokens",
            partial=partial,
        )


def needed_levels(fixed: Collection[str], tied: bool) -> tuple[int, int, int]:
    """Return how many distinct N, distinct D, and both together the free coefficients need.

    On a grid of s sizes and c token counts the losses are a constant, s - 1 differences between sizes
    and c - 1 between counts. Differences between sizes see A and alpha alone, those between counts B
    and beta alone; the constant goes to E, and only where E is held can it stand in for a difference.
    """
    coefficient_n, coefficient_d = "A" not in fixed, "B" not in fixed
    exponent_n, exponent_d = "alpha" not in fixed, "beta" not in fixed
    constant = int("E" in fixed)
    if tied:
        shared = exponent_n and exponent_d
        total = coefficient_n + coefficient_d + shared
        exponent_n = exponent_d = False
    else:
        total = coefficient_n + coefficient_d + exponent_n + exponent_d
    size_levels = max(coefficient_n + exponent_n + 1 - constant, 1)
    count_levels = max(coefficient_d + exponent_d + 1 - constant, 1)
    return size_levels, count_levels, total + 2 - constant


def distinct_runs(runs: RunTable) -> int:
    """Return how many runs there are, exact copies of (params, tokens, loss) counted once."""
    return len(np.unique(np.column_stack([runs.params, runs.tokens, runs.loss]), axis=0))


def _refuse_levels(
    runs: RunTable, sizes: int, counts: int, free: tuple[int, int], n_boot: int, seed: int
) -> None:
    """Raise for too few distinct sizes or token counts."""
    tokens_short = counts < free[1]
    variable: Variable = "params" if tokens_short and sizes >= _NEEDED_LEVELS else "tokens"
    both = tokens_short and sizes < free[0]
    partial = None if both else _partial(_one_level(runs, variable), variable, n_boot, seed)
    what, have, symbol, exponent = (
        ("token counts", counts, "D", "beta") if tokens_short else ("sizes", sizes, "N", "alpha")
    )
    values = runs.tokens if tokens_short else runs.params
    span = f"{format_count(float(values.min()))} to {format_count(float(values.max()))}"
    seen = (
        f"all rows share {symbol} = {format_count(float(np.median(values)))}"
        if have == 1
        else f"only {have} distinct {what} ({span})"
    )
    if both:
        seen += f" and only {sizes} distinct size(s)"
    known = "alpha, A and E + B/D^beta" if tokens_short else "beta, B and E + A/N^alpha"
    open_ = ("B", "beta", "E") if tokens_short else ("A", "alpha", "E")
    letter = "B" if tokens_short else "A"
    remedy = (
        f"repeat at least 2 of the runs at 2 or more other {what}, a factor 4 or more apart"
        if have == 1
        else f"add a third value of {symbol}, a factor 4 or more away"
    )
    how = "Fitted"
    if partial is not None and have > 1:
        kept = partial.runs.tokens if tokens_short else partial.runs.params
        how = f"Fitted to the {len(partial.runs)} runs at {symbol} = {format_count(float(np.median(kept)))}"
    told = "" if partial is None else f"What they do identify is {known}. {_said(partial, how)}"
    raise NotIdentifiedError(
        f"{exponent}, {letter} and E are not identified, nor D*(N), which needs them: {seen}, and "
        f"{free[1] if tokens_short else free[0]} distinct {what} are needed. {told}To identify the law, {remedy}.",
        quantities=(*open_, "tokens_at", "params_at", "optimal"),
        condition_number=float("inf"),
        remedy=remedy,
        partial=partial,
    )


def _one_level(runs: RunTable, variable: Variable) -> RunTable:
    """Return the runs at the commonest value of the other variable: only there its term is constant."""
    groups = levels(runs.tokens if variable == "params" else runs.params, LEVEL)
    return runs.select(groups == int(np.argmax(np.bincount(groups))))


def _partial(runs: RunTable, variable: Variable, n_boot: int, seed: int) -> LawFit | None:
    """Fit the law in the one variable that did move; None where even that is not determined."""
    from scaling.other_laws import fit_power_law  # only tables that are refused pay for it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fit_power_law(runs, variable, n_boot=min(n_boot, 500), seed=seed)
    except ScalingError:
        return None


def _said(partial: Any, how: str) -> str:
    """Write the partial law out in one sentence."""
    if partial is None:
        return ""
    law = partial.law
    x = {"flops": "C", "params": "N", "tokens": "D"}[partial.variables[0]]
    return f"{how}: L = {law.E:.4g} + {law.A:.4g}/{x}^{law.alpha:.4g} (in .partial, with intervals). "
