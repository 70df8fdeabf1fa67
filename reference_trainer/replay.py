"""Read the suspected batches of a run again: a checkpoint and the pure order of the data are all it takes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from reference_trainer import checkpoint, machine
from reference_trainer.data.order import Batches
from reference_trainer.data.shards import TokenSet
from reference_trainer.errors import CheckpointError
from reference_trainer.evidence import BatchReading, Evidence, TokenShare
from reference_trainer.inject import Faults
from reference_trainer.machine import Place
from reference_trainer.train import Config, Decoder

#: Tokens of the corpus that are counted, in so many evenly spread pieces.
_CORPUS, _PIECES = 1 << 20, 64
#: Tokens named in the report.
_NAMED = 5


def replay(
    run_dir: str | Path, *, first_step: int, batches: tuple[int, int], most: int = 6, device: str = "cpu"
) -> Evidence:
    """Read suspected batches again, and as many before them.

    Parameters
    ----------
    run_dir : path
        Folder of the run; its data must be where the configuration says.
    first_step : int
        Step of the first evidence: the newest checkpoint before it is used, or the oldest that is left.
    batches : tuple of int
        First and last suspected batch, from `reference_trainer.guide.own_run.batches`, say. Faults of the data that
        the run was given on purpose are in them as they were.
    most : int
        Batches that are read, evenly spread over the suspected ones, and as many usual ones.
    device : str
        Where; a CPU reads a few batches in seconds.

    Raises
    ------
    CheckpointError
        No checkpoint verifies.
    DataError
        The data are missing or damaged.
    """
    run_dir = Path(run_dir)
    config = Config(**_settings(json.loads((run_dir / "run.json").read_text(encoding="utf-8"))["config"]))
    saved = _checkpoint(run_dir / "checkpoints", first_step)
    data = TokenSet.open(config.train_data)
    order = Batches(data, config.seq_len, config.batch_seqs, config.seed)
    faults = Faults(config.inject, config.seed, data.vocab)
    place = machine.join(device, "fp32" if device == "cpu" else config.precision, "off", "sdpa")
    model = Decoder(config.arch(data.vocab), config).to(place.device)
    checkpoint.restore_model(model, saved.model)
    model.eval()  # without dropout: the batches are compared with each other
    first, last = batches
    chosen = np.unique(np.linspace(first, last, min(most, last - first + 1)).astype(int)).tolist()
    usual = list(range(max(first - len(chosen) - 1, 0), max(first - 1, 0)))
    read = {i: faults.batch(i, order(i)) for i in [*usual, *chosen]}
    losses, rest = {}, {}
    for i, tokens in read.items():
        losses[i], rest[i] = _read(model, tokens, config, place)
    typical = np.concatenate([losses[i].ravel() for i in usual or chosen])
    bar = float(np.quantile(typical, 0.99))
    readings = {i: _reading(i, losses[i], rest[i], bar, order) for i in read}
    corpus = _corpus(data)
    counts = {
        name: _counts([read[i][:, : config.seq_len] for i in numbers], data.vocab)
        for name, numbers in (("suspected", chosen), ("usual", usual or chosen))
    }
    shares = counts["suspected"] / counts["suspected"].sum()
    whole = corpus / corpus.sum()
    top = np.argsort(whole - shares, kind="stable")[:_NAMED]
    return Evidence(
        checkpoint_step=saved.step, before=saved.step < first_step, first_batch=first, last_batch=last,
        suspected=tuple(readings[i] for i in chosen), usual=tuple(readings[i] for i in usual or chosen), bar=bar,
        corpus_tokens=int(corpus.sum()), divergence=_divergence(counts["suspected"], corpus),
        usual_divergence=_divergence(counts["usual"], corpus),
        tokens=tuple(TokenShare(int(t), float(shares[t]), float(whole[t])) for t in top if shares[t] > 2 * whole[t]),
    )  # fmt: skip


def _settings(saved: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run as its configuration takes them: JSON has no tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()}


def _checkpoint(folder: Path, first_step: int) -> checkpoint.Loaded:
    steps = checkpoint.steps(folder)
    old = [step for step in reversed(steps) if step < first_step]
    for step in [*old, *(step for step in steps if step >= first_step)]:
        try:
            return checkpoint.load(checkpoint.at(folder, step))
        except CheckpointError:
            continue
    raise CheckpointError(f"{folder}: no checkpoint verifies, so nothing can be replayed", path=folder)


def _read(
    model: Decoder, tokens: npt.NDArray[np.int64], config: Config, place: Place
) -> tuple[npt.NDArray[np.float64], tuple[float, tuple[float, ...]]]:
    """Return the losses of a batch (B, T), and its gradient norm with the size of the stream after each block."""
    out, streams, squares = [], [], []
    for part in torch.split(torch.from_numpy(tokens).to(place.device), config.micro_seqs or len(tokens)):
        sizes: list[torch.Tensor] = []
        with place.autocast():
            losses, z = model(part[:, : config.seq_len], part[:, -config.seq_len :], sizes)
        ((losses + z).sum() / (len(tokens) * config.seq_len)).backward()
        out.append(losses.detach().double().cpu().numpy())
        streams.append(np.array([float(size) ** 2 for size in sizes]) * len(part) / len(tokens))
    squares = [float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return np.concatenate(out), (math.sqrt(sum(squares)), tuple(np.sqrt(np.sum(streams, axis=0)).tolist()))


def _reading(
    number: int, losses: npt.NDArray[np.float64], rest: tuple[float, tuple[float, ...]], bar: float, order: Batches
) -> BatchReading:  # fmt: skip
    means = losses.mean(axis=1)
    worst = int(means.argmax())
    return BatchReading(
        batch=number, loss=float(losses.mean()), highest=float(losses.max()), above=float((losses > bar).mean()),
        grad_norm=rest[0], activations=rest[1], worst_window=int(order.windows(number)[worst]),
        worst_loss=float(means[worst]),
    )  # fmt: skip


def _counts(parts: list[npt.NDArray[Any]], vocab: int) -> npt.NDArray[np.int64]:
    return np.sum([np.bincount(part.ravel().astype(np.int64), minlength=vocab) for part in parts], axis=0)  # type: ignore[no-any-return]


def _corpus(data: TokenSet) -> npt.NDArray[np.int64]:
    """Count the tokens of evenly spread pieces of the data."""
    length = min(_CORPUS // _PIECES, data.tokens)
    starts = np.unique(np.linspace(0, data.tokens - length, _PIECES).astype(int)).tolist()
    return _counts([data.slice(start, start + length) for start in starts], data.vocab)


def _divergence(counts: npt.NDArray[np.int64], corpus: npt.NDArray[np.int64]) -> float:
    """Return the Kullback-Leibler divergence in nats; half a token each keeps unseen ones finite."""
    p, q = counts / counts.sum(), (corpus + 0.5) / (corpus + 0.5).sum()
    seen = p > 0
    return float((p[seen] * np.log(p[seen] / q[seen])).sum())
