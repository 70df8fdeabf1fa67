"""A trained model in fewer bits: weights as int8 or int4, what that costs in loss, and how fast it is.

Plain torch. Of torchao 0.18 with torch 2.13 on a CPU, int8 weight-only works; its packed int4 formats ask for a GPU or
for a further package, and what it offers as int4 there keeps one number in a byte, as many bytes as int8.
"""

from __future__ import annotations

__all__: list[str] = []
