"""``economics cost`` and ``economics compare``: what a run costs, and on which machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from economics.cli.options import Costing, changes
from economics.cli.spelling import as_commands
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.files import outputs
from scaling.cli.options import Json, takes_groups
from scaling.cli.output import say, say_json, warnings_told
from scaling.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scaling.findings import Finding

_PICTURES = (".png", ".svg", ".pdf")

Plots = Annotated[
    Path | None,
    typer.Option(
        "--plots", help="Folder for pictures, each with its numbers as CSV beside it.", metavar="FOLDER"
    ),
]


@takes_groups
def cost(
    costing: Costing,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Another value of an option, such as mfu=41%, beside the first. May be repeated.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    sensitivity: Annotated[
        str | None,
        typer.Option(
            help="Also say which factor moves usd, gpu_hours, wall_hours, energy_kwh or co2_kg most.",
            metavar="ANSWER",
        ),
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> int:
    """Cost of a training run: GPU-hours, time, dollars, energy, CO2, each as P50 with P10 and P90."""
    from economics.run_cost import cost as compute

    paths = picture_paths(plots, ("breakdown", "tornado"), costing.book)
    with warnings_told(*_hidden(), spelling=as_commands):
        run = compute(**costing.keywords())
        shown = run.what_if(**changes(what_if)) if what_if else run
        swings = None if sensitivity is None else shown.sensitivity(sensitivity)
    files = [str(p) for kind, path in paths.items() for p in save_picture(shown, kind, path)]
    if as_json:
        document = shown.to_dict()
        if swings is not None:
            document["sensitivity"] = swings.to_dict()
        say_json({**document, "files": files} if files else document)
    else:
        say(as_commands(repr(shown)))
        if swings is not None:
            say(repr(swings))
        if files:
            say("\n".join(f"  {file}" for file in files))
    return verdict_code(shown.findings)


@takes_groups
def compare(
    costing: Costing,
    gpus: Annotated[list[str], typer.Argument(metavar="GPU...", help="Accelerators to compare.")],
    count: Annotated[
        list[str] | None,
        typer.Option("--count", help="Numbers of GPUs to compare. May be repeated.", metavar="COUNT"),
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> int:
    """One training on several machines, cheapest first; * marks what nothing beats in money and time."""
    from economics.run_cost import cost as compute

    if costing.gpu is not None:
        raise DataError("name the accelerators without --gpu", column="gpu")
    paths = picture_paths(plots, ("pareto",), costing.book)
    with warnings_told(*_hidden(), spelling=as_commands):
        first = compute(**{**costing.keywords(), "gpu": _first(gpus)})
        found = first.compare(gpus, n_gpus=count)  # type: ignore[arg-type]  # the library reads text
    if not found.runs:
        why = "; ".join(f"{name}: {reason}" for name, reason in found.failures)
        raise DataError(f"no accelerator has an answer: {why}", column="gpu")
    files = [str(p) for kind, path in paths.items() for p in save_picture(found, kind, path)]
    if as_json:
        document = found.to_dict()
        say_json({**document, "files": files} if files else document)
    else:
        say(as_commands(repr(found)))
        if files:
            say("\n".join(f"  {file}" for file in files))
    return min(verdict_code(run.findings) for run in found.runs)


def _first(gpus: list[str]) -> str:
    """Return the first accelerator that exists; a comparison goes on without the others, and says so."""
    from economics.errors import UnknownGPU
    from economics.hardware import gpu

    for name in gpus:
        try:
            gpu(name)
        except UnknownGPU:
            continue
        return name
    gpu(gpus[0])
    raise AssertionError("unreachable: the look-up has raised")


def verdict_code(findings: Iterable[Finding]) -> int:
    """Return the exit code of a run: negative where it must not be done like this, or fits into no memory."""
    return NEGATIVE if any(f.severity == "error" or f.code == "does_not_fit" for f in findings) else FINE


def _hidden() -> tuple[type[Warning], ...]:
    """Warnings that the answer has among its findings."""
    from economics.errors import StalePriceWarning

    return (StalePriceWarning,)


def picture_paths(folder: Path | None, kinds: tuple[str, ...], book: str | None) -> dict[str, Path]:
    """Say where each picture goes, and that it can, with its numbers, without loss of the price book that is read."""
    from economics.price_book import user_book_path

    if folder is None:
        return {}
    if folder.suffix.lower() in _PICTURES:
        raise DataError(f"{folder} is a picture: give a folder", column="plots")
    paths = {kind: folder / f"{kind}.png" for kind in kinds}
    written = [file for path in paths.values() for file in (path, path.with_suffix(".csv"))]
    outputs(written, str(user_book_path()) if book is None else book)
    return paths


def save_picture(subject: Any, kind: str, path: Path, **options: Any) -> tuple[Path, Path]:
    """Write a picture and its numbers."""
    from economics.plots import save

    return save(subject, kind, path, **options)
