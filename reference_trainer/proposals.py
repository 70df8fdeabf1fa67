"""What a person could change after a spike, each with the numbers that speak for it. Nothing here is applied."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any

from reference_trainer.spike_class import Diagnosis

#: Clips that are proposed, the loosest first.
CLIPS = (0.5, 0.3)
#: A clip this many times the usual gradient norm lets nearly every spike through.
LOOSE = 2.0


def proposals(
    config: Mapping[str, Any], diagnosis: Diagnosis | None, norms_before: list[float], attempts: int
) -> list[str]:
    """Return what else may help, one sentence each; only what has evidence.

    Parameters
    ----------
    config : mapping
        Settings of the run: ``clip``, ``beta2``, ``mup``, ``mup_base_width``, ``d_model``.
    diagnosis : Diagnosis or None
        What the incident is.
    norms_before : list of float
        Gradient norms of the steps before the first evidence.
    attempts : int
        Batches have been left out so often already.

    Examples
    --------
    >>> proposals({"clip": 1.0}, None, [0.2, 0.21, 0.19], attempts=0)
    ['clip 1 -> 0.5: the gradient norm was 0.2 before, so that a clip of 1 lets 5 times as much through']
    """
    out = []
    causes = {cause.cause: cause.evidence for cause in diagnosis.causes} if diagnosis is not None else {}
    usual = (
        median(x for x in norms_before if math.isfinite(x)) if any(map(math.isfinite, norms_before)) else 0.0
    )
    clip = float(config.get("clip", math.inf))
    tighter = [c for c in CLIPS if c < clip]
    if usual > 0 and clip > LOOSE * usual and tighter:
        out.append(
            f"clip {clip:g} -> {tighter[0]:g}: the gradient norm was {usual:.2g} before, so that a clip of {clip:g} "
            f"lets {clip / usual:.2g} times as much through"
        )
    if "stale Adam second moment" in causes and float(config.get("beta2", 0.0)) > 0.95:
        out.append(f"beta2 {config['beta2']:g} -> 0.95: {causes['stale Adam second moment']}")
    if "learning rate too high" in causes and not config.get("mup", True):
        base, width = config["mup_base_width"], config["d_model"]
        if width > base:
            out.append(
                f"mup = true: {causes['learning rate too high']}; at width {width} muP gives the matrices "
                f"of the blocks {base / width:.2g} of the rate they have at {base}"
            )
    if next(iter(causes), "") == "corrupted data" or attempts > 1:
        evidence = causes.get("corrupted data") or f"leaving batches out {attempts} times did not help"
        out.append(f"another source of data: {evidence}")
    return out
