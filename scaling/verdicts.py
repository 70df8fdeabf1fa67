"""Findings on what the runs determine: design, bounds, basins, and how wide the answer is."""

from __future__ import annotations

import math

import numpy as np

from scaling.design import predicted_se
from scaling.findings import Finding
from scaling.intervals import interval
from scaling.laws.base import quiet
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.runs import RunTable
from scaling.solver import Certificate
from scaling.units import format_count

#: Condition number of the centred, column-scaled Jacobian. Designs that determine the law have 25-65
#: (the 240 points of Hoffmann et al. 33); D = 20 N with 10% scatter has 250, without scatter 1e6.
CONDITION_WARN, CONDITION_ERROR = 100.0, 1e4
#: Largest over smallest tokens per parameter below which N and D have hardly moved apart.
_NARROW_SPREAD = 4.0
#: Ends of the interval of D* at the middle of the data, largest over smallest.
_WIDE, _HOPELESS = 10.0, 100.0
#: Fewer independent units than this make a bootstrap interval rough.
_FEW_UNITS = 10
_FAILED_SHARE = 0.02
#: With this share of refits lost the rest are hardly more than permutations of one another.
_USELESS_SHARE = 0.4
_NEAR_BASIN = 0.05


@quiet
def identification_findings(
    runs: RunTable,
    law: ChinchillaLaw,
    draws: ChinchillaLaw,
    certificate: Certificate,
    condition: float,
    *,
    level: float,
    n_units: int,
    n_failed: int,
    fixed: dict[str, float],
    tied: bool,
    second: ChinchillaLaw | None,
    at_bound: tuple[str, ...],
) -> tuple[Finding, ...]:
    """Return the findings on what these runs determine."""
    n = np.asarray(draws.E).size
    out = [*_design_findings(runs, condition), *_bound_findings(law, draws, level, fixed, at_bound)]
    if not certificate.converged:
        out.append(
            Finding("not_converged", "error", f"The optimiser did not converge: {certificate.reason}.", {})
        )
    if second is not None and certificate.second_basin_gap is not None:
        gap = certificate.second_basin_gap
        if gap < _NEAR_BASIN:
            middle = float(np.exp(np.log(runs.params).mean()))
            here, there = law.tokens_at(middle), second.tokens_at(middle)
            out.append(
                Finding(
                    "second_basin",
                    "warning",
                    f"{certificate.n_basins} separate minima; the second lies only {100 * gap:.2g}% above the best "
                    f"and puts D*({format_count(middle)}) at {format_count(there)} instead of {format_count(here)}.",
                    {"n_basins": certificate.n_basins, "gap": gap, "tokens_at": [here, there]},
                )
            )
    out += (
        _spread_findings(runs, law, draws, level, n_units)
        if n
        else _predicted_findings(runs, law, level, fixed, tied)
    )
    if n_failed > _FAILED_SHARE * (n + n_failed):
        out.append(
            Finding(
                "failed_replicates",
                "warning" if n_failed < _USELESS_SHARE * (n + n_failed) else "error",
                f"{n_failed} of {n + n_failed} bootstrap refits had no usable optimum and are not in the "
                "intervals, which are too narrow for it.",
                {"n_failed": n_failed, "n_boot": n + n_failed},
            )
        )
    if n and n_units < _FEW_UNITS:
        out.append(
            Finding(
                "few_units",
                "warning",
                f"Only {n_units} independent units were resampled: intervals from fewer than {_FEW_UNITS} are "
                "rough, and mostly too narrow.",
                {"n_units": n_units},
            )
        )
    return tuple(out)


def _design_findings(runs: RunTable, condition: float) -> list[Finding]:
    ratio = runs.tokens / runs.params
    spread = float(ratio.max() / ratio.min())
    out = []
    if condition > CONDITION_WARN:
        out.append(
            Finding(
                "ill_conditioned",
                "error" if condition > CONDITION_ERROR else "warning",
                f"The runs hardly separate the coefficients: condition number {condition:.2g} "
                "(designs that determine the law have 25-65).",
                {"condition_number": condition},
            )
        )
    if spread < _NARROW_SPREAD:
        out.append(
            Finding(
                "narrow_tokens_per_param",
                "warning",
                f"Tokens per parameter span only a factor {spread:.2g} ({ratio.min():.3g} to {ratio.max():.3g}): N "
                "and D moved together, so their terms cannot be told apart well. Spread D/N by 10 or more.",
                {"spread": spread, "low": float(ratio.min()), "high": float(ratio.max())},
            )
        )
    return out


def _bound_findings(
    law: ChinchillaLaw,
    draws: ChinchillaLaw,
    level: float,
    fixed: dict[str, float],
    at_bound: tuple[str, ...],
) -> list[Finding]:
    out = []
    e = np.asarray(draws.E)
    share = float(np.mean(e <= 0)) if e.size else 0.0
    if "E" not in fixed and (law.E <= 0 or share > (1 - level) / 2):
        where = "at its bound 0" if law.E <= 0 else f"at its bound 0 in {100 * share:.0f}% of the draws"
        out.append(
            Finding(
                "e_at_bound",
                "error",
                f"E is not identified: it is {where}, so these losses do not show a floor, and the exponents "
                f"(alpha {law.alpha:.3f}, beta {law.beta:.3f}) take up what E leaves open.",
                {"quantities": ["E", "alpha", "beta"], "e": law.E, "e_zero_share": share},
            )
        )
    names = [name for name in at_bound if name != "E"]
    if names:
        out.append(
            Finding(
                "exponent_at_bound",
                "error",
                f"{' and '.join(names)} stopped at the edge of the search box: the runs do not determine it.",
                {"quantities": names},
            )
        )
    return out


def _predicted_findings(
    runs: RunTable, law: ChinchillaLaw, level: float, fixed: dict[str, float], tied: bool
) -> list[Finding]:
    """Judge a fit without draws by the standard errors its design and residuals foretell."""
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    middle = float(np.exp(np.log(runs.params).mean()))
    se = predicted_se(runs, f"ln_tokens@{middle!r}", law=law, fixed=fixed, tied=tied)
    low, high = (law.tokens_at(middle) * math.exp(min(s * z * se, 700.0)) for s in (-1, 1))
    out = [
        Finding(
            "no_draws",
            "warning",
            "No bootstrap was made: nothing here has an interval, and whether E reaches its bound was not tried.",
            {"predicted_se_ln_tokens": se, "params": middle},
        )
    ]
    if not high <= _WIDE * low:
        out.append(_wide(middle, low, high, level))
    return out


def _wide(middle: float, low: float, high: float, level: float) -> Finding:
    return Finding(
        "wide_optimum",
        "warning" if high <= _HOPELESS * low else "error",
        f"Even in the middle of the runs (N = {format_count(middle)}) the {100 * level:g}% interval of D* runs from "
        f"{format_count(low)} to {format_count(high)} tokens.",
        {"quantities": ["tokens_at"], "params": middle, "low": low, "high": high},
    )


def _spread_findings(
    runs: RunTable, law: ChinchillaLaw, draws: ChinchillaLaw, level: float, n_units: int
) -> list[Finding]:
    out = []
    middle = float(np.exp(np.log(runs.params).mean()))
    at_middle = np.asarray(draws.tokens_at(middle))
    low, high = interval(at_middle, law.tokens_at(middle), level, n_units=n_units, log_scale=True)
    if not high <= _WIDE * low:
        out.append(_wide(middle, low, high, level))
    budgets = np.quantile(FLOPS_PER_PARAM_TOKEN * runs.params * runs.tokens, [0.1, 0.5, 0.9])
    best = np.median([np.asarray(draws.optimal(float(c)).params) for c in budgets], axis=1)
    outside = (best < runs.params.min()) | (best > runs.params.max())
    if outside.any():
        c, n = budgets[outside][-1], best[outside][-1]
        side, edge = ("below", runs.params.min()) if n < runs.params.min() else ("above", runs.params.max())
        out.append(
            Finding(
                "optimum_outside",
                "error" if outside.all() else "warning",
                f"The optimum is not inside the grid: for {c:.2g} FLOP, a budget these runs spent, the best size "
                f"is N = {format_count(n)}, {side} the {'smallest' if side == 'below' else 'largest'} run "
                f"({format_count(edge)}).",
                {"flops": float(c), "params": float(n), "budgets_outside": int(outside.sum())},
            )
        )
    return out
