"""What the runs can and cannot tell: findings in plain words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scaling.errors import NotIdentifiedError
from scaling.findings import Finding
from scaling.guard import WARN_DECADES
from scaling.report.phrases import (
    count,
    decades,
    factor,
    flops_text,
    number,
    percent,
    ratio,
    with_interval,
)

if TYPE_CHECKING:
    from scaling.report.answer import Answer
    from scaling.result import ChinchillaFit

#: An interval whose ends differ by more than this factor is a rough answer.
_ROUGH = 2.0


@dataclass(frozen=True)
class Statement:
    """A heading and what stands under it."""

    title: str
    text: str
    severity: str = "info"


def _floor_open(fit: ChinchillaFit, f: Finding) -> str:
    e, share = fit.ci("E"), float(f.evidence["e_zero_share"])
    seen = (
        f"in {percent(share)} of the bootstrap refits it is" if fit.law.E > 0 else "the fit itself puts it at"
    )
    return (
        f"The level that no model can pass, E, is open: {seen} zero, its bound; fitted {with_interval(e)}. "
        "The exponents take up what it leaves open, so every extrapolation fans out."
    )


def _grid_edge(fit: ChinchillaFit, f: Finding) -> str:
    n, runs = float(f.evidence["params"]), fit.runs
    below = n < runs.params.min()
    edge = count(float(runs.params.min() if below else runs.params.max()))
    side = f"below the smallest run ({edge})" if below else f"above the largest run ({edge})"
    return (
        f"The optimum is at the edge of the grid or beyond it: for {flops_text(float(f.evidence['flops']))} FLOP, a "
        f"budget these runs spent, the law wants {count(n, 2)} parameters, {side}. Its place rests on the shape of "
        "the formula."
    )


def _loose(fit: ChinchillaFit, f: Finding) -> str:
    low, high = float(f.evidence["low"]), float(f.evidence["high"])
    return (
        f"For {count(float(f.evidence['params']))} parameters, the middle of the runs, the interval of D* already goes "
        f"from {count(low)} to {count(high)} tokens ({factor(ratio(high, low))}). Outside them it can only be looser."
    )


def _bend(fit: ChinchillaFit, f: Finding) -> str:
    size = f", {percent(float(f.evidence['rms']))} of the loss" if "rms" in f.evidence else ""
    what = {"size": "Which size a run has", "tokens": "Which token count a run has"}
    subject = what.get(str(f.evidence.get("pattern")), "A smooth bend over size and data")
    return (
        f"{subject} explains {percent(float(f.evidence['share']))} of what the law leaves "
        f"over{size} (p = {number(float(f.evidence['p_value']), 1)}). It is small inside the runs and grows outside "
        "them, where no interval contains it."
    )


def _form(fit: ChinchillaFit, f: Finding) -> str:
    open_ = fit.open_form
    return (
        f"In L = E + (A/N^α + B/D^β)^k they ask for k {f.evidence['side']} 1 "
        f"(p = {number(float(f.evidence['p_value']), 1)}); the law fitted takes k = 1 for known, and so do its "
        f"intervals. With k left open, after these runs and published laws, k is {with_interval(open_.ci('k'), 2)} "
        f"and E {with_interval(open_.ci('E'))}. What this page says of single runs leaves it open."
    )


def _mixed(fit: ChinchillaFit, f: Finding) -> str:
    name, gap = str(f.evidence["covariate"]), float(f.evidence["gap"])
    middle = number(float(np.median(fit.runs.covariates[name])))
    side = "higher" if gap > 0 else "lower"
    return (
        f"It explains {percent(float(f.evidence['share']))} of what the law leaves over: runs above {name} = {middle} "
        f"lie {percent(abs(gap))} {side} in loss. Part of what looks like an effect of size or data is one "
        "of the recipe."
    )


#: Finding code -> heading, and what it means for someone who plans a run: a sentence to put before the
#: finding's own, or a function that writes it all from the evidence.
_MEANING: dict[str, tuple[str, str | Callable[[ChinchillaFit, Finding], str]]] = {
    "e_at_bound": ("No floor in sight", _floor_open),
    "exponent_at_bound": (
        "An exponent ran to the end of its range",
        "The runs do not say how fast the loss falls with it.",
    ),
    "ill_conditioned": (
        "The coefficients cannot be told apart",
        "Quite different laws describe these runs equally well.",
    ),
    "narrow_tokens_per_param": (
        "Parameters and tokens moved together",
        "What a larger model brings and what more data bring cannot be separated well.",
    ),
    "second_basin": ("Two laws fit almost equally well", "The better one wins by too little to be sure."),
    "wide_optimum": ("The optimum is loose even inside the runs", _loose),
    "optimum_outside": ("The best size is not among the sizes trained", _grid_edge),
    "failed_replicates": ("Some refits of the bootstrap failed", ""),
    "few_units": ("Few independent runs", ""),
    "no_draws": ("No intervals", ""),
    "not_converged": ("The search did not finish", "Do not use the numbers on this page."),
    "curvature_in_residuals": ("The runs bend away from the law", _bend),
    "form_rejected": ("The two shortages do not simply add", _form),
    "covariate_explains_residuals": ("Several recipes in one table", _mixed),
    "influential_row": ("Single runs carry the answer", "If one of them is wrong, so is the answer."),
    "outlier_sensitive": (
        "A few runs move the law",
        "Decide whether they belong, and say so when you drop them.",
    ),
    "gross_outlier": ("Runs far from the law", ""),
    "copied_rows": ("Copies among the runs", ""),
    "repeated_data": ("Data seen many times", "A repeated token is worth less than a new one."),
}


def can_tell(fit: ChinchillaFit, head: Answer) -> list[Statement]:
    """Return what these runs do determine."""
    runs, d = fit.runs, fit.diagnostics
    residuals = np.abs(fit.residuals)
    typical, most = float(np.median(residuals)), float(np.quantile(residuals, 0.9))
    span = (
        f"{count(float(runs.params.min()))} to {count(float(runs.params.max()))} parameters and "
        f"{count(float(runs.tokens.min()))} to {count(float(runs.tokens.max()))} tokens"
    )
    out = [
        Statement(
            "Losses inside their range",
            f"From {span}: half of the runs lie within {percent(typical)} of the law, nine in ten within "
            f"{percent(most)}.",
        )
    ]
    out += _middle(fit)
    if fit.verdict != "not identified":
        a = fit.ci("params_exponent")
        out.append(
            Statement(
                "How to split a larger budget",
                f"The best size grows as compute to the power {with_interval(a)}, the best token count as the rest.",
            )
        )
    if d.finding("narrow_tokens_per_param") is None and d.finding("ill_conditioned") is None:
        low, high = d.tokens_per_param
        out.append(
            Statement(
                "Size and data apart",
                f"Tokens per parameter run from {number(low, 3)} to {number(high, 3)}, {factor(ratio(high, low))}: "
                f"enough to separate the two terms (condition number {number(d.condition_number, 2)}; 25 to 65 is "
                "usual).",
            )
        )
    if not {f.code for f in d.model} & {"influential_row", "outlier_sensitive"}:
        out.append(
            Statement(
                "No single run decides", "Leaving out any one of them moves the fit by less than its error."
            )
        )
    if fit.converged and d.finding("second_basin") is None:
        share = percent(fit.certificate.share_at_best, 3)
        out.append(
            Statement(
                "One best law", f"{share} of {fit.certificate.n_starts} separate searches ended at this one."
            )
        )
    return out


def _middle(fit: ChinchillaFit) -> list[Statement]:
    """Return the optimum in the middle of the runs, where that is determined."""
    if fit.diagnostics.finding("wide_optimum") is not None:
        return []  # said as what the runs cannot tell
    middle = float(np.exp(np.log(fit.runs.params).mean()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tokens = fit.tokens_at(middle)
    except NotIdentifiedError:
        return []
    if math.isnan(tokens.low):
        return []
    spread = ratio(tokens.high, tokens.low)
    rough = "Roughly, the" if spread > _ROUGH or fit.verdict == "not identified" else "The"
    text = (
        f"For {count(middle)} parameters, {with_interval(tokens)} tokens: {factor(spread)} from end to end."
    )
    return [Statement(f"{rough} optimum in the middle of the runs", text)]


def cannot_tell(fit: ChinchillaFit, head: Answer) -> list[Statement]:
    """Return what these runs leave open or speak against, most serious first."""
    out = [statement(fit, f) for f in fit.diagnostics.findings if f.severity != "info"]
    if head.decades_outside > 0:
        far = head.decades_outside > WARN_DECADES
        side = "below the smallest" if head.below else "beyond the largest"
        text = (
            f"The question lies {decades(head.decades_outside)} {side} run. Intervals say how the "
            "fitted formula may vary there, not whether the formula still holds."
        )
        out.append(Statement("Whether the law holds that far out", text, "error" if far else "warning"))
    if fit.runs.params_kind == "unstated":
        out.append(
            Statement(
                "What counts as a parameter",
                "The table does not say (with or without embeddings?). It moves the exponents; use the law for "
                "sizes counted the same way.",
                "warning",
            )
        )
    return sorted(out, key=lambda s: s.severity != "error")


def statement(fit: ChinchillaFit, finding: Finding) -> Statement:
    """Put a finding into words: what it means, and what was seen."""
    heading, meaning = _MEANING.get(finding.code, (finding.code.replace("_", " ").capitalize(), ""))
    if finding.code == "covariate_explains_residuals":
        heading = f"{heading}: {finding.evidence['covariate']}"
    text = f"{meaning} {finding.message}".strip() if isinstance(meaning, str) else meaning(fit, finding)
    return Statement(heading, text, finding.severity)
