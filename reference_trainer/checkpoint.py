"""Checkpoints: whole or not there, verified when read.

A checkpoint is a folder ``step_00001234`` with two safetensors files and ``manifest.json``. It is written under
another name, brought to the disk and renamed, so a kill, a full disk or a loss of power at any moment leaves
the earlier ones as they were. Only one process of a run saves.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from reference_trainer.checkpoint_files import (
    FORMAT,
    MANIFEST,
    RESERVED,
    TENSOR_FILES,
    at as at,
    damaged,
    describe_file,
    seal,
    step_name,
    steps as steps,
    verify as verify,
)
from reference_trainer.checkpoint_state import (
    optimizer_tensors as optimizer_tensors,
    restore_model as restore_model,
    restore_optimizer as restore_optimizer,
    without_aliases,
)
from reference_trainer.disk import sync_folder
from reference_trainer.errors import CheckpointError, CheckpointWarning, NonFiniteError, SpaceError
from reference_trainer.leftovers import discard, sweep, workshop
from reference_trainer.rotation import abandon as abandon, rotate as rotate

#: Room for headers and for the file system's blocks, bytes: beside the tensors, and for each of them.
_SLACK, _SLACK_EACH = 64 * 1024, 256


@dataclass(frozen=True)
class Loaded:
    """A checkpoint that was verified and read.

    Attributes
    ----------
    step : int
        Steps done when it was saved.
    model, optimizer : dict of str to Tensor
        As they were saved, names of tied weights included.
    manifest : dict
        What the caller gave, with ``step``, ``format``, ``files`` (bytes and sha256 of each), ``aliases`` and
        the ``sha256`` of the manifest itself.
    """

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    manifest: dict[str, Any]


def save(
    folder: str | Path,
    step: int,
    *,
    model: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    manifest: Mapping[str, Any],
) -> Path:
    """Write a checkpoint; when this returns it is on the disk under its name.

    Parameters
    ----------
    folder : path
        Where the checkpoints of the run are; made if missing.
    step : int
        Steps done.
    model, optimizer : mapping of str to Tensor
        ``model.state_dict()`` and `optimizer_tensors`. A tensor under two names is written once.
    manifest : mapping
        Plain types that JSON knows, and NaN. What a restart needs beside the tensors.

    Returns
    -------
    pathlib.Path
        The checkpoint. One of the same step that verifies and has the same tensors is left as it is; a damaged
        one is replaced.

    Raises
    ------
    NonFiniteError
        A tensor holds NaN or infinities. Nothing was written.
    SpaceError
        The disk has too little room. Nothing was written.
    CheckpointError
        It could not be written, the manifest is not plain, or the step has a whole checkpoint with other
        tensors. The earlier checkpoints are untouched.
    """
    folder, target = Path(folder), Path(folder) / step_name(step)
    head = _head(step, manifest)
    tensors, aliases = {}, {}
    for name, given in zip(TENSOR_FILES, (model, optimizer), strict=True):
        _refuse_non_finite(given, target / name)
        tensors[name], aliases[name] = without_aliases(given)
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            sync_folder(folder.parent)
        sweep(folder)
        _refuse_full(target, tensors, len(json.dumps(head)))
        with workshop(folder, target.name) as beside:
            for name, content in tensors.items():
                save_file(content, beside / name)
                _sync(beside / name)
            files = {name: describe_file(beside / name) for name in TENSOR_FILES}
            sealed = seal({**head, "files": files, "aliases": aliases})
            (beside / MANIFEST).write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")
            _sync(beside / MANIFEST)
            sync_folder(beside)
            _put(beside, target, files)
        sync_folder(folder)
    except (OSError, SafetensorError) as error:
        what = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"{target}: the checkpoint could not be written ({what}). Earlier checkpoints are as they were; "
            "make room or choose another folder.",
            path=target,
        ) from error
    return target


def load(path: str | Path, device: str | torch.device = "cpu") -> Loaded:
    """Verify a checkpoint and read it.

    Parameters
    ----------
    path : path
        The folder of one step, from `latest` or `at`.
    device : str or torch.device
        Where the tensors go.

    Raises
    ------
    CheckpointError
        Which file is missing or damaged, and how.
    """
    path = Path(path)
    manifest = verify(path)
    parts: list[dict[str, Tensor]] = []
    for name in TENSOR_FILES:
        try:
            tensors = load_file(path / name, device=str(device))
        except (OSError, SafetensorError) as error:  # changed since it was verified
            raise damaged(path / name, f"cannot be read ({error})") from error
        parts.append(tensors | {alias: tensors[kept] for alias, kept in manifest["aliases"][name].items()})
    return Loaded(manifest["step"], parts[0], parts[1], manifest)


def latest(folder: str | Path) -> Path | None:
    """Return the newest checkpoint that verifies, or None.

    Warns
    -----
    CheckpointWarning
        Once for each newer one that is damaged. It stays where it is.
    """
    for step in reversed(steps(folder)):
        path = Path(folder) / step_name(step)
        try:
            verify(path)
        except CheckpointError as error:
            warnings.warn(CheckpointWarning(f"passed over: {error}", path=path), stacklevel=2)
        else:
            return path
    return None


def _head(step: int, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest without what is known only once the tensors are written."""
    if step < 0:
        raise CheckpointError(f"a step is a whole number from 0 up, got {step}")
    taken = [key for key in RESERVED if key in manifest]
    if taken or manifest.get("step", step) != step:
        raise CheckpointError(
            f"the manifest's {', '.join(taken) or 'step'} is written by save(): leave it out or give it another "
            "name"
        )
    head = {**manifest, "step": step, "format": FORMAT}
    seal(head)  # what JSON does not know is refused before anything is written
    return head


def _refuse_non_finite(tensors: Mapping[str, Tensor], file: Path) -> None:
    names = [name for name, t in tensors.items() if t.is_floating_point() or t.is_complex()]
    if not names:
        return
    finite = torch.stack([torch.isfinite(tensors[name]).all().cpu() for name in names])
    for name, whole in zip(names, finite.tolist(), strict=True):
        if not whole:
            bad = int((~torch.isfinite(tensors[name])).sum())
            raise NonFiniteError(
                f"{file}: {bad:,} of the {tensors[name].numel():,} numbers of {name} are NaN or infinite; nothing "
                "was saved. Go back to the last checkpoint: from here no training is possible.",
                tensor=name,
                bad=bad,
                path=file,
            )


def _refuse_full(target: Path, tensors: Mapping[str, Mapping[str, Tensor]], head: int) -> None:
    each = [t.nbytes for content in tensors.values() for t in content.values()]
    needed = sum(each) + _SLACK_EACH * len(each) + 2 * head + _SLACK
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise SpaceError(
            f"{target}: {needed:,} bytes are needed and {free:,} are free; nothing was written. Make room, keep "
            "fewer checkpoints or choose another folder.",
            needed=needed,
            free=free,
            path=target,
        )


def _put(beside: Path, target: Path, files: Mapping[str, Any]) -> None:
    """Give what was written its name; a whole checkpoint is never replaced."""
    if target.exists():
        try:
            saved = verify(target)["files"]
        except CheckpointError:
            discard(target)
        else:
            if saved == files:
                return
            raise CheckpointError(
                f"{target}: this step has a whole checkpoint already, with other tensors: the run took another "
                "way. Set the newer ones aside with abandon(folder, after=step) when going back, or use another "
                "folder.",
                path=target,
            )
    beside.rename(target)


def _sync(file: Path) -> None:
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
