"""A trained model in fewer bits: its losses, bytes and files, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

from reference_trainer import checkpoint
from reference_trainer.cli.app import app
from reference_trainer.data.shards import TokenSet, write_shard
from reference_trainer.errors import CheckpointError, NonFiniteError, QuantizeError
from reference_trainer.quantized import stored
from reference_trainer.quantized.comparison import COLUMNS, compare
from reference_trainer.quantized.generate import Cache, read, write
from reference_trainer.quantized.loss import change_of, losses_of, mean_and_se
from reference_trainer.quantized.model import bytes_of, under
from reference_trainer.quantized.scheme import SCHEMES
from reference_trainer.quantized.speed import works
from reference_trainer.quantized.trained import read_trained, text_for, windows_of
from reference_trainer.train import train
from scaling.errors import DataError
from tests.reference_trainer.tiny_runs import tiny, write_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that has learned something: 300 steps, wide enough for groups of 32."""
    folder = tmp_path_factory.mktemp("trained")
    data = write_data(folder)
    config = tiny(folder / "run", data, d_model=48, d_ff=64, tokens=300 * 64, dropout=0.0, eval_every=0)
    result = train(config)
    assert result["status"] == "ok"
    return folder


@pytest.fixture(scope="module")
def trained(run):
    return read_trained(run / "run")


@pytest.fixture(scope="module")
def found(run):
    return compare(run / "run", run / "val.tokens", rounds=3, batches=(1, 2), out=run / "out")


def logits_of(model, tokens):
    """Logits of every position, as training computes them."""
    seen = []
    hook = model.head.register_forward_hook(lambda _, __, out: seen.append(out))
    with torch.inference_mode():
        model(tokens, tokens)
    hook.remove()
    return seen[0]


def tokens_of(run, trained, count=3):
    return windows_of(TokenSet.open(run / "val.tokens"), trained.config.seq_len, 0, count)[0]


def test_the_loss_is_that_of_the_training(run, found):
    """fp32 is what `evaluate` measured at the end of the run, on as many windows."""
    trained = read_trained(run / "run")
    text = TokenSet.open(run / "val.tokens")
    place_loss = losses_of(trained.model, text, 16, 20)  # eval_tokens = 320
    result = json.loads((run / "run" / "result.json").read_text())
    assert mean_and_se(place_loss)[0] == pytest.approx(result["loss"], rel=1e-6)
    assert found.tokens == found.windows * 16 == 62 * 16


def test_fewer_bits_change_the_loss_more(found):
    by = {k.scheme.name: k for k in found.kept}
    assert by["fp32"].change.value == 0.0 and by["fp32"].change.se == 0.0
    assert abs(by["int8"].change.value) < abs(by["int4-g128"].change.value)
    assert by["int8"].change.se < by["int4-g32"].change.se
    for k in found.kept[1:]:
        assert k.change.se < k.loss_se / 5  # what pairing is for
        assert k.loss - found.kept[0].loss == pytest.approx(k.change.value, abs=1e-12)
        assert k.change.low < k.change.value < k.change.high


def test_bytes_by_hand(found):
    """2 blocks; matrices q, out 48x48, k, v 24x48, gate, up 64x48, down 48x64; tied table 24x48; q, k norms of 12."""
    rows, weights = 2 * (48 + 48 + 24 + 24 + 64 + 64 + 48), 2 * (2 * 48 * 48 + 2 * 24 * 48 + 3 * 64 * 48)
    norms = 5 * 48 + 4 * 12
    by = {k.scheme.name: k.bytes for k in found.kept}
    assert by["fp32"].total == 4 * (weights + 24 * 48 + norms) == 4 * found.arch.params_total
    assert by["bf16"].total * 2 == by["fp32"].total
    assert by["int8"] == dataclasses.replace(
        by["int8"], blocks=weights + 4 * rows, embedding=24 * 48 + 4 * 24, rest=4 * norms
    )
    # groups of 32: two in 48 inputs, two in 64
    assert (
        by["int4-g32"].blocks == weights // 2 + 2 * 2 * rows
        and by["int4-g64"].blocks == weights // 2 + 2 * rows
    )
    assert by["int4-g32"].embedding == by["int8"].embedding
    assert by["int4-g128"].total < by["int8"].total < by["bf16"].total


def test_the_model_itself_stays(run, trained):
    before = {k: v.clone() for k, v in trained.model.state_dict().items()}
    for scheme in SCHEMES.values():
        under(trained.model, scheme)
    assert all(torch.equal(before[k], v) for k, v in trained.model.state_dict().items())
    quantized = under(trained.model, SCHEMES["int8"])
    assert quantized.embed.weight is quantized.head.weight  # tied: one table


@pytest.mark.parametrize("name", ["int8", "int4-g32", "int4-g64", "int4-g128"])
def test_a_saved_model_gives_the_same_bits(run, trained, found, name):
    model, scheme = stored.load(run / "out" / name)
    tokens = tokens_of(run, trained)
    assert scheme == SCHEMES[name] and bytes_of(model) == next(
        k.bytes for k in found.kept if k.scheme == scheme
    )
    assert torch.equal(logits_of(model, tokens), logits_of(under(trained.model, scheme), tokens))
    size = (run / "out" / name / "model.safetensors").stat().st_size
    assert bytes_of(model).total < size < bytes_of(model).total + 8192  # the header, and nothing twice


@pytest.mark.parametrize("name", list(SCHEMES))
def test_reading_token_by_token_is_reading_at_once(run, trained, name):
    model, tokens = under(trained.model, SCHEMES[name]), tokens_of(run, trained)
    loose = 0.05 if name == "bf16" else 1e-4
    cache = Cache(model, 3)
    parts = [
        read(model, tokens[:, :9], cache),
        *(read(model, tokens[:, i : i + 1], cache) for i in range(9, 16)),
    ]
    whole = logits_of(model, tokens)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=loose, atol=loose)
    end = read(model, tokens, Cache(model, 3), last=True)
    torch.testing.assert_close(end, whole[:, -1:], rtol=loose, atol=loose)
    with pytest.raises(QuantizeError, match="17 positions, the model was trained for 16"):
        read(model, tokens[:, :1], cache)


def test_writing_takes_the_likeliest(run, trained):
    prompt = tokens_of(run, trained)[:, :5]
    made, seen = write(trained.model, prompt, 4), prompt
    for i in range(4):
        whole = F.pad(seen, (0, 16 - seen.shape[1]))  # what comes later changes nothing before it
        best = logits_of(trained.model, whole)[:, seen.shape[1] - 1].argmax(-1)
        assert torch.equal(best, made[:, i])
        seen = torch.cat((seen, best[:, None]), 1)
    with pytest.raises(QuantizeError, match="one at a time"):
        cache = Cache(trained.model, 3)
        read(trained.model, prompt, cache)
        read(trained.model, prompt, cache)


def test_untied_heads_and_mup(tmp_path):
    config = tiny(tmp_path / "run", write_data(tmp_path), tied=False, mup=True, mup_base_width=8, tokens=10 * 64,
                  warmup_tokens=64)  # fmt: skip
    train(config)
    trained = read_trained(tmp_path / "run" / "checkpoints" / "step_00000010")
    model = under(trained.model, SCHEMES["int4-g32"])
    stored.save(tmp_path / "q", model, SCHEMES["int4-g32"], trained)
    again, _ = stored.load(tmp_path / "q")
    tokens = tokens_of(tmp_path, trained)
    assert torch.equal(logits_of(again, tokens), logits_of(model, tokens))
    torch.testing.assert_close(
        read(model, tokens, Cache(model, 3)), logits_of(model, tokens), rtol=1e-4, atol=1e-4
    )
    assert model.embed.weight is not model.head.weight


def test_tables_and_words(run, found):
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert len(rows) == 6 * 3 and tuple(rows[0]) == COLUMNS
    assert {r["work"] for r in rows} == {"prefill", "decode-1", "decode-2"}
    for k in found.kept:
        for s in k.speed.values():
            assert 0 < s.low <= s.tokens_per_s <= s.high and len(s.rounds) == 3
            assert s.ratio == 1.0 or k.scheme.name != "fp32"
    assert json.loads(json.dumps(found.to_dict()))["kept"][2]["bytes"]["total"] == found.kept[2].bytes.total
    assert found.about["clock"] == "CPU seconds" and found.kept[0].bits_per_byte is None


def test_the_command(run):
    shutil.copytree(run / "run" / "checkpoints", run / "kept", dirs_exist_ok=True)
    kept = run / "kept" / "step_00000300"
    (kept / "optimizer.safetensors").unlink(missing_ok=True)  # kept for use: under another name, without it
    if not (run / "final").exists():
        kept.rename(run / "final")
    words = ["quantize", str(run / "final"), "--data", str(run / "val.tokens"), "--rounds", "3", "--batch", "1",
             "--scheme", "int8", "--out", str(run / "cli")]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "int8" in done.stdout and "change of the loss" in done.stdout and "int4" not in done.stdout
    document = json.loads((run / "cli" / "comparison.json").read_text())
    assert [k["scheme"]["name"] for k in document["kept"]] == ["fp32", "int8"]
    assert stored.load(run / "cli" / "int8")[1].name == "int8"
    for change, word in (({3: str(run / "nothing")}, "nothing"), ({1: str(run)}, "manifest.json")):
        bad = [change.get(i, w) for i, w in enumerate(words)]
        done = CliRunner().invoke(app, bad)
        assert done.exit_code == 2 and word in done.stderr, done.output


def test_bits_per_byte(tmp_path, run, trained):
    """The same tokens, said to be 2 bytes each: bits per byte are nats / (2 ln 2)."""
    tokens = TokenSet.open(run / "val.tokens").slice(0, 1000)
    write_shard(tmp_path / "b.tokens", [tokens], tokenizer="none", vocab=24, text_bytes=2000)
    c = compare(run / "run", tmp_path / "b.tokens", names=["int8"], rounds=3, batches=(1,))
    assert c.kept[0].bits_per_byte == pytest.approx(c.kept[0].loss / (2 * math.log(2)))


def test_what_is_refused(run, trained, tmp_path):
    val = run / "val.tokens"
    with pytest.raises(CheckpointError, match="is no folder"):
        compare(tmp_path / "none", val)
    with pytest.raises(CheckpointError, match=r"manifest\.json is missing"):
        compare(tmp_path, val)
    (tmp_path / "empty" / "checkpoints").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="no whole checkpoint"):
        compare(tmp_path / "empty", val)
    with pytest.raises(QuantizeError, match="trained on"):
        compare(run / "run", run / "train.tokens")
    write_shard(tmp_path / "other.tokens", [np.arange(200) % 50], tokenizer="other", vocab=50)
    with pytest.raises(QuantizeError, match=r"'other' with 50 tokens.*knows 24"):
        compare(run / "run", tmp_path / "other.tokens")
    write_shard(tmp_path / "short.tokens", [np.arange(20) % 24], tokenizer="none", vocab=24)
    with pytest.raises(QuantizeError, match=r"20 tokens.*two windows"):
        compare(run / "run", tmp_path / "short.tokens")
    (tmp_path / "no_shards").mkdir()
    with pytest.raises(DataError, match=r"no \*\.tokens"):
        compare(run / "run", tmp_path / "no_shards")
    for wrong, match in (({"rounds": 2}, "rounds = 2"), ({"batches": ()}, "batches"), ({"batches": (0,)}, "batches"),
                         ({"tokens": 5}, "tokens = 5"), ({"tokens": math.inf}, "finite")):  # fmt: skip
        with pytest.raises(QuantizeError, match=match):
            compare(run / "run", val, **wrong)
    with pytest.raises(QuantizeError, match="too short to time"):
        works(4, (1,))


def test_nan_in_a_weight_is_refused(trained):
    for name in ("blocks.1.down.weight", "norm.weight"):
        broken = under(trained.model, SCHEMES["fp32"])
        dict(broken.named_parameters())[name].data.view(-1)[0] = math.nan
        for scheme in SCHEMES.values():
            with pytest.raises(NonFiniteError) as caught:
                under(broken, scheme)
            assert caught.value.tensor == name


def test_a_flipped_bit_is_seen(run, trained, tmp_path):
    model = under(trained.model, SCHEMES["int8"])
    folder = stored.save(tmp_path / "q", model, SCHEMES["int8"], trained)
    assert stored.save(folder, model, SCHEMES["int8"], trained) == folder  # replaced by its like
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match="not the file that was saved"):
        stored.load(folder)
    with pytest.raises(CheckpointError, match="format"):
        stored.load(checkpoint.latest(run / "run" / "checkpoints"))
    (tmp_path / "mine").mkdir()
    with pytest.raises(QuantizeError, match="holds no quantized model"):
        stored.save(tmp_path / "mine", model, SCHEMES["int8"], trained)


def test_text_of_a_smaller_vocabulary(run, trained, tmp_path):
    """Where the configuration sets the vocabulary, text may use less of it."""
    write_shard(tmp_path / "small.tokens", [np.arange(100) % 9], tokenizer="none", vocab=9)
    wide = dataclasses.replace(trained, config=dataclasses.replace(trained.config, vocab=24))
    assert text_for(wide, tmp_path / "small.tokens").vocab == 9
    with pytest.raises(QuantizeError):
        text_for(trained, tmp_path / "small.tokens")


def test_neighbours_that_change_alike_are_told():
    """Differences 1, 1, -1, -1: neighbours correlate by (1 - 1 + 1) / 4."""
    c = change_of(np.array([2.0, 2.0, 0.0, 0.0]), np.ones(4))
    assert (c.value, c.lag1) == (0.0, 0.25)
    assert change_of(np.ones(3), np.ones(3)).lag1 == 0.0
