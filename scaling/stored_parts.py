"""Parts that saved fits of all laws share: their format, runs, certificate, findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scaling.audit import Audit
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.json_parts import exactly, listed, number, number_or_nan, numbers, part, record, whole, word
from scaling.laws.base import Array
from scaling.runs import RunTable
from scaling.solver import Certificate

FORMAT = "isoflop-fit-1"
#: Of fits of the laws beside the main one.
LAW_FORMAT = "isoflop-fit-law-1"

_NUMBERS = ("params", "tokens", "loss", "flops", "sigma", "loss_se_eval", "unique_tokens", "params_active")
_LABELS = ("run_id", "trunk_id", "seed", "status")
_WORDS = ("loss_unit", "loss_kind", "params_kind", "source")
_CERTIFICATE: dict[str, Callable[[Any], Any]] = {
    "n_starts": whole,
    "share_at_best": number_or_nan,
    "n_basins": whole,
    "second_basin_gap": lambda value: None if value is None else number(value),
    "second_basin": lambda value: None if value is None else tuple(numbers(value).tolist()),
    "decrement": number_or_nan,
    "reason": word,
}


def check_format(data: Any, expected: str) -> None:
    """Raise `DataError` unless what was read has the expected format; it says what else it is.

    Parameters
    ----------
    data : object
        What `parse_json` returned.
    expected : str
        `FORMAT` or `LAW_FORMAT`.
    """
    seen = data.get("format") if isinstance(data, Mapping) else type(data).__name__
    if isinstance(data, Mapping) and seen == expected:
        return
    if seen == LAW_FORMAT and isinstance(data, Mapping):
        raise DataError(
            f"this is a saved fit of the law {data.get('name')!r}, not of the main one (chinchilla): read it with "
            "scaling.LawFit.load(path) or `scaling fit FILE`",
            column="format",
        )
    if seen == FORMAT:
        raise DataError(
            "this is a saved fit of the main law (chinchilla): read it with scaling.ChinchillaFit.load(path) or "
            "`scaling fit FILE`",
            column="format",
        )
    if isinstance(data, Mapping) and str(seen).startswith("isoflop-fit"):
        raise DataError(
            f"a saved fit of another version: format {seen!r}, expected {expected!r}: fit the table again and save "
            "that fit",
            column="format",
        )
    raise DataError(f"not a saved fit: format {seen!r}, expected {expected!r}", column="format")


def check_objective(z: Array, weights: Array, delta: float, objective: float) -> None:
    """Raise `DataError` unless residuals z give the saved objective: the law, runs or settings were changed."""
    # Huber(z) = c z - c^2/2 with c the clipped residual: the objective that the fit minimised.
    c = np.clip(z, -delta, delta)
    found = float(weights @ (c * (z - c / 2)))
    if not math.isclose(found, objective, rel_tol=1e-6, abs_tol=1e-18 * len(z)):
        raise DataError(
            f"not a saved fit: its law has the objective {found:.6g} on its runs, not {objective:.6g}: "
            "the law, the runs or the settings were changed after the fit",
            column="objective",
        )


def certificate_from(data: Any) -> Certificate:
    """Read a saved certificate."""
    return record(Certificate, data, "certificate", _CERTIFICATE)


def finding_from(data: Any, within: str = "finding") -> Finding:
    """Read a saved finding."""
    found = record(Finding, data, within, {"code": word, "severity": word, "message": word})
    if found.severity not in ("info", "warning", "error") or not isinstance(found.evidence, Mapping):
        raise DataError(f"not a saved fit: {within} has no severity info, warning or error", column=within)
    return found


def coefficients_from(
    data: Any, names: tuple[str, ...], within: str, read: Callable[[Any], Any]
) -> dict[str, Any]:
    """Read every coefficient of a law; one that is missing or unknown is an error."""
    exactly(data, names, within)
    return {name: part(data, name, read, within) for name in names}


def draws_from(data: Any, names: tuple[str, ...]) -> dict[str, Array]:
    """Read draws: one value of every coefficient per refit."""
    draws: dict[str, Array] = coefficients_from(data, names, "draws", numbers)
    first = names[0]
    for name, values in draws.items():
        if len(values) != len(draws[first]):
            raise DataError(
                f"not a saved fit: draws.{name} has {len(values)} values and draws.{first} {len(draws[first])}: the "
                "draws hold one value of each coefficient per refit",
                column=f"draws.{name}",
            )
    return draws


def runs_to_dict(runs: RunTable) -> dict[str, Any]:
    """Return a table of runs as plain types; the original frame is not kept."""
    out: dict[str, Any] = {name: getattr(runs, name) for name in _WORDS}
    for name in (*_NUMBERS, *_LABELS, "row"):
        values = getattr(runs, name)
        out[name] = None if values is None else values.tolist()
    out["covariates"] = {name: values.tolist() for name, values in runs.covariates.items()}
    out["audit"] = runs.audit.to_dict()
    return out


def runs_from_dict(data: dict[str, Any]) -> RunTable:
    """Read what `runs_to_dict` wrote.

    Raises
    ------
    DataError
        A column is missing or holds what is no number.
    """
    rest: dict[str, Any] = {name: part(data, name, word, "runs") for name in _WORDS}
    for name in _NUMBERS:
        rest[name] = part(data, name, lambda v: None if v is None else numbers(v, nan=True), "runs")
    for name in (*_LABELS, "row", "covariates"):
        rest[name] = part(data, name, lambda v: v, "runs")
    return RunTable.from_arrays(**rest, audit=part(data, "audit", _audit_from_dict, "runs"))


def _audit_from_dict(data: dict[str, Any]) -> Audit:
    audit = dict(data)
    audit["columns"] = {name: tuple(pair) for name, pair in audit["columns"].items()}
    audit["dropped"] = tuple((row, why) for row, why in audit["dropped"])
    audit["unused"] = tuple(audit["unused"])
    audit["findings"] = part(data, "findings", listed(finding_from, "runs.audit.findings"), "runs.audit")
    return Audit(**audit)
