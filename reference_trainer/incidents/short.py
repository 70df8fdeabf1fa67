"""A spike in a few sentences, for who reads no further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reference_trainer.incidents.cost import Cost
from reference_trainer.incidents.facts import Facts

#: What the classes mean.
MEANING = {
    "data outlier": "a batch or two stand out, and the loss is back at once",
    "recoverable": "the loss comes back by itself",
    "persistent": "the loss stays higher than it was",
    "divergent": "the loss goes on rising, or is no number any more",
}
#: What the tiers of alarms look at.
TIERS = {
    "point": "single rows far out of the noise",
    "shift": "the level of the loss",
    "norm": "the norms of gradient, weights and update",
    "nonfinite": "numbers that are not finite",
}


def in_short(
    facts: Facts, kind: str, causes: Sequence[Any], entries: Sequence[Mapping[str, Any]], cost: Cost
) -> str:
    """Return what happened, why, what was done, how it ended and what it cost; what is not known is left out.

    Parameters
    ----------
    facts : Facts
    kind : str
        Class of the spike.
    causes : sequence of reference_trainer.spike_causes.Cause
        The surest first.
    entries : sequence of mapping
        Of interventions.jsonl, from `reference_trainer.incidents.account.treated`.
    cost : Cost
    """
    seen = facts.symptoms
    out = [_course(seen)]
    if facts.injected:
        out.append(f"It was made on purpose ({facts.injected[0].split(' was injected')[0]}).")
    elif causes:
        out.append(f"Most likely cause: {causes[0].cause} ({causes[0].confidence} confidence).")
    treated = [e for e in entries if e["what"] not in ("wait", "over", "recovered")]
    if treated:
        last = treated[-1]
        ended = f": {last['outcome']}" if last.get("outcome") not in (None, "open") else ""
        out.append(f"Answered at step {last['step']:,} by the playbook's {last['what']!r}{ended}.")
    if cost.usd is not None:
        least = "at least " if cost.at_least else ""
        steps = cost.factors[0].value or 0.0
        out.append(f"Lost: {steps:,.0f} steps, {least}{cost.to_dict()['usd_text']}.")
    return " ".join(out)


def _course(seen: Mapping[str, Any]) -> str:
    """Say where the loss was, where it went and whether it came back."""
    peak = f"{seen['loss_peak']:.3f}" if seen["loss_peak"] < float("inf") else "what is no number"
    text = f"At step {seen['first_step']:,} the loss went from {seen['loss_before']:.3f} to {peak}"
    if seen["peak_step"] != seen["first_step"]:
        text = f"From step {seen['first_step']:,} on something was wrong: the loss went from {seen['loss_before']:.3f}"
        text += f" to {peak} at step {seen['peak_step']:,}"
    if seen["end_step"] is not None:
        return f"{text}, and was back at step {seen['end_step']:,}."
    if seen["went_back"]:
        return f"{text}, and was not wholly back when the run went back to an earlier step."
    return f"{text}, and was not back in this log."
