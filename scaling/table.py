"""Tables of training runs: the type that holds them."""

from __future__ import annotations

from scaling.runs import RunTable

__all__ = ["RunTable"]
