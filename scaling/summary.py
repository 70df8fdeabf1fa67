"""A fitted law in words: the block a REPL shows and its HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from scaling.errors import NotIdentifiedError
from scaling.estimate import Estimate
from scaling.units import format_count

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

#: The question the package exists for.
HEADLINE_PARAMS = 1e9

_MARK = {"error": "x", "warning": "!", "info": "-"}


def headline(fit: ChinchillaFit, params: float = HEADLINE_PARAMS) -> tuple[str, Estimate | None]:
    """Return D*(params) in words, and as an estimate where the data determine it."""
    import warnings

    what = f"compute-optimal tokens at {format_count(params)} parameters"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = fit.tokens_at(params)
    except NotIdentifiedError as error:
        return f"{what}: {error}", None
    from scaling.diagnose import extrapolation

    away = extrapolation(fit.runs, 6 * params * answer.value)
    far = f"; {away:.1f} decades of compute beyond the runs" if away else "; inside the range of the runs"
    return f"{what}: {answer}{far}", answer


def text(fit: ChinchillaFit) -> str:
    """Return the fit as one readable block."""
    s, d = fit.settings, fit.diagnostics
    runs = fit.runs
    lines = [
        f"Chinchilla law L = E + A/N^alpha + B/D^beta{' (alpha = beta)' if s.tied else ''}, {fit.n_runs} runs"
        f"{f' of {runs.source}' if runs.source != 'arrays' else ''}",
        f"  verdict    {fit.verdict}{_but(fit)}",
    ]
    for name in ("E", "A", "B", "alpha", "beta"):
        held = "  (held)" if name in s.fixed else ""
        lines.append(f"  {name:<10} {_coefficient(fit.ci(name))}{held}")
    lines.append(f"  N* ~ C^a   {_coefficient(fit.ci('params_exponent'))}")
    words, _ = headline(fit)
    lines.append(f"  {words}")
    lines.append(f"  {_how(fit)}")
    lines.append(
        f"  objective {fit.objective:.6g}, {fit.status}; {fit.certificate.share_at_best:.0%} of "
        f"{fit.certificate.n_starts} starts ended at this minimum; condition number {d.condition_number:.2g}"
    )
    unit = "" if runs.loss_unit == "unstated" else f", loss in {runs.loss_unit}"
    kind = {"unstated": "as the table counts it (not stated)", "total": "total parameters"}.get(
        runs.params_kind, f"{runs.params_kind.replace('_', '-')} parameters"
    )
    lines.append(f"  N is {kind}{unit}")
    findings = [*d.findings, *(f for f in runs.audit.findings if f.severity != "info")]
    lines += [f"  {_MARK[f.severity]} {f.message}" for f in findings]
    if d.remedy:
        lines.append(f"  > {d.remedy}")
    return "\n".join(lines)


def _but(fit: ChinchillaFit) -> str:
    """Say in the line of the verdict when the law is determined but the runs speak against it."""
    doubts = [f for f in fit.diagnostics.model if f.severity == "warning"]
    if not doubts or fit.verdict == "not identified":
        return ""
    return f", but {len(doubts)} finding{'s' * (len(doubts) > 1)} below speak{'s' * (len(doubts) == 1)} against the law"


def correlations(fit: ChinchillaFit) -> dict[str, float]:
    """Return the larger correlations of the draws (above 0.5 in size), by pair of coefficients."""
    draws = fit.draws
    if np.asarray(draws.E).size < 2:
        return {}
    columns = {
        "E": draws.E,
        "log A": np.log(draws.A),
        "alpha": draws.alpha,
        "log B": np.log(draws.B),
        "beta": draws.beta,
    }
    names = [name for name, v in columns.items() if np.std(v) > 0]
    matrix = np.corrcoef([columns[name] for name in names]) if len(names) > 1 else np.eye(1)
    pairs = {
        f"{a}, {b}": float(matrix[i, j])
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j and abs(matrix[i, j]) > 0.5
    }
    return dict(sorted(pairs.items(), key=lambda item: -abs(item[1])))


def html(fit: ChinchillaFit) -> str:
    """Return the same block as HTML for a notebook."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{e.value:.6g}</td><td>{e.low:.6g}</td><td>{e.high:.6g}</td></tr>"
        for name, e in ((n, fit.ci(n)) for n in ("E", "A", "B", "alpha", "beta", "params_exponent"))
    )
    words, _ = headline(fit)
    notes = "".join(f"<li>{escape(str(f))}</li>" for f in fit.diagnostics.findings)
    level = f"{100 * fit.settings.level:g}%"
    return (
        f"<p>Chinchilla law, {fit.n_runs} runs, verdict <b>{escape(fit.verdict)}</b></p>"
        f"<table><thead><tr><th></th><th>value</th><th>{level} low</th><th>{level} high</th></tr></thead>"
        f"<tbody>{rows}</tbody></table><p>{escape(words)}</p>" + (f"<ul>{notes}</ul>" if notes else "")
    )


def _coefficient(estimate: Estimate) -> str:
    return estimate.format(lambda x: f"{x:.5g}")


def _how(fit: ChinchillaFit) -> str:
    """Say what the intervals rest on."""
    s = fit.settings
    if s.resample == "none":
        return "no intervals: no bootstrap was made"
    unit = {"row": "rows", "groups": "groups of rows", "model_size": "model sizes"}.get(s.cluster_key)
    unit = unit or f"{s.cluster_key} clusters"
    drawn = {"pairs": "resampled", "cluster": "resampled", "wild": "with residual signs flipped"}[s.resample]
    failed = f", {fit.n_failed} failed" if fit.n_failed else ""
    return (
        f"{100 * s.level:g}% {s.interval} intervals from {s.n_boot} bootstrap refits over {s.n_clusters} {unit} "
        f"{drawn} (seed {s.seed}){failed}"
    )
