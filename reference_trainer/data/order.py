"""Which window of the data comes when: a pure function of seed and step, with nothing to save or replay.

An epoch is a permutation of all windows. It is never drawn or stored: each place is computed on its own by
a keyed Feistel network (Luby and Rackoff 1988) over the next power of two, walked until it falls inside
(Black and Rogaway 2002), so a resumed run needs the step alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference_trainer.data.shards import TokenSet
from scaling.errors import DataError

_MASK = (1 << 64) - 1
_ROUNDS = 8
#: Few windows are permuted inside a larger range: a Feistel network of a few bits mixes badly.
_FEWEST_BITS = 4
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def _mixed(x: int) -> int:
    """Mix 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    x = ((x ^ (x >> 30)) * _MIX[0]) & _MASK
    x = ((x ^ (x >> 27)) * _MIX[1]) & _MASK
    return x ^ (x >> 31)


def _keys(seed: int, epoch: int) -> list[int]:
    """Return one key a round, a different set for every pair of seed and epoch."""
    state = _mixed((seed + _GOLDEN) & _MASK)
    state = _mixed((state + (epoch + 1) * _GOLDEN) & _MASK)
    return [_mixed((state + (r + 1) * _GOLDEN) & _MASK) for r in range(_ROUNDS)]


def permuted(index: npt.ArrayLike, n: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return where a permutation of ``range(n)`` sends each index.

    Parameters
    ----------
    index : array_like of int
        Values from 0 to n - 1, any shape.
    n : int
        Size of the permuted range, 1 to 2^62.
    seed, epoch : int
        Name the permutation, each 0 to 2^64 - 1.

    Returns
    -------
    ndarray of int64, the shape of `index`
        Different indices go to different places; memory and time depend on `index` alone.

    Raises
    ------
    DataError
        An argument is outside its range.

    Examples
    --------
    >>> sorted(permuted(range(5), 5, seed=1, epoch=0).tolist())
    [0, 1, 2, 3, 4]
    """
    for name, value, low, high in (
        ("n", n, 1, 1 << 62),
        ("seed", seed, 0, _MASK),
        ("epoch", epoch, 0, _MASK),
    ):
        if not low <= value <= high:
            raise DataError(f"{name} = {value!r}: give {low} to {high}", column=name)
    places = np.asarray(index, np.int64)
    if places.size and (int(places.min()) < 0 or int(places.max()) >= n):
        raise DataError(
            f"index goes from {places.min()} to {places.max()}, expected 0 to {n - 1}", column="index"
        )
    bits = max(_FEWEST_BITS, (n - 1).bit_length())
    keys = _keys(int(seed), int(epoch))
    out = _feistel(places.astype(np.uint64).ravel(), bits, keys)
    outside = np.flatnonzero(out >= n)
    while outside.size:  # each walk stays on its own cycle, so it ends, and two never meet
        out[outside] = _feistel(out[outside], bits, keys)
        outside = outside[out[outside] >= n]
    return out.astype(np.int64).reshape(places.shape)


def _feistel(x: npt.NDArray[np.uint64], bits: int, keys: list[int]) -> npt.NDArray[np.uint64]:
    """Permute ``range(2^bits)``: halves of unequal width take turns, each hashed into the other."""
    low_bits = bits // 2
    low_mask, high_mask = np.uint64((1 << low_bits) - 1), np.uint64((1 << (bits - low_bits)) - 1)
    low, high = x & low_mask, x >> np.uint64(low_bits)
    for number, key in enumerate(keys):
        if number % 2:
            high = (high ^ _hashed(low, key)) & high_mask
        else:
            low = (low ^ _hashed(high, key)) & low_mask
    return (high << np.uint64(low_bits)) | low


def _hashed(x: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    x = (x ^ np.uint64(key)) * np.uint64(_MIX[0])
    x = (x ^ (x >> np.uint64(29))) * np.uint64(_MIX[1])
    return x ^ (x >> np.uint64(32))


class Batches:
    """The batches of a run, each a pure function of its step.

    Window i is tokens ``i * seq_len`` to ``(i + 1) * seq_len`` and the one after, so that every token but
    the first of the set is predicted once an epoch.

    Parameters
    ----------
    tokens : TokenSet
        The training tokens.
    seq_len : int
        Tokens predicted per sequence, T.
    batch_seqs : int
        Sequences per step over all ranks.
    seed : int
        Names the order.
    rank, world : int
        Which part of each batch is ours: the rank-th of `world` equal, contiguous ones.

    Attributes
    ----------
    n_windows : int
        Windows in the set: sequences per epoch.

    Raises
    ------
    DataError
        The set has no full window, or the batch cannot be shared equally.

    Examples
    --------
    >>> import tempfile
    >>> from reference_trainer.data.shards import write_shard
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_shard(f"{folder}/a.tokens", [range(101)], tokenizer="byte", vocab=257)
    ...     batches = Batches(TokenSet.open(path), seq_len=10, batch_seqs=4, seed=0)
    ...     batches(7).shape, batches.n_windows, batches.epoch(5), batches.unique_tokens(2)
    ((4, 11), 10, 2.0, 80)
    """

    def __init__(
        self, tokens: TokenSet, seq_len: int, batch_seqs: int, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        for name, value in (("seq_len", seq_len), ("batch_seqs", batch_seqs), ("world", world)):
            if value < 1:
                raise DataError(f"{name} = {value}: give at least 1", column=name)
        if not 0 <= rank < world:
            raise DataError(f"rank = {rank}: expected 0 to {world - 1} (world = {world})", column="rank")
        if batch_seqs % world:
            raise DataError(
                f"batch_seqs = {batch_seqs} does not divide into world = {world} equal parts: give a multiple "
                f"of {world}.",
                column="batch_seqs",
            )
        if not 0 <= seed <= _MASK:
            raise DataError(f"seed = {seed}: give 0 to 2^64 - 1", column="seed")
        self.n_windows = (tokens.tokens - 1) // seq_len
        if self.n_windows < 1:
            raise DataError(
                f"{tokens.tokens:,} tokens hold no window of seq_len + 1 = {seq_len + 1:,}: take a shorter "
                "seq_len or more data.",
                column="seq_len",
            )
        self.tokens, self.seq_len, self.batch_seqs, self.seed = tokens, seq_len, batch_seqs, seed
        share = batch_seqs // world
        self._mine = np.arange(rank * share, (rank + 1) * share, dtype=np.int64)

    def windows(self, step: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the windows of a step, shape (batch_seqs / world,)."""
        if step < 0:
            raise DataError(f"step = {step}: steps count from 0", column="step")
        epochs, places = np.divmod(step * self.batch_seqs + self._mine, self.n_windows)
        out = np.empty_like(places)
        for epoch in np.unique(epochs):  # a batch may end one epoch and begin the next
            at = epochs == epoch
            out[at] = permuted(places[at], self.n_windows, self.seed, int(epoch))
        return out

    def __call__(self, step: int) -> npt.NDArray[np.int64]:
        """Return the tokens of a step.

        Parameters
        ----------
        step : int
            From 0.

        Returns
        -------
        ndarray of int64, shape (batch_seqs / world, seq_len + 1)
            Inputs are ``[:, :-1]``, targets ``[:, 1:]``.
        """
        windows = self.windows(step)
        out = np.empty((windows.size, self.seq_len + 1), np.int64)
        for row, window in enumerate(windows.tolist()):
            start = window * self.seq_len
            out[row] = self.tokens.slice(start, start + self.seq_len + 1)
        return out

    def epoch(self, step: int) -> float:
        """Return how many times the data have been seen before a step."""
        return step * self.batch_seqs / self.n_windows

    def unique_tokens(self, steps: int) -> int:
        """Return how many different tokens have been predicted after so many steps."""
        return min(steps * self.batch_seqs, self.n_windows) * self.seq_len
