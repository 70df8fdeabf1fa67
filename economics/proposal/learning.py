"""Whether to learn first: next runs, what they narrow, and what is left for the run itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from economics.next_runs.result import NextRuns
from economics.next_runs.suggestion import suggest
from economics.proposal.basis import Basis
from economics.proposal.offer import Offer
from economics.proposal.question import Question
from economics.proposal.weighing import regret
from economics.proposal.yard import Yard
from economics.run_search import BudgetError
from scaling.errors import DataError
from scaling.units import format_count

#: Draws of the costs of the next runs.
_DRAWS = 1000
#: Where to look if the sizes at hand are too small for a vocabulary: sizes, and token counts.
_SIZES, _TOKENS = (10e6, 1e9), (100e6, 100e9)
#: Arguments of `cost` that next runs take over from the question.
_SHARED = (
    "gpu", "market", "provider", "price", "as_of", "book", "mfu", "mfu_kind", "convention", "dtype", "code_base",
    "act_ckpt", "spot", "checkpoint_every", "overheads", "seq_len", "region", "energy", "pue", "seed",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Split:
    """A share of the money spent on learning first.

    Parameters
    ----------
    share, usd : float
        Of the money, and dollars.
    runs : NextRuns or None
        What to make of it; None where it buys nothing.
    why : str
        Why nothing, or what to know.
    final : Offer or None
        The run that the rest buys, under the law as it is known now; None where no law is.
    loss_lost : float or None
        Loss of that run above the one that all the money buys.
    """

    share: float
    usd: float
    runs: NextRuns | None
    why: str
    final: Offer | None
    loss_lost: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "share": self.share, "usd": self.usd, "runs": None if self.runs is None else self.runs.to_dict(),
            "why": self.why, "final": None if self.final is None else self.final.to_dict(),
            "loss_lost": self.loss_lost,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Learning:
    """Next runs, and what they may be worth.

    Parameters
    ----------
    splits : tuple of Split
        By share.
    regret_mean, regret_high : float or None
        What the recommended size is expected to lose, in loss, against the one that a perfectly known law would
        recommend for the same money: mean and 95th percentile over the laws held possible. None where no law is.
    worth : bool or None
        Whether the cheapest split costs less loss than the mean regret: only then can learning first pay for itself
        in this very run.
    """

    splits: tuple[Split, ...]
    regret_mean: float | None
    regret_high: float | None
    worth: bool | None

    @property
    def suggested(self) -> Split | None:
        """The split whose runs come first: the smallest that buys some; where no law is known, the largest."""
        bought = [s for s in self.splits if s.runs is not None]
        if not bought:
            return None
        return bought[-1] if self.regret_mean is None else bought[0]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "splits": [s.to_dict() for s in self.splits], "regret_mean": self.regret_mean,
            "regret_high": self.regret_high, "worth": self.worth,
        }  # fmt: skip


def learn(
    q: Question, basis: Basis, machine: Mapping[str, Any], yard: Yard | None, best: Offer | None
) -> Learning:
    """Return the next runs worth their money on one kind of machine, and what they are weighed against.

    Parameters
    ----------
    q : Question
    basis : Basis
        What the runs say.
    machine : mapping
        Arguments of `cost`: where the next runs are made.
    yard, best : Yard, Offer or None
        The costs and the recommended run; None where no law is known.
    """
    shares: Sequence[float] = q.splits if best is not None else (*q.splits[:1], 1.0)
    splits = tuple(_split(q, basis, machine, share, yard, best) for share in shares)
    if yard is None or best is None or basis.fit is None or not basis.fit.draws.E.size:
        return Learning(splits, None, None, None)
    lost = regret(best, yard.costs_of(best), basis.fit.draws, q.quantile, q.usd)
    mean, high = float(lost.mean()), float(np.quantile(lost, 0.95))
    cheapest = min((s.loss_lost for s in splits if s.loss_lost is not None), default=None)
    return Learning(splits, mean, high, None if cheapest is None else cheapest < mean)


def _elsewhere(known: Any, usd: float, asked: Mapping[str, Any]) -> tuple[NextRuns | None, str]:
    """Return next runs of ordinary sizes, where no shape of the sizes at hand has the vocabulary."""
    words = (
        f"no shape of the sizes at hand has such a vocabulary: runs of {format_count(_SIZES[0])} to "
        f"{format_count(_SIZES[1])} parameters were looked at. Give vocab= as it is."
    )
    try:
        return suggest(known, usd, **{**asked, "sizes": _SIZES, "token_counts": _TOKENS}), words
    except (BudgetError, DataError) as error:
        return None, str(error)


def _split(
    q: Question, basis: Basis, machine: Mapping[str, Any], share: float, yard: Yard | None, best: Offer | None
) -> Split:
    usd = share * q.usd
    runs, why = None, ""
    given = {k: machine[k] for k in _SHARED if k in machine}
    if q.settings.get("n_gpus") is not None:
        given["n_gpus"] = q.settings["n_gpus"]
    if q.hours is not None:
        given["max_hours"] = q.hours
    prior = q.prior if best is None else None
    asked = {
        **given,
        "draws": _DRAWS,
        "target": q.goal.target,
        "prior": prior,
        "level": q.goal.level,
        **q.search,
    }
    known = basis.runs if basis.fit is None else basis.fit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say are findings of the suggestion
        try:
            runs = suggest(known, usd, **asked)
        except BudgetError as error:
            why = str(error)
        except DataError as error:
            why = str(error)
            if error.column == "vocab" and "sizes" not in q.search:
                runs, why = _elsewhere(known, usd, asked)
    final, lost = None, None
    if yard is not None and best is not None:
        try:
            final = yard.offer(dict(best.settings), (1.0 - share) * q.usd, q.quantile)
            lost = final.loss - best.loss
        except DataError as error:
            why = f"{why} {error}".strip()
    return Split(share, usd, runs, why, final, lost)
