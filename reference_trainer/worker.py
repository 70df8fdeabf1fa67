"""A process of one thread that trains the runs it is told to, one after another.

Started as ``python -m reference_trainer.worker SLOT``: its place among the workers, which share the GPUs out by it.

Each line of standard input is the path of a configuration; each line of standard output is a JSON object that says
how that run ended. When standard input ends the run under way is stopped with a checkpoint: a worker never outlives
the sweep that started it, even where that was killed outright.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from typing import Any

import torch

from reference_trainer.train import Config, train

#: Seconds after which a run whose sweep is gone is asked to stop again.
_AGAIN_S = 1.0


def main() -> int:
    """Train what standard input names until it ends."""
    if torch.cuda.is_available():
        os.environ["LOCAL_RANK"] = str(int(sys.argv[1]) % torch.cuda.device_count())
    # Two threads that share a core wait for each other, and sums would depend on how many there are.
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed goes to the log
    paths: queue.Queue[str | None] = queue.Queue()
    busy, deserted = threading.Event(), threading.Event()
    threading.Thread(target=_listen, args=(paths, busy, deserted), daemon=True).start()
    while (path := paths.get()) is not None:
        busy.set()
        if deserted.is_set():
            break
        answer = _train(path)
        busy.clear()
        try:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        except BrokenPipeError:  # nobody listens any more; what was done is on the disk
            return 1
    return 0


def _listen(paths: queue.Queue[str | None], busy: threading.Event, deserted: threading.Event) -> None:
    for line in sys.stdin:
        paths.put(line.rstrip("\n"))
    deserted.set()
    paths.put(None)
    while True:  # once is not enough: it may come before the run listens
        if busy.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_AGAIN_S)


def _train(path: str) -> dict[str, Any]:
    """Train one run; what goes wrong with it is an answer, and no end of the worker."""
    try:
        result = train(Config.read(path))
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return {"error": f"{type(error).__name__}: {error}"}
    return {"ended_by": result["ended_by"], "status": result["status"], "steps": result["steps"]}


if __name__ == "__main__":
    sys.exit(main())
