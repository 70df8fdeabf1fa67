"""``economics suggest``: the runs that would tell most for the money."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from economics.cli.options import Costing
from economics.cli.spelling import as_commands
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.files import outputs
from scaling.cli.options import Builtin, Json, Reading, given, takes_groups
from scaling.cli.output import note, say, say_json, warnings_told
from scaling.errors import DataError, ExtrapolationWarning, IdentificationWarning

_WANTED = "What is wanted"
_LOOK = "Where to look"
_KNOWN = "What is known"


def _option(panel: str, help_: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help_, rich_help_panel=panel, metavar=metavar)


@takes_groups
def suggest(
    costing: Costing,
    reading: Reading,
    runs: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE|FIT]", help="Runs at hand, a saved fit, or '-'; none plans the first runs."
        ),
    ] = None,
    builtin: Builtin = None,
    budget: Annotated[str | None, _option(_WANTED, "Dollars to spend, such as 50.", "USD")] = None,
    target: Annotated[
        str,
        _option(
            _WANTED,
            "What to know better: tokens@1B, params@20B, loss@1B,20B, a, alpha, beta or E.",
            "QUANTITY",
        ),
    ] = "tokens@1B",
    precision: Annotated[
        str | None,
        _option(_WANTED, "How well: a factor such as 1.25, or a difference; for the least money.", "WIDTH"),
    ] = None,
    level: Annotated[float, _option(_WANTED, "Coverage of the interval.")] = 0.95,
    quantile: Annotated[
        str | None, _option(_WANTED, "Guard against this quantile of the laws possible: 0.9 is careful.")
    ] = None,
    sigma: Annotated[
        str | None, _option(_KNOWN, "Noise of a log loss, such as 0.5%; measured if not given.", "SHARE")
    ] = None,
    rho: Annotated[
        str | None,
        _option(
            _KNOWN,
            "Correlation of the noise of branches of one trunk; 0.5 if not given: it is not estimated.",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        _option(
            _KNOWN,
            "A published law (`economics budget --law list`) or hoffmann2022, beside the runs.",
            "NAME",
        ),
    ] = None,
    sizes: Annotated[str | None, _option(_LOOK, "Smallest and largest N, such as 10M,1B.", "N,N")] = None,
    token_counts: Annotated[
        str | None, _option(_LOOK, "Smallest and largest D, such as 100M,10B.", "D,D")
    ] = None,
    vocab: Annotated[str, _option(_LOOK, "Vocabulary of the shapes.", "COUNT")] = "50257",
    trunks: Annotated[str, _option(_LOOK, "Seeds that may be trained of each size.", "COUNT")] = "2",
    max_hours: Annotated[
        str | None, _option(_LOOK, "Longest that one run may take, such as '12 h'.", "TIME")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the runs here as CSV.", metavar="FILE")] = None,
    as_json: Json = False,
) -> int:
    """Find the runs that make a quantity surest for the money; exit code 1 if the precision is out of reach."""
    from economics.errors import StalePriceWarning
    from economics.next_runs.suggestion import suggest as compute
    from economics.run_search import BudgetError

    for name in ("params", "tokens", "arch", "active_params"):
        if getattr(costing, name) is not None:
            raise DataError(
                f"--{name.replace('_', '-')} is what is looked for: give --sizes and --token-counts",
                column=name,
            )
    if csv is not None:
        outputs([csv], runs)
    settings = {k: v for k, v in costing.keywords().items() if k not in ("N", "D", "arch", "N_active")}
    with warnings_told(IdentificationWarning, ExtrapolationWarning, StalePriceWarning, spelling=as_commands):
        try:
            found = compute(
                known_runs(runs, builtin, reading), budget, target=target, precision=precision, level=level,
                quantile=quantile, sigma=sigma, rho=rho, prior=prior, sizes=sizes, token_counts=token_counts,
                vocab=vocab, trunks=trunks, max_hours=max_hours, **settings,
            )  # fmt: skip
        except BudgetError as error:
            if as_json:
                say_json({"verdict": "not affordable", "message": str(error), "needed_usd": error.needed_usd})
            else:
                say(f"verdict    not affordable\n{as_commands(str(error))}")
            return NEGATIVE
    if csv is not None:
        found.to_csv(csv)
        note(f"saved {csv}")
    if as_json:
        say_json(found)
    else:
        say(as_commands(repr(found)))
    bad = not found.reached or any(f.severity == "error" for f in found.findings)
    return NEGATIVE if bad else FINE


def known_runs(source: str | None, builtin: str | None, reading: Reading) -> Any:
    """Return the table or the saved fit that was named; None where nothing was."""
    from scaling.cli.options import Fitting
    from scaling.cli.source import open_input, read_fit, read_table

    if source is None and builtin is None:
        if given(reading):
            raise DataError(f"--{next(iter(given(reading))).replace('_', '-')} needs a table", column="runs")
        return None
    data = open_input(source, builtin)
    if data.saved_fit is not None:
        return read_fit(data, reading, Fitting())
    return read_table(data, reading)
