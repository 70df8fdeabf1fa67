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
from scaling.errors import NotIdentifiedError, ScalingError
from scaling.result import ChinchillaFit
from scaling.runs import RunTable

N_BOOT = 2000


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
        "bill": bill(points), "rules": [_under(rule, table, truth) for rule in (RULE, *OTHERS)], "truth": None,
    }  # fmt: skip
    if truth is not None:
        content["truth"] = truth | _recovered(fit, truth)
    return content, fit if isinstance(fit, ChinchillaFit) else None


def bill(points: Path) -> dict[str, float]:
    """Return seconds of one core, dollars and FLOP of the points: what shared trunks cost once."""
    seconds, usd = (sum(float(x or 0) for x in _column(points, name)) for name in ("wall_s", "usd"))
    tokens, params = (np.array(_column(points, name), float) for name in ("tokens", "params_total"))
    return {"core_hours": seconds / 3600, "usd": usd, "flops_separate": float(np.sum(6 * params * tokens))}


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
        return out | {"why_not": str(error).partition("\n")[0]}
    if isinstance(fit, NotIdentifiedError):
        return out | {"why_not": re.split(r"[.:] ", str(fit), maxsplit=1)[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: fit.ci(name).to_dict() for name in ("E", "alpha", "beta", "params_exponent")}
    out |= {
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
        e = fit.ci("E")
    return {
        "holds": all(e.low <= truth[name] <= e.high for name in ("entropy", "reachable")), "width": e.high - e.low,
        "off": e.value - truth["entropy"],
    }  # fmt: skip


def read(folder: Path) -> dict[str, Any]:
    """Return ``law.json`` of a ladder."""
    content: dict[str, Any] = json.loads((folder / "law.json").read_text(encoding="utf-8"))
    return content
