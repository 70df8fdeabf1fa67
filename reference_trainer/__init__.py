"""A trainer whose points can be trusted: exact to the bit, several per run, inside a budget.

Nothing loads before it is used: ``import reference_trainer`` costs next to nothing, and training itself
needs torch, numpy and safetensors alone.
"""

from __future__ import annotations

__all__: list[str] = []
