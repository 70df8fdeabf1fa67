"""``scaling isoflop``: the best size of each compute budget, and the power laws through them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scaling.cli.audit import Table
from scaling.cli.failures import FINE
from scaling.cli.options import Builtin, Json, Reading, takes_groups
from scaling.cli.output import as_options, say, say_json, warnings_told
from scaling.cli.source import open_input, read_table
from scaling.errors import DataError

_PANEL = "How to analyse"


@takes_groups
def isoflop(
    reading: Reading,
    source: Table = None,
    builtin: Builtin = None,
    at: Annotated[
        list[str] | None, typer.Option(help="A budget in FLOPs to give N*, D* and loss for. May be repeated.")
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option(help="A compute budget of the design. May be repeated.", rich_help_panel=_PANEL),
    ] = None,
    group_tol: Annotated[
        float, typer.Option(help="A new budget starts where ln C jumps by more.", rich_help_panel=_PANEL)
    ] = 0.1,
    curve: Annotated[
        str, typer.Option(help="Curves to fit: both, law or parabola.", rich_help_panel=_PANEL)
    ] = "both",
    exponents: Annotated[
        str | None,
        typer.Option(
            help="alpha,beta of the law-shaped curve.", metavar="ALPHA,BETA", rich_help_panel=_PANEL
        ),
    ] = None,
    exponent_sum: Annotated[
        float | None, typer.Option(help="alpha + beta of the law-shaped curve.", rich_help_panel=_PANEL)
    ] = None,
    level: Annotated[float, typer.Option(help="Coverage of the intervals.", rich_help_panel=_PANEL)] = 0.95,
    as_json: Json = False,
) -> int:
    """Analyse runs of equal compute: checks, a curve per budget, the frontier, the parabola's bias."""
    from scaling.isoflop import fit_isoflop
    from scaling.units import parse_count

    wanted = [parse_count(c) for c in at or ()]
    options: dict[str, Any] = {"group_tol": group_tol, "curve": curve, "level": level}
    if budgets:
        options["budgets"] = [parse_count(c) for c in budgets]
    if exponents is not None:
        options["exponents"] = _pair(exponents)
    if exponent_sum is not None:
        options["exponent_sum"] = exponent_sum
    with warnings_told():
        table = read_table(open_input(source, builtin), reading)
        found = fit_isoflop(table, **options)
        optima = [found.optimal(c) for c in wanted]
    if as_json:
        say_json({**found.to_dict(), "optima": optima})
    else:
        say("\n".join([as_options(found.summary()), *map(repr, optima)]))
    return FINE


def _pair(text: str) -> tuple[float, float]:
    try:
        alpha, beta = (float(part) for part in text.split(","))
    except ValueError as error:
        raise DataError(f"exponents are two numbers ALPHA,BETA, not {text!r}", column="exponents") from error
    return alpha, beta
