"""One finding of an audit or a diagnosis: a code to test for, a severity, words, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """A statement about data or a fit that a person should read.

    Parameters
    ----------
    code : str
        Stable snake_case name, for code that reacts to it (``"flops_disagree"``).
    severity : {"info", "warning", "error"}
        ``info`` explains, ``warning`` doubts, ``error`` says that an answer must not be used.
    message : str
        One or two sentences: what was seen, where, what to do.
    evidence : mapping
        The numbers behind the sentence, JSON-able.
    """

    code: str
    severity: Severity
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"[{self.severity}] {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain types."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "evidence": dict(self.evidence),
        }
