"""What a ladder takes: hours and dollars on a named GPU, or hours on this machine from a few real steps."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reference_trainer.branch import config_of
from reference_trainer.errors import TrainerError
from reference_trainer.ladder import Plan, Run, Size
from reference_trainer.run_folder import write_whole
from scaling.errors import DataError
from scaling.estimate import Estimate
from scaling.findings import Finding

#: A measurement ends after so many steps or seconds, whichever comes first, and is read every so many steps.
_STEPS, _SECONDS, _EVERY = 200, 6.0, 10
#: A token of an evaluation costs a forward pass, of training also a backward pass of twice as much.
_EVAL_SHARE = 1 / 3


@dataclass(frozen=True)
class LadderCost:
    """Time and money of a ladder.

    Parameters
    ----------
    hours : Estimate
        From the start to the end, all workers at work.
    usd : Estimate or None
        Dollars; None where nobody said what an hour costs.
    tokens_per_s : mapping of size to Estimate
        Pace of one worker, where it was measured.
    basis : str
        Where the numbers come from.
    findings : tuple of Finding
    """

    hours: Estimate
    usd: Estimate | None
    tokens_per_s: Mapping[str, Estimate]
    basis: str
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "hours": self.hours.to_dict(), "usd": None if self.usd is None else self.usd.to_dict(),
            "tokens_per_s": {name: e.to_dict() for name, e in self.tokens_per_s.items()}, "basis": self.basis,
            "findings": [f.to_dict() for f in self.findings],
        }  # fmt: skip


def priced(plan: Plan) -> LadderCost:
    """Return what a ladder takes on the GPU of its section ``[cost]``, through `economics.cost`.

    Sizes are drawn with the same random numbers, so that a price or an utilisation that is off is off for all of
    them, and their draws are added. One start of the instance is counted for the whole ladder.
    """
    import numpy as np

    from economics import cost
    from economics.run_estimates import estimate_of

    section = plan.file.cost
    if section is None:
        raise DataError(f"{plan.path}: no [cost] section names a gpu", column="cost")
    dearest = max(plan.sizes, key=lambda s: s.arch.params_total * plan.tokens_of(s.name))
    rest = {"start_hours": 0, "bytes_per_token": 0}  # one start, and one copy of the data
    asked = section.model_dump(exclude_none=True)
    runs = {
        s.name: cost(
            arch=s.arch, D=plan.tokens_of(s.name), seq_len=plan.common["seq_len"],
            overheads={"bytes_per_token": plan.data.bytes / plan.tokens_of(s.name)} if s is dearest else rest, **asked,
        )
        for s in plan.sizes
    }  # fmt: skip
    found: dict[str, Finding] = {}
    for run in runs.values():
        for finding in run.findings:
            if finding.severity != "info":
                found.setdefault(finding.code, finding)
    outcomes = [run.outcome for run in runs.values()]
    return LadderCost(
        estimate_of(np.sum([o.wall_hours for o in outcomes], axis=0), "wall time", "h"),
        estimate_of(np.sum([o.total_usd for o in outcomes], axis=0), "cost", "$"),
        {}, f"{section.n_gpus} x {section.gpu}, one run at a time", tuple(found.values()),
    )  # fmt: skip


def measured(plan: Plan, jobs: int = 1) -> LadderCost:
    """Return what a ladder takes on this machine, from a few real steps of every size with one worker.

    Parameters
    ----------
    plan : Plan
    jobs : int
        Workers that the hours are divided by: what they take from each other is not measured.
    """
    rates = pace(plan)
    work = {size.name: float(plan.tokens_of(size.name)) for size in plan.sizes}
    for run in plan.run.values():
        work[run.size] += _EVAL_SHARE * plan.data.eval_tokens
    value, low, high = (
        sum(work[name] / getattr(rate, end) for name, rate in rates.items()) / 3600 / jobs
        for end in ("value", "high", "low")
    )
    hours = _estimate(value, low, high, "wall time", "h")
    budget = plan.file.budget
    usd = None
    if budget is not None:
        price = budget.usd_per_hour
        usd = _estimate(value * price, low * price, high * price, "cost", "$")
    return LadderCost(
        hours, usd, rates, f"measured here, {jobs} worker{'s' * (jobs > 1)} of one thread; saves not counted"
    )


def pace(plan: Plan) -> dict[str, Estimate]:
    """Return tokens per second of each size: median with the 10th and 90th percentile of readings over 10 steps."""
    from reference_trainer.pool import Pool

    with tempfile.TemporaryDirectory() as folder:
        with Pool(1, Path(folder) / "workers") as pool:
            out = {}
            for size in plan.sizes:
                out[size.name] = _pace(plan, size, pool, Path(folder) / size.name)
        return out


def _pace(plan: Plan, size: Size, pool: Any, folder: Path) -> Estimate:
    longest = next(run for run in plan.runs if run.size == size.name and run.kind == "trunk")
    short = Run(**{**vars(longest), "tokens": min(_STEPS, longest.steps) * plan.step_tokens, "leaves": ()})
    config = replace(
        config_of(plan, short, size.lr or size.lr_grid[0]), run_dir=str(folder), hours=_SECONDS / 3600, 
        log_every=_EVERY, eval_every=0, eval_tokens=plan.common["seq_len"], checkpoint_every=10**9, mlflow="",
        warmup_tokens=0.0,  # these few steps may be fewer than those of the warm-up
    )  # fmt: skip
    folder.mkdir()
    write_whole(folder / "config.toml", f"{config}\n".encode())
    pool.give(size.name, folder / "config.toml")
    answers: list[Any] = []
    while not answers:
        answers = pool.wait(1.0)
    lines = (
        (folder / "perf.jsonl").read_text(encoding="utf-8").splitlines() if "status" in answers[0][1] else []
    )
    readings = [row["tokens_per_s"] for row in map(json.loads, lines) if "tokens_per_s" in row]
    counted = sorted(readings[1:] or readings)  # the first has the first touches in it
    if not counted:
        raise TrainerError(f"{plan.path}: size {size.name} cannot be trained here: {answers[0][1]}")
    last = len(counted) - 1
    low, value, high = (float(counted[round(q * last)]) for q in (0.1, 0.5, 0.9))
    return _estimate(value, low, high, "pace", "tokens/s")


def _estimate(value: float, low: float, high: float, name: str, unit: str) -> Estimate:
    from economics.run_estimates import CostEstimate

    return CostEstimate(value, low, high, 0.8, "median", name, unit)
