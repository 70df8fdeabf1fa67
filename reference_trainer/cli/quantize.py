"""``reference_trainer quantize``: a trained model in fewer bits, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scaling.cli.failures import FINE
from scaling.cli.options import Json
from scaling.cli.output import note, progress_bar, say, say_json, warnings_told
from scaling.units import format_count, parse_count

if TYPE_CHECKING:
    from reference_trainer.quantized.comparison import Comparison


def quantize(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint, or a run's folder: its newest one is taken.")
    ],
    data: Annotated[
        str, typer.Option("--data", metavar="SHARDS", help="Validation shards, of the tokenizer of the training.")
    ],
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where the int8 and int4 models and tables go.")
    ] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option("--scheme", metavar="NAME", help="bf16, int8, int4-g128, int4-g64, int4-g32. May be repeated."),
    ] = None,
    tokens: Annotated[
        str, typer.Option("--tokens", metavar="N", help="Validation tokens that are read, at most.")
    ] = "1M",
    batch: Annotated[
        list[int] | None,
        typer.Option("--batch", metavar="N", help="Sequences that are written at once (1 and 16). May be repeated."),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", help="Rounds of the timing.")] = 15,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    as_json: Json = False,
) -> int:  # fmt: skip
    """Quantize a trained model to int8 and int4; measure bytes, the change of the loss, and tokens per second."""
    from reference_trainer.quantized.comparison import compare
    from scaling.cli.output import plain
    from scaling.storage import write_atomically

    with warnings_told(), progress_bar("timing") as bar:
        found = compare(
            checkpoint, data, names=scheme or None, tokens=parse_count(tokens), batches=tuple(batch or (1, 16)),
            rounds=rounds, out=out, device=device, tell=bar,
        )  # fmt: skip
    if out is not None:
        import json
        from pathlib import Path

        document = json.dumps(plain(found.to_dict()), indent=1, allow_nan=False)
        write_atomically(Path(out) / "comparison.json", f"{document}\n")
        write_atomically(Path(out) / "comparison.csv", found.csv())
        note(f"written: {out}")
    if as_json:
        say_json(found)
    else:
        say(_text(found))
    return FINE


def _text(c: Comparison) -> str:
    about, one = c.about, c.kept[0]
    lines = [
        f"{format_count(c.arch.params_total)} parameters, step {c.step:,}, on {c.tokens:,} validation tokens "
        f"({c.windows} windows); {about['device']}, {about['threads']} threads, {about['rounds']} rounds, "
        f"tokens per {about['clock'].removesuffix('s')}",
        f"fp32 loss {one.loss:.4f} ± {one.loss_se:.4f} nats/token (standard error of the text)"
        + ("" if one.bits_per_byte is None else f", {one.bits_per_byte:.4f} bits/byte"),
        f"{'':<10}{'bytes':>12}{'bits/weight':>12}  {'change of the loss, 95%':<34}"
        + "".join(f"{f'{w.name}, x fp32':<26}" for w in c.works),
    ]
    for k in c.kept:
        change = "-" if k is one else f"{k.change.value:+.5f} [{k.change.low:+.5f}, {k.change.high:+.5f}]"
        speeds = "".join(
            f"{f'{s.tokens_per_s:,.0f}/s {s.ratio:.2f} [{s.ratio_low:.2f}, {s.ratio_high:.2f}]':<26}"
            for s in (k.speed[w.name] for w in c.works)
        )
        bits = 8 * k.bytes.total / c.arch.params_total
        lines.append(f"{k.scheme.name:<10}{k.bytes.total:>12,}{bits:>12.2f}  {change:<34}{speeds}".rstrip())
    return "\n".join(lines)
