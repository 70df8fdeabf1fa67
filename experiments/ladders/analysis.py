"""What the points of a ladder say: the law under the rule and under others, its tests, what the points cost."""

from __future__ import annotations

import csv
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from experiments.ladders.rules import OTHERS, RULE, Rule
from experiments.x1.law import fit_or_refusal, held_out, inside, load, noise, summary
from scaling import fit_coupled
from scaling.errors import NotIdentifiedError, ScalingError
from scaling.estimate import Estimate
from scaling.open_form.posterior import PUBLISHED
from scaling.result import ChinchillaFit
from scaling.runs import RunTable

N_BOOT = 2000
_N_BOOT_FORM = 500


def analyse(points: Path, truth: dict[str, Any] | None = None) -> tuple[dict[str, Any], ChinchillaFit | None]:
    """Fit the law to a ladder's points and put it to every test they allow.

    Parameters
    ----------
    points : pathlib.Path
        ``points.csv`` of a sweep.
    truth : dict, optional
        Of `known_law.truth`, where the end of the law is known.

    Returns
    -------
    dict
        Plain types, as ``law.json`` holds them.
    ChinchillaFit or None
        The law under the rule; None where the points do not determine one.
    """
    table = load(points)
    runs = table.select(RULE.rows(table))
    fit = fit_or_refusal(runs, N_BOOT)
    content: dict[str, Any] = {
        "rule": RULE.name, "rows": len(table), "rows_used": len(runs), "seeds": len(set(_column(points, "seed"))),
        "sizes": [_size(runs, n) for n in np.unique(runs.params)], **summary(fit, runs),
        "inside": inside(fit, runs), "held_out": held_out(runs, N_BOOT), "noise": noise(runs),
        "edges": edges(points), "larger": larger(points), "form": form(runs, truth), "bill": bill(points),
        "truth": None, "rules": [_under(rule, table, truth) for rule in (RULE, *OTHERS)],
    }  # fmt: skip
    if truth is not None:
        content["truth"] = truth | _recovered(fit, truth)
        content["open_form"] = _with_published_laws(fit, truth)
    return content, fit if isinstance(fit, ChinchillaFit) else None


def form(runs: RunTable, truth: dict[str, Any] | None) -> dict[str, Any]:
    """Put the form of the law to the test: the sum of its terms raised to a power k, which Hoffmann et al. have as 1.

    An interval covers what the runs leave uncertain, not the law being wrong. Where 1 lies outside the interval of k
    the runs speak against the form, and E, which is nothing but an extrapolation of it, is that of the wider law.

    Returns
    -------
    dict
        ``estimates`` of E and k, ``rejected``: whether 1 lies outside the interval of k; or ``why_not``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = fit_coupled(runs, n_boot=_N_BOOT_FORM)
        except ScalingError as error:
            return {"why_not": _first(error)}
        found = {name: fit.ci(name) for name in ("E", "k")}
    k, rms = found["k"], float(np.sqrt(np.mean(np.square(fit.residuals))))
    out: dict[str, Any] = {
        "why_not": "", "verdict": fit.verdict, "rms": rms, "rejected": not k.low <= 1.0 <= k.high,
        "estimates": {name: estimate.to_dict() for name, estimate in found.items()},
    }  # fmt: skip
    return out if truth is None else out | _held_by(found["E"], truth)


def _with_published_laws(fit: ChinchillaFit | Any, truth: dict[str, Any]) -> dict[str, Any] | None:
    """Return E with the form open under what published laws say, and the exponents it is told and the runs show."""
    if not isinstance(fit, ChinchillaFit):
        return None
    found, exponents = fit.open_form.ci("E"), (fit.law.alpha, fit.law.beta)
    return _held_by(found, truth) | {
        "E": found.to_dict(), "told": PUBLISHED.exponent, "shown": [float(x) for x in exponents],
    }  # fmt: skip


def edges(points: Path) -> list[str]:
    """Return the sizes whose best learning rate is the first or last of those tried: a better one may lie beyond."""
    pairs = dict(zip(_column(points, "size_name"), _column(points, "lr_rule"), strict=True))
    return [name for name, rule in pairs.items() if "edge of the grid" in rule]


def bill(points: Path) -> dict[str, float]:
    """Return seconds of one core, dollars and FLOP of the points: what shared trunks cost once."""
    seconds, usd = (sum(float(x or 0) for x in _column(points, name)) for name in ("wall_s", "usd"))
    tokens, params = (np.array(_column(points, name), float) for name in ("tokens", "params_total"))
    return {"core_hours": seconds / 3600, "usd": usd, "flops_separate": float(np.sum(6 * params * tokens))}


def larger(points: Path, factor: float = 2.0) -> dict[str, float]:
    """Return what the next larger size would take, on the largest one's budgets and seeds, at the pace of that.

    Returns
    -------
    dict
        ``params``, ``core_hours``, ``usd``. The pace in FLOP/s is taken as that of the largest size here.
    """
    params = np.array(_column(points, "params_total"), float)
    own = params == params.max()
    hours = sum(float(x or 0) for x, keep in zip(_column(points, "wall_s"), own, strict=True) if keep) / 3600
    usd = sum(float(x or 0) for x, keep in zip(_column(points, "usd"), own, strict=True) if keep)
    return {"params": factor * float(params.max()), "core_hours": factor * hours, "usd": factor * usd}


def _column(points: Path, name: str) -> list[str]:
    with points.open(encoding="utf-8", newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def _size(runs: RunTable, params: float) -> dict[str, float]:
    own = runs.params == params
    tokens = runs.tokens[own]
    return {
        "params": float(params), "rows": int(own.sum()), "best_loss": float(runs.loss[own].min()),
        "lowest": float(tokens.min()), "highest": float(tokens.max()),
    }  # fmt: skip


def _under(rule: Rule, table: RunTable, truth: dict[str, Any] | None) -> dict[str, Any]:
    """Fit under a rule; where that gives nothing, say why."""
    rows = rule.rows(table)
    out: dict[str, Any] = {"rule": rule.name, "rows": int(rows.sum()), "why_not": ""}
    try:
        fit = fit_or_refusal(table.select(rows), N_BOOT)
    except ScalingError as error:
        return out | {"why_not": _first(error)}
    if isinstance(fit, NotIdentifiedError):
        return out | {"why_not": _first(fit)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: fit.ci(name).to_dict() for name in ("E", "alpha", "beta", "params_exponent")}
    out |= {
        "form": form(table.select(rows), truth),
        "verdict": fit.verdict,
        "rms": float(np.sqrt(np.mean(np.square(fit.residuals)))),
        "estimates": found,
    }
    return out if truth is None else out | _recovered(fit, truth)


def _recovered(fit: ChinchillaFit | NotIdentifiedError, truth: dict[str, Any]) -> dict[str, Any]:
    """Say whether the interval of E holds the entropy, and how wide it is."""
    if isinstance(fit, NotIdentifiedError):
        return {"holds": False, "width": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _held_by(fit.ci("E"), truth)


def _held_by(e: Estimate, truth: dict[str, Any]) -> dict[str, Any]:
    holds = all(e.low <= truth[name] <= e.high for name in ("entropy", "reachable"))
    return {"holds": holds, "width": e.high - e.low, "off": e.value - truth["entropy"]}


def _first(error: Exception) -> str:
    """Return the first sentence of an error, for a cell of a table."""
    return re.split(r"[.:](?:\s|$)", str(error), maxsplit=1)[0]


def read(folder: Path) -> dict[str, Any]:
    """Return ``law.json`` of a ladder."""
    content: dict[str, Any] = json.loads((folder / "law.json").read_text(encoding="utf-8"))
    return content
