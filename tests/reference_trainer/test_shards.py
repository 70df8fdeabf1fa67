"""Token shards: what is written is what is read, and nothing damaged is read at all."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from reference_trainer.data.shards import ShardWriter, TokenSet, dtype_for, write_shard
from scaling.errors import DataError

GPT2 = {"tokenizer": "gpt2", "vocab": 50_257}


def test_format_on_disk(tmp_path):
    """The layout, byte by byte, as a reader in another language would see it."""
    path = write_shard(
        tmp_path / "a.tokens", [[15496, 995], [50256]], **GPT2, text_bytes=11, source="x", made="2026-01-02"
    )
    raw = path.read_bytes()
    assert raw[:8] == b"ISOTOK01"
    length = int.from_bytes(raw[8:16], "little")
    header = json.loads(raw[16 : 16 + length])
    start = -(-(16 + length) // 64) * 64
    data = raw[start:]
    assert data == b"\x88\x3c\xe3\x03\x50\xc4"  # 15496, 995, 50256 as little-endian 16-bit words
    assert header == {
        **GPT2,
        "dtype": "uint16",
        "sha256": hashlib.sha256(data).hexdigest(),
        "tokens": 3,
        "text_bytes": 11,
        "source": "x",
        "made": "2026-01-02",
    }


@pytest.mark.parametrize("vocab", [2, 256, 257, 50_257, 65_536, 65_537, 128_256, 1 << 32])
def test_largest_id_of_every_vocabulary_survives(tmp_path, vocab):
    """nanoGPT-style uint16 files turn id 65,536 into 0; here the dtype follows from the vocabulary."""
    path = write_shard(tmp_path / "a.tokens", [[0, vocab - 1]], tokenizer="t", vocab=vocab)
    assert TokenSet.open(path).slice(0, 2).tolist() == [0, vocab - 1]
    with pytest.raises(DataError, match=f"token {vocab} is outside the vocabulary"):
        write_shard(tmp_path / "b.tokens", [[0, 1], [vocab]], tokenizer="t", vocab=vocab)
    with pytest.raises(DataError, match="token -1 is outside"):
        write_shard(tmp_path / "b.tokens", [[-1]], tokenizer="t", vocab=vocab)
    assert [p.name for p in tmp_path.iterdir()] == ["a.tokens"], "a refused shard leaves nothing behind"


def test_refused_writes(tmp_path):
    with pytest.raises(DataError, match="integers, not float64"):
        write_shard(tmp_path / "a.tokens", [[1.0]], **GPT2)
    with pytest.raises(DataError, match="no tokens"):
        write_shard(tmp_path / "a.tokens", [], **GPT2)
    with pytest.raises(DataError, match=r"ends in \.tokens"):
        write_shard(tmp_path / "a.bin", [[1]], **GPT2)
    with pytest.raises(DataError, match="vocab = 0"):
        dtype_for(0)


def test_header_that_asks_for_a_wrap_is_refused(tmp_path):
    """A file that stores 70,000 ids in 16 bits has already lost its tokens."""
    path = write_shard(tmp_path / "a.tokens", [[1, 2]], tokenizer="t", vocab=50_000)
    path.write_bytes(path.read_bytes().replace(b'"vocab": 50000', b'"vocab": 70000'))
    with pytest.raises(DataError, match="70,000 needs uint32, not 'uint16'"):
        TokenSet.open(path)


def _three(folder):
    data = np.random.default_rng(0).integers(0, 50_257, 1000)
    for name, part in zip("bca", (data[300:310], data[310:], data[:300]), strict=True):
        write_shard(folder / f"{name}.tokens", part, **GPT2, text_bytes=4 * part.size)
    return data


def test_slices_across_shards(tmp_path):
    data = _three(tmp_path)
    tokens = TokenSet.open(tmp_path)
    assert (tokens.tokens, tokens.vocab, tokens.tokenizer, tokens.dtype) == (1000, 50_257, "gpt2", "uint16")
    assert tokens.bytes_per_token == 4
    rng = np.random.default_rng(1)
    for start, stop in [(0, 1000), (299, 311), (300, 310), (5, 5), *np.sort(rng.integers(0, 1001, (200, 2)))]:
        assert np.array_equal(tokens.slice(int(start), int(stop)), data[start:stop])
    tokens.verify()
    for start, stop in ((-1, 3), (5, 4), (990, 1001)):
        with pytest.raises(DataError, match="of a set of 1,000"):
            tokens.slice(start, stop)


def test_hash_names_order_and_content(tmp_path):
    _three(tmp_path)
    before = TokenSet.open(tmp_path).sha256
    (tmp_path / "a.tokens").rename(tmp_path / "z.tokens")
    assert TokenSet.open(tmp_path).sha256 != before
    single = TokenSet.open(tmp_path / "b.tokens")
    assert single.sha256 == single.headers[0].sha256


@pytest.mark.parametrize("bytes_lost", [1, 2, 1000, "all but the header", "within the header", "all"])
def test_truncated_shard(tmp_path, bytes_lost):
    _three(tmp_path)
    path = tmp_path / "c.tokens"
    raw = path.read_bytes()
    lost = {"all but the header": 2 * 690, "within the header": len(raw) - 40, "all": len(raw)}
    path.write_bytes(raw[: len(raw) - lost.get(bytes_lost, bytes_lost)])
    with pytest.raises(DataError, match=r"c\.tokens") as error:
        TokenSet.open(tmp_path)
    assert error.value.source == str(path)
    if bytes_lost not in ("all", "within the header"):
        assert f"{len(raw):,} bytes expected" in str(error.value)
        assert f"{path.stat().st_size:,} seen" in str(error.value)


def test_damage_inside_is_found_by_verify(tmp_path):
    _three(tmp_path)
    path = tmp_path / "c.tokens"
    raw = bytearray(path.read_bytes())
    raw[-7] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"c\.tokens is damaged"):
        TokenSet.open(tmp_path).verify()


def test_what_is_no_set(tmp_path):
    with pytest.raises(DataError, match=r"has no .*tokens file"):
        TokenSet.open(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        TokenSet.open(tmp_path / "missing.tokens")
    (tmp_path / "a.tokens").write_bytes(np.arange(1000, dtype="<u2").tobytes())
    with pytest.raises(DataError, match="is no token shard"):
        TokenSet.open(tmp_path)
    write_shard(tmp_path / "a.tokens", [[1]], **GPT2)
    write_shard(tmp_path / "b.tokens", [[1]], tokenizer="other", vocab=50_257)
    with pytest.raises(DataError, match=r"b\.tokens has tokenizer 'other'"):
        TokenSet.open(tmp_path)


def test_writer_goes_on_where_it_was(tmp_path):
    """A writer killed after its last flush loses what came later, and ends with the same bytes."""
    settings = {**GPT2, "source": "s", "made": "2026-01-02"}
    data = np.arange(10_000) % 50_257
    whole = ShardWriter(tmp_path / "whole.tokens", **settings)
    whole.write(data)
    whole.finish(None)
    killed = ShardWriter(tmp_path / "killed.tokens", **settings)
    killed.write(data[:6000])
    killed.flush()
    killed.write(data[:777])  # lost: the state that was saved knows of 6,000
    killed.close()
    assert not (tmp_path / "killed.tokens").exists()
    again = ShardWriter(tmp_path / "killed.tokens", **settings, keep=6000)
    again.write(data[6000:])
    again.finish(None)
    assert (tmp_path / "killed.tokens").read_bytes() == (tmp_path / "whole.tokens").read_bytes()
    (tmp_path / "short.tokens.part").write_bytes(bytes(1000))
    with pytest.raises(DataError, match="cut short"):
        ShardWriter(tmp_path / "short.tokens", **settings, keep=6000)
