"""Refuse answers the data do not determine; warn of those far outside them."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from scaling.diagnose import Diagnostics, extrapolation
from scaling.errors import DataError, ExtrapolationWarning, NotIdentifiedError, shown, warn
from scaling.estimate import Estimate
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN
from scaling.runs import RunTable
from scaling.units import format_count

Unidentified = Literal["raise", "return"]

#: An interval whose ends differ by more than this factor says nothing that could be acted on.
HOPELESS_RATIO = 100.0
#: Decades of compute beyond the data from which an answer is warned about, and refused.
WARN_DECADES, REFUSE_DECADES = 1.5, 3.0


def check_unidentified(unidentified: str) -> None:
    """Raise `DataError` unless it is ``"raise"`` or ``"return"``."""
    if not isinstance(unidentified, str) or unidentified not in get_args(Unidentified):
        raise DataError(
            f"unidentified must be 'raise' or 'return', got {shown(unidentified)}", column="unidentified"
        )


def guard(
    answer: Estimate,
    runs: RunTable,
    diagnostics: Diagnostics,
    flops: float,
    unidentified: Unidentified,
    *,
    has_draws: bool,
) -> None:
    """Raise or warn where an answer at `flops` goes beyond what the runs say.

    Raises
    ------
    NotIdentifiedError
        The interval spans more than a factor 100, or the answer lies more than 3 decades of compute
        beyond the runs, unless `unidentified` is ``"return"``.
    DataError
        For another `unidentified`.
    """
    check_unidentified(unidentified)
    away = extrapolation(runs, flops)
    why = []
    if has_draws and not answer.high <= HOPELESS_RATIO * answer.low:
        why.append(
            f"its {100 * answer.level:g}% interval runs from {format_count(answer.low)} to {format_count(answer.high)}"
        )
    if not math.isfinite(away):
        why.append("the law puts it at nothing or at infinity")
    elif away > REFUSE_DECADES:
        why.append(f"it lies {away:.1f} decades of compute beyond the runs fitted")
    if why and unidentified == "raise":
        remedy = diagnostics.remedy
        if not math.isfinite(away):
            remedy = "These losses show no effect of N or of D, or grow with one of them."
        elif away > WARN_DECADES:
            small = flops < FLOPS_PER_PARAM_TOKEN * float(np.min(runs.params * runs.tokens))
            near = flops * 10**WARN_DECADES if small else flops / 10**WARN_DECADES
            words = f"It takes runs of about {near:.0e} FLOP or {'less' if small else 'more'} to bring it within reach."
            remedy = f"{words} {remedy}".strip()
        remedy = remedy or "More runs, spread over N and over D/N, would identify it."
        raise NotIdentifiedError(
            f"{answer.name} is not identified by these {len(runs)} runs: {' and '.join(why)}. {remedy} "
            "(unidentified='return' gives the number all the same.)",
            quantities=(answer.name,),
            condition_number=diagnostics.condition_number,
            remedy=remedy,
        )
    warn_if_far(answer.name, away)


def warn_if_far(what: str, away: float) -> None:
    """Warn of an answer more than 1.5 decades of compute beyond the runs."""
    if away > WARN_DECADES:
        warn(
            f"{what} lies {away:.1f} decades of compute beyond the runs fitted; an interval of the law holds if the "
            "law does",
            ExtrapolationWarning,
        )
