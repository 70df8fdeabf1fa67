"""The command line put together: commands and their help."""

from __future__ import annotations

from typing import Annotated

import typer

from reference_trainer.cli import plan, sweep, train
from scaling.cli.group import Commands
from scaling.cli.output import say

_HELP = (
    "Train language models whose points can be trusted: one run, or a ladder of them for a scaling law.\n\n"
    "A ladder is a TOML file of sizes, token budgets and seeds; `plan` says what it takes, `sweep` makes the points."
)
_EPILOG = (
    "Exit codes: 0 fine; 1 a negative verdict (a run failed, a plan does not fit its cap); 2 bad input; 3 a fault of "
    "the program; 75 stopped at the cap, to be started again with a higher one; 130 and 143 stopped by a signal, to be "
    "started again."
)


class Trainer(Commands):
    """The group. Names in messages are keys of files here, and no options."""

    spelling = staticmethod(str)


app = typer.Typer(
    name="reference_trainer",
    cls=Trainer,
    help=_HELP,
    epilog=_EPILOG,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        import scaling

        say(f"isoflop {scaling.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


for _command in (plan.plan, sweep.sweep, train.train):
    app.command()(_command)
