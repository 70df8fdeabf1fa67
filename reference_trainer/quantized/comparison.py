"""Quantize a checkpoint under several schemes and say what each costs: bytes, loss, speed."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from reference_trainer.errors import QuantizeError
from reference_trainer.machine import join, versions
from reference_trainer.quantized import stored
from reference_trainer.quantized.loss import Change, change_of, losses_of, mean_and_se
from reference_trainer.quantized.model import Bytes, bytes_of, under
from reference_trainer.quantized.place import check_place, check_room
from reference_trainer.quantized.scheme import BASE, Scheme, schemes
from reference_trainer.quantized.speed import Speed, Work, check_rounds, clock_of, speeds_of, works
from reference_trainer.quantized.trained import read_trained, text_for
from scaling.architecture import Arch

COLUMNS = (
    "scheme", "bytes", "bytes_blocks", "bytes_embedding", "bytes_rest", "bits_per_weight", "loss", "loss_se",
    "bits_per_byte", "change", "change_se", "change_low", "change_high", "change_lag1", "work", "batch",
    "tokens_per_s", "tokens_per_s_low", "tokens_per_s_high", "ratio", "ratio_low", "ratio_high",
)  # fmt: skip
_SHAPE = (
    "layers",
    "d_model",
    "heads",
    "kv_heads",
    "d_ff",
    "vocab",
    "tied",
    "params_total",
    "params_non_embedding",
)


@dataclass(frozen=True)
class Kept:
    """A model under one scheme.

    Attributes
    ----------
    scheme : Scheme
    bytes : Bytes
        Of its weights.
    loss, loss_se : float
        Nats per token, and the sampling error of the validation text.
    bits_per_byte : float or None
        Where the data know the bytes of their text.
    change : Change
        Against fp32 on the same windows.
    speed : dict of str to Speed
        By work.
    """

    scheme: Scheme
    bytes: Bytes
    loss: float
    loss_se: float
    bits_per_byte: float | None
    change: Change
    speed: dict[str, Speed]


@dataclass(frozen=True)
class Comparison:
    """A checkpoint under several schemes, fp32 first. Made by `compare`.

    Attributes
    ----------
    checkpoint, data : str
    step : int
    arch : Arch
    tokens, windows, seq_len : int
        Validation tokens that were read, in so many windows.
    bytes_per_token : float or None
        Of the validation text.
    kept : tuple of Kept
    works : tuple of Work
        What was timed.
    about : dict
        Device, threads, versions, hashes.
    """

    checkpoint: str
    data: str
    step: int
    arch: Arch
    tokens: int
    windows: int
    seq_len: int
    bytes_per_token: float | None
    kept: tuple[Kept, ...]
    works: tuple[Work, ...]
    about: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        found |= {"kept": [asdict(k) for k in self.kept], "works": [asdict(w) for w in self.works]}
        found["arch"] = {name: getattr(self.arch, name) for name in _SHAPE}
        for row, mine in zip(found["kept"], self.kept, strict=True):
            row["bytes"]["total"] = mine.bytes.total
            row["scheme"]["what"] = mine.scheme.what
            row["bits_per_weight"] = 8 * mine.bytes.total / self.arch.params_total
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each scheme and work, with `COLUMNS`."""
        found = []
        for k in self.kept:
            same: dict[str, Any] = {
                "scheme": k.scheme.name, "bytes": k.bytes.total, "bytes_blocks": k.bytes.blocks,
                "bytes_embedding": k.bytes.embedding, "bytes_rest": k.bytes.rest,
                "bits_per_weight": 8 * k.bytes.total / self.arch.params_total, "loss": k.loss, "loss_se": k.loss_se,
                "bits_per_byte": k.bits_per_byte, "change": k.change.value, "change_se": k.change.se,
                "change_low": k.change.low, "change_high": k.change.high, "change_lag1": k.change.lag1,
            }  # fmt: skip
            for w in self.works:
                s = k.speed[w.name]
                found.append(same | {
                    "work": w.name, "batch": w.batch, "tokens_per_s": s.tokens_per_s, "tokens_per_s_low": s.low,
                    "tokens_per_s_high": s.high, "ratio": s.ratio, "ratio_low": s.ratio_low,
                    "ratio_high": s.ratio_high,
                })  # fmt: skip
        return found

    def csv(self) -> str:
        """Return `rows` as CSV."""
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        return out.getvalue()


def compare(
    checkpoint: str | Path, data: str | Path, *, names: Sequence[str] | None = None, tokens: float = 1e6,
    batches: Sequence[int] = (1, 16), rounds: int = 15, out: str | Path | None = None, device: str = "cpu",
    tell: Callable[[int, int], None] | None = None,
) -> Comparison:  # fmt: skip
    """Quantize a checkpoint and measure what that does.

    Parameters
    ----------
    checkpoint, data : path
        See `trained.read_trained` and `trained.text_for`.
    names : sequence of str, optional
        Schemes; all of them if not given. fp32 is always there.
    tokens : float
        Validation tokens that are read, at most.
    batches : sequence of int
        Sequences written at once.
    rounds : int
        Of the timing.
    out : path, optional
        Folder for the int8 and int4 models, each in a folder of its name. It is looked at first, and written last.
    device : str
    tell : callable, optional
        Told how many rounds of how many are done.

    Raises
    ------
    CheckpointError, NonFiniteError
        The checkpoint is missing, damaged, or holds NaN; a model could not be written.
    SpaceError
        The disk has too little room for the models.
    QuantizeError, DataError
        The data or an argument cannot be used.
    """
    chosen = schemes(names)
    stored_ones = [s for s in chosen if s.bits < 16]
    check_rounds(rounds)
    if out is not None:
        check_place(out, [s.name for s in stored_ones])
    trained = read_trained(checkpoint)
    text, seq_len = text_for(trained, data), trained.config.seq_len
    timed = works(seq_len, batches)
    if not 2 * seq_len <= tokens < math.inf:
        raise QuantizeError(
            f"tokens = {tokens:g}: at least two windows of {seq_len} are read, and a finite number",
            column="tokens",
        )
    windows = min(int(tokens), text.tokens - 1) // seq_len
    place = join(device, "fp32", "off", "sdpa")
    models = {s.name: under(trained.model, s).to(place.device) for s in chosen}
    if out is not None:
        check_room(out, {s.name: bytes_of(models[s.name]).total for s in stored_ones})
    losses = {name: losses_of(model, text, seq_len, windows) for name, model in models.items()}
    speeds = speeds_of(models, BASE.name, text, seq_len, batches=batches, rounds=rounds, tell=tell)
    for s in stored_ones if out is not None else ():
        stored.save(Path(out or "") / s.name, models[s.name], s, trained)
    per_byte, kept = text.bytes_per_token, []
    for s in chosen:
        mean, se = mean_and_se(losses[s.name])
        bits = None if not per_byte else mean / (per_byte * math.log(2.0))
        change = change_of(losses[s.name], losses[BASE.name])
        kept.append(Kept(s, bytes_of(models[s.name]), mean, se, bits, change, speeds[s.name]))
    about = {**versions(), "device": place.name, "threads": torch.get_num_threads(),
             "clock": clock_of(place.device), "rounds": rounds, "tokenizer": text.tokenizer,
             "model_sha256": trained.manifest["files"]["model.safetensors"]["sha256"], "data_sha256": text.sha256,
             "config_hash": trained.manifest.get("config_hash")}  # fmt: skip
    return Comparison(
        str(checkpoint), str(data), int(trained.manifest["step"]), trained.arch, windows * seq_len, windows, seq_len,
        per_byte, tuple(kept), timed, about,
    )  # fmt: skip
