"""Findings on what the runs determine of a law of any form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.findings import Finding
from scaling.laws.base import quiet
from scaling.laws.extended import Extra
from scaling.laws.power_sum import EXPONENT_BOX
from scaling.open_ends import open_ends
from scaling.verdicts import CONDITION_ERROR, CONDITION_WARN

if TYPE_CHECKING:
    from scaling.law_fit import LawFit

#: An interval this many times wider than what counts as wide says nothing.
_HOPELESS = 10.0
_FEW_UNITS = 10
#: Draws that must lie outside of an interval, one at either end.
_TAIL_DRAWS = 2.0
_FAILED_SHARE, _USELESS_SHARE = 0.02, 0.4
_NEAR_BASIN = 0.05
#: Ratio of the ends of an exponent's interval from which it is weakly identified; ten times that says nothing.
_WIDE_EXPONENT = 4.0
#: Exponents by name, and the box that each is searched in.
EXPONENTS = dict.fromkeys(("alpha", "beta", "alpha_N", "alpha_D"), EXPONENT_BOX) | {
    "eta": (EXPONENT_BOX[0] / 2, EXPONENT_BOX[1] / 2)
}
#: A second basin is worth a word where it moves a coefficient by this factor.
_MOVED = 1.2


@quiet
def law_findings(fit: LawFit, second: Any, extras: Sequence[Extra]) -> tuple[Finding, ...]:
    """Return the findings on what the runs determine.

    Parameters
    ----------
    fit : LawFit
        The fit, without findings yet.
    second : law or None
        The law at the second minimum.
    extras : sequence of Extra
        Coefficients beyond those of the base law.
    """
    out: list[Finding] = []
    certificate, condition = fit.certificate, fit.condition_number
    if not certificate.converged:
        out.append(
            Finding("not_converged", "error", f"The optimiser did not converge: {certificate.reason}.", {})
        )
    if condition > CONDITION_WARN:
        out.append(
            Finding(
                "ill_conditioned",
                "error" if condition > CONDITION_ERROR else "warning",
                f"The runs hardly separate the coefficients: condition number {condition:.2g} (designs that "
                "determine a law have 25-65).",
                {"condition_number": condition},
            )
        )
    if second is not None:
        out += _basin_findings(fit, second)
    bounds, stuck = _bound_findings(fit)
    out += bounds
    n = np.size(getattr(fit.draws, fit.law.COEFFICIENTS[0]))
    if not n:
        out.append(Finding("no_draws", "warning", "No bootstrap was made: nothing here has an interval.", {}))
    elif n * (1 - fit.level) < _TAIL_DRAWS:
        least = int(np.ceil(_TAIL_DRAWS / (1 - fit.level)))
        out.append(
            Finding(
                "few_draws",
                "warning",
                f"{n} refits cannot place the ends of a {100 * fit.level:g}% interval: n_boot={least} or more can.",
                {"n_draws": n, "needed": least},
            )
        )
    for extra in (*_exponents(fit, stuck), *extras):
        if extra.name not in fit.fixed:
            out += _scale_findings(fit, extra)
    if fit.n_failed > _FAILED_SHARE * (n + fit.n_failed):
        out.append(
            Finding(
                "failed_replicates",
                "warning" if fit.n_failed < _USELESS_SHARE * (n + fit.n_failed) else "error",
                f"{fit.n_failed} of {n + fit.n_failed} bootstrap refits had no usable optimum and are not in the "
                "intervals, which are too narrow for it.",
                {"n_failed": fit.n_failed, "n_boot": n + fit.n_failed},
            )
        )
    if n and fit.n_units < _FEW_UNITS:
        out.append(
            Finding(
                "few_units",
                "warning",
                f"Only {fit.n_units} independent units were resampled: intervals from fewer than {_FEW_UNITS} are "
                "rough, and mostly too narrow.",
                {"n_units": fit.n_units},
            )
        )
    return tuple(out)


def _basin_findings(fit: LawFit, second: Any) -> list[Finding]:
    """Report a second minimum that is nearly as low and says something else."""
    gap = fit.certificate.second_basin_gap
    if gap is None or gap >= _NEAR_BASIN:
        return []
    moved = {}
    for name in fit.law.COEFFICIENTS:
        here, there = getattr(fit.law, name), getattr(second, name)
        if here > 0 and there > 0 and max(here / there, there / here) > _MOVED:
            moved[name] = [here, there]
    if not moved:
        return []
    told = ", ".join(f"{name} {there:.3g} instead of {here:.3g}" for name, (here, there) in moved.items())
    return [
        Finding(
            "second_basin",
            "warning",
            f"{fit.certificate.n_basins} separate minima; the second lies only {100 * gap:.2g}% above the best and "
            f"has {told}.",
            {"n_basins": fit.certificate.n_basins, "gap": gap, "moved": moved},
        )
    ]


def _exponents(fit: LawFit, stuck: Sequence[str]) -> list[Extra]:
    """Return the exponents whose intervals are judged: not those that were reported at the edge of their box."""
    names = [n for n in EXPONENTS if n in fit.law.COEFFICIENTS and n not in stuck]
    if fit.tied and "beta" in names:
        names.remove("beta")
    return [Extra(name, *EXPONENTS[name], (), wide=_WIDE_EXPONENT) for name in names]


def _bound_findings(fit: LawFit) -> tuple[list[Finding], list[str]]:
    """Report E at 0 and exponents at the edge of their box; return the names of these as well."""
    out = []
    names = fit.law.COEFFICIENTS
    if "E" in names and "E" not in fit.fixed:
        e = np.asarray(fit.draws.E)
        share = float(np.mean(e <= 0)) if e.size else 0.0
        if fit.law.E <= 0 or share > (1 - fit.level) / 2:
            where = (
                "at its bound 0" if fit.law.E <= 0 else f"at its bound 0 in {100 * share:.0f}% of the draws"
            )
            out.append(
                Finding(
                    "e_at_bound",
                    "error",
                    f"E is not identified: it is {where}, so these losses do not show a floor, and the exponents "
                    "take up what E leaves open.",
                    {"quantities": ["E"], "e": fit.law.E, "e_zero_share": share},
                )
            )
    stuck = [
        name
        for name, (low, high) in EXPONENTS.items()
        if name in names and name not in fit.fixed and not low * 1.001 < getattr(fit.law, name) < high * 0.999
    ]
    if stuck:
        out.append(
            Finding(
                "exponent_at_bound",
                "error",
                f"{' and '.join(stuck)} stopped at the edge of the search box: the runs do not determine it.",
                {"quantities": stuck},
            )
        )
    return out, stuck


def _scale_findings(fit: LawFit, extra: Extra) -> list[Finding]:
    """Report a positive coefficient whose interval spans too large a factor, or has no end."""
    name, box = extra.name, (extra.low, extra.high)
    value, draws = float(getattr(fit.law, name)), np.asarray(getattr(fit.draws, name))
    open_low, open_high = open_ends(extra, value, draws, fit.level)
    found = fit.ci(name)
    if draws.size == 0 and not (open_low or open_high):
        return []
    low, high = (value, value) if draws.size == 0 else (found.low, found.high)
    if not (open_low or open_high) and high <= extra.wide * low:
        return []
    ends = (
        f"the lower edge of the search ({box[0]:g})" if open_low else f"{low:.3g}",
        f"the upper edge of the search ({box[1]:g})" if open_high else f"{high:.3g}",
    )
    hopeless = open_low or open_high or high > _HOPELESS * extra.wide * low
    told = (
        f"it stopped at {ends[0] if open_low else ends[1]}"
        if draws.size == 0
        else f"it is fitted at {value:.3g}, and its {100 * fit.level:g}% interval runs from {ends[0]} to {ends[1]}"
    )
    evidence = {"quantities": [name], "value": value, "low": low, "high": high}
    return [
        Finding(
            f"wide_{name}",
            "error" if hopeless else "warning",
            f"{name} is {'not' if hopeless else 'weakly'} identified: {told}.",
            {**evidence, "open_low": open_low, "open_high": open_high},
        )
    ]
