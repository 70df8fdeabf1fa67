"""From the files of a package to documents: pages, man pages, dictionaries, glosses."""

from __future__ import annotations

import bz2
import email
import email.policy
import gzip
import html
import json
import lzma
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

_OPEN: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress, ".dz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress,
}  # fmt: skip
_BLOCKS = {
    "p",
    "div",
    "li",
    "tr",
    "pre",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "dt",
    "dd",
    "section",
    "table",
    "br",
    "td",
}
_SKIPPED = {"script", "style", "nav", "head", "footer", "svg", "button", "form"}
_VOID = {"br"}
_ESCAPES = re.compile(r"\\f(\[[^]]*\]|\(..|.)|\\s[+-]?\d+|\\\*(\[[^]]*\]|\(..|.)|\\&|\\[|^/,:%]")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")
_POD_CODES = re.compile(r"[BCFILSXZ]<+\s?([^<>]*?)\s?>+")


def text_of(path: Path) -> str:
    """Return a file as text, unpacked where its name says that it is packed; broken bytes are replaced."""
    raw = path.read_bytes()
    return _OPEN.get(path.suffix, bytes)(raw).decode("utf-8", "replace")


class _Page(HTMLParser):
    """Collects the text of a page, a blank line between blocks, without what is no prose."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._inside = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._inside += tag in _SKIPPED
        if tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._inside = max(0, self._inside - (tag in _SKIPPED))
        if tag in _BLOCKS - _VOID:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.parts.append(data)


def page(text: str) -> Iterator[str]:
    """Give the text of an HTML page."""
    parser = _Page()
    parser.feed(text)
    parser.close()
    yield "".join(parser.parts)


def man(text: str) -> Iterator[str]:
    """Give the prose of a man page in roff, without its requests."""
    out = []
    for line in text.splitlines():
        if line.startswith((".", "'")):
            request, _, rest = line[1:].strip().partition(" ")
            if request in ("SH", "SS", "PP", "P", "LP", "TP", "IP", "sp"):
                out.append("\n")
            if request in ("SH", "SS", "B", "I", "BR", "IR", "RB", "BI", "IP", "Nm", "Nd", "Sh") and rest:
                out.append(rest.replace('"', ""))
            continue
        out.append(line)
    text = _ESCAPES.sub("", "\n".join(out)).replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(bu", "-")
    yield text.replace(r"\e", "\\")


def pod(text: str) -> Iterator[str]:
    """Give the documentation in a Perl file."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("="):
            word, _, rest = line.partition(" ")
            inside = word != "=cut"
            if word.startswith(("=head", "=item")):
                kept.append(f"\n{rest}\n")
        elif inside:
            kept.append(line)
    yield _POD_CODES.sub(r"\1", _POD_CODES.sub(r"\1", "\n".join(kept)))


def dictionary(text: str, at_once: int = 8000) -> Iterator[str]:
    """Give the entries of a dictd file, some at a time: an entry begins at the start of a line."""
    held: list[str] = []
    size = 0
    for line in text.splitlines():
        if size > at_once and line and not line[0].isspace():
            yield "\n".join(held)
            held, size = [], 0
        held.append(line.strip())
        size += len(line)
    yield "\n".join(held)


def glosses(text: str, at_once: int = 60) -> Iterator[str]:
    """Give the glosses of WordNet's data files, with the word in front."""
    found = []
    for line in text.splitlines():
        head, bar, gloss = line.partition(" | ")
        if bar and not line.startswith(" "):
            found.append(f"{head.split()[4].replace('_', ' ')}: {gloss.strip()}")
    for first in range(0, len(found), at_once):
        yield "\n\n".join(found[first : first + at_once])


def fortunes(text: str, at_once: int = 40) -> Iterator[str]:
    """Give sayings, which a line with a percent sign divides."""
    found = [part.strip() for part in text.split("\n%\n") if part.strip()]
    for first in range(0, len(found), at_once):
        yield "\n\n".join(found[first : first + at_once])


def summaries(text: str) -> Iterator[str]:
    """Give the summaries of a JSON object of articles."""
    for article in json.loads(text).values():
        yield f"{article['title']}\n\n{article['extract']}"


def json_text(text: str) -> Iterator[str]:
    """Give the texts of a JSON document: an object with ``text``, or a list of such."""
    content = json.loads(text)
    for item in content if isinstance(content, list) else [content]:
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            yield html.unescape(item["text"])


def mail(text: str) -> Iterator[str]:
    """Give subject and body of a mail out of a JSON document: no other headers, attachments or addresses."""
    message = email.message_from_string(json.loads(text)["text"], policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    try:
        content = str(body.get_content()) if body is not None else ""
    except (LookupError, ValueError):  # a character set or an encoding that nobody knows
        return
    if body is not None and body.get_content_subtype() == "html":
        content = "".join(page(content))
    lines = (
        line for line in content.splitlines() if len(line) < 60 or " " in line
    )  # an encoded file has no spaces
    yield _ADDRESS.sub("name@example.org", f"{message.get('subject', '')}\n\n" + "\n".join(lines))


def plain(text: str) -> Iterator[str]:
    """Give a text as it is."""
    yield text


#: Reader by its name in the list of packages.
READERS: dict[str, Callable[[str], Iterator[str]]] = {
    "html": page, "man": man, "pod": pod, "dictionary": dictionary, "glosses": glosses, "fortunes": fortunes,
    "summaries": summaries, "json_text": json_text, "mail": mail, "text": plain,
}  # fmt: skip
