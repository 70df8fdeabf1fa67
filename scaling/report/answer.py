"""The answer at the head of the page: what was asked, what the runs say, and how far that can be trusted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaling.diagnose import extrapolation
from scaling.errors import NotIdentifiedError
from scaling.estimate import Estimate
from scaling.guard import HOPELESS_RATIO, REFUSE_DECADES, WARN_DECADES
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN
from scaling.report.phrases import count, decades, ends, factor, flops_text, number, percent, ratio, value
from scaling.units import format_count

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit
    from scaling.runs import RunTable


@dataclass(frozen=True)
class Answer:
    """The headline.

    Parameters
    ----------
    params : float
        The size asked about.
    tokens : Estimate or None
        D*(params) whether or not it may be used; None where there is no law at all.
    usable : bool
        Whether the runs determine it.
    verdict : {"identified", "weak", "not identified"}
        Of the law as a whole.
    chip : str
        The verdict in a few words.
    headline, interval : str
        "22.7B tokens" and "95% interval 19.9B to 27.1B", or what stands in their place.
    sentences : tuple of str
        The rest of the answer, most important first.
    decades_outside : float
        Decades of compute between the question and the runs.
    below : bool
        Whether the question lies below the smallest run, if outside.
    doubted : bool
        Whether the runs speak against the law, though they determine its coefficients.
    """

    params: float
    tokens: Estimate | None
    usable: bool
    verdict: str
    chip: str
    headline: str
    interval: str
    sentences: tuple[str, ...]
    decades_outside: float
    below: bool = False
    doubted: bool = False


#: Finding about the model -> what the runs do that an identified law does not answer for.
_BUT = {
    "curvature_in_residuals": "bend away from the law",
    "form_rejected": "reject the form of the law",
    "covariate_explains_residuals": "mix several recipes",
    "outlier_sensitive": "a few of them move it",
    "influential_row": "single ones carry it",
}


def answer(fit: ChinchillaFit, params: float) -> Answer:
    """Answer how many tokens are compute-optimal for a size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is said here
        tokens = fit.tokens_at(params, unidentified="return")
        try:
            fit.tokens_at(params)
            usable = fit.verdict != "not identified"
        except NotIdentifiedError:
            usable = False
    flops = FLOPS_PER_PARAM_TOKEN * params * tokens.value
    away = extrapolation(fit.runs, flops)
    size, doubts = count(params), _doubts(fit)
    if usable:
        loose = fit.verdict == "weak"
        chip = "the runs determine this only loosely" if loose else "the runs determine this"
        sentences = [_run(fit, params, tokens), place(fit.runs, params, flops, away), *_rule(fit, params)]
        if doubts and not loose:
            chip += f", but {doubts}"
        if away > WARN_DECADES:
            chip += ", if the law holds that far out"
        interval = f"{percent(tokens.level, 3)} interval: {ends(tokens)}"
        if ends(tokens) == "–":
            interval = "no interval: too few runs for a bootstrap, or none was asked for"
        headline = f"{value(tokens)} tokens"
    else:
        chip = "the runs do not determine this"
        headline = "No answer from these runs"
        interval = f"for a model of {size} parameters"
        sentences = [*_why_not(fit, tokens, away), place(fit.runs, params, flops, away)]
    below = flops < float(fit.runs.compute.min())
    said = tuple(sentences)
    return Answer(
        params, tokens, usable, fit.verdict, chip, headline, interval, said, away, below, bool(doubts)
    )


def _doubts(fit: ChinchillaFit) -> str:
    """Say what the runs hold against the law itself, most serious first; empty where that is nothing."""
    found = {f.code for f in fit.diagnostics.model if f.severity != "info"}
    known = [words for code, words in _BUT.items() if code in found]
    return known[0] if known else "a check of the law raised a doubt" if found else ""


def refused(error: NotIdentifiedError, runs: RunTable, params: float) -> Answer:
    """Give the answer for a table to which no law could be fitted."""
    low, high = float(runs.compute.min()), float(runs.compute.max())
    said = str(error).replace(" (in .partial, with intervals)", "")
    sentences = (said, f"The runs span {flops_text(low)} to {flops_text(high)} FLOP.")
    return Answer(
        params,
        None,
        False,
        "not identified",
        "the runs do not determine a law",
        "No answer from these runs",
        f"for a model of {count(params)} parameters",
        sentences,
        float("nan"),
    )


def place(runs: RunTable, params: float, flops: float, away: float) -> str:
    """Say how far a question lies from the runs."""
    low, high = float(runs.compute.min()), float(runs.compute.max())
    sizes = f"{count(float(runs.params.min()))} to {count(float(runs.params.max()))} parameters"
    span = f"The runs reach from {flops_text(low)} to {flops_text(high)} FLOP and from {sizes}"
    inside_n = runs.params.min() <= params <= runs.params.max()
    if away == 0 and inside_n:
        return f"{span}: the question ({flops_text(flops)} FLOP) lies inside."
    if away == 0:
        return f"{span}: the question lies inside in compute ({flops_text(flops)} FLOP), not in size."
    side = "beyond the largest" if flops > high else "below the smallest"
    caution = "; no interval covers the law being wrong out there" if away > WARN_DECADES else ""
    return f"{span}: the question ({flops_text(flops)} FLOP) lies {decades(away)} {side} of them{caution}."


def _run(fit: ChinchillaFit, params: float, tokens: Estimate) -> str:
    """Describe the run that the answer amounts to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prediction = fit.predict(params, tokens.value)
    unit = "" if fit.runs.loss_unit == "unstated" else f" {fit.runs.loss_unit}"
    flops = FLOPS_PER_PARAM_TOKEN * params * tokens.value
    single = prediction.prediction
    lands = (
        "" if ends(single) == "–" else f", and a single run should land between {ends(single, joint=' and ')}"
    )
    return (
        f"That is {number(tokens.value / params, 3)} tokens per parameter and {flops_text(flops)} FLOP (6·N·D). "
        f"The law puts the loss of that run at {value(prediction.mean)}{unit}{lands}."
    )


def _rule(fit: ChinchillaFit, params: float) -> list[str]:
    """Compare with the rule of thumb of 20 tokens per parameter."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regime = fit.regime(params, 20 * params)
    except NotIdentifiedError:
        return []
    where = {
        "compute-optimal within the interval": "which these runs cannot tell from the optimum",
        "over-trained": "which these runs call over-trained",
        "under-trained": "which these runs call under-trained",
        "not judged: no interval": "on which a fit without draws has no say",
    }[regime.label]
    unit = "" if fit.runs.loss_unit == "unstated" else f" {fit.runs.loss_unit}"
    cost = f"{number(regime.excess_loss.value, 2)}{unit}"
    return [
        f"The rule of thumb of 20 tokens per parameter means {count(20 * params)} tokens, {where}; at equal "
        f"compute it costs {cost} of loss."
    ]


def _why_not(fit: ChinchillaFit, tokens: Estimate, away: float) -> list[str]:
    """Say why the number that comes out is no answer."""
    reasons = []
    if ends(tokens) == "–":
        reasons.append("nothing says how far off that may be, as there are no intervals")
        if fit.verdict == "not identified":
            reasons.append("the law it comes from is not determined (see below)")
    elif not tokens.high <= HOPELESS_RATIO * tokens.low:
        spread = factor(ratio(tokens.high, tokens.low))
        reasons.append(f"its {percent(tokens.level, 3)} interval runs from {ends(tokens)} tokens ({spread})")
    if away > REFUSE_DECADES:
        reasons.append(f"it lies {decades(away)} beyond the runs")
    if not reasons:
        reasons.append("the law it comes from is not determined (see below)")
    return [
        f"The fitted formula would say {value(tokens)} tokens, but {', and '.join(reasons)}. "
        "That is no number to plan with."
    ]


def title(params: float) -> str:
    """Return the question the page answers."""
    return f"Compute-optimal tokens for {format_count(params)} parameters"
