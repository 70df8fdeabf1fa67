"""``REPORT.md`` is written from the committed files, its numbers are theirs, and its words follow them."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from economics import solve_budget
from experiments.x1 import a100, answers
from scaling import datasets, fit_chinchilla, load_runs
from scaling.report.phrases import count


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return json.loads((answers.HOME / "answers.json").read_text(encoding="utf-8"))


def page(content: dict[str, Any], monkeypatch) -> str:
    """Write the page without touching the committed one."""
    written: dict[str, str] = {}
    monkeypatch.setattr(answers, "write_atomically", lambda path, text: written.update({path.name: text}))
    answers.write(content)
    return written["REPORT.md"]


def test_the_committed_page_comes_from_the_committed_files(content, monkeypatch):
    assert page(content, monkeypatch) == (answers.HOME / "REPORT.md").read_text(encoding="utf-8")


def test_what_the_money_buys_is_what_the_library_says(content):
    """Recomputed without an interval: the best run for $50 at the plan's price on demand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = fit_chinchilla(load_runs(datasets.builtin("hoffmann2022")), n_boot=0)
    row = content["buys"][0]
    run = {
        "gpu": "A100-80GB-SXM",
        "n_gpus": 1,
        "seq_len": 1024,
        "market": "on-demand",
        "as_of": content["plan"]["date"],
    }
    best = solve_budget(50, law=fit.law, price=row["price"], **run)
    assert (row["params"], row["tokens"]) == pytest.approx((best.params, best.tokens), rel=1e-3)
    assert row["per_param"] == pytest.approx(row["tokens"] / row["params"])


def test_every_way_to_buy_is_on_the_page(content, monkeypatch):
    text = page(content, monkeypatch)
    names = a100.prices(
        {"usd_per_gpu_hour": 1, "on_demand_usd_per_gpu_hour": 2, "hours_between_preemptions": 3}, "x"
    )
    assert len(content["buys"]) == 4 + sum(
        a.get("checkpoint_every", "optimal") == "optimal" for a in names.values()
    )
    for row in content["buys"]:
        assert f"| {row['name']} | {row['price']:.2f} | {count(row['params'])} |" in text
    for row in content["mfu"]:
        assert f"| {count(row['params'])} | {row['runs']} |" in text


def test_words_follow_the_numbers(content, monkeypatch):
    other = copy.deepcopy(content)
    for row in other["per_param"]:
        row["holds_20"] = False
    for row in other["buys"]:
        row["per_param"] = 1000.0
    first = other["plan"]["totals"][0]
    first["run_usd"], first["ladder_usd"] = 30.0, 1.0
    said, before = page(other, monkeypatch), page(content, monkeypatch)
    assert "exclude 20 at all three sizes" in said and "exclude 20" not in before
    assert "In dollars the optimum has fewer" in before and "In dollars the optimum has fewer" not in said
    assert "\nThe run: " in said and "\nThe ladder: " in before


def test_a_page_without_the_parts_that_need_training(content, monkeypatch, tmp_path):
    """Nothing trained, nothing claimed of it."""
    monkeypatch.setattr(answers, "HOME", Path(tmp_path))
    text = page(content, monkeypatch)
    assert "text ladder made here" not in text and "After training" not in text and "longest run" not in text
