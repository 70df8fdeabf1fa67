"""Fits on disk: JSON at full precision, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.audit import Audit
from scaling.diagnose import Diagnostics
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.influence import Influence
from scaling.intervals import check_level, check_method
from scaling.laws.chinchilla import COEFFICIENTS, ChinchillaLaw
from scaling.runs import RunTable
from scaling.settings import Settings
from scaling.solver import Certificate

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

FORMAT = "isoflop-fit-1"

_NUMBERS = ("params", "tokens", "loss", "flops", "sigma", "loss_se_eval", "unique_tokens", "params_active")
_LABELS = ("run_id", "trunk_id", "seed", "status")
_WORDS = ("loss_unit", "loss_kind", "params_kind", "source")


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write a file so that a reader never sees half of it.

    A symbolic link stays: the file it points to is written. So does what is no regular file, such as a
    pipe or a device: it is written to, as it cannot be replaced.

    Parameters
    ----------
    path : path
        The file.
    content : str or bytes
        All of it; text is written as UTF-8.

    Raises
    ------
    OSError
        When the disk is full or the folder is missing; the old file, if any, is then untouched. Its
        ``filename`` is `path`.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if _is_special(path):
            with open(path, "wb") as file:
                file.write(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # and not that of the file on the way
        raise


def refuse_overlap(outputs: Iterable[str | Path], inputs: Iterable[str | Path] = ()) -> None:
    """Refuse to write a file that is also read, or two outputs to one file, under whatever names.

    Raises
    ------
    DataError
        Two of the paths are one file. Pipes and devices, which hold nothing to lose, are let pass.
    """
    read, seen = list(inputs), list[str | Path]()
    for output in outputs:
        if any(_same_file(output, path) for path in read):
            raise DataError(
                f"{output} is the input itself, which would be lost: choose another name for what is written",
                source=str(output),
            )
        if any(_same_file(output, path) for path in seen):
            raise DataError(f"{output} would be written twice: two outputs are one file", source=str(output))
        seen.append(output)


def _same_file(a: str | Path, b: str | Path) -> bool:
    if os.path.realpath(a) == os.path.realpath(b):
        return not _is_special(a)
    try:
        return os.path.samefile(a, b) and not _is_special(a)
    except OSError:
        return False  # one of them is not there yet


def _is_special(path: str | Path) -> bool:
    """Return whether a path leads to something other than a file, a folder, or nothing."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _replace(target: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        # mkstemp lets nobody else read; a report is made to be read.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def fit_to_json(fit: ChinchillaFit) -> str:
    """Return a fit as JSON. Floats are written so that they read back to the same bits."""
    data = {
        "format": FORMAT,
        "law": fit.law.to_dict(),
        "objective": fit.objective,
        "certificate": asdict(fit.certificate),
        "status": fit.status,
        "draws": fit.draws.to_dict(),
        "n_failed": fit.n_failed,
        "failures": [list(f) for f in fit.failures],
        "diagnostics": _diagnostics_to_dict(fit.diagnostics),
        "runs": runs_to_dict(fit.runs),
        "weights": fit.weights.tolist(),
        "scale": fit.scale.tolist(),
        "cluster": fit.cluster.tolist(),
        "settings": asdict(fit.settings),
    }
    return json_text(data)


def fit_from_json(text: str) -> ChinchillaFit:
    """Read what `fit_to_json` wrote.

    Raises
    ------
    DataError
        The text is no saved fit, or one of another format.
    """
    data = parse_json(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        seen = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise DataError(f"not a saved fit of this version: format {seen!r}, expected {FORMAT!r}")
    try:
        return _fit_from_dict(data)
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"not a saved fit: a part of it is missing or damaged ({type(error).__name__}: {error})"
        ) from error


def json_text(data: Any) -> str:
    """Return plain types as strict JSON: nan and infinities as objects, which `parse_json` reads."""
    return json.dumps(_strict(data), allow_nan=False)


def parse_json(text: str) -> Any:
    """Read what `json_text` wrote; `DataError` for what is no JSON."""
    try:
        return json.loads(text, object_hook=_loose)
    except json.JSONDecodeError as error:
        raise DataError(f"not a saved fit: {error}") from error


def _fit_from_dict(data: dict[str, Any]) -> ChinchillaFit:
    from scaling.result import ChinchillaFit

    runs = runs_from_dict(data["runs"])
    rows = {name: np.array(data[name], dtype=float) for name in ("weights", "scale", "cluster")}
    for name, values in rows.items():
        if values.shape != runs.params.shape or not np.isfinite(values).all():
            raise ValueError(f"{name} does not hold one number for each of {len(runs)} runs")
    certificate = dict(data["certificate"])
    if certificate["second_basin"] is not None:
        certificate["second_basin"] = tuple(certificate["second_basin"])
    fit = ChinchillaFit(
        law=ChinchillaLaw.from_dict(data["law"]),
        objective=data["objective"],
        certificate=Certificate(**certificate),
        status=data["status"],
        draws=ChinchillaLaw.from_dict(data["draws"]),
        n_failed=data["n_failed"],
        failures=tuple((why, count) for why, count in data["failures"]),
        diagnostics=_diagnostics_from_dict(data["diagnostics"]),
        runs=runs,
        weights=rows["weights"],
        scale=rows["scale"],
        cluster=rows["cluster"].astype(np.int64),
        settings=Settings(**data["settings"]),
    )
    _check_whole(fit)
    return fit


def _check_whole(fit: ChinchillaFit) -> None:
    """Raise `DataError` for a fit whose parts do not belong together, as after an edit by hand."""
    check_level(fit.settings.level)
    check_method(fit.settings.interval)
    coefficients = [np.asarray(getattr(fit.draws, name)) for name in COEFFICIENTS]
    if len({v.shape for v in coefficients}) != 1 or coefficients[0].ndim != 1:
        raise DataError("not a saved fit: the draws do not hold one value of each coefficient per refit")
    # Huber(z) = c z - c^2/2 with c the clipped residual: the objective that the fit minimised.
    z = fit.residuals * fit.scale
    c = np.clip(z, -fit.settings.delta, fit.settings.delta)
    objective = float(fit.weights @ (c * (z - c / 2)))
    if not math.isclose(objective, fit.objective, rel_tol=1e-6, abs_tol=1e-18 * len(z)):
        raise DataError(
            f"not a saved fit: its law has the objective {objective:.6g} on its runs, not {fit.objective:.6g}: "
            "the law, the runs or the settings were changed after the fit"
        )


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
    """Read what `runs_to_dict` wrote."""
    audit = dict(data["audit"])
    audit["columns"] = {name: tuple(pair) for name, pair in audit["columns"].items()}
    audit["dropped"] = tuple((row, why) for row, why in audit["dropped"])
    audit["unused"] = tuple(audit["unused"])
    audit["findings"] = tuple(Finding(**f) for f in audit["findings"])
    rest = {k: v for k, v in data.items() if k != "audit"}
    return RunTable.from_arrays(**rest, audit=Audit(**audit))


def _diagnostics_to_dict(d: Diagnostics) -> dict[str, Any]:
    out = {f.name: getattr(d, f.name) for f in fields(d)}
    out["identification"] = [f.to_dict() for f in d.identification]
    out["model"] = [f.to_dict() for f in d.model]
    if d.influence is not None:
        found = {f.name: getattr(d.influence, f.name) for f in fields(d.influence)}
        for name in ("without_highest_losses", "without_largest_residuals"):
            found[name] = found[name].to_dict()
        out["influence"] = found
    return out


def _diagnostics_from_dict(data: dict[str, Any]) -> Diagnostics:
    out = dict(data)
    out.pop("drift", None)  # of versions that stored it; the calibration is found again from the runs
    out["tokens_per_param"] = tuple(out["tokens_per_param"])
    for name in ("identification", "model"):
        out[name] = tuple(Finding(**f) for f in out[name])
    if out["influence"] is not None:
        found = dict(out["influence"])
        for name in ("without_highest_losses", "without_largest_residuals"):
            found[name] = ChinchillaLaw.from_dict(found[name])
        for name in ("rows", "positions"):
            found[name] = np.array(found[name], dtype=np.int64)
        found["change"] = np.array(found["change"], dtype=float)
        for name in ("highest_loss_rows", "largest_residual_rows"):
            found[name] = tuple(found[name])
        out["influence"] = Influence(**found)
    return Diagnostics(**out)


def _strict(value: Any) -> Any:
    """Return plain types without nan and infinities, which JSON does not know: {"float": "inf"}."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _loose(pairs: dict[str, Any]) -> Any:
    """Inverse of what `_strict` does to nan and infinities."""
    return float(pairs["float"]) if pairs.keys() == {"float"} else pairs
