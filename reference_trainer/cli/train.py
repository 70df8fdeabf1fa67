"""``reference_trainer train``: one run."""

from __future__ import annotations

from typing import Annotated

import typer

from scaling.cli.output import note

#: Stopped at the cap; as `reference_trainer.train.EXIT` has it.
BUDGET = 75


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A training configuration (TOML).")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to replace, such as lr=3e-3."),
    ] = None,
) -> int:
    """Make one run, or go on with it: the same as python -m reference_trainer.train."""
    from economics.budget import BudgetExceeded
    from reference_trainer.train import main

    try:
        return main([config, *(overrides or [])])
    except BudgetExceeded as error:
        note(f"error: {error}", "red")
        return BUDGET
