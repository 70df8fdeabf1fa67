"""A source of tokens whose entropy is known: each token depends on the two before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

#: Rounds of the power method and the change at which it ends.
_MOST_ROUNDS, _STILL = 10_000, 1e-14


class MarkovSource:
    """A Markov source of second order.

    Parameters
    ----------
    table : array, shape (vocab, vocab, vocab)
        Probability of the third token after the first two.

    Attributes
    ----------
    vocab : int
        Number of tokens, V.
    pairs : ndarray, shape (vocab, vocab)
        How often each pair comes in the long run.
    entropy : float
        Entropy rate in nats per token: what no model can go below on average.
    entropy_first : float
        Entropy of a token after the one before it alone: what a model that sees one token can reach.
    """

    def __init__(self, table: npt.NDArray[np.float64]) -> None:
        self.table, self.vocab = table, len(table)
        pairs = np.full((self.vocab, self.vocab), self.vocab**-2.0)
        for _ in range(_MOST_ROUNDS):
            following = np.einsum("ab,abc->bc", pairs, self.table)
            change, pairs = np.abs(following - pairs).max(), following
            if change < _STILL:
                break
        self.pairs = pairs
        self.entropy = float(-(pairs[:, :, None] * self.table * _logs(self.table)).sum())
        first = np.einsum("ab,abc->bc", pairs, self.table)
        self.entropy_first = float(-(first * _logs(first / first.sum(axis=1, keepdims=True))).sum())

    @classmethod
    def dirichlet(cls, vocab: int, concentration: float = 0.3, seed: int = 0) -> MarkovSource:
        """Make a source whose rows have nothing in common: each is drawn from a Dirichlet distribution.

        Parameters
        ----------
        vocab : int
        concentration : float
            Small: predictable.
        seed : int
            Names the source.
        """
        rng = np.random.default_rng(seed)
        return cls(rng.dirichlet(np.full(vocab, concentration), size=(vocab, vocab)))

    @classmethod
    def layered(
        cls, vocab: int, first: float = 1.0, second: float = 1.0, pair: float = 1.0, zipf: float = 0.7, seed: int = 0
    ) -> MarkovSource:  # fmt: skip
        """Make a source that is learned little by little: log odds are sums of normal numbers.

        Rows with nothing in common are learned all at once or not at all, and no power law describes that. Here some
        of the log odds belong to the last token, some to the one before it, the rest to the pair, and tokens are of
        very unequal frequency: every further parameter and token buys a little.

        Parameters
        ----------
        vocab : int
        first, second, pair : float
            Standard deviation of the log odds that belong to the last token, to the one before, to both together.
        zipf : float
            The k-th token has odds k^-zipf before anything else.
        seed : int
            Names the source.
        """
        rng = np.random.default_rng(seed)
        odds = first * rng.normal(size=(1, vocab, vocab)) + second * rng.normal(size=(vocab, 1, vocab))
        odds = odds + pair * rng.normal(size=(vocab, vocab, vocab)) - zipf * np.log(np.arange(1, vocab + 1))
        weights = np.exp(odds - odds.max(axis=-1, keepdims=True))
        return cls(weights / weights.sum(axis=-1, keepdims=True))

    def surprise(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return -log of the probability of each token from the third on, in nats, shape (n - 2,)."""
        return -_logs(self.table[tokens[:-2], tokens[1:-1], tokens[2:]])

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


def _logs(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Natural logarithms; of nothing something large and finite, which nothing multiplies away."""
    return np.asarray(np.log(np.maximum(values, 1e-300)))


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
