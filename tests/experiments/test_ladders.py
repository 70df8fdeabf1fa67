"""Ladders: the source whose entropy is known, the rule for rows, words that follow the points."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from experiments.ladders import analysis, known_law, pages
from experiments.ladders.markov_source import MarkovSource
from experiments.ladders.rules import OTHERS, RULE
from scaling import RunTable
from scaling.laws.chinchilla import ChinchillaLaw

TRUTH = {"entropy": 2.0, "reachable": 2.005, "block": 2.001, "block_se": 0.001}


def test_a_source_is_no_more_uncertain_than_its_tokens_look():
    """The rate is exact: -log p over drawn tokens comes to it, and a shuffled pair says less than the right one."""
    source = MarkovSource.layered(12, seed=4)
    drawn = source.draw(200_000, seed=1, chains=8)
    surprise = source.surprise(drawn)
    assert surprise.mean() == pytest.approx(source.entropy, abs=4 * surprise.std() / math.sqrt(len(surprise)))
    assert source.entropy + 0.1 < source.entropy_first < math.log(12)
    np.testing.assert_allclose(source.table.sum(axis=-1), 1.0)
    assert source.pairs.sum() == pytest.approx(1.0)


def test_a_source_without_a_second_token_is_of_first_order():
    flat = MarkovSource.layered(7, second=0.0, pair=0.0, seed=2)
    assert flat.entropy == pytest.approx(flat.entropy_first, abs=1e-12)
    still = MarkovSource.layered(5, first=0.0, second=0.0, pair=0.0, zipf=0.0)
    assert still.entropy == pytest.approx(math.log(5), abs=1e-12)


def test_the_first_token_of_a_sequence_is_seen_alone():
    long, short = known_law.truth(1_000_000), known_law.truth(2)
    assert long["reachable"] == pytest.approx(long["entropy"], abs=1e-6)
    assert short["reachable"] == pytest.approx((long["entropy"] + long["entropy_first"]) / 2)
    assert abs(long["block"] - long["entropy"]) < 4 * long["block_se"]


def test_the_rule_counts_budgets_met_to_a_step():
    runs = RunTable.from_arrays(
        params=[1e4] * 4, tokens=[500_224, 999_936, 1e6, 2e6], loss=[3, 2.9, 2.9, 2.8]
    )
    assert RULE.rows(runs).tolist() == [False, True, True, True]
    assert len({rule.name for rule in OTHERS}) == len(OTHERS)


def write_points(path: Path, law: ChinchillaLaw, budgets: tuple[float, ...], noise: float = 0.002) -> Path:
    """Points of five sizes and three seeds, as a sweep writes them."""
    rng, rows = np.random.default_rng(5), []
    for params in (1e3, 4e3, 16e3, 64e3, 256e3):
        for seed in range(3):
            for tokens in budgets:
                loss = float(law.loss(params, tokens)) * math.exp(noise * rng.normal())
                rows.append({
                    "run_id": f"{params:g}-{seed}-{tokens:g}", "trunk_id": f"{params:g}-{seed}", "seed": seed,
                    "params_total": int(params), "tokens": int(tokens), "loss": loss, "loss_unit": "nats/token",
                    "sigma": noise * loss, "status": "ok", "wall_s": 1.0, "usd": 0.5,
                    "size_name": f"{params:g}", "lr_rule": "best of 1, 2" + " (edge of the grid)" * (params == 64e3),
                })  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_words_follow_the_points(tmp_path, monkeypatch):
    """A table that determines the law and one that does not: the verdict flips, and so does what the page says."""
    monkeypatch.setattr(analysis, "N_BOOT", 200)
    monkeypatch.setattr(pages, "HOME", tmp_path)
    for name in pages.LADDERS:
        (tmp_path / f"{name}-ladder.toml").write_text("[common]\nseq_len = 64\n")
    law = ChinchillaLaw(E=2.0, A=30.0, B=400.0, alpha=0.5, beta=0.45)
    budgets = (500_224.0, 1e6, 2e6, 4e6, 8e6)
    write_points(tmp_path / "known-law" / "points.csv", law, budgets)
    write_points(tmp_path / "text" / "points.csv", law, (4e6,))
    monkeypatch.setattr(known_law, "truth", lambda seq_len: TRUTH)
    for name in pages.LADDERS:
        pages.fit(name)
    good, bad = (analysis.read(tmp_path / name) for name in ("known-law", "text"))
    assert good["verdict"] == "identified" and good["truth"]["holds"] and good["truth"]["width"] < 0.3
    assert (good["rows"], good["rows_used"], good["seeds"]) == (75, 60, 3)
    assert (
        good["edges"] == ["64000"]
        and good["bill"]["usd"] == 37.5
        and good["held_out"]["inside"] >= 0.9 * good["held_out"]["points"]
    )
    assert good["larger"] == {"params": 512e3, "core_hours": pytest.approx(2 * 15 / 3600), "usd": 15.0}
    assert bad["verdict"] == "not identified" and bad["law"] is None and bad["held_out"]["why_not"]
    text = pages.write().read_text(encoding="utf-8")
    first, second = text.split("## A source")[1].split("## Text\n")
    assert (
        "**Verdict: identified.**" in first
        and ": holds it" in first
        and "do not speak against k = 1" in first
    )
    assert "**Verdict: not identified.**" in second and "not tried" in second
    assert "entropy" not in second.split("###")[1]


def test_a_floor_that_is_missed_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(analysis, "N_BOOT", 200)
    law = ChinchillaLaw(E=2.0, A=30.0, B=400.0, alpha=0.5, beta=0.45)
    points = write_points(tmp_path / "points.csv", law, (1e6, 2e6, 4e6, 8e6))
    content, _ = analysis.analyse(points, {**TRUTH, "entropy": 2.3})
    assert not content["truth"]["holds"] and content["truth"]["off"] == pytest.approx(-0.3, abs=0.05)
