"""``scaling fit``: the law, its intervals, the verdict."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.files import outputs, write
from scaling.cli.law import is_law_fit, law_document, read_law_fit
from scaling.cli.options import Builtin, Fitting, Json, Reading, takes_groups
from scaling.cli.output import as_options, note, say, say_json, warnings_told
from scaling.cli.source import open_input, read_fit
from scaling.errors import IdentificationWarning

if TYPE_CHECKING:
    from scaling.law_fit import LawFit
    from scaling.result import ChinchillaFit

Source = Annotated[
    str | None,
    typer.Argument(metavar="TABLE|FIT", help="A table of runs, a saved fit, or '-' for standard input."),
]


@takes_groups
def fit(
    reading: Reading,
    fitting: Fitting,
    source: Source = None,
    builtin: Builtin = None,
    law: Annotated[
        str | None,
        typer.Option(
            help="Another law: coupled, data-constrained, kaplan, overtraining, power or repetition-penalty.",
            metavar="NAME",
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the fit here, for the other commands.")] = None,
    as_json: Json = False,
) -> int:
    """Fit L(N, D) = E + A/N^alpha + B/D^beta, or another law, and say what the runs determine."""
    if save is not None:
        outputs([save], source)
    with warnings_told(*(() if as_json else (IdentificationWarning,))):
        data = open_input(source, builtin)
        if law in (None, "chinchilla") and not is_law_fit(data):
            result: ChinchillaFit | LawFit = read_fit(data, reading, fitting)
        else:
            result = read_law_fit(data, reading, fitting, law)
    if save is not None:
        write(save, result.to_json())
        note(f"saved {save}")
    if as_json:
        from scaling.law_fit import LawFit

        say_json(law_document(result) if isinstance(result, LawFit) else fit_document(result))
    else:
        say(as_options(result.summary()))
    return verdict_code(result)


def verdict_code(fit: ChinchillaFit | LawFit) -> int:
    """Return the exit code of a fit: negative where the data do not determine the law."""
    return NEGATIVE if fit.verdict == "not identified" else FINE


def fit_document(fit: ChinchillaFit) -> dict[str, Any]:
    """Return what a program wants to know of a fit; the draws are in a saved one."""
    from scaling.summary import HEADLINE_PARAMS, correlations, headline

    words, answer = headline(fit)
    d = fit.diagnostics
    names = (*fit.law.to_dict(), "params_exponent", "tokens_exponent")
    return {
        "source": fit.runs.source,
        "n_runs": fit.n_runs,
        "verdict": fit.verdict,
        "status": fit.status,
        "headline": {"params": HEADLINE_PARAMS, "tokens": answer, "text": words},
        "law": fit.law,
        "coefficients": {name: fit.ci(name) for name in names},
        "correlations": correlations(fit),
        "objective": fit.objective,
        "certificate": asdict(fit.certificate),
        "n_failed": fit.n_failed,
        "findings": d.findings,
        "remedy": d.remedy,
        "diagnostics": {
            "condition_number": d.condition_number,
            "correlation": d.correlation,
            "tokens_per_param": d.tokens_per_param,
            "decades": d.decades,
            "n_sizes": d.n_sizes,
            "n_budgets": d.n_budgets,
            "e_zero_share": d.e_zero_share,
        },
        "runs": {
            "loss_unit": fit.runs.loss_unit,
            "loss_kind": fit.runs.loss_kind,
            "params_kind": fit.runs.params_kind,
        },
        "settings": asdict(fit.settings),
        "audit": fit.audit,
    }
