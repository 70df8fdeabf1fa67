"""Fits of laws other than the main one for the command line: ``scaling fit --law NAME``."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scaling.cli.options import Fitting, Reading, given
from scaling.cli.source import Input, read_table
from scaling.errors import DataError

if TYPE_CHECKING:
    from scaling.law_fit import LawFit

#: In the text of a saved fit, which may be damaged.
_LAW_FORMAT = re.compile(r'"format"\s*:\s*"isoflop-fit-law')


def read_law_fit(data: Input, reading: Reading, fitting: Fitting, law: str | None) -> LawFit:
    """Return a saved fit of a law, or the fit of a table.

    Raises
    ------
    DataError
        The input is no table and no such fit, or options were given that have no use.
    NotIdentifiedError
        The table determines no law.
    """
    from scaling.json_parts import from_text
    from scaling.law_fit import LawFit
    from scaling.law_names import fit_law, named_law

    text = data.saved_fit
    if text is not None:
        idle = {**given(reading), **given(fitting)} | ({} if law is None else {"law": law})
        if idle:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
            raise DataError(
                f"{data.name} is a saved fit, which {flags} cannot change: give the table instead",
                source=data.name,
                column=next(iter(idle)),
            )
        return from_text(LawFit.from_json, text, data.name)
    assert law is not None
    named_law(law)
    chosen = given(fitting)
    for name in ("weights", "sigma"):
        if name in chosen:
            raise DataError(f"the law {law!r} has no option --{name}", column=name)
    options = {name: value for name, value in fitting.keywords().items() if name in chosen}
    fit = fit_law(law, read_table(data, reading), **options)
    assert isinstance(fit, LawFit)
    return fit


def is_law_fit(data: Input) -> bool:
    """Tell whether an input is a saved fit of a law other than the main one."""
    text = data.saved_fit
    return text is not None and _LAW_FORMAT.search(text) is not None


def law_document(fit: LawFit) -> dict[str, Any]:
    """Return what a program wants to know of a fit; the draws are in a saved one."""
    return {
        "source": fit.runs.source,
        "n_runs": fit.n_runs,
        "name": fit.name,
        "variables": fit.variables,
        "verdict": fit.verdict,
        "law": {name: getattr(fit.law, name) for name in fit.law.COEFFICIENTS},
        "coefficients": {name: fit.ci(name) for name in fit.law.COEFFICIENTS},
        "fixed": fit.fixed,
        "objective": fit.objective,
        "condition_number": fit.condition_number,
        "certificate": asdict(fit.certificate),
        "n_failed": fit.n_failed,
        "findings": fit.findings,
    }
