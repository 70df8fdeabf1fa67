"""Whether quantized models can be written where they are wanted, asked before anything is measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from reference_trainer.checkpoint_files import MANIFEST
from reference_trainer.errors import QuantizeError, SpaceError
from reference_trainer.quantized.stored import holds_model

#: Bytes for the heads of files, the manifests and the tables.
_SLACK = 256 << 10


def check_place(out: str | Path, names: Sequence[str]) -> None:
    """Refuse a folder that models cannot be put into.

    Parameters
    ----------
    out : path
        Gets a folder for each model; it need not be there.
    names : sequence of str
        Of those folders.

    Raises
    ------
    QuantizeError
        It is no folder or must not be written; it is a checkpoint or a model itself; a folder in it holds something
        else.
    """
    out = Path(out)
    there = _nearest(out)
    if not there.is_dir():
        raise QuantizeError(f"{there} is no folder: give another place for the models", column="out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise QuantizeError(f"{there} must not be written: give another place for the models", column="out")
    if (out / MANIFEST).exists():
        raise QuantizeError(
            f"{out} is a checkpoint or a model itself: give a folder beside it for the quantized models",
            column="out",
        )
    taken = [out / name for name in names if (out / name).exists() and not holds_model(out / name)]
    if taken:
        raise QuantizeError(
            f"{taken[0]} is there and holds no quantized model: choose another folder", column="out"
        )


def check_room(out: str | Path, sizes: Mapping[str, int]) -> None:
    """Refuse a disk without room for models.

    Parameters
    ----------
    out : path
    sizes : mapping of str to int
        Folder -> bytes of its weights. One that is there is replaced, when the new one is whole.

    Raises
    ------
    SpaceError
        `needed` and `free` are bytes.
    """
    new = [size for name, size in sizes.items() if not (Path(out) / name).exists()]
    needed = sum(new) + max(sizes.values(), default=0) + _SLACK
    free = shutil.disk_usage(_nearest(Path(out))).free
    if free < needed:
        raise SpaceError(
            f"{out}: {needed:,} bytes are needed for {len(sizes)} models and {free:,} are free; nothing was written. "
            "Make room, name fewer schemes, or give another folder.",
            needed=needed, free=free, path=Path(out),
        )  # fmt: skip


def _nearest(path: Path) -> Path:
    """Return the path, or the nearest folder above it that is there."""
    return next(p for p in (path, *path.absolute().parents) if p.exists())
