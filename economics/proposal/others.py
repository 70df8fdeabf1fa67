"""Other answers on the recommended machines: with serving, scarce data, a loss that is wanted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from economics.decide import PricedOptimum, best_for_budget, cheapest_for_loss
from economics.proposal.question import Question
from economics.proposal.risk import breaks
from economics.run_estimates import dollars
from scaling.errors import ScalingError
from scaling.result import ChinchillaFit
from scaling.units import format_count


@dataclass(frozen=True, eq=False)
class Alternative:
    """Another answer, beside the recommended run.

    Parameters
    ----------
    name : {"serving", "data", "loss"}
    title : str
        What is different.
    answer : PricedOptimum or None
        None where there is none, and `why`.
    why : str
    over : float or None
        Probability that training it breaks the cap.
    words : str
        What it means beside the recommended run.
    """

    name: str
    title: str
    answer: PricedOptimum | None
    why: str
    over: float | None
    words: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        answer = None if self.answer is None else self.answer.to_dict()
        return {
            "name": self.name, "title": self.title, "answer": answer, "why": self.why, "over": self.over,
            "words": self.words,
        }  # fmt: skip


def alternatives(
    q: Question, fit: ChinchillaFit, best: PricedOptimum, machine: Mapping[str, Any]
) -> tuple[Alternative, ...]:
    """Return the other answers that were asked for, on the machines of the recommended run."""
    n, d = best.params.value, best.tokens.value
    how = {**machine, "level": q.level}
    out = []
    if q.served is not None:
        title = f"with {format_count(q.served)} tokens served"
        out.append(
            _one("serving", title, q, lambda: cheapest_for_loss(
                fit, like=(n, d), served=q.served, serving=q.serving, quantile=q.quantile, **how
            ), lambda found: _serving(best, found))
        )  # fmt: skip
    if q.unique is not None:
        title = f"with {format_count(q.unique)} unique tokens"
        out.append(
            _one("data", title, q, lambda: best_for_budget(
                q.usd, fit, unique_tokens=q.unique, quantile=q.quantile, **how
            ), lambda found: _data(best, found, q.unique or 0.0))
        )  # fmt: skip
    if q.loss is not None:
        title = f"for a loss of {q.loss:g}"
        out.append(
            _one("loss", title, q, lambda: cheapest_for_loss(fit, q.loss, quantile=q.quantile, **how),
                 lambda found: _loss(q, found))
        )  # fmt: skip
    return tuple(out)


def _one(name: str, title: str, q: Question, ask: Any, words: Any) -> Alternative:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are findings of the answer
        try:
            found: PricedOptimum = ask()
        except ScalingError as error:
            return Alternative(name, title, None, str(error), None, "")
    assert found.cost is not None
    over = float(np.mean(breaks(found.cost, q.usd)))
    return Alternative(name, title, found, "", over, words(found))


def _serving(best: PricedOptimum, found: PricedOptimum) -> str:
    smaller = found.params.value < best.params.value
    return (
        f"Over its life, training and serving together, the same loss is cheapest with a "
        f"{'smaller model on more' if smaller else 'larger model on fewer'} tokens: "
        f"{format_count(found.params.value)} on {format_count(found.tokens.value)}. "
        f"Training takes {dollars(_usd(found))}, serving {dollars(found.more['serving_usd'].value)}."
    )


def _data(best: PricedOptimum, found: PricedOptimum, unique: float) -> str:
    seen = best.tokens.value / unique
    if seen <= 1.0:
        return "There are more of them than the recommended run sees: they change nothing."
    return (
        f"The recommended run would see each of them {seen:.3g} times, which its predicted loss does not count. "
        f"With that counted the best run has {format_count(found.params.value)} parameters and sees them "
        f"{found.more['epochs'].value:.3g} times."
    )


def _loss(q: Question, found: PricedOptimum) -> str:
    usd = _usd(found)
    within = "within" if usd <= q.usd else "more than"
    return f"The cheapest run there that reaches it takes {dollars(usd)}, {within} the {dollars(q.usd)} there are."


def _usd(found: PricedOptimum) -> float:
    return float("nan") if found.usd is None else found.usd.value
