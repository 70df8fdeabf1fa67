"""What else the page shows: the IsoFLOP view, the runs that would help most, uncertain parameter counts."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.errors import NotIdentifiedError, ScalingError
from scaling.report.phrases import count, ends, flops_text, number, percent, plural, value, with_interval
from scaling.report.tables import Table

if TYPE_CHECKING:
    from scaling.isoflop import IsoflopFit
    from scaling.report.answer import Answer
    from scaling.result import ChinchillaFit
    from scaling.runs import RunTable

#: Shares of the runs that predict the rest, and refits of each: more would take longer than the page.
_CUTS, _CUT_REFITS = (0.5, 0.65, 0.8), 100


@dataclass(frozen=True)
class Isoflop:
    """The IsoFLOP view: what it says, and its budgets; no table where no budget can be analysed."""

    sentences: tuple[str, ...]
    table: Table | None


@dataclass(frozen=True)
class Foresight:
    """What the smaller runs would have said of the larger: in words, and every cut."""

    sentence: str
    table: Table


def isoflop(runs: RunTable, fit: ChinchillaFit | None) -> Isoflop:
    """Look at the runs as curves of equal compute."""
    from scaling.isoflop import fit_isoflop

    surface: Any = fit.law if fit is not None and fit.verdict != "not identified" and fit.law.E > 0 else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fit_isoflop(runs, surface=surface)
    except ScalingError as error:
        head = str(error).partition("\n")[0].rstrip(":")
        lead = "The runs do not form curves of equal compute" if isinstance(error, NotIdentifiedError) else ""
        return Isoflop((f"{lead}: {head}." if lead else f"{head}.",), None)
    return Isoflop(tuple(_isoflop_words(found, fit)), _isoflop_table(found))


def _isoflop_words(found: IsoflopFit, fit: ChinchillaFit | None) -> list[str]:
    frontier = found.frontier
    a = frontier.params.exponent
    kept = sum(len(b.rows_used) for b in found.used)
    out = [
        f"{len(found.used)} of {plural(len(found.budgets), 'group')} of runs with equal compute pass the checks "
        f"({kept} of {len(found.runs)} runs). Through their minima the best size grows as compute to the power "
        f"{with_interval(a)}."
    ]
    if fit is not None:
        b = fit.ci("params_exponent")
        agree = "The two disagree: trust neither far out"
        if "–" in (ends(a), ends(b)):
            agree = "Without intervals of both nothing says whether the two agree"
        elif not (b.low > a.high or b.high < a.low):
            agree = "The two agree within their intervals"
        out.append(f"The law fitted to all runs says {with_interval(b)}. {agree}.")
    reasons = Counter(b.dropped.code for b in found.dropped if b.dropped is not None)
    if reasons:
        listed = ", ".join(f"{n} {code.replace('_', ' ')}" for code, n in reasons.most_common())
        out.append(f"Budgets left out: {listed}.")
    out += [f.message[0].upper() + f.message[1:] + "." for f in found.findings if f.severity != "info"]
    return out


def _isoflop_table(found: IsoflopFit) -> Table:
    best = found.frontier.kind
    rows = []
    for budget in found.used:
        curve = budget.curves.get(best)
        used = f"{len(budget.rows_used)} of {len(budget.rows)}"
        if curve is None:
            rows.append((flops_text(budget.flops), used, "no minimum", "–", "–", "–"))
            continue
        n, d, loss = curve.params, curve.tokens, curve.loss
        rows.append((flops_text(budget.flops), used, value(n), ends(n), value(d), value(loss)))
    level = percent(found.level, 3)
    return Table(("budget C, FLOP", "runs", "size N*", f"{level} interval", "tokens D*", "loss"), tuple(rows))


def next_runs(fit: ChinchillaFit, head: Answer) -> str:
    """Say which two runs would narrow the answer most; empty where that cannot be said."""
    if not head.usable or head.tokens is None or math.isnan(head.tokens.low):
        return ""
    if set(fit.law.to_dict()) <= set(fit.settings.fixed):
        return ""  # nothing is left to learn
    from scaling.design import suggest_runs

    runs = fit.runs
    noise = max(1.4826 * float(np.median(np.abs(fit.residuals))), 1e-4)
    target = f"ln_tokens@{head.params:.12g}"
    try:
        best = suggest_runs(
            (runs.params, runs.tokens),
            target,
            law=fit.law,
            sigma=noise,
            fixed=tuple(fit.settings.fixed),
            tied=fit.settings.tied,
        )
    except (ScalingError, FloatingPointError, np.linalg.LinAlgError):
        return ""
    if not (0 < best.se_before < math.inf and math.isfinite(best.se_after)):
        return ""
    counts = Counter((count(n, 2), count(d, 2)) for n, d in best.runs)
    listed = " and ".join(
        f"{f'{times} runs' if times > 1 else 'one run'} of {n} parameters on {d} tokens"
        for (n, d), times in counts.items()
    )
    shrink = best.se_after / best.se_before
    now = head.tokens
    low, high = (count(now.value * (end / now.value) ** shrink) for end in (now.low, now.high))
    spent = sum(6 * n * d for n, d in best.runs)
    return (
        f"{listed[0].upper()}{listed[1:]} ({flops_text(spent)} FLOP together; within four times the largest run "
        f"here) would do most for D*({count(head.params)}): its interval should shrink by {percent(1 - shrink)}, to "
        f"about {low} to {high}.{_far_ratio(runs, best.runs)}"
    )


def _far_ratio(runs: RunTable, suggested: tuple[tuple[float, float], ...]) -> str:
    """Explain suggested runs with more or fewer tokens per parameter than any run here; else empty."""
    own = runs.tokens / runs.params
    low, high = float(own.min()), float(own.max())
    far = list(dict.fromkeys(number(d / n, 2) for n, d in suggested if not low * 0.99 < d / n < high * 1.01))
    if not far:
        return ""
    return (
        f" At {' and '.join(far)} tokens per parameter, where the runs here have {number(low, 2)} to "
        f"{number(high, 2)}, such a run measures the law, as that is where the terms of N and D come apart; it is no "
        "model to use, and it counts on the law holding out there."
    )


def foresight(fit: ChinchillaFit) -> Foresight:
    """Ask whether these points would have predicted their own largest runs."""
    from scaling.foresight import leave_future_out

    seen = leave_future_out(fit, shares=_CUTS, n_boot=_CUT_REFITS, level=fit.settings.level)
    rows = []
    for c in seen.cuts:
        start = (flops_text(c.flops), str(c.n_below), str(c.n_above), f"{c.decades:.1f}", c.verdict)
        if c.verdict == "refused":
            rows.append((*start, "–", "–", "–"))
            continue
        error = f"{100 * c.error:+.2g}%".replace("-", "−")
        inside = ("–", "–") if math.isnan(c.width) else (f"{100 * c.coverage:.0f}%", f"{100 * c.width:.2g}%")
        rows.append((*start, error, *inside))
    level = percent(fit.settings.level, 3)
    names = (
        "fitted up to, FLOP",
        "runs",
        "predicts",
        "decades",
        "law below",
        "median error",
        f"inside {level}",
        "width",
    )
    basis = fit.calibration
    said = f"{seen.sentence()}. For predictions of one run on this page {basis}."
    if basis.finding is not None:
        said = f"{said} {basis.finding.message}"
    return Foresight(said, Table(names, tuple(rows), (4,)))


def params_spread(fit: ChinchillaFit, head: Answer) -> str:
    """Say what uncertain parameter counts do to the answer; empty where there is none."""
    if not head.usable:
        return ""
    from scaling.sensitivity import perturb_params

    spread = 0.15
    found = perturb_params(fit, spread, params=head.params, n=100)
    return (
        f"Parameter counts themselves are read in different ways. With every model size off by up to "
        f"{percent(spread)} (each by its own factor) D*({count(head.params)}) moves within {ends(found.tokens)}, α "
        f"within {ends(found.alpha, 3)} and β within {ends(found.beta, 3)}. A factor common to all sizes changes A "
        "alone."
    )
