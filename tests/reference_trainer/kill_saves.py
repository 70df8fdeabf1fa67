"""Forks writers of checkpoints and kills them; run as a script, one JSON line for each kill.

python kill_saves.py FOLDER random N SEED     SIGKILL after a random time
python kill_saves.py FOLDER each              SIGKILL at every file operation of a save with a rotation
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from reference_trainer import checkpoint

#: Numbers of a tensor: 1 MB a checkpoint, so that writing, hashing and syncing take most of the time.
SIZE = 85_000
#: File operations that Python reports before they happen.
EVENTS = {
    "open",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.scandir",
    "os.listdir",
    "shutil.rmtree",
}


def save(folder: Path, step: int) -> None:
    value = torch.full((SIZE,), float(step))
    checkpoint.save(folder, step, model={"w": value}, optimizer={"m": value + 1, "v": value + 2}, manifest={})
    checkpoint.rotate(folder, keep=1)


def forked(work) -> tuple[int, int]:
    """Process id of a child that does the work, and where it tells of each step that is done."""
    out, into = os.pipe()
    child = os.fork()
    if child:
        os.close(into)
        return child, out
    try:
        work(into)
    finally:
        os._exit(0)


def heard(pipe: int) -> int:
    """Last step that the child said was saved; 0 if none."""
    with os.fdopen(pipe, "rb") as file:
        return int((file.read().split() or [b"0"])[-1])


def report(folder: Path, said: int, before: int, killed: bool) -> int:
    leftovers = sum(not p.name.startswith("step_") for p in folder.iterdir())
    damaged = 0
    for step in checkpoint.steps(folder):
        try:
            checkpoint.verify(checkpoint.at(folder, step))
        except checkpoint.CheckpointError:
            damaged += 1
    path = checkpoint.latest(folder)
    loaded = None if path is None else checkpoint.load(path)
    step = 0 if loaded is None else loaded.step
    right = loaded is None or all(
        bool((tensor == step + more).all())
        for tensor, more in ((loaded.model["w"], 0), (loaded.optimizer["m"], 1), (loaded.optimizer["v"], 2))
    )
    line = {"before": before, "said": said, "found": step, "right": right, "damaged": damaged,
            "leftovers": leftovers, "killed": killed}  # fmt: skip
    sys.stdout.write(json.dumps(line) + "\n")
    return step


def at_random(folder: Path, kills: int, seed: int) -> None:
    draw = random.Random(seed)
    step = 0
    for _ in range(kills):

        def work(pipe: int, step: int = step) -> None:
            while True:
                step += 1
                save(folder, step)
                os.write(pipe, b"%d\n" % step)

        child, pipe = forked(work)
        time.sleep(draw.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        step = report(folder, heard(pipe), step, killed=True)


def at_each(folder: Path) -> None:
    """Each moment has a folder of its own, with a checkpoint to lose in it."""
    moment, killed = 0, True
    while killed:
        place = folder / str(moment)
        save(place, 1)

        def work(pipe: int, place: Path = place, moment: int = moment) -> None:
            left = moment

            def count(event: str, _: object) -> None:
                nonlocal left
                if event in EVENTS:
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1

            sys.addaudithook(count)
            save(place, 2)
            os.write(pipe, b"2\n")

        child, pipe = forked(work)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        report(place, heard(pipe), 1, killed=killed)
        save(place, 3)  # whoever comes next cleans up
        assert [p.name for p in place.iterdir()] == ["step_00000003"]
        moment += 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    place, how, *rest = sys.argv[1:]
    if how == "random":
        at_random(Path(place), int(rest[0]), int(rest[1]))
    else:
        at_each(Path(place))
