"""A proposal: everything a meeting needs to decide on a run, as one frozen object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from economics.decide.result import PricedOptimum
from economics.proposal.basis import Basis
from economics.proposal.learning import Learning
from economics.proposal.offer import Offer
from economics.proposal.others import Alternative
from economics.proposal.question import Question
from economics.proposal.risk import Cap, Spot
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.report.words import Statement

if TYPE_CHECKING:
    from economics.proposal.page import Page

#: Of the JSON.
FORMAT = "isoflop-proposal"


@dataclass(frozen=True, eq=False)
class Step:
    """What nothing beats at a sum of money.

    Parameters
    ----------
    offer : Offer
        The run and its machines.
    law, one_run : Estimate
        Its loss: of the law, and where a single run would land.
    decades : float
        Decades of compute beyond the runs.
    """

    offer: Offer
    law: Estimate
    one_run: Estimate
    decades: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            **self.offer.to_dict(), "law": self.law.to_dict(), "one_run": self.one_run.to_dict(),
            "decades_outside": self.decades,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Safe:
    """The run that breaks the cap no more often than was allowed.

    Parameters
    ----------
    answer : PricedOptimum
    cap : Cap
        It against the cap.
    loss_lost : float
        What the safety costs: loss above that of the recommended run.
    """

    answer: PricedOptimum
    cap: Cap
    loss_lost: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {"answer": self.answer.to_dict(), "cap": self.cap.to_dict(), "loss_lost": self.loss_lost}


@dataclass(frozen=True, eq=False, repr=False)
class Proposal:
    """What to do with a sum of money. Made by `economics.plan`.

    Parameters
    ----------
    question : Question
        What was asked.
    basis : Basis
        What the runs say: the law, its verdict, or why there is none.
    best : PricedOptimum or None
        The recommended run; None where the runs do not determine one.
    machine : Offer
        The recommended machines: with the best run, or without a law with what compute they buy.
    offers : tuple of Offer
        All kinds of machine for the money, best first.
    failures : tuple of (str, str)
        Kinds without an answer, and why.
    runner_up : Offer or None
        The next best kind that may be recommended.
    surer : float or None
        Share of the draws of the costs in which the recommended kind is better than the next.
    unmeasured : Offer or None
        A kind that would do better by prediction, but whose speed nobody measured.
    steps : tuple of Step
        Money against loss: what nothing beats at several sums.
    cap : Cap or None
        The recommended run against money and time.
    safe : Safe or None
        The run that is sure enough to stay below the cap; None where there is none.
    spot : Spot or None
        What being taken away does.
    learning : Learning
        Next runs, and what they are weighed against.
    others : tuple of Alternative
        With serving, with scarce data, for a loss.
    published : PricedOptimum or None
        What a published law says, as such; only if it was asked for.
    published_name : str
    buys : tuple of (float, float)
        Sizes and the tokens that the money buys for them, where no law says which is best.
    target : Estimate or None
        The quantity that next runs are to narrow, as it is known now.
    known, unknown : tuple of Statement
        What is known, and what is not.
    distribution : mapping
        Of the costs, for the picture: edges in dollars and shares between them.
    findings : tuple of Finding
        What to know before using it.
    """

    question: Question
    basis: Basis
    best: PricedOptimum | None
    machine: Offer
    offers: tuple[Offer, ...]
    failures: tuple[tuple[str, str], ...]
    runner_up: Offer | None
    surer: float | None
    unmeasured: Offer | None
    steps: tuple[Step, ...]
    cap: Cap | None
    safe: Safe | None
    spot: Spot | None
    learning: Learning
    others: tuple[Alternative, ...]
    published: PricedOptimum | None
    published_name: str
    buys: tuple[tuple[float, float], ...]
    target: Estimate | None
    known: tuple[Statement, ...]
    unknown: tuple[Statement, ...]
    distribution: dict[str, Any]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def verdict(self) -> str:
        """Of the law: "identified", "weak" or "not identified"."""
        return self.basis.verdict

    @property
    def usable(self) -> bool:
        """Whether a run is recommended."""
        return self.best is not None

    def __repr__(self) -> str:
        from economics.proposal.text import block

        return block(self)

    def _repr_html_(self) -> str:
        from economics.run_text import preformatted

        return preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the proposal as plain types."""
        from economics.proposal.words import headline

        def of(found: Any) -> Any:
            return None if found is None else found.to_dict()

        said = headline(self)
        return {
            "format": FORMAT,
            "version": 1,
            "question": self.question.to_dict(),
            "verdict": self.verdict,
            "usable": self.usable,
            "headline": {"chip": said.chip, "text": said.headline, "sentences": list(said.sentences)},
            "refusal": self.basis.refusal,
            "sources": sources(self),
            "target": of(self.target),
            "known": [dict(vars(s)) for s in self.known],
            "unknown": [dict(vars(s)) for s in self.unknown],
            "best": of(self.best),
            "machine": of(self.machine),
            "offers": [o.to_dict() for o in self.offers],
            "failures": [{"machine": name, "why": why} for name, why in self.failures],
            "runner_up": of(self.runner_up),
            "surer": self.surer,
            "unmeasured": of(self.unmeasured),
            "steps": [s.to_dict() for s in self.steps],
            "cap": of(self.cap),
            "safe": of(self.safe),
            "spot": of(self.spot),
            "learning": self.learning.to_dict(),
            "others": [o.to_dict() for o in self.others],
            "published": of(self.published),
            "published_name": self.published_name,
            "buys": [{"params": n, "tokens": d, "ratio": d / n} for n, d in self.buys],
            "distribution": self.distribution,
            "findings": [f.to_dict() for f in self.findings],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON; nan is null, an open end "Infinity"."""
        import json

        from scaling.cli.output import plain

        return json.dumps(plain(self.to_dict()), indent=1, ensure_ascii=False) + "\n"

    def report(self, *, command: str = "", spelling: Callable[[str], str] = str) -> Page:
        """Return the proposal as a page.

        Parameters
        ----------
        command : str
            The command line that makes it again.
        spelling : callable
            Rewrites sentences that name arguments of Python functions, for readers who type commands.
        """
        from economics.proposal.page import build

        return build(self, command=command, spelling=spelling)

    def save(
        self, path: str | Path, *, command: str = "", spelling: Callable[[str], str] = str
    ) -> tuple[Path, ...]:
        """Write the page (HTML, nothing is loaded from elsewhere), and beside it every number (``<stem>.json``).

        Parameters
        ----------
        path : path
            Of the page.
        command, spelling
            As in `report`.

        Raises
        ------
        OSError
            The folder is missing or the disk full; each file is written whole or not at all.
        """
        page = self.report(command=command, spelling=spelling)
        return page.save(path)


def sources(p: Proposal) -> dict[str, Any]:
    """Return where the numbers come from: runs, law, and every factor of the cost in words."""
    from economics.run_text import factors

    runs, fit = p.basis.runs, p.basis.fit
    cost = p.machine.cost if p.best is None or p.best.cost is None else p.best.cost
    return {
        "runs": None if runs is None else {"source": str(runs.source), "count": len(runs)},
        "law": None if fit is None else {k: float(v) for k, v in vars(fit.law).items()},
        "cost": factors(cost),
        "prices_of": cost.plan.price.as_of.isoformat(),
        "quotes": [
            {
                "provider": quote.provider,
                "usd_per_gpu_hour": quote.usd_per_gpu_hour,
                "date": quote.date.isoformat(),
                "region": quote.region,
                "source": quote.rows[0].source,
            }
            for quote in cost.plan.price.providers
        ],
    }
