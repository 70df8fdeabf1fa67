"""The order of the data: a well mixed permutation, the same for every rank, resume and batch split."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from reference_trainer.data.order import Batches, permuted
from reference_trainer.data.shards import TokenSet, write_shard
from scaling.errors import DataError


@pytest.mark.parametrize("n", [1, 2, 3, 7, 255, 256, 257, 1000, 65_537])
def test_every_index_once(n):
    for seed, epoch in ((0, 0), (1, 0), (0, 1), ((1 << 64) - 1, 10**6)):
        out = permuted(np.arange(n), n, seed, epoch)
        assert np.array_equal(np.sort(out), np.arange(n))


def test_one_by_one_is_all_at_once():
    n = 1000
    whole = permuted(np.arange(n), n, 5, 2)
    assert [int(permuted(i, n, 5, 2)) for i in range(n)] == whole.tolist()
    assert np.array_equal(permuted(np.arange(n).reshape(10, 100), n, 5, 2).ravel(), whole)


def test_huge_range_costs_no_memory():
    """A trillion windows: memory depends on the batch alone."""
    n = 10**12 + 39
    tracemalloc.start()
    out = permuted(np.arange(10_000), n, 1, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6
    assert np.unique(out).size == 10_000
    assert stats.kstest(out / n, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("n", [4, 5, 10, 300])
def test_uniform_over_seeds(n):
    """Over many seeds each index goes everywhere equally often, and so do ordered pairs of places."""
    rounds = 2000
    table = np.array([permuted(np.arange(n), n, seed, seed % 3) for seed in range(rounds)])
    for place in (0, n // 2, n - 1):
        assert stats.chisquare(np.bincount(table[:, place], minlength=n)).pvalue > 1e-4
    if n <= 10:
        pairs = np.bincount(table[:, 0] * n + table[:, 1], minlength=n * n).reshape(n, n)
        off_diagonal = pairs[~np.eye(n, dtype=bool)]
        assert np.trace(pairs) == 0
        assert stats.chisquare(off_diagonal).pvalue > 1e-4


@pytest.mark.parametrize("n", [65_536, 100_003])
def test_neighbours_part(n):
    """Nothing of the old order is left: neighbours, lags, low bits, and two epochs or seeds against another."""
    out = permuted(np.arange(n), n, 0, 0)
    limit = 5 / np.sqrt(n)
    for lag in (1, 2, 3, 16, 256):
        assert abs(np.corrcoef(out[:-lag], out[lag:])[0, 1]) < limit
    assert abs(np.corrcoef(out, np.arange(n))[0, 1]) < limit
    for other in (permuted(np.arange(n), n, 0, 1), permuted(np.arange(n), n, 1, 0)):
        assert abs(np.corrcoef(out, other)[0, 1]) < limit
        assert np.sum(out == other) < 10  # of two random permutations about 1 point stays
    # Steps between neighbours as those of random places: triangular on (-n, n).
    steps = np.abs(np.diff(out)) / n
    assert stats.kstest(steps[::2], lambda x: 2 * x - x**2).pvalue > 1e-4
    low = np.bincount((out[:-1] % 4) * 4 + out[1:] % 4, minlength=16)
    assert stats.chisquare(low).pvalue > 1e-4


def test_order_never_changes():
    """Golden: a run of last year must resume this year."""
    assert permuted(range(10), 10, 0, 0).tolist() == [5, 0, 2, 9, 4, 3, 1, 7, 8, 6]
    assert permuted([0, 1, 2, 3], 10**9, 1337, 2).tolist() == [736703277, 779774526, 452285870, 696327009]


def _tokens(tmp_path, count=1001):
    for name, part in (("a", range(0, 400)), ("b", range(400, count))):
        write_shard(tmp_path / f"{name}.tokens", [part], tokenizer="t", vocab=50_257)
    return TokenSet.open(tmp_path)


def test_windows_cover_the_data_once_an_epoch(tmp_path):
    """Token value = its position, so a window's content says where it is from."""
    batches = Batches(_tokens(tmp_path), seq_len=10, batch_seqs=20, seed=3)
    assert batches.n_windows == 100
    for epoch in range(2):
        rows = np.concatenate([batches(step) for step in range(5 * epoch, 5 * epoch + 5)])
        assert rows.dtype == np.int64 and rows.shape == (100, 11)
        assert np.array_equal(rows - rows[:, :1], np.broadcast_to(np.arange(11), (100, 11)))
        assert np.array_equal(np.sort(rows[:, 1:].ravel()), np.arange(1, 1001)), "every target once"
    assert not np.array_equal(batches(0), batches(5)), "another epoch, another order"


def test_the_stream_does_not_depend_on_the_batch(tmp_path):
    """Sequence k is the same for every batch size and rank count, also across the border of an epoch."""
    tokens = _tokens(tmp_path)
    one = np.concatenate([Batches(tokens, 10, 1, 7)(step) for step in range(240)])
    for size, world in ((8, 1), (8, 2), (24, 4), (120, 3), (240, 1)):
        ranks = [Batches(tokens, 10, size, 7, rank, world) for rank in range(world)]
        many = np.concatenate([b(step) for step in range(240 // size) for b in ranks])
        assert np.array_equal(many, one)
    assert not np.array_equal(Batches(tokens, 10, 240, 8)(0), one)


def test_epochs_and_unique_tokens(tmp_path):
    batches = Batches(_tokens(tmp_path), seq_len=10, batch_seqs=30, seed=0)
    assert [batches.epoch(step) for step in (0, 1, 10)] == [0, 0.3, 3]
    assert [batches.unique_tokens(steps) for steps in (0, 1, 3, 4, 99)] == [0, 300, 900, 1000, 1000]


def test_bad_arguments(tmp_path):
    tokens = _tokens(tmp_path)
    with pytest.raises(DataError, match="batch_seqs = 10 does not divide into world = 4"):
        Batches(tokens, 10, 10, 0, 0, 4)
    with pytest.raises(DataError, match="1,001 tokens hold no window of seq_len \\+ 1 = 1,002"):
        Batches(tokens, 1001, 1, 0)
    assert Batches(tokens, 1000, 1, 0).n_windows == 1
    for name, arguments in {
        "seq_len": (0, 1, 0),
        "batch_seqs": (10, 0, 0),
        "seed": (10, 1, -1),
        "rank": (10, 2, 0, 2, 2),
        "world": (10, 2, 0, 0, 0),
    }.items():
        with pytest.raises(DataError, match=name) as error:
            Batches(tokens, *arguments)
        assert error.value.column == name
    with pytest.raises(DataError, match="step = -1"):
        Batches(tokens, 10, 1, 0)(-1)
    with pytest.raises(DataError, match="expected 0 to 9"):
        permuted([3, 10], 10, 0, 0)


def test_training_data_need_numpy_alone(tmp_path):
    """A machine with torch, numpy and safetensors reads shards: nothing else may be imported."""
    code = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        allowed = {"numpy", "scaling", "economics", "reference_trainer", *sys.stdlib_module_names}
        if name.partition(".")[0] not in allowed:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
from reference_trainer.data.order import Batches
from reference_trainer.data.shards import TokenSet, write_shard
path = write_shard(sys.argv[1], [range(100)], tokenizer="bytes", vocab=256)
print(Batches(TokenSet.open(path), 8, 4, seed=0)(3).shape)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.tokens")],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "(4, 9)\n", done.stderr
