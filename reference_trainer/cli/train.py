"""``reference_trainer train``: one run."""

from __future__ import annotations

from typing import Annotated

import typer


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A training configuration (TOML).")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to replace, such as lr=3e-3."),
    ] = None,
) -> int:
    """Make one run, or go on with it: the same as python -m reference_trainer.train."""
    from reference_trainer.train import main

    return main([config, *(overrides or [])])
