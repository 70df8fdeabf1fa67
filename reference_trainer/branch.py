"""The training configuration of a trunk, of a branch, and of a short run that tries a rate. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reference_trainer.checkpoint_files import step_name
from reference_trainer.ladder import Plan, Run

if TYPE_CHECKING:
    from reference_trainer.train import Config


def config_of(plan: Plan, run: Run, lr: float, *, usd_per_hour: float = 0.0) -> Config:
    """Return the configuration of one run of a ladder.

    A branch differs from the run made from scratch in where it starts alone, and that is no part of the hash.

    Parameters
    ----------
    plan : Plan
    run : Run
        One of its runs.
    lr : float
        Learning rate of the run's size (of a check: the rate it tries).
    usd_per_hour : float
        What is counted for an hour of this run: a worker's share of the machine.
    """
    from reference_trainer.train import Config

    settings: dict[str, Any] = {
        **plan.common, **plan.size[run.size].settings, "lr": lr, "seed": run.seed, "tokens": float(run.tokens),
        "cooldown": plan.file.cooldown, "run_dir": str(plan.folder(run)), "run_name": run.run_id,
        "checkpoint_at": run.leaves, "usd_per_hour": usd_per_hour,
    }  # fmt: skip
    if run.kind == "branch":
        settings["start_from"] = str(leaves_from(plan, run))
    return Config(**settings)


def scratch_config(plan: Plan, run: Run, lr: float, run_dir: str) -> Config:
    """Return the configuration of the same point made on its own, for comparison."""
    from dataclasses import replace

    return replace(config_of(plan, run, lr), start_from="", run_dir=run_dir, checkpoint_at=())


def leaves_from(plan: Plan, run: Run) -> Any:
    """Return the path of the trunk's checkpoint that a branch begins with."""
    return plan.folder(plan.run[run.parent]) / "checkpoints" / step_name(run.began)
