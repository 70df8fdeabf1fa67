"""A source of tokens whose entropy is known: each token depends on the two before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

#: Rounds of the power method and the change at which it ends.
_MOST_ROUNDS, _STILL = 10_000, 1e-14


class MarkovSource:
    """A Markov source of second order with random transitions.

    Parameters
    ----------
    vocab : int
        Number of tokens, V.
    concentration : float
        Of the Dirichlet distribution that each of the V^2 rows is drawn from; small: predictable.
    seed : int
        Names the source.

    Attributes
    ----------
    table : ndarray, shape (vocab, vocab, vocab)
        Probability of the third token after the first two.
    entropy : float
        Entropy rate in nats per token: what no model can go below on average.
    """

    def __init__(self, vocab: int, concentration: float = 0.3, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.vocab = vocab
        self.table = rng.dirichlet(np.full(vocab, concentration), size=(vocab, vocab))
        pairs = np.full((vocab, vocab), vocab**-2.0)
        for _ in range(_MOST_ROUNDS):
            following = np.einsum("ab,abc->bc", pairs, self.table)
            change, pairs = np.abs(following - pairs).max(), following
            if change < _STILL:
                break
        logs = np.log(np.maximum(self.table, 1e-300))
        self.entropy = float(-(pairs[:, :, None] * self.table * logs).sum())

    def draw(self, tokens: int, seed: int, chains: int = 64) -> npt.NDArray[np.int64]:
        """Return tokens of independent chains, one after the other.

        Parameters
        ----------
        tokens : int
            How many.
        seed : int
            Names the draw.
        chains : int
            Number of chains. The first two tokens of each are uniform.

        Returns
        -------
        ndarray, shape (tokens,)
        """
        rng = np.random.default_rng((seed, 1))
        length = -(-tokens // chains)
        out = rng.integers(0, self.vocab, (length, chains))
        cumulative = self.table.cumsum(axis=-1)
        for k in range(2, length):
            rows = cumulative[out[k - 2], out[k - 1]]
            out[k] = (rows[:, :-1] < rng.random((chains, 1))).sum(axis=1)
        return out.T.reshape(-1)[:tokens]


def write_source(folder: Path, source: MarkovSource, *, train: int, val: int) -> dict[str, str]:
    """Write shards for training and validation; return their paths as settings of the trainer.

    Parameters
    ----------
    folder : pathlib.Path
        Where they go.
    source : MarkovSource
        What they are drawn from.
    train, val : int
        Tokens of each.
    """
    from reference_trainer.data.shards import write_shard

    paths = {}
    for seed, (name, tokens) in enumerate((("train", train), ("val", val))):
        paths[f"{name}_data"] = str(folder / f"{name}.tokens")
        write_shard(
            paths[f"{name}_data"], source.draw(tokens, seed), tokenizer="none", vocab=source.vocab,
            source=f"second-order Markov source, {source.vocab} tokens, {source.entropy:.6f} nats",
        )  # fmt: skip
    return paths
