"""The best run where unique tokens are scarce: a smaller model, or the same tokens once more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from scaling.answers import Optimum
from scaling.arguments import positive_count
from scaling.errors import DataError, shown
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.guard import Unidentified
from scaling.laws.base import Array, quiet
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.optima.repetition import EDGE, MUENNIGHOFF, Repetition, worth
from scaling.optima.roots import lowest
from scaling.optima.subject import RunPoint, Subject, shape_of, subject
from scaling.units import format_count

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

#: Name of what the next token is worth.
WORTH = "worth of the next token"
#: Nodes of the search over ln N, one for every factor of about 1.5.
_NODES = 80


class RepeatingLaw(Protocol):
    """A law that knows of repeated data, such as `scaling.laws.data_constrained.DataConstrainedLaw`."""

    def loss(self, params: Any, tokens: Any, unique_tokens: Any) -> Any:
        """Return the loss of `tokens` tokens of which `unique_tokens` are distinct."""
        ...


def repeating(law: ChinchillaLaw, R_D: float, R_N: float) -> RepeatingLaw:
    """Return a law of data seen once with these constants of repetition; draws of it give draws."""
    from scaling.laws.data_constrained import DataConstrainedLaw

    return DataConstrainedLaw(law.E, law.A, law.B, law.alpha, law.beta, R_D, R_N)


@quiet
def best_size(
    law: RepeatingLaw, flops: float, unique_tokens: float, draws: int | None
) -> tuple[RunPoint, Any]:
    """Return the run of least loss with 6 N D = `flops` where `unique_tokens` are distinct, and that loss.

    Parameters
    ----------
    law : RepeatingLaw
        One law, or draws of it.
    flops, unique_tokens : float
    draws : int or None
        How many draws it has; None for one law.

    Notes
    -----
    Along an isoflop ln N' and ln D' are concave in ln N, so that the loss has one minimum.
    """
    nd = flops / FLOPS_PER_PARAM_TOKEN
    shape = (1,) if draws is None else (draws,)
    if draws == 0:
        return RunPoint(np.zeros(0), np.zeros(0)), np.zeros(0)

    def loss(x: Array) -> Array:
        n = np.exp(x)
        return np.asarray(law.loss(n, nd / n, unique_tokens))

    x = lowest(loss, math.log(nd) * 0.02, math.log(nd) * 0.98, shape, _NODES)
    n, values = np.exp(x), loss(x)
    if draws is None:
        return RunPoint(float(n[0]), float(nd / n[0])), float(values[0])
    return RunPoint(n, nd / n), values


def worth_of_one(worth_share: Any) -> float:
    """Read the worth of a token, as a share of a new one, until which repeating pays."""
    if (
        isinstance(worth_share, bool | np.bool_)
        or not isinstance(worth_share, int | float)
        or not 0.0 < worth_share < 1.0
    ):
        raise DataError(
            f"worth_share must lie between 0 and 1, got {shown(worth_share)}", column="worth_share"
        )
    return float(worth_share)


def data_limited_optimal(
    fit: ChinchillaFit | ChinchillaLaw,
    unique_tokens: float | str,
    flops: float | str,
    *,
    repetition: Repetition = MUENNIGHOFF,
    law: Callable[[ChinchillaLaw, float, float], RepeatingLaw] = repeating,
    worth_share: float = 0.5,
    level: float | None = None,
    unidentified: Unidentified = "raise",
) -> Optimum:
    """Return the best run for a compute budget where only so many unique tokens exist.

    Parameters
    ----------
    fit : ChinchillaFit or ChinchillaLaw
        The law of data seen once.
    unique_tokens : float or str
        Distinct tokens there are.
    flops : float or str
        Compute, C = 6 N D. For dollars see `economics.decide`.
    repetition : Repetition
        What a repeated token is worth, with the range of it; the published constants.
    law : callable
        ``law(base, R_D, R_N)`` makes the law of repeated data; that of Muennighoff et al.
    worth_share : float
        A repetition is worth while while a token of it is worth this share of a new one.
    level : float, optional
        Coverage of the intervals; the fit's own.
    unidentified : {"raise", "return"}
        What to do when the runs do not determine the answer.

    Returns
    -------
    Optimum
        `more` has ``"epochs"``, D/U there; ``"epochs_worth"``, see `Repetition.epochs_until`; ``"token_worth"``,
        what the next token would be worth there; and ``"loss_lost"`` against as many new tokens as wanted.
        Every interval spans those at both ends of the ranges of `repetition`.

    Raises
    ------
    NotIdentifiedError
        As `ChinchillaFit.optimal`, at the given R_D: what its range adds is said and not refused.
    DataError
        An argument cannot be.

    Examples
    --------
    >>> law = ChinchillaLaw(E=1.8691435, A=520.7, B=1487.7, alpha=0.3526596, beta=0.3526596)
    >>> best = data_limited_optimal(law, "10B", 1e22)
    >>> f"{best.more['epochs'].value:.1f} epochs of {best.params.value:.3g} parameters"
    '27.2 epochs of 6.12e+09 parameters'
    """
    s = subject(fit, level, unidentified)
    u, c = positive_count("unique_tokens", unique_tokens), positive_count("flops", flops)
    if not isinstance(repetition, Repetition):
        raise DataError(f"repetition must be a Repetition, got {shown(repetition)}", column="repetition")
    if not callable(law):
        raise DataError(f"law must make a law of repeated data, got {shown(law)}", column="law")
    until = repetition.epochs_until(worth_of_one(worth_share))
    answers = [_at(s, u, c, law, r_d, r_n) for r_d, r_n in repetition.pairs]
    best = answers[0]
    s.guard(best.optimum.tokens_per_param, c)
    names = ("params", "tokens", "loss", "tokens_per_param")
    spanned: dict[str, Any] = {
        name: spanning(getattr(best.optimum, name), [getattr(a.optimum, name) for a in answers])
        for name in names
    }
    more = {name: spanning(best.more[name], [a.more[name] for a in answers]) for name in best.more}
    epochs = more["epochs"]
    found = s.findings(best.optimum.params.value, best.optimum.tokens.value)
    found += repetition_findings(epochs, repetition, has_interval=s.has_draws)
    return replace(
        best.optimum,
        **spanned,
        question=f"best run for {c:.3g} FLOP with {format_count(u)} unique tokens",
        more={"epochs": epochs, "epochs_worth": until, **{k: more[k] for k in ("token_worth", "loss_lost")}},
        given={
            "flops": c,
            "unique_tokens": u,
            "R_D": repetition.R_D,
            "R_D_range": list(repetition.R_D_range),
        },
        findings=tuple(found),
    )


@dataclass(frozen=True)
class _Answer:
    """The answer at one R_D."""

    optimum: Optimum
    more: dict[str, Estimate]


def _at(s: Subject, u: float, c: float, law: Any, r_d: float, r_n: float) -> _Answer:
    count = int(np.size(s.draws.E))
    best, loss = best_size(law(s.law, r_d, r_n), c, u, None)
    drawn, losses = best_size(law(s.draws, r_d, r_n), c, u, count)
    made = shape_of(s, best, drawn, (loss, losses), guarded=False)
    flops = Estimate(c, c, c, s.level, name="C", unit="FLOP")
    free = s.both(lambda one: one.optimal(c).loss)
    e, es = best.tokens / u, np.asarray(drawn.tokens) / u
    lost = [np.where(x > 1.0, a - b, 0.0) for x, a, b in ((e, loss, free[0]), (es, losses, free[1]))]
    more = {
        "epochs": s.estimate(es, e, "epochs", "epochs"),
        "token_worth": s.estimate(worth(es, r_d), float(worth(e, r_d)), WORTH),
        "loss_lost": s.estimate(lost[1], float(lost[0]), "lost to the lack of data", s.loss_unit),
    }
    return _Answer(Optimum(**{**vars(made), "flops": flops}), more)


def spanning(best: Estimate, others: list[Estimate]) -> Estimate:
    """Return an estimate whose interval holds those of others; their values alone where they have none."""
    ends = [x for e in others for x in (e.value, e.low, e.high) if not math.isnan(x)]
    # What is worth a share of something is worth no more than it, whatever the interval was stretched by.
    most = 1.0 if best.name == WORTH else math.inf
    return replace(best, low=min(ends), high=min(max(ends), most))


def repetition_findings(
    epochs: Estimate, repetition: Repetition, *, has_interval: bool = True
) -> list[Finding]:
    """Say what rests on the worth of repeated tokens."""
    low, high = repetition.R_D_range
    if epochs.high <= 1.0:
        words = f"the unique tokens are enough: the best run sees {epochs.value:.2g} of them at most once."
        return [Finding("data_not_limiting", "info", words, {"epochs": epochs.value})]
    held = "" if has_interval else " The intervals here are of that alone: the law has no draws."
    if len(repetition.pairs) == 1:
        words = f"R_D = {repetition.R_D:g}, {repetition.source}, is taken as certain: what repeated tokens are worth."
        return [Finding("repetition_given", "info", words, {"R_D": repetition.R_D})]
    end = f"anything from {low:g} up fits" if high >= EDGE else f"{low:g} to {high:g} fit"
    words = (
        f"how fast repeated tokens lose their worth is hardly known: R_D = {repetition.R_D:g}, {repetition.source}, "
        f"but {end} as well. Every interval spans these.{held}"
    )
    return [Finding("repetition_uncertain", "warning", words, {"R_D": repetition.R_D, "range": [low, high]})]
