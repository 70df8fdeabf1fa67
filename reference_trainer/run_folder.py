"""The folder of one run: who may write in it, where the run goes on, what is kept.

run.json          configuration, hashes, versions, machine
log.jsonl         every step and evaluation; equal, byte for byte, however often the run was stopped
perf.jsonl        times, dollars, the machine
checkpoints/      step_00001000/ ...
budget.json       the guard's journal, where there is a cap
result.json       once the run has ended
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from reference_trainer import checkpoint
from reference_trainer.disk import sync_folder
from reference_trainer.errors import CheckpointError, ConfigError, LogError, ResumeError
from reference_trainer.operation import Operation
from reference_trainer.snapshots import Snapshots

#: Parts of a manifest that say which run it is: all but the horizon, which may be extended or branched.
IDENTITY = ("trunk_hash", "train_hash")
_OPERATION = {field.name for field in fields(Operation)}


class RunFolder:
    """Hold a run's folder for one writer; processes of rank above 0 only read.

    Parameters
    ----------
    path : str or Path
        Made if it is missing.
    writes : bool
        This process is the one that writes.

    Raises
    ------
    ConfigError
        The path is empty; on entering: the folder cannot be made or written in.
    ResumeError
        On entering: another process is training in this folder.
    """

    def __init__(self, path: str | Path, *, writes: bool = True) -> None:
        if not str(path):
            raise ConfigError("run_dir is empty: name the folder of the run", column="run_dir")
        self.path, self.writes = Path(path), writes
        self.checkpoints = self.path / "checkpoints"
        self.saved_at = -1
        self._lock: Any = None

    def __enter__(self) -> Self:
        if self.writes:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = open(self.path / "lock", "a", encoding="utf-8")
            except OSError as error:
                raise ConfigError(
                    f"run_dir = {str(self.path)!r} is no folder that can be written in ({error.strerror})",
                    source=str(self.path),
                    column="run_dir",
                ) from error
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self._lock.close()
                raise ResumeError(
                    f"{self.path}: another process is training here; wait for it or choose another run_dir",
                    source=str(self.path),
                ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.close()

    def start(self, start_from: str, identity: Mapping[str, Any]) -> checkpoint.Loaded | None:
        """Return where the run goes on: its own newest checkpoint, or that of the trunk, or nothing.

        Raises
        ------
        ConfigError
            `start_from` is no folder.
        ResumeError
            The checkpoint is of another run: which keys of the configuration, or which data, differ.
        """
        own = checkpoint.latest(self.checkpoints)
        path = own or (Path(start_from) if start_from else None)
        if path is None:
            if self.writes and (self.path / "result.json").exists():
                raise ResumeError(
                    f"{self.path}: a result without a checkpoint; use another run_dir", source=str(path)
                )
            return None
        if own is None and not path.is_dir():
            raise ConfigError(
                f"start_from = {start_from!r} is no folder: give a checkpoint of the trunk, such as "
                "trunk/checkpoints/step_00001526",
                source=start_from,
                column="start_from",
            )
        found = checkpoint.load(path)
        for key in IDENTITY:
            if found.manifest.get(key) != identity[key]:
                before, now = found.manifest.get("config", {}), identity["config"]
                names = [k for k in now if k not in _OPERATION and before.get(k) != now[k]]
                differ = [f"{k} {before.get(k)!r} -> {now[k]!r}" for k in names]
                what = f"its {key} is {found.manifest.get(key)}, this run's {identity[key]}"
                raise ResumeError(
                    f"{path}: a checkpoint of another run ({what}; {', '.join(differ) or 'same configuration'}). "
                    "Use another run_dir, or the configuration it was saved with.",
                    source=str(path),
                )
        self.saved_at = found.step if own else -1
        if own is None and self.writes:
            self._take_log(found, start_from)
        return found

    def _take_log(self, start: checkpoint.Loaded, start_from: str) -> None:
        """Copy the trunk's log as far as the branch shares it, so that the branch has the log of a whole run."""
        log, source = self.path / "log.jsonl", Path(start_from).resolve().parents[1] / "log.jsonl"
        try:
            with open(source, "rb") as file:
                shared = file.read(start.manifest["log_bytes"])
        except OSError as error:
            raise ResumeError(
                f"{source}: the log of the run that {start_from} is of cannot be read ({error.strerror}). A branch "
                "begins with it: leave checkpoints in the folder of their run.",
                source=str(source),
            ) from error
        if len(shared) < start.manifest["log_bytes"]:
            raise ResumeError(f"{source}: shorter than when {start_from} was saved", source=str(source))
        write_whole(log, shared)

    def save(
        self, step: int, model: Any, optimizer: Any, manifest: Mapping[str, Any], config: Operation,
        before_alarm: int | None,
    ) -> None:  # fmt: skip
        """Save a checkpoint, then remove what the settings no longer keep."""
        if self.writes:
            checkpoint.save(
                self.checkpoints, step, model=model.state_dict(),
                optimizer=checkpoint.optimizer_tensors(model, optimizer), manifest=manifest,
            )  # fmt: skip
            if before_alarm is None and config.recovery == "auto":
                before_alarm = step  # the next alarm cannot be older: a state well before it stays
            checkpoint.rotate(
                self.checkpoints, keep=config.keep, protect=config.checkpoint_at, before_alarm=before_alarm,
                margin=config.recovery_margin,
            )  # fmt: skip
        self.saved_at = step

    def go_back(self, to_step: int, snapshots: Snapshots) -> checkpoint.Loaded:
        """Return the newest state at or before a step, in memory or on the disk; newer ones are set aside.

        Raises
        ------
        ResumeError
            There is none that old.
        """
        old = [s for s in checkpoint.steps(self.checkpoints) if s <= to_step]
        found, saved_at = snapshots.newest(to_step), -1
        for step in reversed(old):
            if found is not None and found.step > step:
                saved_at = step
                break
            try:
                found, saved_at = checkpoint.load(checkpoint.at(self.checkpoints, step)), step
                break
            except CheckpointError:
                continue
        if found is None:
            raise ResumeError(
                f"{self.checkpoints}: no checkpoint at or before step {to_step}", source=str(self.path)
            )
        snapshots.forget(after=found.step)
        if self.writes:
            checkpoint.abandon(self.checkpoints, after=found.step)
        self.saved_at = saved_at
        return found

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file of the run, whole or not at all."""
        if self.writes:
            write_whole(self.path / name, (json.dumps(content, indent=1) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file: under another name first, on the disk, then renamed.

    Raises
    ------
    LogError
        It cannot be written (a full disk); what was there before is as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise LogError(
            f"{path}: cannot be written ({error.strerror}). Make room or choose another folder; the same command then "
            "goes on from what is there.",
            source=str(path),
        ) from error
