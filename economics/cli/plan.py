"""``economics check-plan``: a plan against itself."""

from __future__ import annotations

from typing import Annotated

import typer

from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Json
from scaling.cli.output import say, say_json


def check_plan(
    file: Annotated[str, typer.Argument(metavar="PLAN", help="A TOML file, or '-' for standard input.")],
    as_json: Json = False,
) -> int:
    """Find what contradicts itself in the plan of a run; exit code 1 if anything does, or nothing could be checked.

    Tokens, hours and speed; size and shape; steps and minutes; lines and their sum; prices, preemptions, the
    sweep: each is computed from the others, and every disagreement shown with its arithmetic.
    """
    from economics.plan_check import check_plan as check
    from economics.plan_reading import read_plan_text

    if file == "-":
        import sys

        result = check(read_plan_text(sys.stdin.read(), "standard input"))
    else:
        result = check(file)
    if as_json:
        say_json(result)
    else:
        say(str(result))
    return FINE if result.passed else NEGATIVE
