"""From the command line to a run, and from how it ended to an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from economics.budget import BudgetExceeded
from reference_trainer.errors import CheckpointError, LogError
from scaling.errors import ScalingError

#: How a run ended -> exit status. 75 is "try again" in sysexits.h: the same command goes on from the checkpoint,
#: with a higher cap or a longer horizon. A signal has the status that shells give it.
EXIT: Mapping[str, int] = {"horizon": 0, "budget": 75, "time": 75, "SIGTERM": 143, "SIGINT": 130}
FAILED, BAD_INPUT = 1, 2

_USAGE = (
    "usage: python -m reference_trainer.train CONFIG.toml [key=value ...]\n"
    "Makes one run, or goes on with it. Settings: reference_trainer.train.Config and reference_trainer.operation."
)


def launch(
    read: Callable[..., Any], train: Callable[[Any], Mapping[str, Any]], arguments: Sequence[str]
) -> int:
    """Read a configuration, train, say how it ended, and return the exit status.

    Parameters
    ----------
    read : callable
        ``read(path, *overrides)`` returns a configuration.
    train : callable
        Runs it and returns what `result.json` holds.
    arguments : sequence of str
        ``config.toml key=value ...``

    Returns
    -------
    int
        0: finished. 75: stopped at the cap or out of time; 143, 130: stopped by a signal; the same command goes
        on. 1: failed (a full disk, say) or stopped by the observer. 2: bad input.
    """
    speaks = os.environ.get("RANK", "0") == "0"
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else BAD_INPUT
    try:
        config = read(*arguments)
        if speaks:
            print(f"{config}\nhash = {config.hash()}", flush=True)
        result = train(config)
    except BudgetExceeded as error:
        print(f"budget: {error}", file=sys.stderr)
        return EXIT["budget"]
    except (CheckpointError, LogError) as error:  # a full or broken disk: no fault of the configuration
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    except ScalingError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return BAD_INPUT
    status = EXIT.get(result["ended_by"], FAILED)
    if speaks:
        again = "" if status in (0, FAILED) else "; the same command goes on from there"
        print(
            f"{result['ended_by']} after step {result['steps']:,}{again}. See {result['run_dir']}/result.json"
        )
    return status
