"""Quality rules as published, each with its name, threshold and source, and a count of what it rejects.

A rule keeps or drops whole documents; none edits a text. The sets are

=====================  ==========================================================================
gopher                 Rae et al. 2021 (arXiv 2112.11446), appendix A.1.1: quality filtering
gopher_repetition      the same, table A1: repetition
c4                     Raffel et al. 2020 (arXiv 1910.10683), section 2.2: the rules on whole pages
fineweb                Penedo et al. 2024 (arXiv 2406.17557), section 3.5: the three added filters
=====================  ==========================================================================

The thresholds were set for English web pages. A data set's own score is a rule of its own: ``score``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reference_trainer.data.text_measures import TextMeasures
from scaling.errors import DataError

_GOPHER = "Rae et al. 2021, A.1.1"
_REPETITION = "Rae et al. 2021, table A1"
_C4 = "Raffel et al. 2020, 2.2"
_FINEWEB = "Penedo et al. 2024, 3.5"


@dataclass(frozen=True)
class Rule:
    """One rule: a document is kept if ``low <= measure <= high``, or between them if `strict`.

    Parameters
    ----------
    name : str
        Set and measure, such as ``gopher.word_count``.
    source : str
        Where it was published.
    measure : callable
        From `TextMeasures` to a number.
    low, high : float or None
        The bounds; None for open ones.
    strict : bool
        True where a document at a bound is dropped.
    """

    name: str
    source: str
    measure: Callable[[TextMeasures], float]
    low: float | None = None
    high: float | None = None
    strict: bool = False

    def keeps(self, text: TextMeasures) -> bool:
        """Tell whether a document passes."""
        value = self.measure(text)
        if self.strict and value in (self.low, self.high):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def describe(self) -> dict[str, Any]:
        """Return name, bounds and source as plain types, for a manifest."""
        low, high = ("above", "below") if self.strict else ("low", "high")
        bounds = {low: self.low, high: self.high}
        return {
            "rule": self.name,
            **{k: v for k, v in bounds.items() if v is not None},
            "source": self.source,
        }


def _gopher() -> list[Rule]:
    m, rule = TextMeasures, partial(Rule, source=_GOPHER)
    return [
        rule("gopher.word_count", measure=m.word_count, low=50, high=100_000),
        rule("gopher.mean_word_length", measure=m.mean_word_length, low=3, high=10),
        rule("gopher.hash_ratio", measure=m.hash_ratio, high=0.1),
        rule("gopher.ellipsis_ratio", measure=m.ellipsis_ratio, high=0.1),
        rule("gopher.bullet_lines", measure=m.bullet_lines, high=0.9),
        rule("gopher.ellipsis_lines", measure=m.ellipsis_lines, high=0.3),
        rule("gopher.alphabetic_words", measure=m.alphabetic_words, low=0.8),
        rule("gopher.stop_words", measure=m.stop_words, low=2),
    ]


def _gopher_repetition() -> list[Rule]:
    m, rule, name = TextMeasures, partial(Rule, source=_REPETITION), "gopher_repetition."
    top = {2: 0.20, 3: 0.18, 4: 0.16}
    repeated = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
    return [
        rule(f"{name}duplicate_lines", measure=m.duplicate_lines, high=0.3),
        rule(f"{name}duplicate_paragraphs", measure=m.duplicate_paragraphs, high=0.3),
        rule(f"{name}duplicate_line_characters", measure=m.duplicate_line_characters, high=0.2),
        rule(f"{name}duplicate_paragraph_characters", measure=m.duplicate_paragraph_characters, high=0.2),
        *(rule(f"{name}top_{n}_gram", measure=partial(m.top_gram, n=n), high=x) for n, x in top.items()),
        *(
            rule(f"{name}repeated_{n}_grams", measure=partial(m.repeated_grams, n=n), high=x)
            for n, x in repeated.items()
        ),
    ]


def _c4() -> list[Rule]:
    m, rule = TextMeasures, partial(Rule, source=_C4)
    return [
        rule("c4.sentences", measure=m.sentences, low=3),
        rule("c4.curly_brackets", measure=m.curly_brackets, high=0),
        rule("c4.lorem_ipsum", measure=m.lorem_ipsum, high=0),
    ]


def _fineweb() -> list[Rule]:
    m, rule, name = TextMeasures, partial(Rule, source=_FINEWEB, strict=True), "fineweb."
    return [
        rule(f"{name}punctuated_lines", measure=m.punctuated_lines, low=0.12),
        rule(f"{name}duplicate_line_characters", measure=m.duplicate_line_characters, high=0.1),
        rule(f"{name}short_lines", measure=m.short_lines, high=0.67),
    ]


#: The sets by name.
RULE_SETS: dict[str, Callable[[], list[Rule]]] = {
    "gopher": _gopher,
    "gopher_repetition": _gopher_repetition,
    "c4": _c4,
    "fineweb": _fineweb,
}


def rules(*sets: str) -> tuple[Rule, ...]:
    """Return the rules of the named sets in order.

    Raises
    ------
    DataError
        There is no such set.

    Examples
    --------
    >>> [rule.name for rule in rules("c4")]
    ['c4.sentences', 'c4.curly_brackets', 'c4.lorem_ipsum']
    """
    for name in sets:
        if name not in RULE_SETS:
            raise DataError(f"there is no rule set {name!r}: give {', '.join(RULE_SETS)}", column="rules")
    return tuple(rule for name in dict.fromkeys(sets) for rule in RULE_SETS[name]())


class Judge:
    """Apply rules to documents and count what each rejects.

    Parameters
    ----------
    rules : sequence of Rule
        All are asked of every document.
    min_score : float, optional
        The data set's own score must reach this; rule ``score``. A document without one fails
        ``score_missing``.
    counts : mapping, optional
        Counts to go on from, as `counts` was.

    Attributes
    ----------
    counts : dict
        ``{"failed": {rule: documents}, "alone": {rule: documents that failed no other}}``.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        min_score: float | None = None,
        counts: dict[str, dict[str, int]] | None = None,
    ) -> None:
        self.rules, self.min_score = tuple(rules), min_score
        names = [rule.name for rule in rules] + (["score", "score_missing"] if min_score is not None else [])
        if len(set(names)) < len(names):
            raise DataError(f"two rules of one name among {', '.join(names)}", column="rules")
        self.counts = counts or {kind: dict.fromkeys(names, 0) for kind in ("failed", "alone")}

    def failed(self, text: str, score: float | None = None) -> list[str]:
        """Return the names of the rules that reject a document, and count them.

        Parameters
        ----------
        text : str
            The document.
        score : float, optional
            Its own score.
        """
        measures = TextMeasures(text)
        names = [rule.name for rule in self.rules if not rule.keeps(measures)]
        if self.min_score is not None and (score is None or score < self.min_score):
            names.append("score_missing" if score is None else "score")
        self._count("failed", names)
        if len(names) == 1:
            self._count("alone", names)
        return names

    def _count(self, kind: str, names: Iterable[str]) -> None:
        for name in names:
            self.counts[kind][name] += 1

    def describe(self) -> list[dict[str, Any]]:
        """Return every rule with its bounds, source and counts, for a manifest."""
        rows = [rule.describe() for rule in self.rules]
        if self.min_score is not None:
            own = "the data set's own score column"
            rows += [
                {"rule": "score", "low": self.min_score, "source": own},
                {"rule": "score_missing", "source": own},
            ]
        return [{**row, **{kind: self.counts[kind][row["rule"]] for kind in self.counts}} for row in rows]
