"""``scaling plot``: pictures of a fit, each with the numbers it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scaling.cli.files import outputs
from scaling.cli.fit import Source, verdict_code
from scaling.cli.options import Builtin, Fitting, Json, Reading, takes_groups
from scaling.cli.output import say, say_json, warnings_told
from scaling.cli.source import open_input, read_fit
from scaling.errors import DataError, IdentificationWarning

_SUFFIXES = (".png", ".svg", ".pdf")


@takes_groups
def plot(
    reading: Reading,
    fitting: Fitting,
    source: Source = None,
    builtin: Builtin = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="curves, contours, isoflop, tokens, residuals, cloud, profile, or all (the default). May be repeated."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .png, .svg or .pdf file for one kind, or a folder. The numbers go beside it as CSV."
        ),
    ] = None,
    dpi: Annotated[int, typer.Option(help="Dots per inch of a .png.", min=20, max=1200)] = 160,
    as_json: Json = False,
) -> int:
    """Draw a fit: runs and curves, contours, IsoFLOPs, D*(N), residuals, the bootstrap cloud."""
    kinds = _kinds(kind or ["all"])
    paths = _paths(kinds, out)
    outputs([file for path in paths.values() for file in (path, path.with_suffix(".csv"))], source)
    from scaling import plots

    with warnings_told(*(() if as_json else (IdentificationWarning,))):
        fit = read_fit(open_input(source, builtin), reading, fitting)
        written = {name: plots.save(fit, name, path, dpi=dpi) for name, path in paths.items()}
    if as_json:
        say_json({name: {"picture": str(p), "numbers": str(csv)} for name, (p, csv) in written.items()})
    else:
        for picture, csv in written.values():
            say(f"{picture}  ({csv.name})")
    return verdict_code(fit)


def _kinds(wanted: list[str]) -> list[str]:
    """Return the kinds asked for, once each."""
    from scaling.plots import KINDS

    for name in wanted:
        if name not in (*KINDS, "all"):
            raise DataError(f"kind {name!r} is none of {', '.join(KINDS)}, all", column="kind")
    return list(KINDS) if "all" in wanted else list(dict.fromkeys(wanted))


def _paths(kinds: list[str], out: Path | None) -> dict[str, Path]:
    """Say where each picture goes: the file named, or files named after their kind in a folder."""
    if out is None or (out.suffix.lower() not in _SUFFIXES):
        folder = out or Path()
        if out is not None and out.suffix and not out.is_dir():
            raise DataError(f"{out}: a picture ends in {', '.join(_SUFFIXES)}", column="out")
        return {kind: folder / f"{kind}.png" for kind in kinds}
    if len(kinds) > 1:
        raise DataError(
            f"{out} is one file and {len(kinds)} kinds were asked for: give a folder", column="out"
        )
    return {kinds[0]: out}
