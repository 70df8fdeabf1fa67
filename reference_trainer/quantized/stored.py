"""A quantized model on disk: one safetensors file and a manifest with its hash, read back to the same bits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from reference_trainer.checkpoint_files import MANIFEST, TENSOR_FILES, damaged, describe_file, seal
from reference_trainer.checkpoint_state import restore_model, without_aliases
from reference_trainer.disk import sync_folder
from reference_trainer.errors import CheckpointError, QuantizeError
from reference_trainer.leftovers import discard, workshop
from reference_trainer.quantized.model import under
from reference_trainer.quantized.scheme import SCHEMES, Scheme
from reference_trainer.quantized.trained import Trained, config_of
from reference_trainer.train import Decoder

#: Version of the format. A reader refuses any other.
FORMAT = "isoflop-quantized-1"
_FILE = TENSOR_FILES[0]


def save(folder: str | Path, model: Decoder, scheme: Scheme, trained: Trained) -> Path:
    """Write a model as `under` makes it; it is there whole or not at all.

    Parameters
    ----------
    folder : path
        Of this model; replaced if it holds one of this format.
    model : Decoder
    scheme : Scheme
    trained : Trained
        Where it comes from.

    Raises
    ------
    QuantizeError
        The folder is there and holds something else.
    CheckpointError
        It could not be written.
    """
    folder = Path(folder)
    tensors, aliases = without_aliases(model.state_dict())
    head = {
        "format": FORMAT, "scheme": scheme.name, "vocab": trained.arch.vocab, "config": trained.manifest["config"],
        "step": trained.manifest["step"], "aliases": aliases,
        "source": {"model_sha256": trained.manifest["files"][_FILE]["sha256"],
                   "config_hash": trained.manifest.get("config_hash")},
    }  # fmt: skip
    if folder.exists() and not holds_model(folder):
        raise QuantizeError(
            f"{folder} is there and holds no quantized model: choose another folder", column="out"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with workshop(folder.parent, folder.name) as beside:
            save_file(tensors, beside / _FILE)
            sealed = seal({**head, "files": {_FILE: describe_file(beside / _FILE)}})
            (beside / MANIFEST).write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")
            if folder.exists():
                discard(folder)
            beside.rename(folder)
        sync_folder(folder.parent)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{folder}: the model could not be written ({getattr(error, 'strerror', None) or error})",
            path=folder,
        ) from error
    return folder


def load(folder: str | Path) -> tuple[Decoder, Scheme]:
    """Read a model that `save` wrote; its logits are those of the model that was saved, bit for bit.

    Raises
    ------
    CheckpointError
        A file is missing or damaged, or it is of another format.
    """
    folder = Path(folder)
    manifest = _manifest(folder)
    file = folder / _FILE
    try:
        if describe_file(file) != manifest["files"][_FILE]:
            raise damaged(file, "is not the file that was saved")
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise damaged(file, f"cannot be read ({error})") from error
    tensors |= {alias: tensors[name] for alias, name in manifest["aliases"].items()}
    config, scheme = config_of(manifest), SCHEMES[manifest["scheme"]]
    model = under(
        Decoder(config.arch(manifest["vocab"]), config), scheme
    )  # the structure; its weights are replaced
    restore_model(model, tensors)
    return model, scheme


def _manifest(folder: Path) -> Mapping[str, Any]:
    file = folder / MANIFEST
    try:
        manifest = json.loads(file.read_bytes())
        own = manifest.pop("sha256")
    except OSError as error:
        raise damaged(file, f"cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise damaged(file, "is no manifest") from error
    if manifest.get("format") != FORMAT:
        raise CheckpointError(f"{file}: format {manifest.get('format')!r}, not {FORMAT!r}", path=file)
    if seal(manifest)["sha256"] != own:
        raise damaged(file, "does not have the sha256 it claims")
    return dict(manifest)


def holds_model(folder: Path) -> bool:
    """Whether a folder holds a model of this format, damaged or not."""
    try:
        return bool(json.loads((folder / MANIFEST).read_bytes()).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False
