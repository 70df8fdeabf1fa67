"""Faults on purpose: what they do, where they do it, and that a run with them is still a function of its settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reference_trainer.errors import ConfigError
from reference_trainer.hooks import Action
from reference_trainer.inject import KINDS, Faults
from reference_trainer.interventions import intervention
from reference_trainer.metrics import read_log
from reference_trainer.train import train
from tests.reference_trainer.tiny_runs import assert_same, interrupted, tiny

TOKENS = np.random.default_rng(5).integers(0, 100, (64, 33))
#: Every kind that changes a finite run, inside the 40 steps of the tiny one.
EVERYTHING = (
    "random_labels@9x2; repeat_token@12x1:0.5; domain_swap@14x1; bit_flip@16x1; drift@18x3:0.2; lr_spike@22x2:5; "
    "weight_noise@25; zero_v@27; nan_grad@29"
)


def halves(batch):
    return batch[:, :32], batch[:, -32:]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lr_spike", "kind@start"),
        ("spike@3", "no fault 'spike'; there are random_labels"),
        ("lr_spike@3x0", "at least 1"),
        ("random_labels@3:2", "between 0 and 1"),
        ("lr_spike@3:fast", "the amount is a number"),
        ("lr_spike@-3", "kind@start"),
    ],
)
def test_what_is_no_fault_is_refused(tmp_path, data, text, says):
    with pytest.raises(ConfigError, match=says):
        tiny(tmp_path / "run", data, inject=text)


def test_faults_are_part_of_the_hash_and_none_change_nothing(tmp_path, data):
    plain, other = tiny(tmp_path / "a", data), tiny(tmp_path / "b", data, inject="zero_v@3")
    assert plain.hash() == tiny(tmp_path / "c", data, inject="").hash() != other.hash()


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.of_data])
def test_faults_of_the_data_belong_to_batches(kind):
    before = TOKENS.copy()
    faults = Faults(f"{kind}@7x3", seed=1, vocab=100)
    assert all(faults.batch(i, TOKENS) is TOKENS for i in (0, 6, 10))
    struck = faults.batch(8, TOKENS)
    assert struck.shape == (64, 64) and struck.dtype == TOKENS.dtype
    assert 0 <= struck.min() and struck.max() < 100
    assert np.array_equal(TOKENS, before)  # a copy was changed, not what was read
    assert np.array_equal(struck, Faults(f"{kind}@7x3", seed=1, vocab=100).batch(8, TOKENS))
    assert not np.array_equal(struck, Faults(f"{kind}@7x3", seed=2, vocab=100).batch(8, TOKENS))


def test_what_each_fault_of_the_data_does():
    inputs, targets = TOKENS[:, :-1], TOKENS[:, 1:]

    def struck(text, index=0):
        return halves(Faults(text, seed=1, vocab=100).batch(index, TOKENS))

    x, y = struck("random_labels@0:0.3")
    assert np.array_equal(x, inputs) and np.mean(y != targets) == pytest.approx(0.3 * 0.99, abs=0.03)
    x, y = struck("drift@0:0.01", 29)
    assert np.array_equal(x, inputs) and np.mean(y != targets) == pytest.approx(0.3 * 0.99, abs=0.03)
    x, y = struck("repeat_token@0")
    assert len(np.unique(x)) == 1 and np.array_equal(x, y)
    x, y = struck("domain_swap@0")
    table = dict(zip(inputs.ravel(), x.ravel(), strict=True))
    assert len(set(table.values())) == len(table) and np.mean(x == inputs) < 0.1  # one table for all
    assert [table[t] for t in targets[:, 0]] == y[:, 0].tolist()
    x, y = struck("bit_flip@0:0.5")
    assert np.array_equal(x[:, 1:], y[:, :-1])  # a flipped token is target and input alike
    assert 0.3 < np.mean(x != inputs) < 0.6


def test_what_the_run_went_back_over_does_not_happen_again():
    faults = Faults("lr_spike@100x50:10; nan_grad@300", seed=0, vocab=10)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    back = intervention(Action("rollback", to_step=80, skip_from=80, skip=5), 120)
    assert [faults.lr_factor(step, []) for step in (99, 100, 149, 150)] == [1, 10, 10, 1]
    assert {faults.lr_factor(step, back) for step in range(80, 200)} == {1}  # its rest, after 120, neither
    assert np.isnan(faults.strike(300, model, optimizer, back))  # what lies ahead still strikes
    assert faults.strike(301, model, optimizer, back) == 1.0


def test_weights_and_moments_are_struck(tmp_path, data):
    """The log shows each fault in the step where it strikes."""
    config = tiny(tmp_path / "run", data, inject="weight_noise@20:0.5; zero_v@25; nan_grad@30", dropout=0.0)
    plain = tiny(tmp_path / "plain", data, dropout=0.0)
    rows = []
    for c in (config, plain):
        train(c)
        rows.append([row for row in read_log(Path(c.run_dir) / "log.jsonl") if row["kind"] == "step"])
    struck, calm = rows
    assert struck[:20] == calm[:20] and struck[20]["param_norm"] > 1.05 * calm[20]["param_norm"]
    assert struck[25]["v_norm"] < 0.5 * struck[24]["v_norm"]
    assert [row["step"] for row in struck if not row["finite"]] == [31] and struck[30]["update_norm"] == 0


def test_a_run_with_faults_resumes_exactly(tmp_path, data, monkeypatch):
    whole, config = (tiny(tmp_path / name, data, inject=EVERYTHING) for name in ("whole", "run"))
    train(whole)
    interrupted(monkeypatch, config, 10, 19, 23, 28)
    assert_same(config.run_dir, whole.run_dir)
