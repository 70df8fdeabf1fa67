"""Scarce unique tokens in questions about money and time: the answer at every worth a repetition may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from economics.decide.result import PricedOptimum
from economics.decide.search import Found
from economics.decide.tasks import Loss, Within, new_tokens
from economics.run_numbers import positive
from economics.run_result import RunCost
from scaling.errors import DataError, shown
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.laws.data_constrained import DataConstrainedLaw
from scaling.optima.data_limited import WORTH, repetition_findings, spanning, worth_of_one
from scaling.optima.repetition import Repetition, worth
from scaling.optima.subject import Subject


@dataclass(frozen=True)
class NewData:
    """As many new tokens as wanted."""

    unique: float = 0.0
    losses: Sequence[Loss | None] = (None,)


@dataclass(frozen=True)
class Repeated(NewData):
    """Only `unique` distinct tokens; one loss for each worth of a repetition, the given one first.

    Parameters
    ----------
    unique, losses
        As `NewData` has them.
    repetition : Repetition or None
    values : sequence of float
        R_D behind each loss.
    worth_share : float
        As in `scaling.optima.data_limited_optimal`.
    """

    repetition: Repetition | None = None
    values: Sequence[float] = ()
    worth_share: float = 0.5

    def spanned(
        self, s: Subject, best: PricedOptimum, answers: Sequence[tuple[Found, RunCost, Within]]
    ) -> PricedOptimum:
        """Return the answer with intervals that span those of all worths, and the epochs of it."""
        assert self.repetition is not None
        made: dict[str, list[Any]] = {}
        for (found, run, task), r_d in zip(answers, self.values, strict=True):
            n, d = run.plan.params, run.plan.tokens
            epochs = np.asarray(found.drawn.tokens) / self.unique
            with np.errstate(all="ignore"):
                ratios = np.divide(found.drawn.tokens, found.drawn.params)
            for name, one in {
                "params": s.estimate(found.drawn.params, n, "N*", "params"),
                "tokens": s.estimate(found.drawn.tokens, d, "D*", "tokens"),
                "tokens_per_param": s.estimate(ratios, d / n, "D*/N*", "tokens/param"),
                "flops": s.estimate(6.0 * found.drawn.params * found.drawn.tokens, 6.0 * n * d, "C", "FLOP"),
                "loss": s.estimate(found.losses, float(task.loss(s.law, n, d)), "loss", s.loss_unit),
                "epochs": s.estimate(epochs, d / self.unique, "epochs", "epochs"),
                "token_worth": s.estimate(worth(epochs, r_d), float(worth(d / self.unique, r_d)), WORTH),
            }.items():
                made.setdefault(name, []).append(one)
        whole: dict[str, Any] = {name: spanning(several[0], several) for name, several in made.items()}
        further = {
            "epochs": whole.pop("epochs"),
            "epochs_worth": self.repetition.epochs_until(self.worth_share),
            "token_worth": whole.pop("token_worth"),
        }
        known = repetition_findings(further["epochs"], self.repetition, has_interval=s.has_draws)
        # What a run of repeated data would reach is no question to the law of data seen once.
        more = {k: v for k, v in best.more.items() if k != "one_run"}
        return replace(best, **whole, more={**more, **further}, findings=(*best.findings, *known))


def plain_or_repeated(unique_tokens: Any, repetition: Repetition, worth_share: float = 0.5) -> NewData:
    """Return what data there are.

    Raises
    ------
    DataError
        The unique tokens are no number, or `repetition` is none.
    """
    if not isinstance(repetition, Repetition):
        raise DataError(f"repetition must be a Repetition, got {shown(repetition)}", column="repetition")
    worth_of_one(worth_share)
    if unique_tokens is None:
        return NewData()
    u = positive("unique_tokens", unique_tokens, "distinct tokens there are, such as '10B'")
    losses = tuple(_loss(u, r_d, r_n) for r_d, r_n in repetition.pairs)
    return Repeated(u, losses, repetition, tuple(r_d for r_d, _ in repetition.pairs), worth_share)


def _loss(unique: float, r_d: float, r_n: float) -> Loss:
    def loss(law: ChinchillaLaw, params: Any, tokens: Any) -> Any:
        # A model counts as too large for all the data there are, not for those few that a short run comes to see:
        # where nothing is scarce, the answer is that of the fitted law.
        both = DataConstrainedLaw(law.E, law.A, law.B, law.alpha, law.beta, r_d, r_n)
        n = both.effective_params(params, unique)
        return new_tokens(law, n, both.effective_tokens(tokens, unique))

    return loss
