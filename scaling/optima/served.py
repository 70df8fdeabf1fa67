"""The run that is cheapest over its life: training compute plus that of serving it (arXiv 2401.00448)."""

from __future__ import annotations

from typing import Any

import numpy as np

from scaling.answers import Optimum
from scaling.arguments import positive_count
from scaling.errors import DataError, shown
from scaling.guard import Unidentified
from scaling.laws.base import quiet
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.optima.roots import rising_root
from scaling.optima.subject import RunPoint, Subject, reachable, shape_of, subject
from scaling.result import ChinchillaFit
from scaling.units import format_count, parse_count

#: FLOPs per parameter and token served: the forward pass alone (Kaplan et al. 2020, section 2.1).
FLOPS_PER_PARAM_SERVED = 2.0


@quiet
def served_at_loss(law: ChinchillaLaw, loss: Any, served: float) -> RunPoint:
    """Return the run of least 6 N D + 2 N S whose loss is `loss`, for S tokens served; S = 0 is training alone.

    With a = A/N^alpha and b = B/D^beta the condition is alpha a = beta b (1 + S/(3 D)) at a + b = loss - E
    (Sardana et al. 2024, eq. 3, differentiated); the share a/(a + b) is found by halving its logit.

    Parameters
    ----------
    law : ChinchillaLaw
        One law or draws.
    loss : float or array
        Wanted loss, of each draw; where it is not above E the run is infinite.
    served : float
        Tokens over the life of the model.
    """
    wanted = np.asarray(loss - np.asarray(law.E))
    above = np.where(wanted > 0, wanted, np.nan)

    def tokens(t: Any) -> Any:
        return np.exp((np.log(law.B) - np.log(above) + np.logaddexp(0.0, t)) / law.beta)

    def slope(t: Any) -> Any:
        return (
            t + np.log(law.alpha) - np.log(law.beta) - np.log1p(served / (3.0 * tokens(t)))
        )  # ln of alpha a over the other side

    t = rising_root(slope, np.full(above.shape, -80.0), np.full(above.shape, 80.0))
    n = np.exp((np.log(law.A) - np.log(above) + np.logaddexp(0.0, -t)) / law.alpha)
    d = tokens(t)
    never = ~(wanted > 0)
    return RunPoint(*(_plain(np.where(never, np.inf, x)) for x in (n, d)))


@quiet
def served_for_flops(law: ChinchillaLaw, flops: float, served: float) -> RunPoint:
    """Return the run of least loss with 6 N D + 2 N S = `flops`; see `served_at_loss`."""
    shape = np.shape(law.E)
    ratio = np.log(law.alpha * np.asarray(law.A)) - np.log(law.beta * np.asarray(law.B))

    def params(y: Any) -> Any:
        return flops / (FLOPS_PER_PARAM_TOKEN * np.exp(y) + FLOPS_PER_PARAM_SERVED * served)

    def slope(y: Any) -> Any:
        return ratio - law.alpha * np.log(params(y)) + law.beta * y - np.log1p(served / (3.0 * np.exp(y)))

    y = rising_root(slope, np.full(shape, -30.0), np.full(shape, np.log(flops)))
    return RunPoint(_plain(params(y)), _plain(np.exp(y)))


def inference_optimal(
    fit: ChinchillaFit | ChinchillaLaw,
    served: float | str,
    *,
    loss: float | None = None,
    like: tuple[float | str, float | str] | None = None,
    flops: float | str | None = None,
    level: float | None = None,
    unidentified: Unidentified = "raise",
) -> Optimum:
    """Return the run that is cheapest over its life, training and serving together, in FLOPs.

    A model that is served a lot should be smaller and trained for longer than a compute-optimal one. Dollars
    instead of FLOPs: `economics.decide`.

    Parameters
    ----------
    fit : ChinchillaFit or ChinchillaLaw
    served : float or str
        Tokens served over the life of the model, prompts and answers ("1T"); 0 for none.
    loss : float, optional
        Loss to reach.
    like : (params, tokens), optional
        A run whose loss is to be reached, instead: what the law's floor is not known by then cancels.
    flops : float or str, optional
        Compute for training and serving together, instead: the run with the lowest loss for it.
    level : float, optional
        Coverage of the intervals; the fit's own.
    unidentified : {"raise", "return"}
        What to do when the runs do not determine the answer.

    Returns
    -------
    Optimum
        `more` has ``"lifetime_flops"``, training and serving together, and ``"lifetime_saved"``, the share by
        which that is below what the compute-optimal run of the same loss takes.

    Raises
    ------
    NotIdentifiedError
        As `ChinchillaFit.optimal`; or no run reaches the loss.
    DataError
        Not exactly one of loss, like, flops; or an argument cannot be.

    Examples
    --------
    >>> law = ChinchillaLaw(E=1.82, A=482.0, B=2085.0, alpha=0.348, beta=0.366)
    >>> best = inference_optimal(law, "1T", like=("1B", "22.65B"))
    >>> f"{best.params.value:.3g} parameters, {best.tokens_per_param.value:.0f} tokens each"
    '3.19e+08 parameters, 508 tokens each'
    """
    s = subject(fit, level, unidentified)
    life = _tokens_served(served)
    given: dict[str, Any] = {"served": life}
    if sum(x is not None for x in (loss, like, flops)) != 1:
        raise DataError(
            "give one of loss, like (a run whose loss to reach) and flops (training and serving)",
            column="loss",
        )
    if flops is not None:
        c = given["lifetime_flops"] = positive_count("flops", flops)
        best, drawn = s.both(lambda law: served_for_flops(law, c, life))
        goal = s.law.loss(*best), _loss(s.draws, drawn)
        what = f"lowest loss for {c:.3g} FLOP of training and serving"
    else:
        goal, words = wanted_loss(s, loss, like)
        given |= {"loss": goal[0], "like": None if like is None else list(map(float, read_run(like)))}
        best = served_at_loss(s.law, goal[0], life)
        drawn = served_at_loss(s.draws, goal[1], life)
        what = f"least FLOP over the life of a model with {words}"
    made = shape_of(s, best, drawn, goal)
    more = _lifetime(s, best, drawn, goal, life)
    question = f"{what}, {format_count(life)} tokens served"
    found = tuple(s.findings(best.params, best.tokens))
    return Optimum(**vars(made), question=question, more=more, given=given, findings=found)


def wanted_loss(
    s: Subject, loss: float | None, like: tuple[float | str, float | str] | None
) -> tuple[tuple[float, Any], str]:
    """Return the loss to reach, of the law and of each draw, and what it is in words.

    Raises
    ------
    NotIdentifiedError
        No run reaches it.
    DataError
        It is no loss, or no run.
    """
    if like is not None:
        n, d = read_run(like)
        law, draws = s.both(lambda law: law.loss(n, d))
        return (law, draws), f"the loss of {format_count(n)} on {format_count(d)}"
    goal = positive_count("loss", loss)  # type: ignore[arg-type]
    reachable(s, goal)
    return (goal, np.full(np.shape(s.draws.E), goal)), f"a loss of {goal:g}"


def read_run(like: Any) -> tuple[float, float]:
    """Read a run given as (params, tokens); `DataError` where it is none."""
    try:
        n, d = like
    except (TypeError, ValueError):
        raise DataError(f"like must be (params, tokens), got {shown(like)}", column="like") from None
    return positive_count("like, params", n), positive_count("like, tokens", d)


def _lifetime(
    s: Subject, best: RunPoint, drawn: RunPoint, goal: tuple[Any, Any], served: float
) -> dict[str, Any]:
    """Return compute over the life, and what it saves against the compute-optimal run of the same loss."""
    with np.errstate(all="ignore"):
        here, plain = (
            [
                lifetime_flops(run, served)
                for run in runs
            ]
            for runs in (
                (best, drawn),
                (served_at_loss(s.law, goal[0], 0.0), served_at_loss(s.draws, goal[1], 0.0)),
            )
        )  # fmt: skip
        saved = [
            np.maximum(1.0 - np.where(np.isfinite(p), np.divide(h, p), np.nan), 0.0)
            for h, p in zip(here, plain, strict=True)
        ]
    share = saved[1][np.isfinite(saved[1])]
    return {
        "lifetime_flops": s.estimate(here[1], here[0], "lifetime", "FLOP"),
        "lifetime_saved": s.estimate(share, float(saved[0]), "saved"),
    }


def lifetime_flops(run: RunPoint, served: float) -> Any:
    """Return 6 N D + 2 N S."""
    n = np.asarray(run.params)
    return _plain(FLOPS_PER_PARAM_TOKEN * n * run.tokens + FLOPS_PER_PARAM_SERVED * n * served)


def _loss(draws: ChinchillaLaw, run: RunPoint) -> Any:
    return draws.loss(run.params, run.tokens) if np.size(draws.E) else np.zeros(0)


def _tokens_served(value: Any) -> float:
    try:
        tokens = parse_count(value)
    except DataError as error:
        raise DataError(f"served: {error}", column="served") from error
    if not 0.0 <= tokens < np.inf:
        raise DataError(f"served must be 0 or more tokens, got {shown(value)}", column="served")
    return tokens


def _plain(x: Any) -> Any:
    out = np.asarray(x, dtype=float)
    return float(out) if out.ndim == 0 else out
