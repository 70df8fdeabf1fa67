"""Everything the README shows is run: a reader who copies it must see what it says."""

from __future__ import annotations

import doctest
import os
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


def test_commands(tmp_path):
    """In order and in one folder, where runs.csv is a table that identifies the law and plan.toml a sound plan."""
    shutil.copy(datasets.builtin("hoffmann2022"), tmp_path / "runs.csv")
    shutil.copy(ROOT / "experiments" / "X1-pretraining" / "plan.toml", tmp_path)
    for command in commands():
        words = shlex.split(command)
        if words[0] in ("scaling", "economics"):
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
