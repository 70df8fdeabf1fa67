"""The ladder whose law has a known end: a Markov source, whose entropy no model can go below."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.ladders.markov_source import MarkovSource, write_source

#: Tokens to train on, so many that none comes twice, and to validate on: each run is scored on the same ones.
TRAIN, VAL = 10_000_000, 524_289


@cache
def source() -> MarkovSource:
    """Return the source. Its shape was chosen on another one, of seed 101, which no committed run has seen."""
    return MarkovSource.layered(vocab=64, first=1.0, second=1.0, pair=1.0, zipf=1.4, seed=0)


def prepare(folder: Path) -> None:
    """Write the tokens, unless they are there."""
    if not all((folder / f"{name}.tokens").exists() for name in ("train", "val")):
        folder.mkdir(parents=True, exist_ok=True)
        write_source(folder, source(), train=TRAIN, val=VAL)


def truth(seq_len: int) -> dict[str, Any]:
    """Return what the floor of the losses is, three ways.

    Parameters
    ----------
    seq_len : int
        Tokens a model is given at once: of the first of them it sees no predecessor, so that the one after it can be
        predicted to the entropy of first order only.

    Returns
    -------
    dict
        ``entropy``: the exact rate of the source, nats per token; ``reachable``: with one token in `seq_len` at first
        order; ``block``: -log p under the source over the very tokens that are validated on, and ``block_se``.
    """
    known = source()
    surprise = known.surprise(known.draw(VAL, 1))
    return {
        "entropy": known.entropy, "entropy_first": known.entropy_first,
        "reachable": known.entropy + (known.entropy_first - known.entropy) / seq_len,
        "block": float(surprise.mean()), "block_se": float(surprise.std(ddof=1) / np.sqrt(len(surprise))),
    }  # fmt: skip
