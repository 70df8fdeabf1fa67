"""After training: the dollars of a checkpoint add up, and the page says what the files hold."""

from __future__ import annotations

import copy
import csv
import io
import json

import pytest

from experiments.x1.after_training import COLUMNS, main, money, open_models
from experiments.x1.after_words import _digits, page
from reference_trainer.data.shards import TokenSet, write_shard
from reference_trainer.quantized.comparison import compare
from reference_trainer.train import train
from scaling.errors import DataError
from tests.reference_trainer.tiny_runs import tiny, write_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("after")
    train(tiny(folder / "run", write_data(folder), dropout=0.0, eval_every=0))
    tokens = TokenSet.open(folder / "val.tokens").slice(0, 1000)
    (folder / "val").mkdir()
    write_shard(folder / "val" / "a.tokens", [tokens], tokenizer="none", vocab=24, text_bytes=1000)
    return folder


@pytest.fixture(scope="module")
def files(run):
    words = [str(run / "run"), "--val-data", str(run / "val"), "--out", str(run / "out"), "--usd-per-hour", "0.36",
             "--rounds", "3", "--batch", "2", "--gpu-price", "2.5", "--price-source", "a bill"]  # fmt: skip
    assert main(words) == 0
    content = json.loads((run / "out" / "after-training.json").read_text())
    rows = list(csv.DictReader(io.StringIO((run / "out" / "after-training.csv").read_text())))
    return content, rows, (run / "out" / "after-training.md").read_text()


def test_dollars_by_hand(run):
    """Seconds of 12 tokens read and 3 written, at $0.0001 a second and busy all the time."""
    found = compare(run / "run", run / "val", names=["int8"], rounds=3, batches=(2,))
    rows = money(
        found,
        usd_per_hour=0.36,
        device_name="a core",
        gpu="H100 SXM",
        price=2.5,
        busy=1.0,
        draws=100,
        models=[],
    )
    mine = next(r for r in rows if r["weights"] == "int8")
    speed = found.kept[1].speed
    trials = [
        (12 / read + 3 / write) * 0.0001 / 15 * 1e6
        for read, write in zip(speed["prefill"].rounds, speed["decode-2"].rounds, strict=True)
    ]
    assert min(trials) <= mine["usd_per_million_tokens"] <= max(trials)
    assert mine["usd_per_million_tokens"] == pytest.approx(sorted(trials)[1])
    assert mine["usd_per_mb"] == pytest.approx(mine["usd_per_million_tokens"])  # a byte a token
    assert [r["weights"] for r in rows] == ["fp32", "int8", "16 bits", "8 bits", "4 bits"]
    assert rows[-1]["params"] == found.arch.params_total and rows[-1]["how"] == "roofline"


def test_the_table_has_every_model(files):
    content, rows, _ = files
    assert tuple(rows[0]) == COLUMNS and len(rows) == 6 + 3 + 3 * len(open_models()) == len(content["money"])
    for row, told in zip(rows, content["money"], strict=True):
        low, value, high = (float(row[f"usd_per_mb{end}"]) for end in ("_p10", "", "_p90"))
        assert 0 < low <= value <= high and value == told["usd_per_mb"]
        assert value == pytest.approx(float(row["usd_per_million_tokens"]) / float(row["bytes_per_token"]))
    llama = [float(r["usd_per_million_tokens"]) for r in rows if r["model"] == "llama-3-8b"]
    assert sorted(llama, reverse=True) == llama  # fewer bits, fewer dollars


def test_the_page_follows_the_numbers(files):
    content, _, text = files
    assert content["command"].startswith(
        "python -m experiments.x1.after_training run --val-data val --out out "
    )
    assert content["quantized"]["checkpoint"] == "run" and "a bill" in text and "llama-3-70b" in text
    other = copy.deepcopy(content)
    kept = next(k for k in other["quantized"]["kept"] if k["scheme"]["name"] == "int8")
    kept["change"] |= {"value": 0.5, "low": 0.4, "high": 0.6, "lag1": 0.9}
    kept["speed"]["decode-2"] |= {"ratio": 2.0, "ratio_low": 1.5, "ratio_high": 2.5}
    said = page(other)
    assert "int8 costs 0.50000 nats" in said and "int8 is faster" in said and "too narrow" in said
    kept["change"] |= {"value": 0.1, "low": -0.4, "high": 0.6, "lag1": 0.0}
    kept["speed"]["decode-2"] |= {"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.9}
    said = page(other)
    assert "int8 changes nothing that can be seen" in said and "int8 is faster" not in said
    for row in other["money"]:
        row |= {"usd_per_mb": None, "usd_per_mb_p10": None, "usd_per_mb_p90": None}
    assert "By the megabyte" not in page(other)


def test_bytes_per_token_by_hand(tmp_path):
    """1,188,342 bytes in 279,109 tokens are 4.2576; Llama 3's is coarser than Llama 2's, as its authors say."""
    size = {shape.name: b for shape, b in open_models()}
    assert size["llama-3-8b"] == pytest.approx(4.2576, abs=1e-4) and size["llama-2-7b"] < size["llama-3-8b"]
    bad = tmp_path / "m.toml"
    bad.write_text('[tokenizers]\n[text]\nbytes = 1\n[models]\ngpt2 = "gpt2"\n')
    with pytest.raises(DataError, match="gpt2 are not measured"):
        open_models(bad)


def test_what_cannot_be_read_is_said(run, capsys):
    words = [
        str(run / "none"),
        "--val-data",
        str(run / "val"),
        "--out",
        str(run / "o"),
        "--usd-per-hour",
        "1",
    ]
    assert main(words) == 2 and "is no folder" in capsys.readouterr().err
    assert main([str(run / "run"), *words[1:], "--rounds", "1"]) == 2 and not (run / "o").exists()
    assert main([str(run / "run"), *words[1:-1], "-3", "--rounds", "3", "--batch", "1"]) == 2


def test_small_dollars_without_exponents():
    assert [_digits(x) for x in (1.234e-5, 0.0, 12.345, 1234.5)] == ["0.0000123", "0", "12.3", "1230"]
