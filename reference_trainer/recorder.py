"""What a run writes about itself: every step and evaluation exactly, times and dollars beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from torch import Tensor, nn

from reference_trainer import checkpoint, machine
from reference_trainer.data.order import Batches
from reference_trainer.data.shards import TokenSet
from reference_trainer.errors import ResumeError
from reference_trainer.hooks import Action
from reference_trainer.limits import Limits
from reference_trainer.machine import Place
from reference_trainer.metrics import Mirror, Perf, Progress, Ring, RunLog, gpu_reader, read_log
from reference_trainer.probe import activations
from reference_trainer.run_folder import RunFolder
from reference_trainer.state import State
from scaling.architecture import Arch
from scaling.flops import flops_per_token

#: How a run ended -> what its point is worth. Whatever is not here stopped before its end: no point.
STATUS = {"horizon": "ok", "not finite": "failed"}
#: A cooldown that time has cut below this share of what was asked for makes no point.
LEAST_COOLED = 0.9


class Recorder:
    """The logs of a run; in processes above the first it only keeps the ring, which is equal in all.

    Parameters
    ----------
    run : RunFolder
        Where the logs are.
    config : reference_trainer.train.Config
        The run's settings.
    place : Place
        This process.
    limits : Limits
        The clock and the purse.
    arch : Arch
        The model's shape.
    names : sequence of str
        What is pushed at every step.
    start : Loaded, optional
        The checkpoint that the run goes on from: the log is cut to its length then.
    own : bool
        The checkpoint is the run's own, not a trunk's.
    """

    def __init__(
        self, run: RunFolder, config: Any, place: Place, limits: Limits, arch: Arch, names: Sequence[str],
        start: checkpoint.Loaded | None,
    ) -> None:  # fmt: skip
        self.run, self.config, self.place, self.limits, self.arch = run, config, place, limits, arch
        self._writes = place.rank == 0
        own = start is not None and run.saved_at >= 0
        self._flops = {name: flops_per_token(arch, name, seq_len=config.seq_len) for name in ("6N", "palm")}
        peak, self._peak_source = machine.peak_flops(place, config.peak_tflops)
        self._peak = None if peak is None else peak * place.world
        self._perf = Perf(
            step_tokens=config.step_tokens, flops_per_token=self._flops, peak_flops=self._peak,
            usd_per_hour=config.usd_per_hour, machine=gpu_reader(place.device) if self._writes else None,
        )  # fmt: skip
        self._ring = Ring(names, config.log_every, place.device)
        self._log: RunLog | None = None
        self._start, self._own = start, own
        self._open = ExitStack()

    def __enter__(self) -> Self:
        start = self._start
        if self._writes:
            with ExitStack() as opened:  # what was opened before an error is closed again
                log = RunLog(self.run.path / "log.jsonl", 0 if start is None else start.manifest["log_bytes"])
                self._log = opened.enter_context(log)
                times = self.run.path / "perf.jsonl"
                self._times = opened.enter_context(RunLog(times, None if self._own else 0))
                progress = Progress(float("inf"), print_every=max(100, self.config.log_every))
                self._progress = opened.enter_context(progress)
                mirror = Mirror(
                    self.config.mlflow, self.run.path, run_name=self.config.run_name, resume=self._own,
                    say=self._progress.say, params=vars(self.config),
                )  # fmt: skip
                self._mirror = opened.enter_context(mirror)
                if self._own and start is not None:
                    last = [row["wall_s"] for row in read_log(times) if row["kind"] == "perf"]
                    self._perf.load_state_dict(start.manifest["perf"], wall_s=last[-1] if last else 0.0)
                self._open = opened.pop_all()
        self._perf.begin(0 if start is None else start.step)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def begin(self, identity: Mapping[str, Any], batches: Batches, val: TokenSet) -> None:
        """Write down which run this is and where it runs.

        Raises
        ------
        ResumeError
            The run that is gone on with was evaluated on other tokens: its loss would be given for these.
        """
        before = self._start.manifest.get("val_hash") if self._start is not None and self._own else None
        if before not in (None, val.sha256):
            raise ResumeError(
                f"{self.config.val_data}: the evaluations of {self.run.path} are on other tokens (sha256 "
                f"{before[:16]}, these have {val.sha256[:16]}). Use the val_data it began with, or another run_dir.",
                source=str(self.run.path),
                column="val_data",
            )
        self._identity, self._batches, self._val = identity, batches, val
        self._versions = machine.versions()
        words = f"{self.place.describe()}; MFU against {self._peak_source}"
        self.run.write(
            "run.json",
            {**identity, **self._counts(), "machine": words, "peak_flops": self._peak, **self._versions},
        )
        if self._writes:
            self._progress.say(f"{self.run.path}: {self._counts()['params_total']:,} parameters on {words}")

    def push(self, step: int, values: Sequence[Tensor | float]) -> None:
        """Keep one step's numbers on the device."""
        self._ring.push(step, values)

    def read(self, total: float | None = None) -> list[dict[str, float]]:
        """Read the ring, write its steps down and return them."""
        rows = self._ring.read()
        if self._log is None or not rows:
            return rows
        self._log.extend("step", rows)
        step = int(rows[-1]["step"])
        numbers = self._perf.read(step, total=total, usd=self.limits.spent_usd)
        self._times.append("perf", step, numbers)
        if self._perf.alarm:
            self._times.append("alarm", step, {"why": self._perf.alarm})
            self._progress.say(self._perf.alarm)
        self._progress.update(step, {**rows[-1], **numbers}, total=total)
        for row in rows:
            self._mirror.log(int(row["step"]), {k: v for k, v in row.items() if k != "step"})
        self._mirror.log(step, numbers)
        return rows

    def event(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Write one row that is no step: an evaluation, activations, an action."""
        if self._log is not None:
            self._log.append(kind, step, values)
            if kind == "eval":
                self._mirror.log(step, {f"eval_{name}": value for name, value in values.items()})
                self._progress.say(f"step {step:,}: validation loss {values['loss']:.4f} nats/token")

    def action(self, step: int, action: Action) -> None:
        """Write down what the observer asks for; what it repeats is paid for, so the budget's ledger says why."""
        if action.to_step is not None:
            self.limits.note(f"{action.kind} from step {step} to {action.to_step}: {action.why}")
        values = asdict(action)
        self.event("action", step, {"do": values.pop("kind"), **values})
        if self._writes:
            self._progress.say(f"step {step:,}: {action.kind}: {action.why}")

    def probe(self, step: int, model: nn.Module, batch: Tensor) -> None:
        """Write down how large the residual stream is after each block, on one sequence of a batch."""
        self.event("activations", step, activations(model, batch[:1, : self.config.seq_len], self.place))

    def waiting(self) -> AbstractContextManager[None]:
        """Count the seconds inside as waiting for data."""
        return self._perf.waiting()

    def aside(self) -> AbstractContextManager[None]:
        """Count the seconds inside as no training, and keep as many free at the end."""
        return self.limits.reserving(self._perf.aside())

    @property
    def log_bytes(self) -> int:
        """Length of the log, on the disk when this returns."""
        return 0 if self._log is None else self._log.sync()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of logs, clock and evaluations."""
        return {
            "log_bytes": self.log_bytes,
            "perf": self._perf.state_dict(),
            "val_hash": self._val.sha256,
        }

    def finish(self, ended: str, state: State) -> dict[str, Any]:
        """Write `result.json`: the point that this run is, or why it is none.

        ``status`` is ``ok`` for a run that reached its horizon and cooled down (over 0.9 of the share asked for at
        least, where time ran short), ``failed`` for one whose numbers or last loss went wrong, and ``truncated`` for
        all others: no points. ``wall_s``, ``usd`` and ``mfu`` are of the run's own steps; what a trunk has paid is
        not in them.
        """
        steps, began, config, val = state.step, state.began, self.config, self._val
        tokens, share = steps * config.step_tokens, state.cooled(config.cooldown)
        useful_s = self._perf.state_dict()["useful_s"]
        rate = (steps - began) * config.step_tokens / useful_s if useful_s > 0 else None
        whole = share > 0 and share >= LEAST_COOLED * round(config.cooldown * steps) / steps
        status = STATUS.get(ended, "truncated") if whole else "truncated"
        evaluation = self._evaluation(steps)
        if status == "ok" and not math.isfinite(evaluation["loss"] or 0.0):
            status = "failed"  # it reached its end with broken weights: no point
        result = {
            "run_dir": str(self.run.path), "status": status, "ended_by": ended, "steps": steps, "began": began,
            "trunk_hash": self._identity["trunk_hash"], "config_hash": self._identity["config_hash"],
            "seed": config.seed, **self._counts(), "tokens": tokens,
            "unique_tokens": min(self._batches.unique_tokens(steps), tokens), "flops": self._flops["6N"] * tokens,
            **evaluation, "loss_unit": "nats/token", "bytes_per_token": val.bytes_per_token,
            "val_hash": val.sha256[:16], "tokenizer": val.tokenizer, "lr": config.lr, "batch": config.step_tokens,
            "seq_len": config.seq_len, "cooldown": config.cooldown, "cooled": share,
            "inject": config.inject, "interventions": len(state.interventions), "wall_s": self.limits.wall_s,
            "device": self.place.name, "usd": self.limits.spent_usd, "tokens_per_s": rate,
            "mfu": rate * self._flops["palm"] / self._peak if rate and self._peak else None,
            "git": self._versions["git"],
        }  # fmt: skip
        self.run.write("result.json", result)
        never = [at for at in config.checkpoint_at if at > steps]
        if self._writes and ended == "horizon" and never:
            self._progress.say(
                f"checkpoint_at: the run was over after step {steps:,}, before {', '.join(map(str, never))}"
            )
        return result

    def _counts(self) -> dict[str, int]:
        return {f"params_{count}": self.arch.params(count) for count in ("total", "non_embedding", "matmul")}

    def _evaluation(self, step: int) -> dict[str, Any]:
        """Return the evaluation at a step, from the log, or nothing in place of it."""
        rows = read_log(self.run.path / "log.jsonl") if self._writes else iter(())
        found = [row for row in rows if row["kind"] == "eval" and row["step"] == step]
        if not found:
            return {"loss": None, "loss_se_eval": None, "eval_tokens": None}
        return {
            "loss": found[-1]["loss"],
            "loss_se_eval": found[-1]["loss_se"],
            "eval_tokens": found[-1]["tokens"],
        }
