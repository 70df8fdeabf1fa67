"""The three sizes as asked for: the file is read, priced and questioned; scaled down, it is trained and fitted."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from experiments.ladders.pages import HOME
from experiments.x1.ladder import toml
from reference_trainer.data.shards import write_shard
from reference_trainer.ladder import Plan, read_ladder
from reference_trainer.ladder_cost import priced
from reference_trainer.sweep import sweep
from reference_trainer.sweep_progress import Display
from scaling import IdentificationWarning, datasets, fit_chinchilla, load_runs
from scaling.design import predicted_se

FILE = HOME / "ladder-triple.toml"


def scaled(folder: Path, **changes: object) -> Plan:
    """The file with other data, and whatever is changed."""
    content = tomllib.loads(FILE.read_text(encoding="utf-8"))
    vocab = int(changes.pop("vocab", content["common"]["vocab"]))
    rng = np.random.default_rng(0)
    odds = 1.0 / np.arange(1, vocab + 1)
    for name, tokens in (("train", 120_000), ("val", 10_000)):
        drawn = rng.choice(vocab, tokens, p=odds / odds.sum())
        write_shard(folder / f"{name}.tokens", drawn, tokenizer="none", vocab=vocab)
        content["common"][f"{name}_data"] = str(folder / f"{name}.tokens")
    content["common"] |= {"vocab": vocab, **changes.pop("common", {})}
    content |= {"out": str(folder / "out"), **changes}
    content["size"] = tuple(content["size"])
    path = folder / "triple.toml"
    path.write_text(toml(content), encoding="utf-8")
    return read_ladder(path)


def test_the_file_is_the_triple_priced_and_under_its_cap(tmp_path):
    plan = scaled(tmp_path)
    assert [round(s.arch.params("non_embedding") / 1e6) for s in plan.sizes] == [5, 25, 99]
    assert [len(s.steps) for s in plan.sizes] == [5, 5, 4]
    cost = priced(plan)
    assert cost.usd is not None and plan.file.budget is not None
    assert cost.usd.value < plan.file.budget.cap_usd
    assert cost.usd.low < 14.83 < cost.usd.high  # $1.79 an hour, the day it was written


def test_what_the_triple_would_determine(tmp_path):
    """x/÷ 2.0 at 95% where noise is 0.01 nats and independent, 2.7 where trunks share half; at one budget nothing."""
    plan = scaled(tmp_path)
    law = fit_chinchilla(load_runs(datasets.builtin("hoffmann2022")), n_boot=0).law
    params = np.array([plan.size[r.size].arch.params_total for r in plan.runs], float)
    tokens = np.array([r.tokens for r in plan.runs], float)
    trunks = [r.trunk_id for r in plan.runs]

    def factor(rows: np.ndarray, rho: float) -> float:
        asked = (params[rows], tokens[rows])
        groups = [t for t, keep in zip(trunks, rows, strict=True) if keep]
        with np.errstate(over="ignore"):
            return float(np.exp(1.96 * predicted_se(asked, "ln_tokens@1B", law=law, sigma=0.01 / law.loss(*asked),
                                                    rho=rho, groups=groups)))  # fmt: skip

    every = np.ones(len(params), bool)
    assert factor(every, 0.0) == pytest.approx(2.02, abs=0.02)
    assert factor(every, 0.5) == pytest.approx(2.72, abs=0.02)
    assert factor(tokens == tokens.min(), 0.0) == float("inf")


def test_scaled_down_it_trains_and_is_fitted(tmp_path):
    """Sizes and budgets smaller by a factor of thousands: the same file, the same program, a table that a fit reads."""
    common = {"seq_len": 16, "batch_seqs": 4, "micro_seqs": 4, "warmup_tokens": 320, "eval_tokens": 320, "lr": 1e-2,
              "checkpoint_every": 50, "mup_base_width": 16, "device": "cpu"}  # fmt: skip
    sizes = tuple(
        {"name": name, "params": params, "count": "non_embedding", "max_embedding_share": 0.9, "multiple": 8,
         "head_dim": 8, "tokens": ["1280", "2560", "5120", "10240"][:budgets]}
        for name, params, budgets in (("5M", "2600", 4), ("25M", "10.4k", 4), ("100M", "20k", 3))
    )  # fmt: skip
    plan = scaled(tmp_path, vocab=24, common=common, size=sizes)
    result = sweep(plan, display=Display(quiet=True))
    assert (result.ended_by, result.ok, result.failed) == ("done", 11, 0)
    runs = load_runs(result.points)
    assert len(runs) == 11 and len(np.unique(runs.params)) == 3
    rows = [json.loads(p.read_text()) for p in (tmp_path / "out" / "runs").glob("*/result.json")]
    assert all(row["status"] == "ok" for row in rows) and len(rows) == 11
    with pytest.warns(IdentificationWarning):  # noise of a thousand steps is no law, and it is not called one
        assert fit_chinchilla(runs, n_boot=50).verdict != "identified"
