"""The command line put together: commands and their help."""

from __future__ import annotations

from scaling.cli import audit, compare_laws, datasets, fit, isoflop, plot, predict, report
from scaling.cli.group import program

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


app = program("scaling", _HELP, _EPILOG)

for _command in (
    fit.fit,
    predict.predict,
    audit.audit,
    plot.plot,
    report.report,
    isoflop.isoflop,
    compare_laws.compare_laws,
):
    app.command()(_command)
app.add_typer(datasets.app, name="datasets")
