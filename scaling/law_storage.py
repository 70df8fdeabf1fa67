"""Fits of any law on disk: JSON at full precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from scaling.arguments import check_delta
from scaling.errors import DataError
from scaling.intervals import check_level, check_method
from scaling.json_parts import (
    exactly,
    finite,
    flag,
    json_text,
    listed,
    number,
    number_or_nan,
    parse_json,
    part,
    whole,
    whole_numbers,
    word,
)
from scaling.law_fit import LawFit
from scaling.law_names import named_law
from scaling.stored_parts import (
    LAW_FORMAT,
    certificate_from,
    check_format,
    check_objective,
    coefficients_from,
    draws_from,
    finding_from,
    runs_from_dict,
    runs_to_dict,
)

#: What a law's loss may take, by the law's name; one of these where there are several.
_REPEATED = ("params", "tokens", "unique_tokens")
_VARIABLES = {
    "power": (("flops",), ("params",), ("tokens",)),
    "data-constrained": (_REPEATED,),
    "repetition-penalty": (_REPEATED,),
}
_PLAIN = (("params", "tokens"),)


def law_fit_to_json(fit: LawFit) -> str:
    """Return a fit as JSON. Floats are written so that they read back to the same bits."""
    data = {
        "format": LAW_FORMAT,
        "name": fit.name,
        "law": _coefficients(fit.law),
        "variables": list(fit.variables),
        "objective": fit.objective,
        "certificate": asdict(fit.certificate),
        "draws": _coefficients(fit.draws),
        "n_failed": fit.n_failed,
        "runs": runs_to_dict(fit.runs),
        "level": fit.level,
        "interval": fit.interval,
        "fixed": fit.fixed,
        "n_units": fit.n_units,
        "tied": fit.tied,
        "delta": fit.delta,
        "seed": fit.seed,
        "cluster": fit.cluster.tolist(),
        "condition_number": fit.condition_number,
        "findings": [f.to_dict() for f in fit.findings],
    }
    return json_text(data)


def law_fit_from_json(text: str) -> LawFit:
    """Read what `law_fit_to_json` wrote.

    Raises
    ------
    DataError
        The text is no saved fit, one of another law or format, or a part of it, which the message and
        ``column`` name, is missing or damaged or does not belong to the others.
    """
    data = parse_json(text)
    check_format(data, LAW_FORMAT)
    kind: Any = part(data, "name", lambda value: named_law(word(value))).law
    names: tuple[str, ...] = getattr(kind, "COEFFICIENTS", ())
    if not names:
        raise DataError(
            f"not a saved fit: name: fits of the law {data['name']!r} are saved in another format",
            column="name",
        )
    runs = part(data, "runs", runs_from_dict)
    readers: dict[str, Callable[[Any], Any]] = {
        "name": word,
        "law": lambda value: kind(**coefficients_from(value, names, "law", number)),
        "variables": lambda value: _variables(data["name"], value),
        "objective": finite,
        "certificate": certificate_from,
        "draws": lambda value: kind(**draws_from(value, names)),
        "n_failed": whole,
        "level": check_level,
        "interval": check_method,
        "fixed": lambda value: _held(value, data["law"], names),
        "n_units": whole,
        "tied": flag,
        "delta": _delta,
        "seed": whole,
        "cluster": lambda value: whole_numbers(value, len(runs)),
        "condition_number": number_or_nan,
        "findings": listed(finding_from, "findings"),
    }
    exactly(data, ("format", "runs", *readers), "the fit")
    fit = LawFit(runs=runs, **{name: part(data, name, read) for name, read in readers.items()})
    check_objective(fit.residuals, np.ones(len(runs)), fit.delta, fit.objective)
    return fit


def _variables(law: str, value: Any) -> tuple[str, ...]:
    """Return what a law's loss takes."""
    allowed = _VARIABLES.get(law, _PLAIN)
    found = tuple(value) if isinstance(value, list) else None
    if found not in allowed:
        raise DataError(f"{value!r} is not what the law {law!r} takes, {' or '.join(map(repr, allowed))}")
    return found


def _held(value: Any, law: Any, names: tuple[str, ...]) -> dict[str, float]:
    """Return the coefficients held, at the values that the law has."""
    out = {}
    for name in value:
        if name not in names:
            raise DataError(f"{name!r} is none of {', '.join(names)}")
        out[name] = part(value, name, finite, "fixed")
        if not np.isclose(out[name], law[name], rtol=1e-9, atol=0.0):
            raise DataError(f"{name} is held at {out[name]}, and the law has {law[name]}")
    return out


def _delta(value: Any) -> float:
    check_delta(value)
    return float(value)


def _coefficients(law: Any) -> dict[str, Any]:
    return {name: np.asarray(getattr(law, name)).tolist() for name in law.COEFFICIENTS}
