"""``scaling audit``: how a table was read, without fitting it."""

from __future__ import annotations

from typing import Annotated

import typer

from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Builtin, Json, Reading, takes_groups
from scaling.cli.output import as_options, say, say_json, warnings_told
from scaling.cli.source import open_input, read_table

Table = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="A table of runs, or '-' for standard input.")
]


@takes_groups
def audit(reading: Reading, source: Table = None, builtin: Builtin = None, as_json: Json = False) -> int:
    """Read a table and say which columns were understood, which rows dropped, and what is doubtful."""
    data = open_input(source, builtin)
    with warnings_told():
        table = read_table(data, reading, told=False)
    if as_json:
        counts = {
            "loss_unit": table.loss_unit,
            "loss_kind": table.loss_kind,
            "params_kind": table.params_kind,
        }
        say_json({**table.audit.to_dict(), **counts, "n_runs": len(table), "sha256": data.sha256})
    else:
        say(f"{as_options(str(table.audit))}\n{table!r}")
    unusable = any(f.severity == "error" for f in table.audit.findings)
    return NEGATIVE if unusable else FINE
