"""After training: a checkpoint in fewer bits, and what serving it costs beside models with open weights.

    python -m experiments.x1.after_training CHECKPOINT --val-data SHARDS --usd-per-hour 0.05 --out FOLDER

writes ``after-training.json``, ``after-training.csv`` and ``after-training.md``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: speeds are those of one core

import argparse
import csv
import io
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from economics import inference_cost
from economics.inference_measured import measured_serving
from economics.run_numbers import positive
from experiments.x1.after_words import page
from experiments.x1.stages import ROOT, write_json
from scaling.architecture import Arch
from scaling.errors import DataError, ScalingError
from scaling.published_archs import arch as published
from scaling.storage import write_atomically
from scaling.units import parse_count

if TYPE_CHECKING:
    from reference_trainer.quantized.comparison import Comparison

MODELS = Path(__file__).with_name("open_models.toml")
NAME = "after-training"
#: Of a request to the models with open weights: four tokens read to one made, as the trained one was timed, and as
#: many as the smallest of their contexts (GPT-2: 1,024) has room for.
PROMPT, OUTPUT = 512, 128
#: Bits of a weight that models are costed with.
BITS = (16, 8, 4)
COLUMNS = (
    "model", "weights", "params", "on", "how", "batch", "prompt_tokens", "output_tokens", "usd_per_hour",
    "bytes_per_token",
    *(f"usd_per_{x}{end}" for x in ("million_tokens", "million_input", "million_output", "mb")
      for end in ("", "_p10", "_p90")),
)  # fmt: skip


def open_models(path: Path = MODELS) -> list[tuple[Arch, float]]:
    """Return shapes with open weights and the bytes that a token of theirs holds.

    Raises
    ------
    DataError
        A model has a tokenizer that the file does not measure.
    """
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    size = {name: told["text"]["bytes"] / t["tokens"] for name, t in told["tokenizers"].items()}
    missing = sorted(set(told["models"].values()) - set(size))
    if missing:
        raise DataError(
            f"{path.name}: the tokenizers of {', '.join(missing)} are not measured", source=str(path)
        )
    return [(published(name), size[tokenizer]) for name, tokenizer in told["models"].items()]


def money(
    found: Comparison, *, usd_per_hour: float, device_name: str, gpu: str, busy: Any = None, draws: int = 10_000,
    models: Sequence[tuple[Arch, float]] | None = None, **price: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the rows of the table of money.

    Parameters
    ----------
    found : Comparison
    usd_per_hour : float
        Price of what ran: a core, where one thread was timed.
    device_name : str
        What that is.
    gpu : str
        That the roofline is of.
    busy, draws
        As in `economics.inference_cost`, for every row.
    models : sequence of (Arch, float), optional
        Other models and the bytes of their tokens; `open_models` if not given.
    **price
        `price`, `market`, `provider`, `as_of` of the GPU.
    """
    rows, size = [], found.bytes_per_token
    for kept in found.kept:
        for work in found.works:
            if not work.output:
                continue
            served = measured_serving(
                read_tokens_per_s=kept.speed["prefill"].rounds, write_tokens_per_s=kept.speed[work.name].rounds,
                usd_per_hour=usd_per_hour, prompt_tokens=work.prompt, output_tokens=work.output, bytes_per_token=size,
                busy=busy, draws=draws,
            )  # fmt: skip
            about = {"model": "this one", "weights": kept.scheme.name, "params": found.arch.params_total,
                     "on": device_name, "how": "measured", "batch": work.batch, "prompt_tokens": work.prompt,
                     "output_tokens": work.output, "usd_per_hour": usd_per_hour, "bytes_per_token": size}  # fmt: skip
            rows.append(about | _dollars(served))
    longest = max((w for w in found.works if w.output), key=lambda w: w.batch)
    asked: list[tuple[Arch, float | None, int, int, int | None]]
    asked = [(found.arch, size, longest.prompt, longest.output, 1)]
    asked += [(shape, b, PROMPT, OUTPUT, None) for shape, b in (open_models() if models is None else models)]
    for shape, per_token, prompt, output, n_gpus in asked:
        for bits in BITS:
            roof = inference_cost(
                arch=shape, gpu=gpu, n_gpus=n_gpus, prompt_tokens=prompt, output_tokens=output, weight_bits=bits,
                bytes_per_token=per_token, busy=busy, draws=draws, **price,
            )  # fmt: skip
            plan = roof.plan
            name = "this one" if shape is found.arch else str(shape.name)
            about = {"model": name, "weights": f"{bits} bits", "params": plan.params,
                     "on": f"{plan.n_gpus} x {plan.part.name}", "how": "roofline", "batch": plan.batch,
                     "prompt_tokens": prompt, "output_tokens": output,
                     "usd_per_hour": plan.n_gpus * plan.price.median, "bytes_per_token": per_token}  # fmt: skip
            rows.append(about | _dollars(roof))
    return rows


def _dollars(served: Any) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in ("usd_per_million_tokens", "usd_per_million_input", "usd_per_million_output", "usd_per_mb"):
        e = getattr(served, name)
        found |= {name: e and e.value, f"{name}_p10": e and e.low, f"{name}_p90": e and e.high}
    return found


def write(out: Path, content: Mapping[str, Any]) -> list[Path]:
    """Write the three files; the page is made of what the JSON holds."""
    out.mkdir(parents=True, exist_ok=True)
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(content["money"])
    write_atomically(out / f"{NAME}.csv", table.getvalue())
    write_atomically(out / f"{NAME}.md", page(content))
    return [write_json(out / f"{NAME}.json", content), out / f"{NAME}.csv", out / f"{NAME}.md"]


def build(given: argparse.Namespace, command: str) -> list[Path]:
    """Measure, cost and write."""
    from reference_trainer.quantized.comparison import compare

    price = {"price": given.gpu_price} if given.gpu_price else {"as_of": given.as_of}
    positive("usd_per_hour", given.usd_per_hour, "dollars per hour of what runs")  # before minutes of timing
    inference_cost(arch=open_models()[0][0], gpu=given.gpu, draws=100, **price)
    found = compare(
        given.checkpoint, given.val_data, tokens=parse_count(given.tokens), batches=tuple(given.batch or (1, 16)),
        rounds=given.rounds, out=given.keep, device=given.device,
    )  # fmt: skip
    rows = money(
        found, usd_per_hour=given.usd_per_hour, device_name=given.machine or f"1 core, {found.about['device']}",
        gpu=given.gpu, **price,
    )  # fmt: skip
    told = tomllib.loads(MODELS.read_text(encoding="utf-8"))
    named = {"checkpoint": _portable([found.checkpoint])[0], "data": _portable([found.data])[0]}
    content = {"command": command, "quantized": found.to_dict() | named, "money": rows,
               "tokenizers": told["tokenizers"], "text": told["text"],
               "price_source": given.price_source, "gpu_price_date": given.as_of}  # fmt: skip
    return write(given.out, content)


def main(arguments: list[str] | None = None) -> int:
    """Read the options and make the three files; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m experiments.x1.after_training", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("checkpoint", type=Path, help="a checkpoint, or the folder of a run")
    parser.add_argument("--val-data", type=Path, required=True, help="validation shards")
    parser.add_argument("--out", type=Path, required=True, help="folder of the three files")
    parser.add_argument(
        "--usd-per-hour", type=float, required=True, help="price of what runs: one core, on a CPU"
    )
    parser.add_argument("--price-source", default="given", help="where that price is from, in words")
    parser.add_argument("--machine", help="its name in the table")
    parser.add_argument("--keep", type=Path, help="folder for the int8 and int4 models")
    parser.add_argument("--tokens", default="1M", help="validation tokens that are read, at most")
    parser.add_argument("--batch", type=int, action="append", help="sequences written at once (1 and 16)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of the timing")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--gpu", default="H100-80GB-SXM", help="that other models are costed on")
    parser.add_argument(
        "--as-of", help="date of its price, from the table that ships; the newest if not given"
    )
    parser.add_argument("--gpu-price", type=float, help="or its price in dollars an hour")
    words = sys.argv[1:] if arguments is None else arguments
    given = parser.parse_args(words)
    try:
        files = build(given, " ".join(["python -m experiments.x1.after_training", *_portable(words)]))
    except (ScalingError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"written: {', '.join(map(str, files))}", file=sys.stderr)
    return 0


def _portable(words: Sequence[str]) -> list[str]:
    """Return the words of the command with paths as they are from the root of the repository, where they are in it."""
    import shlex

    found = []
    for word in words:
        path = Path(word)
        inside = path.is_absolute() and path.is_relative_to(ROOT)
        found.append(
            shlex.quote(str(path.relative_to(ROOT)) if inside else path.name if path.is_absolute() else word)
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
