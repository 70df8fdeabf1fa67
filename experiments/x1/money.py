"""The cap on a profile's training, and the clock that it is counted by."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from economics.billing import Session
from experiments.x1.profile import Profile

#: Shares of the cap: no sum of them can pass it.
SHARES = {"ladder": 0.8, "incident": 0.2}
#: Reserves of the guard on a small machine: a step, the save of every worker, the end.
_STEP_S, _SAVE_S, _END_S = 10.0, 10.0, 1.0


def budget(profile: Profile, part: str) -> dict[str, Any]:
    """Return the section ``[budget]`` of a part of the work."""
    return {
        "cap_usd": profile.cap_usd * SHARES[part], "usd_per_hour": profile.usd_per_hour, "instance": _instance(profile),
        "max_step_s": _STEP_S, "final_save_s": _SAVE_S, "shutdown_s": _END_S,
    }  # fmt: skip


def _instance(profile: Profile) -> str:
    """Name the machine: one's own is always the same, a rented one is another after each boot."""
    if profile.owned:
        return "own machine"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    except OSError:
        boot = "unknown"
    return f"{socket.gethostname()}-{boot}"


def clock(profile: Profile, journal: Path) -> Callable[[], float]:
    """Return the clock of a guard: real time where it is billed, time at work on one's own machine.

    Parameters
    ----------
    profile : Profile
    journal : pathlib.Path
        Of the guard. On one's own machine time goes on from where it ends: nights between two calls cost nothing.
    """
    if not profile.owned:
        return time.time
    began = time.monotonic()
    start = _covered(journal) or time.time()
    return lambda: start + (time.monotonic() - began)


def _covered(journal: Path) -> float | None:
    """Return until when a journal counts, where there is one."""
    try:
        return float(json.loads(journal.read_text(encoding="utf-8"))["bill"]["until"])
    except (OSError, ValueError, KeyError):
        return None


def spent(journal: Path) -> float | None:
    """Return the dollars that a journal counts; None where there is none."""
    try:
        bill = json.loads(journal.read_text(encoding="utf-8"))["bill"]
    except OSError:
        return None
    return sum(Session(**session).usd(bill["until"]) for session in bill["sessions"])


def cores(profile: Profile) -> int:
    """Return how many workers make sense here."""
    return max(1, min(profile.jobs, os.cpu_count() or 1))
