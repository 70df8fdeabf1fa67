"""What a plan should be doubted for before it is paid: rates, seeds, sizes, repeated data."""

from __future__ import annotations

from reference_trainer.ladder import Plan
from scaling.findings import Finding, Severity
from scaling.units import format_count

#: Repeated data are nearly as good as new up to here (Muennighoff et al. 2023, arXiv 2305.16264).
_EPOCHS = 4.0
#: Fewest sizes and budgets from which a law of five coefficients can be told.
_LEAST = 3


def findings(plan: Plan) -> tuple[Finding, ...]:
    """Return what to know before a ladder is run."""
    out = []
    alike = [size.name for size in plan.sizes if size.lr_rule == "the same for all sizes"]
    if len(alike) > 1:
        out.append(
            Finding(
                "lr_not_tuned",
                "warning",
                f"one learning rate for {', '.join(alike)}: rates that are not tuned move a fitted exponent from .5 "
                "to .8; give a lr_grid for each size, or mup = true.",
                {"sizes": alike},
            )
        )
    if len(plan.file.seeds) < 2:
        out.append(
            Finding(
                "one_seed",
                "warning",
                "one seed: the run-to-run noise of the points stays unknown (no sigma); two or more give it.",
            )
        )
    budgets = {steps for size in plan.sizes for steps in size.steps}
    if len(plan.sizes) < _LEAST or len(budgets) < _LEAST:
        out.append(
            Finding(
                "small_grid",
                "warning",
                f"{len(plan.sizes)} sizes and {len(budgets)} budgets: a law needs {_LEAST} of each or more to be told "
                "from another.",
                {"sizes": len(plan.sizes), "budgets": len(budgets)},
            )
        )
    most = max(run.tokens for run in plan.runs)
    epochs = most / plan.data.tokens
    if epochs > 1:
        severity: Severity = "warning" if epochs > _EPOCHS else "info"
        out.append(
            Finding(
                "repeated_data",
                severity,
                f"the longest run sees {format_count(most)} tokens of {format_count(plan.data.tokens)}: {epochs:.2g} "
                f"epochs{'; beyond 4 repeated tokens are worth less' if epochs > _EPOCHS else ''}.",
                {"epochs": epochs},
            )
        )
    return tuple(out)
