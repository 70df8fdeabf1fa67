"""``scaling datasets``: the tables that ship inside and the public ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scaling.cli.failures import FINE
from scaling.cli.options import Json
from scaling.cli.output import say, say_json

app = typer.Typer(help="List, describe and fetch tables of runs.", invoke_without_command=True)


@app.callback()
def _root(context: typer.Context, as_json: Json = False) -> int:
    if context.invoked_subcommand is None:
        return list_(as_json)
    return FINE


@app.command("list")
def list_(as_json: Json = False) -> int:
    """List the tables with their size, whether they ship inside, and their licence."""
    from scaling.datasets import info, names

    tables = [info(name) for name in names()]
    if as_json:
        say_json([asdict(t) for t in tables])
        return FINE
    width = max(len(t.name) for t in tables)
    for t in tables:
        where = "ships inside" if t.url is None else "fetched on use"
        say(f"{t.name:<{width}}  {t.rows:>4} rows  {t.kind:<4}  {where:<14}  {t.licence}")
    return FINE


Name = Annotated[str, typer.Argument(help="Name of the table.")]


@app.command()
def info(name: Name, as_json: Json = False) -> int:
    """Describe a table: source, licence, date, hash, and what to know before fitting it."""
    from scaling.datasets import info as describe

    table = describe(name)
    if as_json:
        say_json(asdict(table))
    else:
        say(f"{table}\nsha256: {table.sha256}")
    return FINE


@app.command()
def fetch(
    name: Name,
    out: Annotated[Path | None, typer.Option(help="Copy the table here.")] = None,
    as_json: Json = False,
) -> int:
    """Get a table, once, check its hash, and print where it lies."""
    from scaling.cli.files import outputs, writable, write
    from scaling.datasets import fetch as get, info as describe

    if out is not None:
        writable(out)
    path = get(name)
    if out is not None:
        outputs([out], str(path))
        write(out, path.read_text(encoding="utf-8"))
        path = out
    if as_json:
        say_json({"name": name, "path": str(path), "sha256": describe(name).sha256})
    else:
        say(str(path))
    return FINE
