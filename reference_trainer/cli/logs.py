"""``reference_trainer guide`` and ``postmortem``: what is in a log, and what went wrong in it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Json, mapping
from scaling.cli.output import note, say, say_json, warnings_told
from scaling.errors import DataError
from scaling.units import parse_count

Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A run's folder, an mlflow store (SQLite), text of nanoGPT, llm.c, Megatron, GPT-NeoX or OLMo, a CSV that "
        "wandb exported, or any table with step and loss. Plain or packed.",
    ),
]
Run = Annotated[
    str | None, typer.Option("--run", metavar="NAME", help="Which run, where the log holds several.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="QUANTITY=COLUMN",
        help="Which column holds what, such as loss=nll. May be repeated.",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option("--loss-unit", metavar="UNIT", help="Unit of the losses, where the log does not say it."),
]
StepTokens = Annotated[
    str | None,
    typer.Option("--step-tokens", metavar="N", help="Tokens of a step, where the log does not say them."),
]
UniqueTokens = Annotated[
    str | None, typer.Option("--unique-tokens", metavar="N", help="Tokens of the training set.")
]


def _reading(run: str | None, columns: list[str] | None, unit: str | None) -> dict[str, Any]:
    named = {quantity: str(column) for quantity, column in mapping("columns", columns or []).items()}
    return {"run": run, "columns": named or None, "loss_unit": unit}


def _count(text: str | None) -> float | None:
    return None if text is None else parse_count(text)


def guide(
    log: Log, run: Run = None, columns: Columns = None, loss_unit: Unit = None, step_tokens: StepTokens = None,
    unique_tokens: UniqueTokens = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the guide as Markdown.")] = False,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Say what is in a training log, in which lines, and which decision of the run explains it."""
    from reference_trainer.log_guide import read_guide

    with warnings_told():
        found = read_guide(
            log, **_reading(run, columns, loss_unit), step_tokens=_count(step_tokens),
            unique_tokens=_count(unique_tokens),
        )  # fmt: skip
    if as_json:
        say_json(found)
    else:
        say(found.markdown() if markdown else found.text())
    return FINE


def postmortem(
    log: Log,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="The page (.md); JSON and pictures go beside it.")
    ] = "postmortem.md",
    spike: Annotated[
        int | None, typer.Option("--spike", metavar="N", help="Number of the one spike to write up.")
    ] = None,
    outliers: Annotated[
        bool, typer.Option("--outliers", help="Also write up outliers that are gone at once.")
    ] = False,
    run: Run = None, columns: Columns = None, loss_unit: Unit = None, step_tokens: StepTokens = None,
    tokens_per_s: Annotated[
        str | None, typer.Option("--tokens-per-s", metavar="N", help="Throughput of all devices.")
    ] = None,
    usd_per_hour: Annotated[
        float | None, typer.Option("--usd-per-hour", metavar="USD", help="Price of all devices together.")
    ] = None,
    restart_minutes: Annotated[
        float | None, typer.Option("--restart-minutes", metavar="N", help="Paid minutes that a restart took.")
    ] = None,
    started: Annotated[
        str | None, typer.Option("--started", metavar="TIME", help="When the run began: 2026-05-01T12:00+00:00.")
    ] = None,
    action: Annotated[
        list[str] | None, typer.Option("--action", help="What was done about it. May be repeated.")
    ] = None,
    lesson: Annotated[
        list[str] | None, typer.Option("--lesson", help="What was learned. May be repeated.")
    ] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Read the suspected batches of one of our runs again: needs torch, its data and a checkpoint.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Write the post-mortem of the spikes in a log; exit code 1 where one hurt the run.

    What neither the log nor an option says is called unknown.
    """
    from reference_trainer.incidents.replayed import replay_spikes
    from reference_trainer.postmortem import post_mortem
    from reference_trainer.training_log import read_training_log

    with warnings_told():
        source = read_training_log(log, **_reading(run, columns, loss_unit))
        found = post_mortem(
            source, only=spike, outliers=outliers, step_tokens=_count(step_tokens), tokens_per_s=_count(tokens_per_s),
            usd_per_hour=usd_per_hour, restart_s=None if restart_minutes is None else 60.0 * restart_minutes,
            started=_time(started), actions_taken=action or (), lessons_learned=lesson or (),
            evidence=replay_spikes(source, only=spike) if replay else None,
        )  # fmt: skip
        files = found.save(out)
    if as_json:
        say_json(found)
    else:
        for section in found.sections:
            say(
                f"{section['title']}: {section['kind']} ({section['confidence']} confidence). {section['cost']['text']}"
            )
        if not found.sections:
            say("no spike was found")
        note(f"written: {', '.join(map(str, files))}")
    hurt = any(section["kind"] in ("persistent", "divergent") for section in found.sections)
    return NEGATIVE if hurt else FINE


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise DataError(
            f"{text!r} is no time: write it as 2026-05-01T12:00+00:00", column="started"
        ) from error
