"""What a proposal says at its head: every word follows the verdict on the law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from economics.run_estimates import dollars, duration
from scaling.estimate import Estimate
from scaling.guard import WARN_DECADES
from scaling.report.phrases import decades
from scaling.report.words import Statement
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.proposal.result import Proposal

#: From such a probability on one kind of machine counts as better than another.
SURE = 0.8
#: Finding of a cost -> what it is about; others by their code.
_TITLES = {
    "gpu_not_measured": "How fast these machines are",
    "dtype_not_measured": "How fast they are in this dtype",
    "outside_calibration": "How fast a run of this size is",
    "price_few_providers": "What others charge",
    "price_age": "What a GPU-hour costs today",
    "price_per_node": "Whether the price is that of a GPU",
    "price_without_host": "What CPU and memory cost",
    "spot_dearer": "Whether spot is cheaper at all",
    "spot_too_often": "Whether spot gets on at all",
    "ratio_outside": "Whether the law holds at this ratio of tokens to parameters",
    "act_ckpt_assumed": "Activation checkpointing",
    "power_unknown": "What the machines draw",
}
#: Of the law, which statements about the runs say already.
_SAID = ("law_weak", "law_not_identified", "extrapolation", "no_interval", "n_gpus_chosen")


@dataclass(frozen=True)
class Headline:
    """The head of a proposal.

    Parameters
    ----------
    chip : str
        The verdict in a few words.
    headline : str
        The recommendation, or what stands in its place.
    sentences : tuple of str
        Most important first.
    """

    chip: str
    headline: str
    sentences: tuple[str, ...]


def headline(p: Proposal) -> Headline:
    """Return the head of a proposal."""
    return _refused(p) if p.best is None else _recommended(p)


def _recommended(p: Proposal) -> Headline:
    assert p.best is not None and p.cap is not None
    best, q = p.best, p.question
    loose = p.verdict == "weak"
    chip = "the runs determine this only loosely" if loose else "the runs determine this"
    if best.decades_outside > WARN_DECADES:
        chip += ", if the law holds that far out"
    about = "About " if loose else ""
    head = f"{about}{format_count(best.params.value)} parameters on {format_count(best.tokens.value)} tokens"
    hours = "" if best.hours is None else f", in {duration(best.hours.value)}"
    said = [
        f"{'As far as the runs tell, that' if loose else 'That'} has the lowest predicted loss for {dollars(q.usd)}: "
        f"on {p.machine.machine}{hours}.",
        *_uncounted(p),
        _loss(p),
        f"The cost breaks {dollars(q.usd)} with a probability of {p.cap.over:.0%}. {_safe(p)}",
        _first(p),
    ]
    if p.cap.late is not None:
        said.append(f"It ends after the deadline with a probability of {p.cap.late:.0%}.")
    if loose:
        said.insert(1, "Treat the size as a first guess: what the runs leave open is listed below.")
    return Headline(chip, head, tuple(s for s in said if s))


def _uncounted(p: Proposal) -> list[str]:
    """Say what the recommended run leaves out of account although it was asked about."""
    assert p.best is not None
    unique, out = p.question.unique, []
    if unique is not None and p.best.tokens.value > unique:
        seen = p.best.tokens.value / unique
        out.append(
            f"It takes every token for a new one, but would see the {format_count(unique)} there are {seen:.3g} times: "
            "the best run of so few stands below."
        )
    if p.question.served is not None:
        out.append("It counts training alone: the best run with serving stands below.")
    return out


def _loss(p: Proposal) -> str:
    assert p.best is not None
    one = p.best.more.get("one_run", p.best.loss)
    interval = "" if math.isnan(one.low) else f" ({_ends(one)} at {100 * one.level:g}% for a single run)"
    away = p.best.decades_outside
    runs = p.basis.runs
    below = runs is not None and p.best.flops.value < float(runs.compute.min())
    side = "below the smallest" if below else "beyond the largest"
    far = f", {decades(away)} {side} run" if away > 0 else ", inside the runs at hand"
    return f"Its predicted loss is {one.value:.4g}{interval}{far}."


def _ends(e: Estimate) -> str:
    return f"{e.low:.4g} to {e.high:.4g}"


def _safe(p: Proposal) -> str:
    if p.safe is None:
        return f"No run stays below it with {1 - p.question.risk:.0%}."
    n, d = p.safe.answer.params.value, p.safe.answer.tokens.value
    return (
        f"A run of {format_count(n)} parameters on {format_count(d)} tokens ({p.safe.answer.machine}) breaks it with "
        f"{p.safe.cap.over:.0%}, for {small(p.safe.loss_lost)} more loss."
    )


def _first(p: Proposal) -> str:
    """Say whether to learn first."""
    learning, split = p.learning, p.learning.suggested
    if learning.regret_mean is None or split is None or split.loss_lost is None:
        return ""
    if learning.worth:
        return (
            f"Learning first may pay: the size is expected to lose {small(learning.regret_mean)} of loss because the "
            f"law is not known better, and {dollars(split.usd)} of next runs cost {small(split.loss_lost)}."
        )
    return (
        f"Learning first does not pay for this run: not knowing the law better is expected to lose "
        f"{small(learning.regret_mean)} of loss, and {dollars(split.usd)} of next runs cost {small(split.loss_lost)}."
    )


def small(x: float) -> str:
    """Write a difference of losses."""
    return "less than 0.001" if 0.0 <= x < 0.001 else f"{x:.3f}"


def _lowered(text: str) -> str:
    """Return a sentence to go on with; a name such as E stays."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _refused(p: Proposal) -> Headline:
    q, split = p.question, p.learning.suggested
    known = "There are no runs yet" if p.basis.runs is None else "These runs do not determine a size"
    said = [f"{known}: {_lowered(p.basis.refusal).rstrip('.')}."]
    if p.verdict != "not identified":
        far = "decades" in p.basis.refusal
        why = (
            "lies too far from them"
            if far
            else "stays open over the draws of the law, of prices and of speed"
        )
        said.append(
            f"The law of these runs is {'weakly ' if p.verdict == 'weak' else ''}identified; what is asked of it {why}."
        )
    if p.basis.runs is None:
        said = ["There are no runs yet, so no size can be recommended from them."]
    if split is not None and split.runs is not None:
        said.append(
            f"Make the next runs first: {len(split.runs.runs)} runs for {dollars(split.runs.usd.value)} on "
            f"{split.runs.machine} would give {split.runs.target} {split.runs.after.text}."
        )
    else:
        said.append(f"{dollars(q.usd)} do not pay for runs that would: {p.learning.splits[-1].why}")
    if p.published is not None:
        said.append(
            f"As such, and not from these runs: the published law {p.published_name} would say "
            f"{format_count(p.published.params.value)} parameters on {format_count(p.published.tokens.value)} tokens."
        )
    head = "No size and token count from these runs" if p.basis.runs is not None else "No runs to plan from"
    return Headline("the runs do not determine this", head, tuple(said))


def unknown_costs(p_cost: tuple[object, ...]) -> list[Statement]:
    """Return the findings of a cost that say something is not known, as statements."""
    out: dict[str, Statement] = {}
    for f in p_cost:
        code, severity = getattr(f, "code", ""), getattr(f, "severity", "info")
        if severity == "info" or code in _SAID:
            continue
        title = _TITLES.get(code, code.replace("_", " ").capitalize())
        message = str(getattr(f, "message", ""))
        out.setdefault(title, Statement(title, f"{message[:1].upper()}{message[1:]}", severity))
    return list(out.values())


def machine_statements(p: Proposal) -> list[str]:
    """Say why these machines, and how sure that is."""
    if p.runner_up is None:
        others = [o for o in p.offers if o.machine != p.machine.machine]
        why = (
            [] if others else [f"{p.machine.machine} is the only kind that was looked at and has an answer."]
        )
    else:
        assert p.surer is not None
        gap = p.runner_up.loss - p.machine.loss
        what = (
            f"{p.machine.machine} reaches a loss {gap:.3f} below the next kind, {p.runner_up.machine}"
            if math.isfinite(gap)
            else f"{p.machine.machine} buys the most compute, before {p.runner_up.machine}"
        )
        sure = f"it is the better one in {p.surer:.0%} of the draws of speeds and prices"
        close = "" if p.surer >= SURE else ": they are close, and what is at hand may decide"
        why = [f"{what}; {sure}{close}."]
    if p.unmeasured is not None:
        what = (
            f"{p.unmeasured.machine} would reach {p.unmeasured.loss:.4g}"
            if math.isfinite(p.unmeasured.loss)
            else f"{p.unmeasured.machine} would buy more compute"
        )
        why.append(
            f"{what} by prediction, but nobody measured its speed: it is not recommended. "
            "An hour on one, given as mfu=, decides."
        )
    return why
