"""Replays of a run's spikes, for its post-mortem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_trainer.guide.own_run import batches
from reference_trainer.guide.spikes import found_spikes, spike_lines
from reference_trainer.training_log import TrainingLog
from scaling.errors import DataError

if TYPE_CHECKING:
    from reference_trainer.evidence import Evidence

#: Steps after the first evidence that are suspected at least, where the loss stayed hurt.
_REACH = 32


def replay_spikes(log: TrainingLog, *, only: int | None = None) -> dict[int, Evidence]:
    """Read the suspected batches of each spike again: those from its first evidence to its peak, or 32 steps.

    Parameters
    ----------
    log : TrainingLog
        Of one of our own runs, with its folder.
    only : int, optional
        Number of the one spike.

    Returns
    -------
    dict of int to Evidence
        Number of the spike -> what was found; data outliers only where asked for by number.

    Raises
    ------
    DataError
        The log is none of our trainer, or the data are not where they were.
    CheckpointError
        No checkpoint is left.
    """
    from reference_trainer.replay import replay

    folder = log.facts.get("run_uri")
    out = {}
    for number, (spike, diagnosis) in enumerate(found_spikes(log), start=1):
        if number != only if only is not None else diagnosis.kind == "data outlier":
            continue
        end = spike.first_step + _REACH - 1
        last = max(spike.peak_step, end if spike.end_step is None else min(end, spike.end_step))
        read = batches(log, spike.first_step, last, spike_lines(log, spike)[0])
        if read is None or folder is None:
            raise DataError(
                f"{log.source}: nothing can be replayed: only a folder of reference_trainer says which batches "
                "its steps read",
                column="replay",
            )
        out[number] = replay(folder, first_step=spike.first_step, batches=read)
    return out
