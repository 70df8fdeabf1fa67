"""What the quality rules look at: words, lines and repeated phrases of one text, each computed once.

Words are what stands between white space; n-grams are compared as 64-bit hashes, so that a document costs
a few numpy passes and not ten dictionaries.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

STOP_WORDS = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
BULLETS = ("•", "‣", "◦", "●", "-", "*")
_ENDS = (".", "!", "?", '"', "'", "”", "’", "。", "！", "？")
_SENTENCE = re.compile(r"[.!?]+[\"'”’)\]]*(?=\s|$)")
_PUNCTUATION = ".,;:!?\"'()[]{}“”‘’…"
_SHORT_LINE = 30
_ODD = np.uint64(0x9E3779B97F4A7C15)


class TextMeasures:
    """Measures of one text.

    Parameters
    ----------
    text : str
        The document.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = text.split()
        self.lines = [line.strip() for line in text.split("\n") if line.strip()]
        self.paragraphs = [part.strip() for part in text.split("\n\n") if part.strip()]

    def _per_word(self, count: float) -> float:
        return count / len(self.words) if self.words else 0.0

    def _per_line(self, count: float) -> float:
        return count / len(self.lines) if self.lines else 0.0

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Each different word, numbered by first occurrence: the same on every machine, unlike hash()."""
        numbers: dict[str, int] = {}
        for word in self.words:
            numbers.setdefault(word, len(numbers))
        return numbers

    @cached_property
    def _ids(self) -> npt.NDArray[np.int64]:
        return np.fromiter(map(self._numbers.__getitem__, self.words), np.int64, len(self.words))

    @cached_property
    def _widths(self) -> npt.NDArray[np.int64]:
        return np.fromiter(map(len, self._numbers), np.int64, len(self._numbers))[self._ids]

    @cached_property
    def _characters(self) -> int:
        """Characters in words: what the shares of n-grams are taken of."""
        return int(self._widths.sum())

    def word_count(self) -> float:
        """Return the number of words."""
        return len(self.words)

    def mean_word_length(self) -> float:
        """Return characters per word."""
        return self._per_word(self._characters)

    def hash_ratio(self) -> float:
        """Return ``#`` signs per word."""
        return self._per_word(self.text.count("#"))

    def ellipsis_ratio(self) -> float:
        """Return ellipses, as one sign or as three dots, per word."""
        return self._per_word(self.text.count("...") + self.text.count("…"))

    def bullet_lines(self) -> float:
        """Return the share of lines that begin with a bullet."""
        return self._per_line(sum(line.startswith(BULLETS) for line in self.lines))

    def ellipsis_lines(self) -> float:
        """Return the share of lines that end with an ellipsis."""
        return self._per_line(sum(line.endswith(("...", "…")) for line in self.lines))

    def alphabetic_words(self) -> float:
        """Return the share of words with at least one letter."""
        has_letter = [word.isalpha() or any(map(str.isalpha, word)) for word in self._numbers]
        return self._per_word(int(np.array(has_letter, bool)[self._ids].sum()))

    def stop_words(self) -> float:
        """Return how many different ones of eight English stop words occur."""
        return len({word.lower().strip(_PUNCTUATION) for word in self._numbers} & STOP_WORDS)

    def duplicate_lines(self) -> float:
        """Return the share of lines that repeat an earlier one."""
        return _repeats(self.lines)[0]

    def duplicate_line_characters(self) -> float:
        """Return the share of characters in lines that repeat an earlier one."""
        return _repeats(self.lines)[1]

    def duplicate_paragraphs(self) -> float:
        """Return the share of paragraphs that repeat an earlier one."""
        return _repeats(self.paragraphs)[0]

    def duplicate_paragraph_characters(self) -> float:
        """Return the share of characters in paragraphs that repeat an earlier one."""
        return _repeats(self.paragraphs)[1]

    def sentences(self) -> float:
        """Return the number of sentence ends."""
        return len(_SENTENCE.findall(self.text))

    def curly_brackets(self) -> float:
        """Return the number of opening curly brackets."""
        return self.text.count("{")

    def lorem_ipsum(self) -> float:
        """Return how often the placeholder text begins."""
        return self.text.lower().count("lorem ipsum")

    def punctuated_lines(self) -> float:
        """Return the share of lines that end with a mark that ends a sentence."""
        return self._per_line(sum(line.endswith(_ENDS) for line in self.lines))

    def short_lines(self) -> float:
        """Return the share of lines shorter than 30 characters."""
        return self._per_line(sum(len(line) < _SHORT_LINE for line in self.lines))

    @cached_property
    def _grams(self) -> dict[int, npt.NDArray[np.intp]]:
        """For n = 2 to 10, which n-gram begins at each word: equal numbers are equal phrases."""
        hashes, grams = _spread(self._ids.astype(np.uint64) + np.uint64(1)), {}
        rolled = hashes
        for n in range(2, min(10, hashes.size) + 1):
            rolled = _spread(rolled[:-1] * _ODD + hashes[n - 1 :])
            grams[n] = np.unique(rolled, return_inverse=True)[1]
        return grams

    def top_gram(self, n: int) -> float:
        """Return the share of characters in the commonest n-gram, 0 where none occurs twice."""
        if n not in self._grams:
            return 0.0
        counts = np.bincount(self._grams[n])[self._grams[n]]
        if counts.max() < 2:
            return 0.0
        # Of several commonest the one with most characters: the strictest reading.
        spans = np.convolve(self._widths, np.ones(n, np.int64), "valid")[counts == counts.max()]
        return float(spans.max() * counts.max() / self._characters)

    def repeated_grams(self, n: int) -> float:
        """Return the share of characters inside n-grams that occur more than once, each counted once."""
        if n not in self._grams:
            return 0.0
        grams = self._grams[n]
        repeated = np.flatnonzero(np.bincount(grams)[grams] > 1)
        if repeated.size == 0:
            return 0.0
        edges = np.zeros(len(self.words) + 1, np.int64)
        np.add.at(edges, repeated, 1)
        np.add.at(edges, repeated + n, -1)
        inside = np.cumsum(edges[:-1]) > 0
        return float(self._widths[inside].sum() / self._characters)


def _spread(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(31))) * _ODD
    return x ^ (x >> np.uint64(29))


def _repeats(parts: Sequence[str]) -> tuple[float, float]:
    """Return the share of parts that repeat an earlier one, and the share of characters in them."""
    characters = sum(map(len, parts))
    if not characters:
        return 0.0, 0.0
    counts = Counter(parts)
    again = sum(len(part) * (count - 1) for part, count in counts.items())
    return (len(parts) - len(counts)) / len(parts), again / characters
