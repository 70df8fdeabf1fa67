"""Preparation: every document has one fate, each side of the split its own, and the bytes are reproducible."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from reference_trainer.data import prepare as module
from reference_trainer.data.corpus import Source
from reference_trainer.data.ledger import document_key, is_held_out
from reference_trainer.data.order import Batches
from reference_trainer.data.prepare import prepare
from scaling.errors import DataError
from tests.reference_trainer.corpora import GOOD, ROWS, write_jsonl


def texts_of(tokens) -> list[str]:
    """The documents in a set of byte tokens, each ended by its separator."""
    parts = bytes(tokens.slice(0, tokens.tokens).tolist()).split(b"\xff")
    assert parts.pop() == b"", "the last document is ended too"
    return [part.decode() for part in parts]


def test_every_document_has_its_fate(settings, tmp_path):
    done = prepare(settings, tmp_path / "out", made="2026-01-02")
    documents = done.manifest["documents"]
    val = [text for text in GOOD if is_held_out(document_key(text), 0.1)]
    assert 15 < len(val) < 50
    assert documents == {
        "read": 370,
        "empty": 5,
        "duplicate": 40,
        "rejected": 25,
        "train": 300 - len(val),
        "val": len(val),
        "surplus": 0,
    }
    failed = {rule["rule"]: rule["failed"] for rule in done.manifest["rules"]}
    assert failed["gopher.word_count"] == 25
    # The wrapped copies may come first and stand for their originals.
    kept = sorted(document_key(text) for text in texts_of(done.train) + texts_of(done.val))
    assert kept == sorted(document_key(text) for text in GOOD), "each good document once, on one side"
    assert {document_key(t) for t in texts_of(done.val)} == {document_key(t) for t in val}


def test_manifest_says_what_the_shards_are(settings, tmp_path):
    done = prepare(settings, tmp_path / "out", made="2026-01-02")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["manifest.json", "train", "val"]
    assert not (tmp_path / "out.work").exists()
    for part, tokens in (("train", done.train), ("val", done.val)):
        tokens.verify()
        said = done.manifest[part]
        texts = texts_of(tokens)
        assert said["text_bytes"] == sum(len(text.encode()) for text in texts)
        assert said["tokens"] == tokens.tokens == said["text_bytes"] + len(texts)
        assert (said["tokenizer"], said["vocab"], said["dtype"]) == ("bytes", 256, "uint8")
        assert said["sha256"] == tokens.sha256
        assert {h.made for h in tokens.headers} == {"2026-01-02"}
        assert {h.source for h in tokens.headers} == {str(settings.source)}
    for path, header in zip(done.train.paths[:-1], done.train.headers, strict=False):
        assert 20_000 <= header.tokens < 21_000, "a shard ends with the document that fills it"
        assert path.read_bytes()[-1] == 0xFF
    assert len(done.train.paths) > 3
    assert Batches(done.train, 64, 8, seed=0)(0).shape == (8, 65)


def test_split_does_not_depend_on_the_order(settings, tmp_path):
    """Another shuffle, another source order, other shards: the same held-out block, byte for byte."""
    reference = prepare(settings, tmp_path / "a")
    other = dataclasses.replace(settings, seed=5, window=7, shard_tokens=1000)
    turned = Source(str(write_jsonl(tmp_path / "turned.jsonl", ROWS[::-1])))
    for name, changed in (("b", other), ("c", dataclasses.replace(settings, source=turned))):
        done = prepare(changed, tmp_path / name)
        assert done.train.sha256 != reference.train.sha256
        keys = [document_key(text) for text in texts_of(done.val)]
        assert keys == [document_key(text) for text in texts_of(reference.val)]
        if name == "b":
            assert done.val.sha256 == reference.val.sha256
        assert not set(keys) & {document_key(text) for text in texts_of(done.train)}


def test_smaller_held_out_block_is_a_part_of_the_larger(settings, tmp_path):
    whole = prepare(settings, tmp_path / "a")
    part = prepare(dataclasses.replace(settings, val_tokens=3000), tmp_path / "b")
    assert 3000 <= part.val.tokens < 3700
    assert np.array_equal(part.val.slice(0, part.val.tokens), whole.val.slice(0, part.val.tokens))
    assert part.train.sha256 == whole.train.sha256, "what is held out and not used is not trained on"
    used = len(texts_of(part.val))
    counts = part.manifest["documents"]
    assert (counts["val"], counts["surplus"]) == (used, whole.manifest["documents"]["val"] - used)
    assert sum(counts.values()) == 2 * counts["read"]


def test_stops_when_there_is_enough(settings, tmp_path):
    done = prepare(dataclasses.replace(settings, train_tokens=30_000), tmp_path / "out")
    assert 30_000 <= done.train.tokens < 30_700
    counts = done.manifest["documents"]
    assert counts["read"] < 370
    assert counts["surplus"] > 0
    assert sum(counts.values()) == 2 * counts["read"]


def test_own_score(settings, tmp_path):
    """FineWeb-Edu keeps int_score >= 3."""
    scored = dataclasses.replace(settings.source, score="int_score")
    done = prepare(dataclasses.replace(settings, source=scored, min_score=3, rules=()), tmp_path / "out")
    below = sum(row["int_score"] < 3 and bool((row["text"] or "").strip()) for row in ROWS)
    failed = {rule["rule"]: rule["failed"] for rule in done.manifest["rules"]}
    # A copy of a kept document is counted as a duplicate before its score is looked at.
    assert below - done.manifest["documents"]["duplicate"] <= failed["score"] <= below
    assert failed["score_missing"] == 0
    for argument, source in ((3.0, settings.source), (None, scored)):
        with pytest.raises(DataError, match=r"needs both its column .* and the least value"):
            dataclasses.replace(settings, source=source, min_score=argument)


def test_hold_out_nothing(settings, tmp_path):
    done = prepare(dataclasses.replace(settings, val_share=0), tmp_path / "out")
    assert done.val is None
    assert done.manifest["val"] is None
    assert done.manifest["documents"]["train"] == 300


def test_nothing_left(settings, tmp_path):
    with pytest.raises(
        DataError, match=r"no document fell into the held-out share of 1e-09 .*raise val_share"
    ):
        prepare(dataclasses.replace(settings, val_share=1e-9), tmp_path / "a")
    path = write_jsonl(tmp_path / "short.jsonl", [{"text": "Too short."}] * 3)
    with pytest.raises(DataError, match=r"nothing is left to train on .3 documents read: .*3 rejected"):
        prepare(dataclasses.replace(settings, source=Source(str(path))), tmp_path / "b")
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_done_is_found_done(settings, tmp_path, monkeypatch):
    first = prepare(settings, tmp_path / "out")
    monkeypatch.setattr(module, "Documents", None)  # reading again would fail
    again = prepare(settings, tmp_path / "out")
    assert again.manifest == first.manifest
    assert (first.progress is None, again.progress) == (False, None)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["train"]["sha256"] = "0" * 64
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="the shards are not those of manifest"):
        prepare(settings, tmp_path / "out")
    (tmp_path / "else").mkdir()
    with pytest.raises(DataError, match="is no prepared data"):
        prepare(settings, tmp_path / "else")


def test_progress_is_told(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 50)
    seen = []
    done = prepare(dataclasses.replace(settings, train_tokens=10**6), tmp_path / "out", watch=seen.append)
    assert [p.read for p in seen] == [50, 100, 150, 200, 250, 300, 350, 370]
    assert seen[-1].train_tokens == done.train.tokens
    assert seen[-1].aim == 10**6
    made = done.train.tokens + done.val.tokens
    assert seen[-1].tokens_per_s * seen[-1].seconds == pytest.approx(made)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"val_share": 1.0}, "val_share = 1.0"),
        ({"val_share": -0.1}, "val_share = -0.1"),
        ({"shard_tokens": 0}, "shard_tokens = 0"),
        ({"val_share": 0, "val_tokens": 5}, "val_tokens without val_share"),
        ({"seed": -1}, "seed = -1"),
        ({"rules": ("x",)}, "no rule set 'x'"),
    ],
)
def test_bad_settings(settings, argument, message):
    with pytest.raises(DataError, match=message):
        dataclasses.replace(settings, **argument)
