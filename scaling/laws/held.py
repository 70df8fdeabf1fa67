"""Coefficients held at a value: which may be, at which value, and from where logs are then measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scaling.errors import DataError
from scaling.laws.base import Array


def checked_held(
    fixed: Mapping[str, float] | None,
    names: tuple[str, ...],
    log_loss: Array,
    tied: bool = False,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, float]:
    """Return the coefficients held, by name.

    Parameters
    ----------
    fixed : mapping of str to float, optional
        What the user wants held.
    names : tuple of str
        Coefficients of the law.
    log_loss : array, shape (n,)
        Log losses.
    tied : bool
        Whether alpha = beta.
    ranges : mapping of str to (float, float), optional
        Where coefficients are searched, and may be held; anywhere if it is left out.

    Raises
    ------
    DataError
        For a name that is none of `names`, a value out of range, or contradicting exponents.
    """
    held = dict(fixed or {})
    for name, value in held.items():
        if name not in names:
            raise DataError(f"fixed: {name!r} is none of {', '.join(names)}", column="fixed")
        if not (value > 0 or (name == "E" and value == 0)) or not np.isfinite(value):
            raise DataError(f"fixed[{name!r}] must be positive, got {value}", column="fixed")
        check_range(name, value, ranges or {})
    if "E" in held and held["E"] >= float(np.exp(log_loss.min())):
        raise DataError(
            f"fixed['E'] = {held['E']} is not below the smallest loss {np.exp(log_loss.min()):.6g}: "
            "E is the loss that no run can pass",
            column="fixed",
        )
    if tied and {"alpha", "beta"} <= set(held) and held["alpha"] != held["beta"]:
        raise DataError("tied exponents cannot be held at two values", column="fixed")
    return held


def check_range(name: str, value: float, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise `DataError` for a coefficient of `ranges` held outside of what is searched."""
    low, high = ranges.get(name, (0.0, np.inf))
    if not low <= value <= high:
        raise DataError(
            f"fixed[{name!r}] = {value:g} lies outside {low:g} to {high:g}, where {name} is searched",
            column="fixed",
        )


def centres(params: Array, tokens: Array, held: Mapping[str, float]) -> tuple[float, float]:
    """Return where ln N and ln D are measured from: their means, or 0 where A (B) is held.

    A coefficient held by the user is only constant in absolute units.
    """
    return (
        0.0 if "A" in held else float(np.log(params).mean()),
        0.0 if "B" in held else float(np.log(tokens).mean()),
    )
