"""Cleaning of text: one form for one character, no control characters, no paragraph twice."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from hashlib import blake2b

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufffd]")
_SPACES = re.compile(r"[ \t\u00a0]+")
_AROUND_BREAKS = re.compile(r" ?\n ?")
_BREAKS = re.compile(r"\n{3,}")
#: A shorter paragraph is a heading or a word of dialogue: it may come again.
SHORTEST = 40


def clean(text: str) -> str:
    r"""Return a text in Unicode's composed form, without control characters and runs of spaces.

    Examples
    --------
    >>> clean("Cafe\u0301  au\u00a0lait \r\n\r\n\r\n\x07 end\u200b")
    'Café au lait\n\nend'
    """
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _AROUND_BREAKS.sub("\n", _SPACES.sub(" ", _CONTROL.sub("", text)))
    return _BREAKS.sub("\n\n", text).strip()


@dataclass
class Paragraphs:
    r"""Leaves out the paragraphs that were there before, in whichever document.

    Attributes
    ----------
    dropped : int
        Bytes left out so far.

    Examples
    --------
    >>> seen = Paragraphs()
    >>> line = "All rights reserved, and some more words so that it is long."
    >>> seen.new(f"{line}\n\nOne."), seen.new(f"Two.\n\n{line.upper()}"), seen.dropped
    ('All rights reserved, and some more words so that it is long.\n\nOne.', 'Two.', 60)
    """

    dropped: int = 0
    _seen: set[bytes] = field(default_factory=set)

    def new(self, text: str) -> str:
        """Return the paragraphs of a text that are new; a difference in case or spacing is none."""
        kept = []
        for paragraph in text.split("\n\n"):
            if len(paragraph) >= SHORTEST:
                key = blake2b(" ".join(paragraph.casefold().split()).encode(), digest_size=12).digest()
                if key in self._seen:
                    self.dropped += len(paragraph.encode())
                    continue
                self._seen.add(key)
            kept.append(paragraph)
        return "\n\n".join(kept)
