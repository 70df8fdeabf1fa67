"""What the points say: the law, its verdict, and the compute-optimal tokens at 1B, published and own runs alike.

Nothing here decides what is said: verdicts, refusals and their words are those of `scaling.report`.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import scaling.datasets as datasets
from experiments.x1.stages import file_hash, write_json
from scaling import fit_chinchilla, load_runs
from scaling.cli.output import as_options
from scaling.errors import NotIdentifiedError, ScalingError
from scaling.report import Origin, build_report
from scaling.report.answer import Answer, answer, refused
from scaling.report.outlook import next_runs
from scaling.report.remedies import remedies
from scaling.report.tables import coefficients
from scaling.report.words import can_tell, cannot_tell
from scaling.result import ChinchillaFit
from scaling.runs import RunTable
from scaling.storage import write_atomically

#: The size that is asked about.
PARAMS = 1e9


def timeless(points: bytes, times: Collection[str]) -> bytes:
    """Return a points table without the columns that hold times: what the law is fitted to."""
    rows = list(csv.DictReader(io.StringIO(points.decode("utf-8"))))
    names = [name for name in rows[0] if name not in times]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[row[name] for name in names] for row in rows])
    return text.getvalue().encode("utf-8")


def fit_or_refusal(runs: RunTable, n_boot: int) -> ChinchillaFit | NotIdentifiedError:
    """Fit the law, clusters resampled where rows share a trunk; or return why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # everything they say is on the page
        try:
            return fit_chinchilla(runs, n_boot=n_boot)
        except NotIdentifiedError as error:
            return error


def load(path: str | Path) -> RunTable:
    """Read a table of runs; doubts about it are in its audit, and of its path the name alone: a fit holds no folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = load_runs(path)
    name = Path(path).name
    return replace(table, source=name, audit=replace(table.audit, source=name))


def summary(
    fit: ChinchillaFit | NotIdentifiedError, runs: RunTable, params: float = PARAMS
) -> dict[str, Any]:
    """Return what a table says of a size, as plain types: every word follows the fit's verdict."""
    head = refused(fit, runs, params) if isinstance(fit, NotIdentifiedError) else answer(fit, params)
    out: dict[str, Any] = {
        "runs": len(runs), "source": runs.source, "verdict": head.verdict, "usable": head.usable,
        "chip": head.chip, "headline": head.headline, "interval": head.interval,
        "sentences": [as_options(text) for text in head.sentences],
        "decades_outside": head.decades_outside if np.isfinite(head.decades_outside) else None,
        "tokens": head.tokens.to_dict() if head.usable and head.tokens is not None else None,
        "params_kind": runs.params_kind, "loss_unit": runs.loss_unit,
        "compute": [float(runs.compute.min()), float(runs.compute.max())], "law": None, "can": [], "cannot": [],
        "remedies": [], "next_runs": "", "coefficients": None, "partial": "",
    }  # fmt: skip
    if isinstance(fit, NotIdentifiedError):
        out["remedies"] = [
            {"title": "What would identify it", "text": as_options(fit.remedy or ""), "severity": "info"}
        ]
        return out
    return out | _fitted(fit, head)


def _fitted(fit: ChinchillaFit, head: Answer) -> dict[str, Any]:
    spelled = [
        [{**asdict(s), "text": as_options(s.text)} for s in part]
        for part in (can_tell(fit, head), cannot_tell(fit, head), remedies(fit, head))
    ]
    return {
        "law": fit.law.to_dict(), "can": spelled[0], "cannot": spelled[1], "remedies": spelled[2],
        "next_runs": as_options(next_runs(fit, head)), "coefficients": asdict(coefficients(fit)),
        "estimates": {name: fit.ci(name).to_dict() for name in ("E", "alpha", "beta")},
        "resampled": fit.settings.n_clusters, "cluster_key": fit.settings.cluster_key, "n_boot": fit.settings.n_boot,
        "rms": float(np.sqrt(np.mean(np.square(fit.residuals)))),
    }  # fmt: skip


def inside(fit: ChinchillaFit | NotIdentifiedError, runs: RunTable) -> list[dict[str, Any]]:
    """Return, for each size, its optimal tokens by the law and whether they lie among the budgets trained."""
    if isinstance(fit, NotIdentifiedError):
        return []
    out = []
    for size in np.unique(runs.params):
        own = runs.tokens[runs.params == size]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = fit.tokens_at(float(size), unidentified="return")
        out.append({
            "params": float(size), "tokens": best.to_dict(), "lowest": float(own.min()), "highest": float(own.max()),
            "inside": bool(own.min() <= best.value <= own.max()),
        })  # fmt: skip
    return out


def held_out(runs: RunTable, n_boot: int) -> dict[str, Any]:
    """Fit without the largest size, and say how it predicts that: the test of an extrapolation that can be made."""
    largest = runs.params == runs.params.max()
    out: dict[str, Any] = {"params": float(runs.params.max()), "points": int(largest.sum()), "why_not": ""}
    try:
        fit = fit_or_refusal(runs.select(~largest), n_boot)
    except ScalingError as error:
        return out | {"why_not": str(error)}
    if isinstance(fit, NotIdentifiedError):
        return out | {"why_not": as_options(str(fit))}
    rows = []
    for tokens in np.unique(runs.tokens[largest]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = fit.predict(float(runs.params.max()), float(tokens)).prediction
        losses = runs.loss[largest & (runs.tokens == tokens)]
        rows += [
            {"tokens": float(tokens), "loss": float(loss), "predicted": said.value, "low": said.low, "high": said.high,
             "inside": bool(said.low <= loss <= said.high)}
            for loss in losses
        ]  # fmt: skip
    errors = np.log([r["loss"] for r in rows]) - np.log([r["predicted"] for r in rows])
    return out | {"verdict": fit.verdict, "rows": rows, "inside": sum(r["inside"] for r in rows),
                  "largest_error": float(np.abs(errors).max())}  # fmt: skip


def noise(runs: RunTable) -> dict[str, Any]:
    """Return the run-to-run noise that the seeds show, relative to the loss; nothing where there is one seed."""
    if runs.sigma is None or not np.isfinite(runs.sigma).any():
        return {"sigma": None}
    relative = runs.sigma / runs.loss
    return {"sigma": float(np.nanmedian(relative)), "weighted": bool(np.isfinite(runs.sigma).all())}


def build(out: Path, n_boot: int, pages: bool) -> list[Path]:
    """Fit the published and the own points; return ``law.json``, the fits, and a page of its own for each table.

    Parameters
    ----------
    out : pathlib.Path
        Has ``points.csv``, unless nothing could be trained here.
    n_boot : int
        Bootstrap refits.
    pages : bool
        Whether to make the detailed pages and figures.
    """
    published, origin = _shipped("hoffmann2022")
    fit = fit_or_refusal(published, n_boot)
    content: dict[str, Any] = {"params": PARAMS, "published": summary(fit, published), "own": None}
    assert origin.dataset is not None
    about = {name: getattr(origin.dataset, name) for name in ("name", "source", "licence")}
    content["published"]["dataset"] = about
    files = _save(fit, published, out, "hoffmann2022", origin, pages)
    if (out / "points.csv").exists():
        times = json.loads((out / "points.json").read_text(encoding="utf-8"))["times"]
        write_atomically(out / "runs.csv", timeless((out / "points.csv").read_bytes(), times))
        own = load(out / "runs.csv")
        own_fit = fit_or_refusal(own, n_boot)
        content["own"] = summary(own_fit, own) | {
            "inside": inside(own_fit, own), "held_out": held_out(own, n_boot), "noise": noise(own),
            "lowest_loss": float(own.loss.min()), "lowest_bits": float(own.loss.min() / np.log(2)),
        }  # fmt: skip
        command = "scaling report runs.csv --out report.html"
        files += [
            out / "runs.csv",
            *_save(own_fit, own, out, "own-runs", Origin(file_hash(out / "runs.csv"), command), pages),
        ]
    if pages:
        runs, origin = _shipped("cpu_sweep")
        files += _save(fit_or_refusal(runs, n_boot), runs, out, "cpu_sweep", origin, pages)
    return [write_json(out / "law.json", content), *files]


def _shipped(name: str) -> tuple[RunTable, Origin]:
    """Return a table that ships, and where it comes from."""
    path = Path(datasets.builtin(name))
    command = f"scaling report --builtin {name} --out report.html"
    return load(path), Origin(file_hash(path), command, datasets.info(name))


def _save(
    fit: ChinchillaFit | NotIdentifiedError, runs: RunTable, out: Path, stem: str, origin: Origin, pages: bool
) -> list[Path]:  # fmt: skip
    """Write the fit, its figures and its page."""
    from scaling.plots import save

    files: list[Path] = []
    if isinstance(fit, ChinchillaFit):
        for kind in ("curves", "tokens") if pages else ():
            files += save(fit, kind, out / f"{stem}-{kind}.png", dpi=110)
    if pages:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = build_report(fit, runs=runs, params=PARAMS, origin=origin, spelling=as_options)
        files += report.save(out / f"{stem}.html")
    elif isinstance(fit, ChinchillaFit):
        fit.save(out / f"{stem}.fit.json")
        files.append(out / f"{stem}.fit.json")
    return files


def verdict_words(own: Mapping[str, Any] | None) -> str:
    """Say in one sentence what the own points are good for."""
    if own is None:
        return "No points were made here, so the published ones stand alone."
    if own["usable"] and own["tokens"] is not None:
        return "The points made here determine it too."
    if own["verdict"] == "not identified":
        return "The points made here do not determine a law, so nothing is read off them for this size."
    how = "only loosely " if own["verdict"] == "weak" else ""
    return f"The points made here determine a law {how}among themselves, and nothing about this size is read off them."
