"""Everything the README shows is run: a reader who copies it must see what it says."""

from __future__ import annotations

import doctest
import importlib.util
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaling import datasets
from tests.readme import ROOT, blocks, commands, session

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_python_examples(monkeypatch, tmp_path):
    """One session, in order, in an empty folder."""
    assert all(block.startswith(">>> ") for block in blocks("python")), "show a session, with its answers"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ISOFLOP_PRICES", str(tmp_path / "none.csv"))  # the shipped prices, nobody's own
    example = doctest.DocTestParser().get_doctest(session(), {}, "README.md", "README.md", 0)
    assert len(example.examples) >= 3
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(example, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def _run(words: list[str], cwd: Path) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
        "ISOFLOP_PRICES": str(cwd / "none.csv"),
    }
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"


RUN = """
run_dir = "run"
train_data = "data/train"
val_data = "data/val"
layers = 1
d_model = 16
heads = 2
seq_len = 64
batch_seqs = 4
warmup_tokens = 2000
mlflow = ""
"""


def _write_texts(path: Path) -> None:
    """Write documents that the rules of quality let pass: ordinary words, no sentence twice."""
    rng = random.Random(0)
    common = (
        "the a of and to in that is was for on with as it at by from model token law scale loss compute data"
    )
    words = [
        *common.split(),
        "train",
        "curve",
        "figure",
        "money",
        "machine",
        "price",
        "paper",
        "result",
        "method",
    ]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(400):
            sentences = (" ".join(rng.choices(words, k=12)).capitalize() + "." for _ in range(10))
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")


def test_commands(tmp_path):
    """In order and in one folder.

    runs.csv is a table that identifies the law, plan.toml a sound plan, text.jsonl a set of documents; the ladder
    is the README's own.
    """
    shutil.copy(datasets.builtin("hoffmann2022"), tmp_path / "runs.csv")
    shutil.copy(ROOT / "experiments" / "X1-pretraining" / "plan.toml", tmp_path)
    (tmp_path / "run.toml").write_text(RUN, encoding="utf-8")
    for text in blocks("toml"):
        (tmp_path / text.split("\n")[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    _write_texts(tmp_path / "text.jsonl")
    trains = importlib.util.find_spec("torch") is not None
    for command in commands():
        words = shlex.split(command)
        needs_torch = "reference_trainer" in command or "ladder/" in command
        if needs_torch and not trains:
            continue  # the light set-up: what it leaves out is listed by the tests of the trainer
        if words[:2] == ["python", "-m"]:
            _run([sys.executable, *words[1:]], tmp_path)
        elif words[0] in ("scaling", "economics", "reference_trainer"):
            _run([sys.executable, "-m", *words], tmp_path)
        elif words[0] == "make":
            _run([words[0], "--dry-run", *words[1:]], ROOT)
        else:
            pytest.fail(f"nobody checks this command: {command}")


PAGES = [*ROOT.glob("*.md"), *(p for top in ("data", "experiments") for p in (ROOT / top).rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
