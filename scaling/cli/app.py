"""The command line put together: commands, their help, and the one place where errors end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scaling.cli import audit, datasets, failures, fit, isoflop, plot, predict, report
from scaling.cli.output import never_stumble, say

_HELP = (
    "From a table of training runs to the compute-optimal parameters and tokens, with honest intervals.\n\n"
    "A table is CSV, TSV, Parquet, JSON or JSON lines with columns for parameters, tokens and loss, named as "
    "people name them; '-' reads it from standard input."
)
_EPILOG = (
    'Every command takes --json; there, null is no number and "Infinity" an open end. '
    "Exit codes: 0 fine; 1 the runs do not determine what was asked (what they do is shown); 2 bad input; "
    "3 a fault of the program."
)


class Scaling(TyperGroup):
    """The command group: shows the help when called bare, and turns errors into words and exit codes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command; the exit code is returned instead of raised unless `standalone_mode`."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        main = super().main
        never_stumble()

        def command() -> Any:
            return main(words, prog_name or "scaling", complete_var, standalone_mode=False, **extra)

        code = failures.run(command, as_json="--json" in words)
        if standalone_mode:
            sys.exit(code)
        return code


app = typer.Typer(
    cls=Scaling,
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


for _command in (fit.fit, predict.predict, audit.audit, plot.plot, report.report, isoflop.isoflop):
    app.command()(_command)
app.add_typer(datasets.app, name="datasets")
