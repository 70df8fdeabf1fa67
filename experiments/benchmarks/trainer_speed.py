"""How fast the trainer is on one CPU thread, and what watching a run costs.

    python -m experiments.benchmarks.trainer_speed            # about 2 minutes
    python -m experiments.benchmarks.trainer_speed --write    # and put the tables into README.md

A step of `reference_trainer.train` and one of a textbook loop of the same model take turns, so that a busy
machine slows both: their ratio is the median over the turns, tokens/s are of each one's best turn, all in CPU
seconds. MFU is in the palm convention against the best matrix product of 768 x 768 measured between the turns.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from economics.budget import BudgetGuard
from experiments.benchmarks.textbook_trainer import Textbook, textbook_step
from reference_trainer import machine
from reference_trainer.hooks import Silent
from reference_trainer.metrics import Perf, Ring, RunLog
from reference_trainer.probe import norms
from reference_trainer.train import SIGNALS, Config, Decoder, parameter_groups, update
from scaling.flops import flops_per_token

#: Layers, width, heads, feed-forward, sequences of 256 bytes a step, MFU to be reached.
SHAPES = ((2, 48, 2, 96, 16, 0.40), (5, 128, 4, 352, 16, 0.55), (5, 256, 4, 704, 16, 0.65))
LENGTH, VOCAB = 256, 256
#: Share of a step that watching may take, from 1M parameters and 4k tokens a step.
MOST_WATCHING = 0.02


class Turn:
    """The trainer and the textbook on one shape."""

    def __init__(self, layers: int, width: int, heads: int, d_ff: int, sequences: int) -> None:
        self.config = Config(
            run_dir="", train_data="", val_data="", layers=layers, d_model=width, heads=heads, d_ff=d_ff,
            seq_len=LENGTH, batch_seqs=sequences, tokens=1e9,
        )  # fmt: skip
        self.arch = self.config.arch(VOCAB)
        self.place = machine.join("cpu", "auto", "off", "auto")
        torch.manual_seed(0)
        self.model = Decoder(self.arch, self.config)
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, self.config), 1e-3, fused=True)
        self.old = [torch.empty_like(p) for group in self.optimizer.param_groups for p in group["params"]]
        self.textbook = Textbook(self.arch, LENGTH)
        self.textbook_optimizer = torch.optim.AdamW(self.textbook.parameters(), 1e-3)
        self.batch = torch.randint(0, VOCAB, (sequences, LENGTH + 1))

    def ours(self) -> list[torch.Tensor]:
        """Make one step of the trainer."""
        return update(self.model, self.optimizer, self.batch, 0, self.config, self.place, self.old)

    def theirs(self) -> None:
        """Make one step of the textbook."""
        textbook_step(self.textbook, self.textbook_optimizer, self.batch)

    def measure(self) -> None:
        """Measure one step of the trainer: what `update` does for the log alone."""
        params = [p for group in self.optimizer.param_groups for p in group["params"]]
        torch._foreach_copy_(self.old, params)
        torch.isfinite(params[0].sum())
        norms(self.optimizer, params, self.old)


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def speeds(turns: int) -> list[list[str]]:
    """Return a row for each shape: both loops and the matrix product, in turns."""
    rows = []
    for *shape, wanted in SHAPES:
        turn = Turn(*shape)
        ours, theirs, peak = [], [], 0.0
        for k in range(turns + 2):
            peak = max(peak, machine.peak_flops(turn.place, 0.0)[0] or 0.0)
            first, second = (turn.ours, turn.theirs) if k % 2 else (turn.theirs, turn.ours)
            pair = seconds(first), seconds(second)
            if k >= 2:  # the first steps touch their memory for the first time
                ours.append(pair[1 - k % 2])
                theirs.append(pair[k % 2])
        tokens = turn.config.step_tokens
        mfu = flops_per_token(turn.arch, "palm", seq_len=LENGTH) * tokens / min(ours) / peak
        reached = "reached" if mfu >= wanted else "MISSED"
        ratio = median(t / o for t, o in zip(theirs, ours, strict=True))
        rows.append([
            f"{turn.arch.params_total:,}", f"{tokens / min(ours):,.0f}", f"{tokens / min(theirs):,.0f}",
            f"**{ratio:.2f}x**" + ("" if ratio >= 1 else " MISSED"),
            f"**{mfu:.0%}** (at least {wanted:.0%}: {reached})", f"{peak / 1e9:.0f} GFLOP/s",
        ])  # fmt: skip
    return rows


def watching(turns: int) -> list[list[str]]:
    """Return a row for each part of watching a run, at 1M parameters and 4,096 tokens a step."""
    turn = Turn(*SHAPES[1][:-1])
    step = min([seconds(turn.ours) for _ in range(turns + 2)][2:])
    signals: list[torch.Tensor | float] = [*turn.ours(), 1e-3]
    parts = {
        "norms of weights, moments and update; finite check": min(seconds(turn.measure) for _ in range(30))
    }
    with tempfile.TemporaryDirectory() as folder:
        ring, log = Ring(SIGNALS, 10, "cpu"), RunLog(Path(folder) / "log.jsonl", 0)
        perf, times = (
            Perf(step_tokens=1, flops_per_token={"6N": 1.0, "palm": 1.0}),
            RunLog(Path(folder) / "p", None),
        )
        silent = Silent()
        guard = BudgetGuard(1e9, 1.0, journal=Path(folder) / "budget.json")

        def record() -> None:
            for k in range(10):
                ring.push(k, signals)
            rows = ring.read()
            log.extend("step", rows)
            times.append("perf", 0, perf.read(10))
            for row in rows:
                silent.observe(int(row["step"]), row)

        parts["ring, log, pace and the observer's call"] = min(seconds(record) for _ in range(30)) / 10
        waits = []  # of the clock on the wall: the guard's journal waits for the disk
        for _ in range(60):
            begin = time.perf_counter()
            guard.step()
            waits.append(time.perf_counter() - begin)
        parts["budget guard, with its journal"] = sum(waits) / len(waits)
        log.close()
        times.close()
    parts["together"] = sum(parts.values())
    verdict = "reached" if parts["together"] < MOST_WATCHING * step else "MISSED"
    rows = [[name, f"{1e6 * took:.0f} us", f"{took / step:.2%}"] for name, took in parts.items()]
    rows[-1][-1] = f"**{rows[-1][-1]}** (below {MOST_WATCHING:.0%}: {verdict})"
    return [["a step", f"{1e6 * step:,.0f} us", ""], *rows]


def main() -> None:
    """Print the tables, or write them."""
    from experiments.benchmarks.tables import markdown, write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    parser.add_argument("--turns", type=int, default=20, help="turns of each pair")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    head = ["parameters", "tokens/s", "textbook loop, tokens/s", "faster by", "MFU (palm)", "matrix product"]
    text = markdown(head, speeds(arguments.turns))
    text += "\n\n" + markdown(
        ["watching a run of 1M parameters", "a step", "share"], watching(arguments.turns)
    )
    text += f"\n\nOne thread; torch {torch.__version__}; {machine.join('cpu', 'auto', 'off', 'auto').name}."
    print(text)
    if arguments.write:
        write("trainer_speed", text)


if __name__ == "__main__":
    main()
