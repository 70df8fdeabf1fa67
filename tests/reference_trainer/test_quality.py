"""Quality rules: each measure against its definition, each bound from both sides, every count."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from reference_trainer.data.quality import RULE_SETS, Judge, Rule, rules
from reference_trainer.data.text_measures import TextMeasures
from scaling.errors import DataError
from tests.reference_trainer.corpora import document

ALL = rules(*RULE_SETS)
GOOD = document(1)


def failed(text: str, *sets: str) -> set[str]:
    return set(Judge(rules(*sets)).failed(text))


def test_thresholds_are_the_published_ones():
    """Rae et al. 2021 A.1.1 and table A1; Raffel et al. 2020 2.2; Penedo et al. 2024 3.5."""
    assert {rule.name.partition(".")[2]: (rule.low, rule.high) for rule in rules("gopher")} == {
        "word_count": (50, 100_000),
        "mean_word_length": (3, 10),
        "hash_ratio": (None, 0.1),
        "ellipsis_ratio": (None, 0.1),
        "bullet_lines": (None, 0.9),
        "ellipsis_lines": (None, 0.3),
        "alphabetic_words": (0.8, None),
        "stop_words": (2, None),
    }
    assert [rule.high for rule in rules("gopher_repetition")] == [
        0.3, 0.3, 0.2, 0.2, 0.20, 0.18, 0.16, 0.15, 0.14, 0.13, 0.12, 0.11, 0.10,
    ]  # fmt: skip
    assert [(rule.low, rule.high) for rule in rules("c4")] == [(3, None), (None, 0), (None, 0)]
    assert [(rule.low, rule.high, rule.strict) for rule in rules("fineweb")] == [
        (0.12, None, True),
        (None, 0.1, True),
        (None, 0.67, True),
    ]
    assert all(rule.source for rule in ALL)
    assert len({rule.name for rule in ALL}) == len(ALL)


def test_good_text_passes_everything():
    for number in range(50):
        assert failed(document(number), *RULE_SETS) == set()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("The river and the hills. " * 9 + "It is all that.", "gopher.word_count"),
        ("the of a I to a " * 20, "gopher.mean_word_length"),
        ("#hash " * 20 + GOOD, "gopher.hash_ratio"),
        ("more... " * 20 + GOOD, "gopher.ellipsis_ratio"),
        ("\n".join(f"- {line}" for line in GOOD.split("\n")), "gopher.bullet_lines"),
        (GOOD.replace(".\n", "…\n"), "gopher.ellipsis_lines"),
        (GOOD + " 12 34 56" * 15, "gopher.alphabetic_words"),
        ("Lumen rivus silva mons arbor. " * 12, "gopher.stop_words"),
        (GOOD + "\nAll rights kept by us." * 9, "gopher_repetition.duplicate_lines"),
        (GOOD.replace("\n", "\n\n") + "\n\nSee more." * 10, "gopher_repetition.duplicate_paragraphs"),
        (GOOD + "\n" + GOOD, "gopher_repetition.duplicate_line_characters"),
        (GOOD + "\n\n" + GOOD, "gopher_repetition.duplicate_paragraph_characters"),
        (GOOD + " buy now" * 20, "gopher_repetition.top_2_gram"),
        (GOOD + " buy it now" * 20, "gopher_repetition.top_3_gram"),
        (GOOD + " you buy it now" * 20, "gopher_repetition.top_4_gram"),
        (GOOD + " we send news to all who ask. We send news to all who ask." * 2, "gopher_repetition.repeated_5_grams"),
        ("One sentence of words without an end " * 9, "c4.sentences"),
        (GOOD + " if (x) { y }", "c4.curly_brackets"),
        (GOOD + " Lorem ipsum dolor.", "c4.lorem_ipsum"),
        (GOOD.replace(".\n", "\n") + "\nHome" * 3, "fineweb.punctuated_lines"),
        (GOOD + "\n" + GOOD.split("\n")[3] + "\n" + GOOD.split("\n")[2], "fineweb.duplicate_line_characters"),
        (GOOD.replace(" ", "\n"), "fineweb.short_lines"),
    ],
)  # fmt: skip
def test_each_rule_sees_its_fault(text, rule):
    assert rule in failed(text, rule.partition(".")[0])


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        ("gopher.word_count", "a b  c\n\nd", 4),
        ("gopher.mean_word_length", "ab abcd", 3),
        ("gopher.hash_ratio", "# a ##b c", 0.75),
        ("gopher.ellipsis_ratio", "so... and… on", 2 / 3),
        ("gopher.bullet_lines", "• a\n\n- b\nc\n * d", 0.75),
        ("gopher.ellipsis_lines", "a...\nb…\nc.\nd", 0.5),
        ("gopher.alphabetic_words", "a1 22 é — x", 0.6),
        ("gopher.stop_words", "The 'be' the, TO: other", 3),
        ("gopher_repetition.duplicate_lines", "a\nb\na\n a \n\nc", 2 / 5),
        ("gopher_repetition.duplicate_line_characters", "abcd\nb\nabcd", 4 / 9),
        ("gopher_repetition.duplicate_paragraphs", "a\nb\n\na\n\na\nb", 1 / 3),
        ("gopher_repetition.duplicate_paragraph_characters", "abcd\n\nb\n\nabcd", 4 / 9),
        ("gopher_repetition.top_2_gram", "aa b aa b cc", 6 / 8),
        ("gopher_repetition.top_2_gram", "a b c d", 0),  # occurs once: nothing repeats
        ("gopher_repetition.top_2_gram", "", 0),
        ("gopher_repetition.repeated_5_grams", "a b c d e x a b c d e y", 10 / 12),
        ("gopher_repetition.repeated_5_grams", "a a a a a a a", 1),  # overlaps count once
        ("gopher_repetition.repeated_6_grams", "a b c d e x a b c d e y", 0),
        ("c4.sentences", 'One. "Two!" Three?! Version 1.2 is out', 3),
        ("fineweb.punctuated_lines", 'a.\nb\nc!"\nd”', 0.75),
        ("fineweb.short_lines", f"{'x' * 29}\n{'x' * 30}", 0.5),
    ],
)  # fmt: skip
def test_measures_by_hand(rule, text, value):
    measure = {r.name: r.measure for r in ALL}[rule]
    assert measure(TextMeasures(text)) == pytest.approx(value, abs=1e-15)


def test_ngrams_against_the_definition():
    """Hashed n-grams give what dictionaries of tuples give, on texts full of repeats."""
    rng = np.random.default_rng(0)
    for trial in range(60):
        words = [str("xyz"[i % 3]) * (i + 1) for i in rng.integers(0, 2 + trial // 6, rng.integers(1, 90))]
        text, total = TextMeasures(" ".join(words)), sum(map(len, words))
        for n in range(2, 11):
            grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
            counts = Counter(grams)
            most = max(counts.values(), default=0)
            top = max((sum(map(len, g)) * c for g, c in counts.items() if c == most), default=0) / total
            inside = {i + k for i, g in enumerate(grams) if counts[g] > 1 for k in range(n)}
            assert text.top_gram(n) == pytest.approx(top if most > 1 else 0)
            assert text.repeated_grams(n) == pytest.approx(sum(len(words[i]) for i in inside) / total)


@pytest.mark.parametrize("strict", [False, True])
def test_bounds_from_both_sides(strict):
    rule = Rule("x", "s", TextMeasures.word_count, low=2, high=4, strict=strict)
    kept = [n for n in range(7) if rule.keeps(TextMeasures("w " * n))]
    assert kept == ([3] if strict else [2, 3, 4])
    assert rule.describe() == {
        "rule": "x",
        ("above" if strict else "low"): 2,
        ("below" if strict else "high"): 4,
        "source": "s",
    }


def test_counts_per_rule():
    judge = Judge(rules("c4"), min_score=3)
    assert judge.failed("A. B. C.", 3.0) == []
    assert judge.failed("A. B. {", 2.9) == ["c4.sentences", "c4.curly_brackets", "score"]
    assert judge.failed("A. B. C. {", 5) == ["c4.curly_brackets"]
    assert judge.failed("A. B. C.", None) == ["score_missing"]
    shown = {row["rule"]: (row["failed"], row["alone"]) for row in judge.describe()}
    assert shown == {
        "c4.sentences": (1, 0),
        "c4.curly_brackets": (2, 1),
        "c4.lorem_ipsum": (0, 0),
        "score": (1, 0),
        "score_missing": (1, 1),
    }
    again = Judge(rules("c4"), min_score=3, counts=judge.counts)
    again.failed("{", 5)
    assert again.counts["failed"]["c4.curly_brackets"] == 3


def test_strange_texts_are_judged_not_crashed_on():
    for text in ("", " ", "\n\n\n", "\x00", "🙂" * 50, "a" * 10_000, "\u2028".join("abc"), "é\u0301 " * 60):
        assert isinstance(failed(text, *RULE_SETS), set)


def test_unknown_sets():
    with pytest.raises(DataError, match="there is no rule set 'gofer': give gopher, "):
        rules("gofer")
    with pytest.raises(DataError, match="two rules of one name"):
        Judge([*rules("c4"), *rules("c4")])
    assert rules("c4", "c4") == rules("c4")
