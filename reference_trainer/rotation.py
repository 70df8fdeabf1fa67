"""Which checkpoints go. Never the last that verifies, nor the one that a rollback would need."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from reference_trainer.checkpoint_files import step_name, steps, verify
from reference_trainer.disk import sync_folder
from reference_trainer.errors import CheckpointError
from reference_trainer.leftovers import discard, sweep
from scaling.errors import DataError

_ASIDE = "abandoned_"


def rotate(
    folder: str | Path,
    *,
    keep: int,
    protect: Collection[int] = (),
    before_alarm: int | None = None,
    margin: int = 1000,
) -> list[Path]:
    """Remove old checkpoints, and what dead writers left.

    Parameters
    ----------
    folder : path
        Where the checkpoints of the run are.
    keep : int
        How many of the newest stay. Damaged ones do not count (told by the sizes of their files) and
        stay as long as they are newer than these.
    protect : collection of int
        Steps that stay: where branches leave the trunk.
    before_alarm : int, optional
        Step of the oldest open alarm. The newest checkpoint that verifies and is at least `margin` steps older
        stays; where there is none that old, the oldest that verifies.
    margin : int
        Steps between an alarm and the state that is safe from what caused it.

    Returns
    -------
    list of pathlib.Path
        What was removed, oldest first. Nothing is, unless one that stays was verified in full.

    Raises
    ------
    DataError
        `keep` is below 1 or `margin` below 0.
    """
    if keep < 1 or margin < 0:
        raise DataError(f"keep must be 1 or more and margin not negative, got {keep} and {margin}")
    folder = Path(folder)
    if not folder.is_dir():
        return []
    sweep(folder)
    newest_first = steps(folder)[::-1]
    last = _first_whole(folder, newest_first)
    if last is None:
        return []
    sound = [step for step in newest_first if _sound(folder, step)]
    oldest_kept = min(last, *sound[:keep])
    stay = {*protect, *(step for step in newest_first if step >= oldest_kept)}
    if before_alarm is not None:
        old_enough = (step for step in sound if step <= before_alarm - margin)
        safe = _first_whole(folder, old_enough)
        stay.add(_first_whole(folder, sound[::-1]) or last if safe is None else safe)
    gone = [folder / step_name(step) for step in newest_first[::-1] if step not in stay]
    gone += [path for path in folder.glob(f"{_ASIDE}*") if _aside_step(path) <= last]
    for path in gone:
        discard(path)
    return gone


def abandon(folder: str | Path, *, after: int) -> list[Path]:
    """Set aside the checkpoints newer than a step: a run that goes back must not find them again.

    They get names that no reader takes for a checkpoint, and `rotate` removes them once the run has passed
    them again.

    Returns
    -------
    list of pathlib.Path
        Their new names.
    """
    folder, moved = Path(folder), []
    for step in reversed(steps(folder)):  # newest first: a kill in between leaves the older ones in order
        if step > after:
            path, count = folder / step_name(step), 0
            while (aside := folder / f"{_ASIDE}{path.name}_{count}").exists():
                count += 1
            moved.append(path.rename(aside))
    if moved:
        sync_folder(folder)
    return moved


def _aside_step(path: Path) -> int:
    return int(path.name.removeprefix(_ASIDE).split("_")[1])


def _first_whole(folder: Path, candidates: Iterable[int]) -> int | None:
    """Return the first step whose checkpoint verifies in full."""
    for step in candidates:
        try:
            verify(folder / step_name(step))
        except CheckpointError:
            continue
        return step
    return None


def _sound(folder: Path, step: int) -> bool:
    try:
        verify(folder / step_name(step), hashes=False)
    except CheckpointError:
        return False
    return True
