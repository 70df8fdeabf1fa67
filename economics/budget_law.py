"""What a fitted law may be asked for when money is turned into a run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from economics.run_result import RunCost
from scaling.findings import Finding

if TYPE_CHECKING:
    from scaling import ChinchillaFit, ChinchillaLaw


def require_optimum(fit: ChinchillaFit, run: RunCost) -> None:
    """Raise unless the runs behind a fit determine the best size for the compute of a run.

    Raises
    ------
    NotIdentifiedError
        As `ChinchillaFit.optimal`: a size that the runs do not determine is no answer to how money is best spent.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # distance is a finding of the plan
        fit.optimal(6.0 * run.plan.params * run.plan.tokens)


def law_findings(run: RunCost, law: ChinchillaLaw | None, fit: ChinchillaFit | None) -> list[Finding]:
    """Return what speaks against the predicted loss: the verdict on the law, its distance, mixtures."""
    found: list[Finding] = []
    if fit is not None:
        from scaling.diagnose import extrapolation

        if fit.verdict == "not identified":
            words = (
                "the runs behind the law do not identify it, so the loss here is no prediction: "
                f"{next(f for f in fit.diagnostics.identification if f.severity == 'error').message}"
            )
            found.append(Finding("law_not_identified", "error", words, {"verdict": fit.verdict}))
        away = extrapolation(fit.runs, 6.0 * run.plan.params * run.plan.tokens)
        if away > 0:
            words = f"the run lies {away:.1f} decades of compute beyond the runs the law was fitted to."
            found.append(
                Finding("extrapolation", "warning" if away > 1 else "info", words, {"decades": away})
            )
    if law is not None and run.plan.active != run.plan.params:
        words = "the law is asked for all parameters of a mixture; it knows dense models."
        found.append(Finding("law_of_dense_models", "warning", words, {}))
    return found
