"""The command group that the programs share: help when called bare, errors as words and exit codes."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scaling.cli import failures
from scaling.cli.output import as_options, finish, never_stumble, say


class Commands(TyperGroup):
    """A program of several commands, called by the name of its ``Typer``."""

    #: How Python names in messages are written for someone at a command line.
    spelling: Callable[[str], str] = staticmethod(as_options)

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
            return main(words, prog_name or self.name, complete_var, standalone_mode=False, **extra)

        code = failures.run(command, as_json="--json" in words, spelling=self.spelling)
        finish()
        if standalone_mode:
            sys.exit(code)
        return code


def program(name: str, help: str, epilog: str, group: type[Commands] = Commands) -> typer.Typer:
    """Return a program without commands yet: its help, ``--version``, and errors as words and exit codes."""
    app = typer.Typer(
        name=name, cls=group, help=help, epilog=epilog, add_completion=True, rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )  # fmt: skip

    def show(value: bool) -> None:
        if value:
            import scaling

            say(f"isoflop {scaling.__version__}")
            raise typer.Exit

    @app.callback()
    def _root(
        version: Annotated[
            bool, typer.Option("--version", callback=show, is_eager=True, help="Show the version.")
        ] = False,
    ) -> None:
        pass

    return app
