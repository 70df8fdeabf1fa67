"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Ladder = Annotated[str, typer.Argument(metavar="LADDER", help="A ladder file (TOML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help="Settings of \\[common] to replace, such as train_data=..."
    ),
]
Out = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Where runs and points go, in place of the file's out.")
]
Jobs = Annotated[int, typer.Option(min=1, metavar="N", help="Worker processes, each of one thread.")]
