"""A trained model from a checkpoint, and the text that it is judged on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from reference_trainer import checkpoint
from reference_trainer.checkpoint_files import MANIFEST, TENSOR_FILES, damaged
from reference_trainer.data.shards import TokenSet
from reference_trainer.errors import CheckpointError, QuantizeError
from reference_trainer.train import Config, Decoder
from scaling.architecture import Arch

_WEIGHTS = TENSOR_FILES[0]
_EMBEDDING = "embed.weight"


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes
    ----------
    path : pathlib.Path
        Its checkpoint.
    model : Decoder
        In fp32, for reading with.
    config : Config
        That it was trained with.
    arch : Arch
    manifest : dict
        Of the checkpoint.
    """

    path: Path
    model: Decoder
    config: Config
    arch: Arch
    manifest: dict[str, Any]


def read_trained(path: str | Path) -> Trained:
    """Read the weights of a checkpoint; the optimizer's state need not be there.

    Parameters
    ----------
    path : path
        A folder with ``model.safetensors`` and ``manifest.json``, or that of a run, whose newest whole checkpoint is
        taken.

    Raises
    ------
    CheckpointError
        There is none, or it is damaged, or not that of a `reference_trainer.train.Decoder`.
    """
    path = _found(Path(path))
    manifest = checkpoint.verify(path, weights_only=True)
    if "scheme" in manifest:
        raise CheckpointError(
            f"{path} holds a model in {manifest['scheme']} already: give the checkpoint that it was made from",
            path=path,
        )
    try:
        tensors = load_file(path / _WEIGHTS)
        tensors |= {alias: tensors[name] for alias, name in manifest["aliases"][_WEIGHTS].items()}
        config = config_of(manifest)
        vocab = tensors[_EMBEDDING].shape[0]
    except (OSError, SafetensorError) as error:  # changed since it was verified
        raise damaged(path / _WEIGHTS, f"cannot be read ({error})") from error
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path}: this is no checkpoint of the trainer ({type(error).__name__}: {error})", path=path
        ) from error
    arch = config.arch(vocab)
    try:
        return Trained(path, built(arch, config, tensors), config, arch, manifest)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}", path=path) from error


def config_of(manifest: Mapping[str, Any]) -> Config:
    """Return the configuration that a manifest holds: JSON has no tuples."""
    saved: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in manifest["config"].items()}
    return Config(**saved)


def built(arch: Arch, config: Config, tensors: Mapping[str, Tensor]) -> Decoder:
    """Return the model with these weights, for reading with: no dropout, no gradients."""
    model = Decoder(arch, config)
    checkpoint.restore_model(model, tensors)
    return model.eval().requires_grad_(False)


def text_for(trained: Trained, data: str | Path) -> TokenSet:
    """Open validation data that the losses of a model can be measured on.

    Raises
    ------
    DataError
        There is no shard, or it is damaged.
    QuantizeError
        The tokens are those it was trained on, or of another vocabulary, or hold less than two windows.
    """
    found = TokenSet.open(data)
    seq_len, known = trained.config.seq_len, trained.arch.vocab
    if found.sha256 == trained.manifest.get("train_hash"):
        raise QuantizeError(
            f"{data} holds the tokens that the model was trained on: a loss on them says nothing about text that it "
            "has not seen. Give tokens that were held out.",
            source=str(data),
            column="data",
        )
    wrong = found.vocab > known if trained.config.vocab else found.vocab != known
    if wrong:
        raise QuantizeError(
            f"{data} was tokenized by {found.tokenizer!r} with {found.vocab:,} tokens, the model of {trained.path} "
            f"knows {known:,}: give text of the tokenizer it was trained with.",
            source=str(data),
            column="data",
        )
    if (found.tokens - 1) // seq_len < 2:
        raise QuantizeError(
            f"{data} has {found.tokens:,} tokens: a change with a standard error takes two windows of seq_len + 1 = "
            f"{seq_len + 1} at least.",
            source=str(data),
            column="data",
        )
    return found


def windows_of(data: TokenSet, seq_len: int, first: int, count: int) -> tuple[Tensor, Tensor]:
    """Return tokens and targets of some windows, both (count, seq_len): those that `train.evaluate` reads."""
    block = data.slice(first * seq_len, (first + count) * seq_len + 1).astype("int64")
    tokens = torch.from_numpy(block)
    return tokens[:-1].view(count, seq_len), tokens[1:].view(count, seq_len)


def _found(path: Path) -> Path:
    if not path.is_dir():
        raise CheckpointError(
            f"{path} is no folder: give a checkpoint, such as RUN/checkpoints/step_00001526, or the folder of a run",
            path=path,
        )
    if (path / MANIFEST).exists() or not (path / "checkpoints").is_dir():
        return path
    newest = checkpoint.latest(path / "checkpoints")
    if newest is None:
        raise CheckpointError(f"{path}: the run has no whole checkpoint", path=path)
    return newest
