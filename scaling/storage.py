"""Fits on disk: JSON at full precision, written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.diagnose import Diagnostics
from scaling.errors import DataError
from scaling.influence import Influence
from scaling.intervals import check_level, check_method
from scaling.json_parts import (
    as_path,
    finite,
    json_text,
    listed,
    number,
    numbers,
    parse_json,
    part,
    record,
    whole,
    whole_numbers,
    word,
)
from scaling.laws.chinchilla import COEFFICIENTS, ChinchillaLaw
from scaling.settings import Settings
from scaling.stored_parts import (
    FORMAT,
    certificate_from,
    check_format,
    check_objective,
    coefficients_from,
    draws_from,
    finding_from,
    runs_from_dict,
    runs_to_dict,
)

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit


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
    DataError
        `path` is no path.
    OSError
        When the disk is full or the folder is missing; the old file, if any, is then untouched. Its
        ``filename`` is `path`.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    as_path(path)
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
        The text is no saved fit, one of another law or format, or a part of it is missing or damaged.
    """
    data = parse_json(text)
    check_format(data, FORMAT)
    return _fit_from_dict(data)


def _fit_from_dict(data: dict[str, Any]) -> ChinchillaFit:
    from scaling.result import ChinchillaFit

    runs = part(data, "runs", runs_from_dict)

    def per_run(value: Any) -> Any:
        out = numbers(value)
        if out.shape != runs.params.shape or not np.isfinite(out).all():
            raise DataError(f"it must hold one number for each of {len(runs)} runs")
        return out

    fit = ChinchillaFit(
        law=part(data, "law", lambda v: ChinchillaLaw(**coefficients_from(v, COEFFICIENTS, "law", number))),
        objective=part(data, "objective", finite),
        certificate=part(data, "certificate", certificate_from),
        status=part(data, "status", word),  # type: ignore[arg-type]
        draws=part(data, "draws", lambda v: ChinchillaLaw(**draws_from(v, COEFFICIENTS))),
        n_failed=part(data, "n_failed", whole),
        failures=part(data, "failures", lambda value: tuple((why, count) for why, count in value)),
        diagnostics=part(data, "diagnostics", _diagnostics_from_dict),
        runs=runs,
        weights=part(data, "weights", per_run),
        scale=part(data, "scale", per_run),
        cluster=part(data, "cluster", lambda value: whole_numbers(value, len(runs))),
        settings=part(data, "settings", lambda value: record(Settings, value, "settings", _SETTINGS)),
    )
    check_objective(fit.residuals * fit.scale, fit.weights, fit.settings.delta, fit.objective)
    return fit


_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "delta": finite,
    "resample": word,
    "cluster_key": word,
    "n_clusters": whole,
    "n_boot": whole,
    "seed": whole,
    "level": check_level,
    "interval": check_method,
    "fixed": lambda value: {str(name): finite(v) for name, v in value.items()},
}


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
        out[name] = part(data, name, listed(finding_from, f"diagnostics.{name}"), "diagnostics")
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
