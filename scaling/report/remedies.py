"""What would identify or sharpen what is open: one entry per cause, with the numbers to act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from scaling.findings import Finding
from scaling.guard import WARN_DECADES
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN
from scaling.report.phrases import count, flops_text, number
from scaling.report.words import Statement

if TYPE_CHECKING:
    from scaling.report.answer import Answer
    from scaling.result import ChinchillaFit

#: A covariate with at most this many values is spelled out.
_FEW_VALUES = 4


def remedies(fit: ChinchillaFit, head: Answer) -> list[Statement]:
    """Return what would identify what is open: one entry per cause, with the numbers to act on."""
    out = []
    for finding in fit.diagnostics.findings:
        build = _REMEDIES.get(finding.code)
        if build is not None and (entry := build(fit, finding)) is not None:
            out.append(entry)
    if head.decades_outside > WARN_DECADES and head.tokens is not None:
        flops = FLOPS_PER_PARAM_TOKEN * head.params * head.tokens.value
        nearest = flops_text(float(f"{flops * 10 ** (WARN_DECADES if head.below else -WARN_DECADES):.1g}"))
        edge, ends = ("smallest", min) if head.below else ("largest", max)
        out.append(
            Statement(
                "Come nearer to the question",
                f"Runs of about {nearest} FLOP would bring it within {WARN_DECADES:g} decades; the {edge} here "
                f"spent {flops_text(float(ends(fit.runs.compute)))}.",
            )
        )
    return list({s.title: s for s in out}.values())


def _floor(fit: ChinchillaFit, finding: Finding) -> Statement:
    best, unit = float(fit.runs.loss.min()), fit.runs.loss_unit
    unit = "" if unit == "unstated" else f" {unit}"
    text = f"Larger models on more tokens, together, nearer to the floor: the lowest loss here is {number(best)}{unit}."
    return Statement("Show the floor", f"{text} {fit.diagnostics.remedy}".strip())


def _edge(fit: ChinchillaFit, finding: Finding) -> Statement:
    n, runs = float(finding.evidence["params"]), fit.runs
    below = n < runs.params.min()
    edge = float(runs.params.min() if below else runs.params.max())
    side = "smaller" if below else "larger"
    return Statement(
        "Put the optimum inside the grid",
        f"Train sizes {side} than {count(edge)} on the same compute, until the loss rises again at both ends of "
        f"every budget (at {flops_text(float(finding.evidence['flops']))} FLOP the law wants {count(n, 2)}).",
    )


def _recipe(fit: ChinchillaFit, finding: Finding) -> Statement:
    name = str(finding.evidence["covariate"])
    counts = Counter(fit.runs.covariates[name].tolist())
    if len(counts) <= _FEW_VALUES:
        listed = " or ".join(f"{name} = {v:g} ({n} runs)" for v, n in sorted(counts.items()))
        one = f"--where '{name} == {min(counts):g}'"
        text = f"Keep {name} the same in all runs, or fit one of them ({one}): {listed}."
    else:
        text = f"Tune {name} the same way at every size ({len(counts)} values here), and keep the best run of each."
    return Statement(f"One recipe: {name}", text)


def _spread(fit: ChinchillaFit, finding: Finding) -> Statement:
    return Statement(
        "Move tokens and parameters apart",
        "Repeat some sizes at a quarter of and at four times their tokens.",
    )


def _more(fit: ChinchillaFit, finding: Finding) -> Statement:
    return Statement("More independent runs", "Ten or more runs, or trunks, that do not share their luck.")


def _bootstrap(fit: ChinchillaFit, finding: Finding) -> Statement:
    from scaling.wiring import MIN_RUNS_FOR_INTERVALS

    few = fit.n_runs < MIN_RUNS_FOR_INTERVALS
    text = f"They take at least {MIN_RUNS_FOR_INTERVALS} runs." if few else "Fit with n_boot=1000."
    return Statement("Get intervals", text)


_REMEDIES: dict[str, Callable[[ChinchillaFit, Finding], Statement | None]] = {
    "e_at_bound": _floor,
    "optimum_outside": _edge,
    "covariate_explains_residuals": _recipe,
    "narrow_tokens_per_param": _spread,
    "few_units": _more,
    "no_draws": _bootstrap,
}
