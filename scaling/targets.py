"""Quantities whose precision is wanted, by name."""

from __future__ import annotations

from collections.abc import Callable

from scaling.errors import DataError, shown
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.units import format_count, parse_count

Target = str | Callable[[ChinchillaLaw], float]


def target_function(target: Target) -> Callable[[ChinchillaLaw], float]:
    """Turn the name of a target into a function of a law.

    Parameters
    ----------
    target : str or callable
        ``"ln_tokens@1B"`` (ln D* at N), ``"ln_params@20B"``, ``"loss@1B,20B"``, a coefficient
        (``"alpha"``), ``"params_exponent"``, or any function of a `ChinchillaLaw`.

    Raises
    ------
    DataError
        For a name that is none of these.
    """
    if callable(target):
        return target
    if not isinstance(target, str):
        raise DataError(f"target must be a name or a function of a law, got {shown(target)}", column="target")
    name, _, at = target.partition("@")
    if not at and name in ("E", "A", "B", "alpha", "beta", "params_exponent", "tokens_exponent"):
        return lambda law: float(getattr(law, name))
    if at and name in ("ln_tokens", "ln_params"):
        where = parse_count(at)
        if name == "ln_tokens":
            return lambda law: float(law.log_tokens_at(where))
        return lambda law: float(law.log_params_at(where))
    if name == "loss" and at.count(",") == 1:
        n, d = (parse_count(part) for part in at.split(","))
        return lambda law: float(law.loss(n, d))
    raise DataError(
        f"target {target!r} is not known: ln_tokens@N, ln_params@D, loss@N,D, a coefficient, "
        "params_exponent or a function of a law",
        column="target",
    )


def written(target: Target) -> str:
    """Return a target as a person would."""
    if not isinstance(target, str):
        return getattr(target, "__name__", "the target")
    name, _, at = target.partition("@")
    if name not in ("ln_tokens", "ln_params"):
        return target
    return f"ln {'D' if name == 'ln_tokens' else 'N'}*({format_count(parse_count(at))})"
