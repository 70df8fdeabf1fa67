"""``scaling compare-laws``: which law foresees the larger of these runs best."""

from __future__ import annotations

from typing import Annotated

import typer

from scaling.cli.audit import Table
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Builtin, Json, Reading, takes_groups
from scaling.cli.output import as_options, say, say_json, warnings_told
from scaling.cli.source import open_input, read_table


@takes_groups
def compare_laws(
    reading: Reading,
    source: Table = None,
    builtin: Builtin = None,
    law: Annotated[
        list[str] | None, typer.Option(help="A law to compare; all by default. May be repeated.")
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(help="Share of the runs, smallest first, that predicts the rest. May be repeated."),
    ] = None,
    n_boot: Annotated[int, typer.Option(help="Refits per law and cut, for interval scores.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the refits.")] = 0,
    as_json: Json = False,
) -> int:
    """Rank laws by their error on the larger runs when fitted to the smaller ones."""
    from scaling.compare import SHARES, compare_laws as compare

    with warnings_told():
        table = read_table(open_input(source, builtin), reading)
        found = compare(table, law or None, shares=share or SHARES, n_boot=n_boot, seed=seed)
    if as_json:
        say_json(found.to_dict())
    else:
        say(as_options(repr(found)))
    return FINE if found.laws[0].n_cuts else NEGATIVE
