"""The command ``python -m reference_trainer.data``: make token shards, and check them."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from economics.run_numbers import share
from reference_trainer.data.prepared import Prepared, Progress, open_prepared
from reference_trainer.data.rates import Supply, reading_rate
from scaling.arguments import positive_count
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.group import Commands
from scaling.cli.options import Json
from scaling.cli.output import note, say, say_json
from scaling.errors import DataError
from scaling.units import format_count, parse_count

_LINE_EVERY_S = 10.0
#: Columns under which data sets carry a quality score of their own.
_SCORES = ("int_score", "score", "quality_score")
_ARGUMENT = re.compile(
    r"\b(val_share|min_score|train_tokens|val_tokens|shard_tokens|tokenizer_path|seq_len|batch_seqs)\b=?"
    r"|\b(unit|score|revision|window|seed|rules|needs)(?:=|(?= =))"
)


def as_options(text: str) -> str:
    """Write Python names in a message as options of this command.

    Examples
    --------
    >>> as_options("say with unit= what a document is; raise val_share")
    'say with --unit what a document is; raise --val-share'
    """
    return _ARGUMENT.sub(lambda match: f"--{(match[1] or match[2]).replace('_', '-')}", text)


class Data(Commands):
    """The group, which writes Python names in messages as options of this program."""

    spelling = staticmethod(as_options)


app = typer.Typer(
    name="python -m reference_trainer.data",
    cls=Data,
    help=(
        "Token shards from text: on the Hub by name, or local text, JSON lines and Parquet.\n\n"
        "Counts are written as people write them: 5B, 100M, 57k. Exit codes: 0 fine; 1 the shards are read more "
        "slowly than --needs; 2 bad input; 3 a fault of the program."
    ),
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

Needs = Annotated[
    str | None, typer.Option(help="Tokens/s that training takes, to hold the measured rates against.")
]
SeqLen = Annotated[int, typer.Option(min=1, help="Sequence length at which reading is measured.")]
BatchSeqs = Annotated[int, typer.Option(min=1, help="Sequences per step at which reading is measured.")]


@app.command("prepare")
def prepare_command(
    path: Annotated[str, typer.Argument(help="Name on the Hub, folder or file.")],
    out: Annotated[Path, typer.Argument(help="Folder to make. A preparation that was cut off goes on.")],
    tokenizer: Annotated[str, typer.Option(help="bytes, gpt2, a name on the Hub, or any name with a path.")],
    val_share: Annotated[
        str, typer.Option(help="Share of documents held out, by hash: 0.01 or 1%; 0 for none.")
    ],
    name: Annotated[str | None, typer.Option(help="Configuration, such as sample-10BT.")] = None,
    split: Annotated[str, typer.Option(help="Split.")] = "train",
    text: Annotated[str, typer.Option(help="Column with the text.")] = "text",
    unit: Annotated[
        str | None, typer.Option(help="What a document of plain text is: line, paragraph, document.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Commit on the Hub.")] = None,
    tokenizer_path: Annotated[Path | None, typer.Option(help="Files of the tokenizer.")] = None,
    rules: Annotated[
        str, typer.Option(help="Rule sets: gopher, gopher_repetition, c4, fineweb; none for none.")
    ] = "gopher,gopher_repetition",
    score: Annotated[
        str | None, typer.Option(help="Column with the data set's own score, such as int_score.")
    ] = None,
    min_score: Annotated[float | None, typer.Option(help="Least score kept.")] = None,
    train_tokens: Annotated[str | None, typer.Option(help="Stop after so many training tokens.")] = None,
    val_tokens: Annotated[str | None, typer.Option(help="Most held-out tokens kept.")] = None,
    shard_tokens: Annotated[str, typer.Option(help="Tokens per shard.")] = "100M",
    window: Annotated[int, typer.Option(help="Documents shuffled together; 1 keeps the order.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the shuffle.")] = 0,
    needs: Needs = None,
    seq_len: SeqLen = 1024,
    batch_seqs: BatchSeqs = 64,
    as_json: Json = False,
) -> int:
    """Make shards for training and a fixed held-out block, with every dropped document counted."""
    from reference_trainer.data.corpus import Source
    from reference_trainer.data.prepare import prepare
    from reference_trainer.data.settings import Settings

    if unit not in (None, "line", "paragraph", "document"):
        raise DataError(f"unit = {unit!r}: give line, paragraph or document", column="unit")
    settings = Settings(
        Source(path, name, split, text, score, unit, revision),  # type: ignore[arg-type]
        tokenizer,
        share("val_share", val_share),
        tokenizer_path=tokenizer_path,
        rules=() if rules == "none" else tuple(part.strip() for part in rules.split(",")),
        min_score=min_score,
        train_tokens=_count("train_tokens", train_tokens),
        val_tokens=_count("val_tokens", val_tokens),
        shard_tokens=_count("shard_tokens", shard_tokens) or 0,
        window=window,
        seed=seed,
    )
    needed = _need(needs)
    with _watching(settings.train_tokens) as watch:
        done = prepare(settings, out, watch=watch)
    return _report(done, needed, seq_len, batch_seqs, as_json)


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="A folder that `prepare` made.")],
    needs: Needs = None,
    seq_len: SeqLen = 1024,
    batch_seqs: BatchSeqs = 64,
    as_json: Json = False,
) -> int:
    """Read every token, hold it against its hash, and measure how fast batches come."""
    done = open_prepared(folder)
    for tokens in (done.train, done.val):
        if tokens is not None:
            tokens.verify()
    return _report(done, _need(needs), seq_len, batch_seqs, as_json)


def _count(name: str, text: str | None) -> int | None:
    value = None if text is None else parse_count(text)
    if value is not None and not math.isfinite(value):
        raise DataError(f"{name} = {text}: give a finite number", column=name)
    return None if value is None else int(value)


def _need(needs: str | None) -> float | None:
    return None if needs is None else positive_count("needs", needs)


def _report(done: Prepared, needed: float | None, seq_len: int, batch_seqs: int, as_json: bool) -> int:
    preparing = None if done.progress is None else done.progress.tokens_per_s
    reading = reading_rate(done.train, seq_len=seq_len, batch_seqs=batch_seqs)
    supply = Supply(reading, preparing, needed)
    if as_json:
        rates = {"reading": supply.reading, "preparing": preparing, "needed": needed}
        say_json({"folder": str(done.folder), **done.manifest, "tokens_per_s": rates})
    else:
        say(f"{_summary(done)}\n{supply}")
        if not supply.suffices:
            note("Training would wait for its batches: put the shards on a faster disk.", "yellow")
    return FINE if supply.suffices else NEGATIVE


def _summary(done: Prepared) -> str:
    documents, manifest = done.manifest["documents"], done.manifest
    lines = [f"folder     {done.folder}"]
    for part in ("train", "val"):
        if (block := manifest[part]) is not None:
            per_token = block["text_bytes"] / block["tokens"]
            lines.append(
                f"{part:<11}{block['tokens']:,} tokens, {per_token:.4g} bytes/token, {block['shards']} shards of "
                f"{block['dtype']}, sha256 {block['sha256'][:12]}"
            )
    fates = ", ".join(f"{count:,} {fate}" for fate, count in documents.items() if fate != "read")
    lines.append(f"documents  {documents['read']:,} read: {fates}")
    rejecting = [rule for rule in manifest["rules"] if rule["failed"]]
    for rule in sorted(rejecting, key=lambda rule: -rule["failed"]):
        lines.append(f"rule       {rule['rule']}: {rule['failed']:,} failed, {rule['alone']:,} no other")
    unused = [c for c in _SCORES if c in manifest["columns"] and manifest["settings"]["source.score"] is None]
    if unused:
        lines.append(
            f"unused     the data set has a score of its own: --score {unused[0]} --min-score would use it"
        )
    return "\n".join(lines)


@contextmanager
def _watching(aim: int | None) -> Iterator[Callable[[Progress], None]]:
    """Give a callback that shows progress: a bar on a terminal, now and then a line elsewhere."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(progress: Progress) -> None:
            nonlocal last
            if time.monotonic() - last >= _LINE_EVERY_S:
                last = time.monotonic()
                note(_words(progress))

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn()]
    if aim is not None:
        columns += [TaskProgressColumn(), TimeRemainingColumn()]
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=aim)
        yield lambda p: bar.update(task, completed=p.train_tokens, description=_words(p))


def _words(progress: Progress) -> str:
    of = "" if progress.aim is None else f" of {format_count(progress.aim)}"
    return (
        f"{format_count(progress.train_tokens)}{of} tokens from {progress.read:,} documents, "
        f"{format_count(progress.tokens_per_s)} tokens/s"
    )
