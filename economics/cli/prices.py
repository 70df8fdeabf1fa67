"""``economics prices``: what a GPU-hour costs, and how the price book gets newer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from economics.cli.cost import Plots, picture_paths, save_picture
from economics.cli.spelling import as_commands
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Json
from scaling.cli.output import say, say_json, warnings_told

if TYPE_CHECKING:
    from economics.price_import import ImportReport

app = typer.Typer(help="Look prices up, refresh them, add your own.", invoke_without_command=True)

Day = Annotated[str | None, typer.Option("--day", help="Day of the prices, such as 2026-10-10.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be taken.")]
Into = Annotated[
    Path | None, typer.Option("--into", help="Price book to add to; your own by default.", metavar="FILE")
]


@app.callback()
def _root(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        say(context.get_help())
    return FINE


@app.command()
def show(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="Accelerator.")],
    market: Annotated[
        str, typer.Option(help="on-demand, spot, marketplace, community or reserved.")
    ] = "on-demand",
    provider: Annotated[str | None, typer.Option(help="One provider alone.")] = None,
    region: Annotated[str | None, typer.Option(help="One region alone.")] = None,
    gpus_per_instance: Annotated[int | None, typer.Option(help="Instances with so many GPUs alone.")] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Day the price is wanted for; today.", metavar="DAY")
    ] = None,
    book: Annotated[str | None, typer.Option(help="Another price book (CSV).", metavar="FILE")] = None,
    include_hostless: Annotated[
        bool, typer.Option("--include-hostless", help="Also prices without CPU and RAM.")
    ] = False,
    plots: Plots = None,
    as_json: Json = False,
) -> int:
    """Price of a GPU-hour: median with P10 and P90 over providers, wider the older the quotes are."""
    from economics.errors import StalePriceWarning
    from economics.price_search import prices

    paths = picture_paths(plots, ("price_history",), book)
    with warnings_told(StalePriceWarning, spelling=as_commands):
        quote = prices(
            gpu, market, provider, region=region, gpus_per_instance=gpus_per_instance, as_of=as_of, book=book,
            include_hostless=include_hostless,
        )  # fmt: skip
    files = [
        str(p)
        for kind, path in paths.items()
        for p in save_picture(gpu, kind, path, market=market, book=book)
    ]
    if as_json:
        document = quote.to_dict()
        say_json({**document, "files": files} if files else document)
        return FINE
    say(as_commands(str(quote)))
    for p in quote.providers:
        count = f"{len(p.rows)} quote{'s' * (len(p.rows) > 1)}"
        say(f"  {p.provider:<14} ${p.usd_per_gpu_hour:<8.2f} {p.date}  {p.region or 'everywhere'}  ({count})")
    if files:
        say("\n".join(f"  {file}" for file in files))
    return FINE


@app.command()
def add(
    provider: Annotated[str, typer.Argument(help="Who bills.")],
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="Accelerator.")],
    usd_per_gpu_hour: Annotated[float | None, typer.Option(help="Price of one GPU.")] = None,
    usd_per_instance_hour: Annotated[
        float | None, typer.Option(help="Price of the machine, with --gpus-per-instance.")
    ] = None,
    gpus_per_instance: Annotated[int, typer.Option(help="GPUs of the machine.")] = 1,
    market: Annotated[
        str, typer.Option(help="on-demand, spot, marketplace, community or reserved.")
    ] = "on-demand",
    day: Day = None,
    region: Annotated[str, typer.Option(help="Where it holds; everywhere if left out.")] = "",
    commit: Annotated[str, typer.Option(help="Term of a reserved price, such as 1y.")] = "",
    sku: Annotated[str, typer.Option(help="Instance type.")] = "",
    hostless: Annotated[bool, typer.Option("--hostless", help="CPU and RAM are billed apart.")] = False,
    currency: Annotated[str, typer.Option(help="Of the price, with --usd-per-unit.")] = "USD",
    usd_per_unit: Annotated[float | None, typer.Option(help="Dollars for one unit of the currency.")] = None,
    note: Annotated[str, typer.Option(help="Anything to remember.")] = "",
    into: Into = None,
    as_json: Json = False,
) -> int:
    """Keep a quote of your own; it passes the same checks as every other."""
    from economics.price_book import user_book_path
    from economics.price_user import add_price

    row = add_price(
        provider, gpu, usd_per_gpu_hour=usd_per_gpu_hour, usd_per_instance_hour=usd_per_instance_hour,
        gpus_per_instance=gpus_per_instance, market=market, day=day, region=region, commit=commit, sku=sku,
        includes_host=not hostless, currency=currency, usd_per_unit=usd_per_unit, note=note, path=into,
    )  # fmt: skip
    if as_json:
        say_json({**row.to_dict(), "usd_per_gpu_hour": row.usd_per_gpu_hour})
    else:
        say(f"{row.provider} {row.gpu} {row.market}: ${row.usd_per_gpu_hour:g} per GPU-hour, {row.date}")
        say(f"  kept in {into or user_book_path()}")
    return FINE


@app.command()
def refresh(
    provider: Annotated[
        list[str] | None,
        typer.Option(help="A provider by its name in gpuhunt; all by default. May be repeated."),
    ] = None,
    day: Day = None,
    into: Into = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Take today's prices of many clouds through gpuhunt (extra ``prices``; needs a network)."""
    from economics.price_gpuhunt import refresh_prices

    return _told(refresh_prices(providers=provider, day=day, path=into, write=not dry_run), as_json)


@app.command("import-skypilot")
def import_skypilot(
    file: Annotated[Path, typer.Argument(help="A SkyPilot catalog, catalogs/v8/<cloud>/vms.csv.")],
    day: Annotated[str, typer.Option(help="Day of the catalog, such as 2026-10-10: the file does not say.")],
    provider: Annotated[str | None, typer.Option(help="By default the folder of the file.")] = None,
    into: Into = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Take a SkyPilot catalog file into your own price book."""
    from economics.price_skypilot import import_skypilot as take

    return _told(take(file, day=day, provider=provider, path=into, write=not dry_run), as_json)


def _told(report: ImportReport, as_json: bool) -> int:
    """Say what became of a catalog; one that holds no price at all is a negative answer."""
    if as_json:
        rejected = {where: [f.to_dict() for f in found] for where, found in report.rejected.items()}
        say_json(
            {
                "source": report.source,
                "accepted": len(report.accepted),
                "rejected": rejected,
                "without_gpu": report.without_gpu,
                "merged": report.merged,
                "path": report.path,
            }
        )
    else:
        say(str(report))
    return FINE if report.accepted else NEGATIVE
