"""The size of a picture of horizontal bars, which grows with them."""

from __future__ import annotations


def bars_size(count: int) -> tuple[float, float]:
    """Return width and height in inches for a number of bars."""
    return 7.0, 1.5 + 0.42 * max(count, 1)
