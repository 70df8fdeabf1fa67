"""Fits of any law on disk: JSON at full precision."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from scaling.errors import DataError
from scaling.findings import Finding
from scaling.intervals import check_level, check_method
from scaling.law_fit import LawFit
from scaling.law_names import named_law
from scaling.solver import Certificate
from scaling.storage import json_text, parse_json, runs_from_dict, runs_to_dict

FORMAT = "isoflop-fit-law-1"


def law_fit_to_json(fit: LawFit) -> str:
    """Return a fit as JSON. Floats are written so that they read back to the same bits."""
    data = {
        "format": FORMAT,
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
        The text is no saved fit, one of another format, or its parts do not belong together.
    """
    data = parse_json(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        seen = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise DataError(f"not a saved fit of a law: format {seen!r}, expected {FORMAT!r}")
    try:
        fit = _from_dict(data)
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"not a saved fit: a part of it is missing or damaged ({type(error).__name__}: {error})"
        ) from error
    z = fit.residuals
    c = np.clip(z, -fit.delta, fit.delta)
    objective = float(np.sum(c * (z - c / 2)))
    if not math.isclose(objective, fit.objective, rel_tol=1e-6, abs_tol=1e-18 * len(z)):
        raise DataError(
            f"not a saved fit: its law has the objective {objective:.6g} on its runs, not {fit.objective:.6g}: "
            "the law, the runs or the settings were changed after the fit"
        )
    return fit


def _from_dict(data: dict[str, Any]) -> LawFit:
    kind = named_law(data["name"]).law
    rest = dict(data)
    del rest["format"]
    certificate = dict(rest["certificate"])
    if certificate["second_basin"] is not None:
        certificate["second_basin"] = tuple(certificate["second_basin"])
    rest["certificate"] = Certificate(**certificate)
    rest["law"] = kind(**rest["law"])
    rest["draws"] = kind(**{name: np.array(v, dtype=float) for name, v in rest["draws"].items()})
    rest["variables"] = tuple(rest["variables"])
    rest["runs"] = runs_from_dict(rest["runs"])
    rest["cluster"] = np.array(rest["cluster"], dtype=np.int64)
    rest["findings"] = tuple(Finding(**f) for f in rest["findings"])
    check_level(rest["level"])
    check_method(rest["interval"])
    return LawFit(**rest)


def _coefficients(law: Any) -> dict[str, Any]:
    return {name: np.asarray(getattr(law, name)).tolist() for name in law.COEFFICIENTS}
