"""Which kinds of machine may be recommended, and what to say where none may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from economics.decide import NoMachineError
from economics.proposal.offer import Offer
from economics.proposal.question import Question
from economics.run_estimates import dollars
from economics.run_search import BudgetError
from scaling.findings import Finding


def eligible(
    q: Question, offers: Sequence[Offer], failures: Sequence[tuple[str, str]]
) -> tuple[list[Offer], Offer | None]:
    """Return the offers that may be recommended, and the best one that may not for want of a measured speed.

    A part whose speed nobody measured is recommended only where there is no other: of many guesses the luckiest
    would come first.
    """
    if not offers:
        raise no_machine(q, failures)
    measured = [o for o in offers if o.measured]
    may = measured or list(offers)
    better = offers[0] if measured and not offers[0].measured else None
    return may, better


def no_machine(q: Question, failures: Sequence[tuple[str, str]]) -> NoMachineError | BudgetError:
    """Return the error that says why no kind of machine has an answer."""
    whys: dict[str, list[str]] = {}
    for name, why in failures:
        whys.setdefault(why, []).append(name)
    seen = "; ".join(f"{' and '.join(names[:3])}: {why}" for why, names in list(whys.items())[:6])
    words = f"no kind of machine has an answer for {dollars(q.usd)}: {seen}"
    if all("before the first token" in why for _, why in failures):
        return BudgetError(words)
    return NoMachineError(words, failures)


def same_kind(machine: Mapping[str, Any], offer: Offer) -> bool:
    """Return whether an offer is on this kind of machine."""
    name: str = getattr(machine["gpu"], "name", machine["gpu"])
    return machine["market"] == offer.market and name == offer.gpu


def given_for_all(q: Question) -> tuple[Finding, ...]:
    """Say which figure was given once and used for several parts."""
    from economics.mfu import MfuModel

    given, parts = q.settings.get("mfu"), {str(getattr(m["gpu"], "name", m["gpu"])) for m in q.machines}
    if given is None or isinstance(given, MfuModel) or len(parts) < 2:
        return ()
    words = (
        f"mfu={given!r} is used for all of {', '.join(sorted(parts))}: name one gpu for a figure of your own."
    )
    return (Finding("kept_for_all", "warning", words, {"argument": "mfu", "gpus": sorted(parts)}),)
