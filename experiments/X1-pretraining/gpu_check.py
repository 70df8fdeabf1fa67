"""What the trainer does on one GPU: speed, MFU, memory, and whether resuming and vetoing hold there.

Run it by `gpu_check.sh`, which stops it in time. Needs torch, numpy and safetensors; the tokens are random, which
changes no speed. Results are written after every part, so what was measured before a stop is kept.

Speed is that of `reference_trainer.train.update` with its batches and its ring, on steps of half a million tokens. The
vocabulary of 50,257 is padded to 50,304, as most trainers do; FLOPs are counted without the padding.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.benchmarks.device_loop import Loop, clear, largest, peak_memory, reset_memory, timed
from reference_trainer import checkpoint, machine
from reference_trainer.data.shards import write_shard
from reference_trainer.hooks import Action, Silent
from reference_trainer.metrics import gpu_reader, read_log
from reference_trainer.train import SIGNALS, Config, train
from scaling.flops import flops_per_token

VOCAB, PADDED, STEP_TOKENS = 50_257, 50_304, 1 << 19
SHAPES: Mapping[str, dict[str, int]] = {
    "48M": dict(layers=8, d_model=512, heads=8, kv_heads=2, d_ff=1408),
    "124M": dict(layers=12, d_model=768, heads=12, kv_heads=12, d_ff=2048),
}
CASES = (("48M", 1024), ("124M", 1024), ("48M", 2048), ("124M", 2048))
#: Tokens of the largest micro-batch that is tried, seconds a speed is measured for, seconds a case may need.
MOST_TOKENS, MEASURED_S, CASE_S = 1 << 18, 12.0, 90.0


class Check:
    """The parts of the check, and what they have found so far.

    Parameters
    ----------
    out : pathlib.Path
        Folder of the results.
    ends_at : float
        `time.monotonic` at which no further part begins.
    smoke : bool
        Tiny shapes, moments instead of seconds: that everything runs, nothing about speed.
    """

    def __init__(self, out: Path, ends_at: float, smoke: bool) -> None:
        self.out, self.ends_at, self.smoke = out, ends_at, smoke
        self.shapes = SHAPES
        self.cases: tuple[tuple[str, int], ...] = CASES
        self.vocab, self.padded, self.step_tokens, self.measured_s = VOCAB, PADDED, STEP_TOKENS, MEASURED_S
        self.scratch = tempfile.TemporaryDirectory()
        if smoke:
            shape = dict(layers=2, d_model=32, heads=4, kv_heads=2, d_ff=48)
            self.shapes, self.cases = {"smoke": shape}, (("smoke", 16), ("smoke", 32))
            self.vocab, self.padded, self.step_tokens, self.measured_s = 250, 256, 512, 0.2
        self.place = machine.join("auto", "auto", "off" if smoke else "auto", "auto")
        self.peak, self.peak_source = machine.peak_flops(self.place, 0.0)
        self.found: dict[str, Any] = {
            "device": self.place.describe(), "peak_flops": self.peak, "peak_source": self.peak_source, "smoke": smoke,
            "python": platform.python_version(), **machine.versions(), "cuda": torch.version.cuda,
        }  # fmt: skip
        self.data = self._data()

    def _data(self) -> dict[str, str]:
        """Write random tokens: 16 steps of them, and a few to evaluate on."""
        rng, paths = np.random.default_rng(0), {}
        for name, tokens in (
            ("train", 16 * self.step_tokens + 1),
            ("val", 4 * max(t for _, t in self.cases) + 1),
        ):
            paths[f"{name}_data"] = str(Path(self.scratch.name) / f"{name}.tokens")
            drawn = rng.integers(0, self.vocab, tokens, dtype=np.int32)
            write_shard(paths[f"{name}_data"], drawn, tokenizer="random", vocab=self.vocab)
        return paths

    def config(self, shape: Mapping[str, int], seq_len: int, micro: int, **changes: Any) -> Config:
        """Return the configuration of one case."""
        given = dict(
            run_dir="", **self.data, **shape, vocab=self.padded, seq_len=seq_len, micro_seqs=micro,
            batch_seqs=self.step_tokens // seq_len, tokens=1e12, lr=6e-4, mlflow="",
        )  # fmt: skip
        return Config(**{**given, **changes})

    def part(self, name: str, needs_s: float, work: Callable[[], Any]) -> None:
        """Do one part if its time is left, and write down what it found, or why it found nothing."""
        left = self.ends_at - time.monotonic()
        if left < needs_s:
            self.found[name] = {"left out": f"{left:.0f} s are left, {needs_s:.0f} s may be needed"}
        else:
            try:
                self.found[name] = work()
            except Exception as error:  # the other parts are worth having
                self.found[name] = {"failed": f"{type(error).__name__}: {str(error)[:500]}"}
            clear()
        write(self.out, self.found)
        print(f"{name}: {json.dumps(self.found[name])}", flush=True)

    def speed(self, name: str, seq_len: int) -> dict[str, Any]:
        """Measure one shape at one length, at the largest micro-batch that fits."""
        most = min(MOST_TOKENS, self.step_tokens) // seq_len
        tried = [most >> k for k in range(most.bit_length())]
        micro = largest(tried, lambda m: self.fits(self.shapes[name], seq_len, m))
        while True:
            try:
                return self.measure(name, seq_len, micro)
            except torch.OutOfMemoryError:  # compiled models need less, as a rule
                clear()
                micro = largest([m for m in tried if m < micro], lambda m: True)

    def fits(self, shape: Mapping[str, int], seq_len: int, micro: int) -> bool:
        """Return whether a step of two micro-batches has room, not compiled: that takes a second to try."""
        try:
            with_two = self.config(shape, seq_len, micro, batch_seqs=2 * micro)
            Loop(with_two, replace(self.place, compile=False)).step(0)
        except torch.OutOfMemoryError:
            return False
        finally:
            clear()
        return True

    def measure(self, name: str, seq_len: int, micro: int) -> dict[str, Any]:
        """Measure tokens/s of a compiled model, in steps until the time for it is over."""
        config = self.config(self.shapes[name], seq_len, micro)
        reset_memory(self.place)
        loop = Loop(config, self.place)
        first_s, second_s = (timed(self.place, partial(loop.step, k)) for k in (0, 1))
        loop.step(2)
        took: list[float] = []
        while not took or (sum(took) < self.measured_s and len(took) < 200):
            took.append(timed(self.place, lambda: loop.step(3 + len(took))))
        rate = config.step_tokens / float(np.median(took))
        arch = replace(config.arch(self.vocab), vocab=self.vocab)
        mfu = {
            f"mfu_{count}": rate * flops_per_token(arch, count, seq_len=seq_len) / self.peak
            if self.peak
            else None
            for count in ("palm", "6N")
        }
        return {
            "model": name, "params": arch.params("total"), "seq_len": seq_len, "micro_batch": micro,
            "step_tokens": config.step_tokens, "tokens_per_s": rate, **mfu,
            "fastest_tokens_per_s": config.step_tokens / min(took), "steps": len(took),
            "compile_s": max(first_s - second_s, 0.0) if self.place.compile else None, "first_step_s": first_s,
            "peak_memory_gb": peak_memory(self.place), "loss": loop.read()[-1]["loss"],
            **gpu_reader(self.place.device)(),
        }  # fmt: skip

    def small(self, run_dir: str = "", **changes: Any) -> Config:
        """Return a small model, for what has nothing to do with speed; with dropout, which is drawn on the device."""
        shape = dict(layers=2, d_model=64, heads=4, kv_heads=2, d_ff=128) if self.smoke else dict(
            layers=4, d_model=256, heads=4, kv_heads=2, d_ff=704
        )  # fmt: skip
        length = self.cases[0][1]
        return self.config(
            shape, length, 0, run_dir=run_dir, batch_seqs=8, tokens=20 * 8 * length, warmup_tokens=5 * 8 * length,
            eval_tokens=2 * length, dropout=0.1, compile="off" if self.smoke else "auto", **changes,
        )  # fmt: skip

    def resume(self) -> dict[str, Any]:
        """Train 20 steps twice, and once in two halves, and say whether all three are the same, bit for bit."""
        folders = [str(Path(self.scratch.name) / name) for name in ("whole", "again", "halves")]
        for folder in folders[:2]:
            train(self.small(folder))
        first = train(self.small(folders[2]), StopsAt(10))
        train(self.small(folders[2]))
        whole, again, halves = (final(folder) for folder in folders)
        apart = {"resumed": difference(halves, whole), "whole": difference(again, whole)}
        return {
            "stopped_at": first["steps"], "steps": len(halves["loss"]),
            "resumed_is_whole": not any(apart["resumed"].values()),
            "whole_is_itself": not any(apart["whole"].values()), "differ_by": apart,
        }  # fmt: skip

    def veto(self) -> dict[str, Any]:
        """Poison a gradient with NaN: weights and moments stay, and the host does not wait."""
        loop, cuda = Loop(self.small(), self.place), self.place.device.type == "cuda"
        for k in range(3):
            loop.step(k)
        batch, before = loop.batch(3), loop.state()
        hook = loop.params[0].register_hook(lambda gradient: gradient * float("nan"))  # type: ignore[no-untyped-call]
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")  # what torch knows to wait raises
        try:
            signals = loop.update(batch, 3)
        finally:
            if cuda:
                torch.cuda.set_sync_debug_mode("default")
            hook.remove()
        withheld, finite = loop.state() == before, bool(signals[SIGNALS.index("finite")])
        loop.step(4)
        return {
            "seen_as_finite": finite, "update_withheld": withheld, "goes_on_after": loop.state() != before,
            "host_waited": False if cuda else None,  # it would have raised
        }  # fmt: skip


class StopsAt(Silent):
    """Stops a run at a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def observe(self, step: int, metrics: Mapping[str, float]) -> Action:
        """Stop at the step, go on before it."""
        return Action("stop", why="half of the steps") if step >= self.step else Action()


def final(run_dir: str) -> dict[str, np.ndarray]:
    """Return what a run has come to: weights, moments, and the loss of every step."""
    path = checkpoint.latest(Path(run_dir) / "checkpoints")
    assert path is not None
    loaded = checkpoint.load(path)
    tensors = {**{f"model {k}": v for k, v in loaded.model.items()}, **loaded.optimizer}
    losses = [row["loss"] for row in read_log(Path(run_dir) / "log.jsonl") if row["kind"] == "step"]
    return {**{k: v.numpy() for k, v in tensors.items()}, "loss": np.array(losses)}


def difference(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the largest differences of weights, of moments, and of losses."""
    found = {"weights": 0.0, "moments": 0.0, "loss": 0.0}
    for name in a:
        kind = "loss" if name == "loss" else "weights" if name.startswith("model ") else "moments"
        found[kind] = max(found[kind], float(np.abs(a[name] - b[name]).max()))
    return found


def write(out: Path, found: Mapping[str, Any]) -> None:
    """Write the results as JSON, and the speeds as a table in Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu_check.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    columns = {
        "model": "{}", "params": "{:,}", "seq_len": "{}", "micro_batch": "{}", "tokens_per_s": "{:,.0f}",
        "mfu_palm": "{:.1%}", "mfu_6N": "{:.1%}", "peak_memory_gb": "{:.1f}", "compile_s": "{:.0f}",
    }  # fmt: skip
    lines = [list(columns), ["---"] * len(columns)]
    for row in (row for row in found.values() if isinstance(row, dict) and "tokens_per_s" in row):
        lines.append(["" if row[k] is None else form.format(row[k]) for k, form in columns.items()])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    rest = "\n".join(f"- {k}: {json.dumps(v)}" for k, v in found.items() if k in ("resume", "veto"))
    smoke = "A smoke test: these speeds mean nothing.\n\n" if found["smoke"] else ""
    (out / "gpu_check.md").write_text(
        f"{smoke}{found['device']}; torch {found['torch']}, CUDA {found['cuda']}; MFU against {found['peak_source']}; "
        f"vocabulary padded, FLOPs without the padding.\n\n{table}\n\n{rest}\n", encoding="utf-8",
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the parts in the order of their worth for their time; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--seconds", type=float, required=True, help="no part begins that may not end by then"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny shapes, also on a CPU")
    given = parser.parse_args(arguments)
    if not given.smoke and not torch.cuda.is_available():
        print("torch sees no CUDA device: nothing to measure here (--smoke runs on a CPU)", file=sys.stderr)
        return 2
    check = Check(given.out, time.monotonic() + given.seconds, given.smoke)
    check.part("veto", 30, check.veto)
    check.part(" ".join(map(str, check.cases[0])), CASE_S, lambda: check.speed(*check.cases[0]))
    check.part("resume", 60, check.resume)
    for case in check.cases[1:]:
        check.part(" ".join(map(str, case)), CASE_S, partial(check.speed, *case))
    check.scratch.cleanup()
    return int(any("failed" in part for part in check.found.values() if isinstance(part, dict)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
