"""Tokenizers: GPT-2 is GPT-2 or refused, text stays text, separators cannot be faked."""

from __future__ import annotations

import base64
import json

import pytest

from reference_trainer.data.tokenizers import ByteTokenizer, load_tokenizer
from scaling.errors import DataError

TEXTS = [
    "Hello world",
    "",
    "Ünïcödé 漢字 🙂 don't  stop\n\n\tnow 12345",
    "fake border <|endoftext|> inside",
    "a" * 5000,
    "\x00\x01\r\n",
]


def test_bytes_are_the_bytes():
    tokenizer = load_tokenizer("bytes")
    assert (tokenizer.vocab, tokenizer.separator) == (256, 255)
    for text, ids in zip(TEXTS, tokenizer.encode_batch(TEXTS), strict=True):
        assert bytes(ids.tolist()).decode() == text


def test_no_text_contains_the_byte_separator():
    """0xFF never occurs in UTF-8 (RFC 3629), whatever the character."""
    every = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    assert int(ByteTokenizer().encode_batch([every])[0].max()) < ByteTokenizer.separator


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A byte-level BPE of our own, saved with the two traps of a downloaded one: truncation and padding."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the river and the stone hello world under the bridge"] * 50, trainer)
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=64)
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_tokenizer_json_keeps_whole_documents(small):
    from tokenizers import Tokenizer

    tokenizer = load_tokenizer("small", small)
    assert tokenizer.separator == 0 and 256 < tokenizer.vocab <= 400
    back = Tokenizer.from_file(str(small))
    for text, ids in zip(TEXTS, tokenizer.encode_batch(TEXTS), strict=True):
        assert back.decode(ids.tolist(), skip_special_tokens=False) == text
        assert tokenizer.separator not in ids, "a document must not fake a border"
    assert load_tokenizer("small", small.parent).sha256 == tokenizer.sha256


def test_another_tokenizer_is_not_gpt2(small):
    with pytest.raises(DataError, match=r"is not the GPT-2 tokenizer: \d+ tokens \(expected 50,257\)"):
        load_tokenizer("gpt2", small)


def test_cut_merges_are_not_gpt2(tmp_path):
    """Three merges make a tokenizer that works and is not GPT-2."""
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\nĠ t\nĠ a\nh e\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"(259|260) tokens"):
        load_tokenizer("gpt2", tmp_path)


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("gpt2", "missing", "does not exist"),
        ("gpt2", "", r"has neither vocab\.bpe nor merges\.txt"),
        ("mine", "bad.json", "tokenizer mine cannot be read from"),
        ("bytes", "", "has no files"),
        ("gpt2", "bad.tiktoken", "line 2 is no rank"),
        ("mine", "plain.json", "no end-of-text token"),
    ],
)
def test_what_is_refused(tmp_path, name, path, message):
    from tokenizers import Tokenizer, models

    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.tiktoken").write_text("IQ== 0\nnot base64 at all\n")
    Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])).save(str(tmp_path / "plain.json"))
    with pytest.raises(DataError, match=message):
        load_tokenizer(name, tmp_path / path)


@pytest.mark.gpt2_files
def test_gpt2_is_gpt2(gpt2_files, tmp_path):
    """The published sizes and ids, by whichever files it comes."""
    both = load_tokenizer("gpt2", gpt2_files)
    assert (both.vocab, both.separator) == (50_257, 50_256)
    assert both.encode_batch(["Hello world"])[0].tolist() == [15496, 995]
    ids = both.encode_batch(TEXTS)
    assert 50_256 not in ids[3]

    (tmp_path / "vocab.bpe").write_bytes((gpt2_files / "vocab.bpe").read_bytes())
    alone = load_tokenizer("gpt2", tmp_path)
    assert alone.sha256 == both.sha256, "the vocabulary follows from the merges"

    ranks = _ranks(json.loads((gpt2_files / "encoder.json").read_text(encoding="utf-8")))
    (tmp_path / "gpt2.tiktoken").write_text(ranks)
    by_rank = load_tokenizer("gpt2", tmp_path / "gpt2.tiktoken")
    assert [a.tolist() for a in by_rank.encode_batch(TEXTS)] == [a.tolist() for a in ids]
    assert by_rank.sha256 == both.sha256, "the merges follow from the ranks"


def _ranks(encoder):
    """A rank file as tiktoken publishes it, from the vocabulary (byte symbols by Radford et al. 2019)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbols = {chr(b): b for b in shown}
    symbols |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in shown)}
    rows = []
    for token, rank in sorted(encoder.items(), key=lambda item: item[1]):
        if token != "<|endoftext|>":
            rows.append(f"{base64.b64encode(bytes(symbols[c] for c in token)).decode()} {rank}")
    return "\n".join(rows) + "\n"
