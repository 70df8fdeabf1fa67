"""Run a ladder: trunks and branches on a few one-thread workers, under one cap, as often as it is stopped.

Everything that is known stands in the folders of the runs, so a sweep that was killed at any moment goes on by being
started again: what is finished is not touched, what was under way goes on from its last checkpoint.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from economics.budget import BudgetGuard
from reference_trainer.board import Board
from reference_trainer.branch import config_of
from reference_trainer.folder_lock import held
from reference_trainer.ladder import Plan, Run
from reference_trainer.points import fault_of
from reference_trainer.pool import Pool
from reference_trainer.run_folder import write_whole
from reference_trainer.signals import Stop
from reference_trainer.sweep_progress import Display

#: Seconds between two looks at the signals.
_WAIT_S = 0.2
#: Seconds between two looks at the purse, and at the trunks that idle workers wait for.
_ASK_S = 1.0
#: Seconds that a new sweep waits for the workers of a killed one to save and end.
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended.

    Parameters
    ----------
    ended_by : str
        ``done``, ``budget``, or the name of the signal that stopped it.
    ok, failed, left : int
        Points made; runs that failed; runs still to do. Short runs that try rates are not among them.
    steps : int
        Updates made by this sweep in the runs that ended or stopped.
    rates : mapping of size to float
        Learning rates that were used.
    errors : mapping of run id to str
        Why runs failed.
    points : str
        The points table.
    spent_usd : float or None
        The bill so far, where there is a cap.
    versions : tuple of str
        Versions of the code that the results come from. More than one is a doubt: a run that was begun by one and
        ended by the other is no exact point.
    """

    ended_by: str
    ok: int
    failed: int
    left: int
    steps: int
    rates: Mapping[str, float]
    errors: Mapping[str, str]
    points: str
    spent_usd: float | None
    versions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return asdict(self)


def sweep(
    plan: Plan, *, jobs: int = 1, display: Display | None = None, clock: Callable[[], float] = time.time
) -> SweepResult:
    """Make the points of a ladder, and write them to ``points.csv`` in its folder.

    Parameters
    ----------
    plan : Plan
        From `ladder.read_ladder`.
    jobs : int
        Worker processes, each of one thread. With one the runs are made in the order of the plan, with more the
        dearest first; no number depends on it.
    display : Display, optional
        Where progress is shown; standard error if not given.
    clock : callable
        Seconds since the epoch, for the cap; tests inject one.

    Returns
    -------
    SweepResult

    Raises
    ------
    BudgetExceeded
        Not one step, the final save and the shutdown fit under the cap.
    ConfigError
        The folder holds runs of another ladder.
    ResumeError
        Another sweep is running in the folder.
    """
    board = Board(plan)
    plan.out.mkdir(parents=True, exist_ok=True)
    display = display or Display()
    with _locked(plan.out, display) as lock, Stop() as stop:
        ready = board.look(strict=True)
        display.begin(plan, board.results)
        board.write()
        guard = _guard(plan, clock) if board.waiting else None
        try:
            with Pool(jobs, plan.out / "workers", (lock,)) as pool:
                ended, made = _loop(plan, board, pool, ready, guard, stop, display)
        finally:
            display.close()
        board.look()
        board.write()
        if guard is not None and ended == "done":
            guard.close()
    ids = [run.run_id for run in plan.runs]
    ok = sum(board.results.get(i, {}).get("status") == "ok" for i in ids)
    failed = sum(board.settled(i) for i in ids) - ok
    why = {i: fault for i, result in board.results.items() if (fault := fault_of(result))}
    return SweepResult(
        ended, ok, failed, len(ids) - ok - failed, made, dict(board.rates), {**why, **board.errors},
        str(plan.out / "points.csv"), None if guard is None else guard.spent,
        tuple(sorted({str(result["git"]) for result in board.results.values()})),
    )  # fmt: skip


def _loop(
    plan: Plan, board: Board, pool: Pool, ready: list[Run], guard: BudgetGuard | None, stop: Stop, display: Display
) -> tuple[str, int]:  # fmt: skip
    """Give runs to workers until none is left; return why it ended and how many steps were made."""
    made, ended, asked, looked = 0, "", -math.inf, time.monotonic()
    began: dict[str, int] = {}
    ask_s = min(_ASK_S, plan.file.budget.max_step_s) if plan.file.budget else _ASK_S
    per_hour = plan.file.budget.usd_per_hour / pool.jobs if plan.file.budget else 0.0
    while True:
        if pool.jobs > 1:
            ready.sort(key=lambda run: -run.flops * run.share)
        for run in ready[: 0 if ended else pool.free]:
            began[run.run_id] = board.newest_step(run)
            pool.give(run.run_id, _write_config(plan, board, run, per_hour))
            board.running.add(run.run_id)
        ready = []
        if not pool.busy:
            return ended or "done", made
        answers = pool.wait(_WAIT_S)
        if not ended:
            ended = stop.requested or ""
            if not ended and guard is not None and time.monotonic() - asked >= ask_s:
                asked = time.monotonic()
                ended = "" if guard.step().fits else "budget"
            if ended:
                display.say(f"{ended}: the runs under way save and stop")
                pool.stop()
        for run_id, answer in answers:
            board.running.discard(run_id)
            made += max(answer.get("steps", began[run_id]) - began[run_id], 0)
            why = _fault(answer, bool(ended))
            if why:
                board.errors[run_id] = why
        display.update({i: plan.run[i] for i in pool.busy}, plan)
        if answers or (pool.free and time.monotonic() - looked >= _ASK_S):
            ready, looked = board.look(), time.monotonic()
        for run_id, _ in answers:
            display.ended(plan.run[run_id], board.results.get(run_id), board.errors.get(run_id))
        if answers:
            board.write()


def _fault(answer: Mapping[str, Any], stopping: bool) -> str:
    """Return why a run cannot go on in this sweep, or nothing where it is over or was asked to stop."""
    if "error" in answer:
        return str(answer["error"])
    if "died" in answer:
        status = answer["died"]
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return "" if stopping else f"its worker {how} (out of memory?); see the folder workers"
    return f"stopped by {answer['ended_by']}" if answer["status"] == "truncated" and not stopping else ""


def _write_config(plan: Plan, board: Board, run: Run, per_hour: float) -> Path:
    """Write the configuration of a run into its folder, where `reference_trainer.train` can read it too."""
    lr = board.rate(run)
    assert lr is not None
    path = plan.folder(run) / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{config_of(plan, run, lr, usd_per_hour=per_hour)}\n".encode())
    return path


def _guard(plan: Plan, clock: Callable[[], float]) -> BudgetGuard | None:
    """Return the guard of the whole ladder, after it has let the ladder start."""
    budget = plan.file.budget
    if budget is None:
        return None
    guard = BudgetGuard(
        budget.cap_usd, budget.usd_per_hour, billing_granularity=budget.billing_granularity,
        shutdown_usd=budget.shutdown_usd, final_save_s=budget.final_save_s, shutdown_s=budget.shutdown_s,
        max_step_s=budget.max_step_s, instance=budget.instance or socket.gethostname(),
        started_at=budget.started_at, previous_ended_at=budget.previous_ended_at, gone_after_s=budget.gone_after_s,
        journal=plan.out / "budget.json", clock=clock,
    )  # fmt: skip
    guard.check()
    return guard


def _locked(folder: Path, display: Display) -> AbstractContextManager[int]:
    """Hold the ladder's folder, once the workers of an earlier sweep have saved and stopped."""
    return held(
        folder / "sweep.lock", patience_s=_PATIENCE_S, wait_s=_WAIT_S,
        busy=f"{folder}: another sweep is running here; wait for it, or give another out",
        waiting=lambda: display.say(f"{folder}: waiting for the workers of an earlier sweep, which save and stop"),
    )  # fmt: skip
