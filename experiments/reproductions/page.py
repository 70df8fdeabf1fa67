"""One page of a reproduction, and how objectives on it are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scaling.law_fit import column
from scaling.runs import RunTable


@dataclass(frozen=True)
class Page:
    """A public table fitted again, in words and numbers.

    Parameters
    ----------
    name : str
        Of the script and of the page.
    title : str
        Heading.
    source : str
        Where the table and the published law come from.
    published, refit : str
        The headline of both, for the index.
    objectives : pair of float or None
        Objective on this table at the published law (None where none was published) and at ours.
    verdict : str
        What the table determines.
    paragraphs : sequence of str
        The page itself, in Markdown.
    missed : str
        In the index instead of the gap between the two objectives, where one number does not say it.
    coupled : sequence of list of str
        Rows of `coupled_row`, for the second table of the index.
    """

    name: str
    title: str
    source: str
    published: str
    refit: str
    objectives: tuple[float | None, float]
    verdict: str
    paragraphs: Sequence[str] = field(default_factory=tuple)
    missed: str = ""
    coupled: Sequence[list[str]] = field(default_factory=tuple)

    def text(self) -> str:
        """Return the page in Markdown."""
        head = [
            f"# {self.title}",
            f"Written by `python -m experiments.reproductions {self.name} --write`; numbers, no rows of the table.",
            f"{self.source}",
        ]
        return "\n\n".join([*head, *self.paragraphs]) + "\n"

    def gap(self) -> str:
        """Return by how much the published law misses the least objective."""
        if self.missed:
            return self.missed
        at_published, least = self.objectives
        if at_published is None:
            return "none published"
        gap = at_published / least - 1
        return "0 (rounding)" if gap < 5e-4 else f"{100 * gap:.3g}%"

    def row(self) -> list[str]:
        """Return the row of the index."""
        link = f"[{self.title}]({self.name}.md)"
        return [link, self.published, self.refit, self.gap(), self.verdict]


def objective(law: Any, runs: RunTable, delta: float = 1e-3, unique: bool = False) -> float:
    """Return the sum of Huber losses of log residuals of a law on a table."""
    names = ("params", "tokens", "unique_tokens") if unique else ("params", "tokens")
    z = np.log(runs.loss) - np.log(law.loss(*(column(runs, name) for name in names)))
    c = np.clip(z, -delta, delta)
    return float(np.sum(c * (z - c / 2)))


def interval(estimate: Any, digits: int = 3) -> str:
    """Write an estimate as ``0.35 [0.31, 0.39]``; an infinite end is open."""
    value, low, high = (f"{x:.{digits}g}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {'open' if high == 'inf' else high}]"


def billions(estimate: Any) -> str:
    """Write an estimate of tokens in billions."""
    return spread(estimate.value, estimate.low, estimate.high)


def spread(*tokens: float) -> str:
    """Write a count of tokens and the ends of its interval in billions."""
    value, low, high = (x / 1e9 for x in tokens)
    return f"{value:.3g}B [{low:.3g}B, {high:.3g}B]"


def coupled_row(name: str, fit: Any) -> list[str]:
    """Return a table's row on the coupled law: its k, and by how much it lowers the objective."""
    plain = fit.finding("plain_law")
    assert plain is not None
    fall = 100 * (1 - fit.objective / plain.evidence["objective_at_one"])
    return [
        name,
        str(fit.n_runs),
        interval(fit.ci("k")),
        f"{fall:.3g}%",
        f"{fit.condition_number:.3g}",
        fit.verdict,
    ]


def coupled_words(fit: Any) -> str:
    """Say what a coupled law finds on a table."""
    plain = fit.finding("plain_law")
    assert plain is not None
    k = fit.ci("k")
    side = "inside" if k.low <= 1 <= k.high else "outside"
    return (
        f"One exponent more, E + (A/N^alpha + B/D^beta)^k: k = {interval(k)}, with 1 {side} the interval; the "
        f"objective falls from {plain.evidence['objective_at_one']:.4g} to {fit.objective:.4g} "
        f"({100 * (1 - fit.objective / plain.evidence['objective_at_one']):.3g}% lower). Condition number "
        f"{fit.condition_number:.3g}; verdict: {fit.verdict}."
    )


def warnings_of(fit: Any) -> str:
    """Return what a fit of the main law finds doubtful, as sentences."""
    return " ".join(f.message for f in fit.diagnostics.findings if f.severity != "info")
