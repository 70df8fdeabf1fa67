"""A few runs on their own, beside the ladder: the same workers, the same cap, resumed where they were stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from economics.budget import BudgetGuard
from experiments.x1 import money
from experiments.x1.profile import Profile
from experiments.x1.stages import Stopped
from reference_trainer.errors import TrainerError
from reference_trainer.folder_lock import held
from reference_trainer.pool import Pool
from reference_trainer.run_folder import write_whole
from reference_trainer.signals import Stop
from reference_trainer.sweep_progress import last_step
from reference_trainer.train import Config

#: Seconds between two looks at the signals, at the purse, and between two lines of progress; of patience with workers
#: that a killed call left behind, which save and end.
_WAIT_S, _ASK_S, _SAY_S, _PATIENCE_S = 0.2, 1.0, 10.0, 300.0


def train_all(
    configs: Mapping[str, Config], folder: Path, profile: Profile, part: str, say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Make runs that are not finished; return the result of each.

    Parameters
    ----------
    configs : mapping of name to Config
        Their folders are inside `folder`.
    folder : pathlib.Path
    profile : Profile
    part : str
        Which share of the cap holds them, see `money.SHARES`.
    say : callable
        Shows a line.

    Raises
    ------
    BudgetExceeded
        Not one step fits under the cap.
    Stopped
        A signal or the cap came before the end; the same call goes on.
    TrainerError
        A run failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder) as lock, Stop() as stop:
        left = [name for name, config in configs.items() if result_of(config) is None]
        if left:
            about = {key: value for key, value in money.budget(profile, part).items() if key != "cap_usd"}
            guard = BudgetGuard(
                money.budget(profile, part)["cap_usd"], about.pop("usd_per_hour"), **about,
                journal=folder / "budget.json", clock=money.clock(profile, folder / "budget.json"),
            )  # fmt: skip
            guard.check()
            with Pool(money.cores(profile), folder / "workers", (lock,)) as pool:
                _loop(configs, left, pool, guard, stop, say)
            guard.close()
    results = {name: result_of(config) for name, config in configs.items()}
    return {name: result for name, result in results.items() if result is not None}


def result_of(config: Config) -> dict[str, Any] | None:
    """Return the result of a run that is finished; None of any other."""
    try:
        result: dict[str, Any] = json.loads(Path(config.run_dir, "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    finished = result["status"] in ("ok", "failed") and result["ended_by"] in (
        "horizon",
        "observer",
        "not finite",
    )
    return result if finished and result["config_hash"] == config.hash() else None


def _loop(
    configs: Mapping[str, Config], left: list[str], pool: Pool, guard: BudgetGuard, stop: Stop,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    waiting, ended, asked, said = list(left), "", 0.0, time.monotonic()
    while waiting or pool.busy:
        while waiting and pool.free and not ended:
            name = waiting.pop(0)
            path = Path(configs[name].run_dir) / "config.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, f"{configs[name]}\n".encode())
            pool.give(name, path)
        if ended and not pool.busy:
            break
        for name, answer in pool.wait(_WAIT_S):
            if "error" in answer or "died" in answer:
                raise TrainerError(
                    f"{name}: {answer.get('error') or 'its worker died; see the folder workers'}"
                )
        now = time.monotonic()
        if not ended and now - asked >= _ASK_S:
            asked = now
            ended = stop.requested or ("" if guard.step().fits else "budget")
            if ended:
                pool.stop()
        if now - said >= _SAY_S:
            said = now
            steps = (f"{n} {last_step(Path(configs[n].run_dir) / 'perf.jsonl', 0)}" for n in pool.busy)
            say(f"    step {', '.join(steps)}")
    if ended:
        raise Stopped(f"stopped by {ended}; the same command goes on.")


def _locked(folder: Path) -> AbstractContextManager[int]:
    """Hold the folder; workers hold it too, and those of a killed call are waited for."""
    return held(
        folder / "runs.lock", patience_s=_PATIENCE_S, wait_s=_WAIT_S,
        busy=f"{folder}: other runs are under way here",
    )  # fmt: skip
