"""What recovery is worth: every fault, with and without the playbook, against twins that met none.

    python -m experiments.benchmarks.recovery            # print the table, about 10 minutes of one core
    python -m experiments.benchmarks.recovery --write    # and put it into README.md
    python -m experiments.benchmarks.recovery lr_spike   # the faults whose name contains this

Real runs of `reference_trainer` on a source of known entropy. All make the same number of steps; the loss is that on
the fixed validation block at the end. A fault is survived when that is within the larger of 1% and two standard
deviations of the twins (other seeds, no fault), or when the run was stopped with a report.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import argparse
import json
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from experiments.ladders.markov_source import MarkovSource, write_source
from reference_trainer import checkpoint
from reference_trainer.metrics import read_log
from reference_trainer.train import Config, train

STEPS, AT = 700, 350
#: What is injected; the fault strikes half-way.
FAULTS = (
    f"lr_spike@{AT}x5:100", f"random_labels@{AT}x60", f"repeat_token@{AT}x40", f"domain_swap@{AT}x60",
    f"weight_noise@{AT}:1", f"zero_v@{AT}", f"nan_grad@{AT}x3", f"nan_grad@{AT}x30", f"bit_flip@{AT}x40:0.5",
    f"drift@{AT}x150:0.004",
)  # fmt: skip
SEEDS = (1, 2, 3)
SHAPE: dict[str, Any] = dict(
    layers=2, d_model=48, heads=4, d_ff=128, seq_len=64, batch_seqs=8, warmup_tokens=50 * 512, lr=6e-3,
    tokens=STEPS * 512, eval_tokens=32_768, checkpoint_every=100, recovery_wait=50, recovery_margin=100,
    snapshot_every=25, snapshots=8, device="cpu", mlflow="",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    loss: float
    ended_by: str
    finite: bool
    entries: list[dict[str, Any]]
    steps_made: int
    worst: float


def run(folder: Path, data: dict[str, str], **changes: Any) -> Outcome:
    """Train one run and read what it wrote."""
    config = Config(run_dir=str(folder), **{**SHAPE, **data, **changes})
    result = train(config)
    path = checkpoint.latest(folder / "checkpoints")
    assert path is not None
    weights = checkpoint.load(path).model.values()
    log = folder / "interventions.jsonl"
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    steps = [row for row in read_log(folder / "log.jsonl") if row["kind"] == "step"]
    late = [row["loss"] for row in steps if row["step"] > AT and math.isfinite(row["loss"])]
    return Outcome(
        math.nan if result["loss"] is None else result["loss"], result["ended_by"],
        all(bool(torch.isfinite(t).all()) for t in weights), entries, len(steps), max(late, default=math.nan),
    )  # fmt: skip


def told(entries: list[dict[str, Any]]) -> str:
    """Return what was done, in a line."""
    parts = []
    for entry in entries:
        does = entry["what"]
        if does in ("skip", "rollback", "lower_lr"):
            does += f" to {entry['to_step']}, {entry['skip']} batches out"
            does += f", rate x{entry['lr_factor']:.2f}" if entry["lr_factor"] < 1 else ""
        kind = f" ({entry['class']})" if entry["class"] else ""
        parts.append(f"{entry['step']}: {does}{kind}: {entry['outcome']}")
    return "; ".join(parts) or "nothing"


def measure(folder: Path, names: tuple[str, ...] = FAULTS) -> tuple[list[list[str]], str]:
    """Return a row for each fault, and a line about the twins."""
    source = MarkovSource.dirichlet(16)
    data = write_source(folder, source, train=1_000_000, val=40_000)
    twins = [run(folder / f"twin{seed}", data, seed=seed) for seed in SEEDS]
    plain = run(folder / "plain", data, recovery="auto")
    sd = stdev(twin.loss for twin in twins)
    bound = max(0.01 * plain.loss, 2 * sd)
    rows = []
    for name in names:
        off = run(folder / f"off_{name}", data, inject=name, recovery="off")
        on = run(folder / f"on_{name}", data, inject=name, recovery="auto")
        gap = on.loss - plain.loss
        good = on.finite and (abs(gap) <= bound or (on.ended_by == "observer" and bool(on.entries)))
        rows.append([
            f"`{name}`", f"{off.worst:.2f}", f"{off.loss - plain.loss:+.4f}",
            f"**{gap:+.4f}**" + ("" if good else " MISSED"), told(on.entries), f"{on.steps_made - STEPS}",
        ])  # fmt: skip
        print(rows[-1], flush=True)
    alarms = sum(len(run.entries) for run in (plain, *twins))
    step_tokens = Config(run_dir="", **(SHAPE | data)).step_tokens
    words = (
        f"Twins without a fault: {plain.loss:.4f} with the same seed, {fmean(t.loss for t in twins):.4f} ± {sd:.4f} "
        f"with others (the source's entropy is {source.entropy:.4f}); so the bound is {bound:.4f} nats. Their logs of "
        f"interventions have {alarms} lines. {STEPS} steps of {step_tokens} tokens."
    )
    return rows, words


def main() -> None:
    """Print the table, or write it."""
    from experiments.benchmarks.tables import markdown, write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("faults", nargs="*", help="parts of names; all if none is given")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--keep", help="folder that the runs are kept in")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = tuple(f for f in FAULTS if not arguments.faults or any(part in f for part in arguments.faults))
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows, words = measure(Path(arguments.keep or folder), chosen)
    head = ["fault", "worst loss without recovery", "left at the end without", "left with recovery", "what it did",
            "steps made again"]  # fmt: skip
    text = (
        markdown(head, rows) + f"\n\n{words} {time.perf_counter() - begin:.0f} s; torch {torch.__version__}."
    )
    print(text)
    if arguments.write:
        write("recovery", text)


if __name__ == "__main__":
    main()
