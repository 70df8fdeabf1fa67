"""Everything the README shows is run: a reader who copies it must see what it says."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from scaling import datasets
from tests.readme import ROOT, blocks, commands, session

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_python_examples(monkeypatch, tmp_path):
    """One session, in order, in an empty folder."""
    assert all(block.startswith(">>> ") for block in blocks("python")), "show a session, with its answers"
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(session(), {}, "README.md", "README.md", 0)
    assert len(example.examples) >= 3
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(example, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the runs.csv that the commands speak of."""
    path = tmp_path_factory.mktemp("readme")
    shutil.copy(datasets.builtin("hoffmann2022"), path / "runs.csv")
    return path


@pytest.mark.parametrize("command", commands())
def test_commands(command, folder):
    words = shlex.split(command)
    if words[0] == "scaling":
        where = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env=where,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode in (0, 1), done.stderr  # 1 is a negative verdict, 2 would be a wrong command
        assert "Traceback" not in done.stderr
    elif words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        done = subprocess.run(
            ["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
        )
        assert done.returncode == 0, done.stderr
    elif words[0] == "pip":
        assert words[1] == "install"
    else:
        pytest.fail(f"nobody checks this command: {command}")


PAGES = [*ROOT.glob("*.md"), *(p for top in ("data", "experiments") for p in (ROOT / top).rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
