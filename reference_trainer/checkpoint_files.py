"""What a checkpoint is on disk: its names, its manifest, and how it is verified."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reference_trainer.errors import CheckpointError

#: Version of the format. A reader refuses what is newer than itself.
FORMAT = 1
#: The files of tensors, each with its size and sha256 in the manifest.
TENSOR_FILES = ("model.safetensors", "optimizer.safetensors")
MANIFEST = "manifest.json"
#: Keys of the manifest that are not the caller's.
RESERVED = ("format", "files", "aliases", "sha256")

_NAME = re.compile(r"step_(\d{8,})")


def step_name(step: int) -> str:
    """Return the name of a step's folder.

    Examples
    --------
    >>> step_name(1234)
    'step_00001234'
    """
    return f"step_{step:08d}"


def step_of(path: Path) -> int | None:
    """Return the step that a folder's name stands for, or None where it is no checkpoint's name."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match and step_name(int(match[1])) == path.name else None


def steps(folder: str | Path) -> list[int]:
    """Return the steps that have a checkpoint in the folder, damaged or not, in ascending order."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    return sorted(step for path in folder.iterdir() if (step := step_of(path)) is not None)


def at(folder: str | Path, step: int) -> Path:
    """Return the checkpoint of a step; `verify` or `load` say whether it is whole.

    Raises
    ------
    CheckpointError
        There is none; the message names the nearest ones.
    """
    path = Path(folder) / step_name(step)
    if not path.is_dir():
        near = sorted(sorted(steps(folder), key=lambda other: abs(other - step))[:4])
        have = f"the nearest are at {', '.join(map(str, near))}" if near else "the folder has none at all"
        raise CheckpointError(f"{path}: there is no checkpoint of step {step}; {have}", path=path)
    return path


def describe_file(path: Path) -> dict[str, Any]:
    """Return size and sha256 of a file, as the manifest holds them."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def seal(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest as it reads back from JSON, with a sha256 over its own content.

    Raises
    ------
    CheckpointError
        It holds something that JSON does not know.
    """
    try:
        plain: dict[str, Any] = json.loads(json.dumps(manifest))
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"the manifest of a checkpoint must be plain types that JSON knows: {error}"
        ) from error
    return plain | {"sha256": _own_hash(plain)}


def verify(path: str | Path, *, hashes: bool = True, weights_only: bool = False) -> dict[str, Any]:
    """Check a checkpoint and return its manifest.

    Parameters
    ----------
    path : path
        The folder of one step.
    hashes : bool
        Read all tensors and compare their sha256. Without it, presence and size are compared, which costs
        nothing and misses flipped bits.
    weights_only : bool
        Take a checkpoint that is kept for use, not for going on: without the optimizer's state, under any name.

    Raises
    ------
    CheckpointError
        Which file is missing or damaged, what was expected and what was seen.
    """
    path = Path(path)
    manifest = _read_manifest(path / MANIFEST)
    if weights_only:
        _check_file(path / TENSOR_FILES[0], manifest["files"][TENSOR_FILES[0]], hashes)
        return manifest
    if manifest["step"] != step_of(path):
        raise CheckpointError(
            f"{path}: its manifest is that of step {manifest['step']}: the folder was renamed or mixed up. "
            f"Give it back the name {step_name(manifest['step'])}.",
            path=path,
        )
    for name in TENSOR_FILES:
        _check_file(path / name, manifest["files"][name], hashes)
    return manifest


def _read_manifest(file: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(file.read_bytes())
        own = manifest.pop("sha256")
    except FileNotFoundError as error:
        raise damaged(file, "is missing") from error
    except OSError as error:
        raise damaged(file, f"cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise damaged(file, "is no manifest") from error
    if isinstance(manifest.get("format"), int) and manifest["format"] > FORMAT:
        raise CheckpointError(
            f"{file}: format {manifest['format']}; this version reads up to {FORMAT}: update it", path=file
        )
    if own != _own_hash(manifest):
        raise damaged(file, "does not have the sha256 it claims")
    return manifest | {"sha256": own}


def _check_file(file: Path, expected: Mapping[str, Any], hashes: bool) -> None:
    try:
        size = file.stat().st_size
        if size != expected["bytes"]:
            raise damaged(file, f"has {size:,} bytes instead of {expected['bytes']:,}")
        if hashes and (seen := describe_file(file)["sha256"]) != expected["sha256"]:
            raise damaged(file, f"has the sha256 {seen[:12]}... instead of {expected['sha256'][:12]}...")
    except FileNotFoundError as error:
        raise damaged(file, "is missing") from error
    except OSError as error:
        raise damaged(file, f"cannot be read ({error.strerror})") from error


def damaged(file: Path, what: str) -> CheckpointError:
    """Return the error for a file of a checkpoint that is not what was saved."""
    return CheckpointError(
        f"{file} {what}: this checkpoint cannot be used. Go back to an earlier one or bring the file back from "
        "a copy.",
        path=file,
    )


def _own_hash(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
