"""``scaling report``: one page for the person who plans a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.files import outputs, write
from scaling.cli.fit import Source
from scaling.cli.options import Builtin, Fitting, Json, Reading, as_arguments, takes_groups
from scaling.cli.output import as_options, say, say_json, warnings_told
from scaling.cli.source import Input, fit_table, open_input, read_fit, read_table
from scaling.errors import DataError, ExtrapolationWarning, IdentificationWarning, NotIdentifiedError

if TYPE_CHECKING:
    from scaling.report import Report


@takes_groups
def report(
    reading: Reading,
    fitting: Fitting,
    source: Source = None,
    builtin: Builtin = None,
    out: Annotated[
        Path, typer.Option(help="The page. <stem>.prediction.md and <stem>.fit.json are written beside it.")
    ] = Path("report.html"),
    params: Annotated[str, typer.Option(help="Size N the headline answers for.")] = "1B",
    as_json: Json = False,
) -> int:
    """Write one self-contained page: the answer, what it rests on, plots, and what to run next."""
    from scaling.arguments import positive_count
    from scaling.report.build import beside
    from scaling.summary import HEADLINE_PARAMS

    size = positive_count("params", params)
    if out.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"{out}: the page is HTML, name it *.html", column="out")
    outputs(beside(out), source)
    data = open_input(source, builtin)
    asked = [] if size == HEADLINE_PARAMS else ["--params", params]
    command = shlex.join(["scaling", "report", *data.words, *as_arguments(reading, fitting), *asked])
    page = _build(data, reading, fitting, size, f"{command} --out report.html")
    for path, text in page.files(out).items():
        write(path, text)
    negative = not page.head.usable or page.head.verdict == "not identified"
    if as_json:
        files = [str(path) for path in page.files(out)]
        head = page.head
        say_json(
            {
                "files": files,
                "verdict": head.verdict,
                "headline": {
                    "params": size,
                    "tokens": head.tokens if head.usable else None,
                    "text": [head.headline, head.interval, *head.sentences],
                },
            }
        )
    else:
        say(f"{page.head.headline} ({page.head.interval}): {page.head.chip}")
        say("\n".join(f"  {path}" for path in page.files(out)))
    return NEGATIVE if negative else FINE


def _build(data: Input, reading: Reading, fitting: Fitting, size: float, command: str) -> Report:
    """Read, fit, and put the page together; a table that determines no law gets a page that says so."""
    from scaling.report import Origin, build_report

    origin = Origin(data.sha256, command, data.dataset)
    # The page spells out what these warn of.
    with warnings_told(IdentificationWarning, ExtrapolationWarning):
        if data.saved_fit is not None:
            fit = read_fit(data, reading, fitting)
            return build_report(fit, params=size, origin=origin, spelling=as_options)
        runs = read_table(data, reading, fitting.sigma)
        try:
            fit = fit_table(runs, fitting)
        except NotIdentifiedError as error:
            return build_report(error, runs=runs, params=size, origin=origin, spelling=as_options)
        return build_report(fit, params=size, origin=origin, spelling=as_options)
