"""Reading the README: the examples that tests run, and the commands it promises."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def blocks(language: str) -> list[str]:
    """Return the fenced code blocks of a language, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def session() -> str:
    """Return all Python examples as one doctest session."""
    return "\n".join(blocks("python"))


def commands() -> list[str]:
    """Return the shell commands, without prompts, comments and continuation lines."""
    text = "\n".join(blocks("sh")).replace("\\\n", " ")
    lines = (re.sub(r"(^|\s)#.*", "", line).removeprefix("$ ").strip() for line in text.splitlines())
    return [line for line in lines if line]
