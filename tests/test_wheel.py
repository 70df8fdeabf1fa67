"""What a user gets: the distribution, built, installed in a clean environment, used from elsewhere.

Takes a minute, so it is left out by default: `make wheel-test`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.readme import ROOT, session

pytestmark = pytest.mark.wheel


def _run(*words: str | Path, cwd: Path) -> str:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # the checkout stays out
    done = subprocess.run(
        [str(w) for w in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from the source distribution as an index would."""
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory) -> Path:
    """The interpreter of a new environment with the wheel and its dependencies alone."""
    home = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", wheel, cwd=home)
    return python


def test_contents(wheel):
    """The package, its tables, templates and marker: no tests, no top-level data."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "economics",
        "reference_trainer",
        "scaling",
    }
    for package, folder in (("economics", "hardware"), ("scaling", "runs")):
        for path in (ROOT / "data" / folder).glob("*.*"):
            assert f"{package}/_data/{path.name}" in names
    for package in ("economics", "reference_trainer", "scaling"):
        assert f"{package}/py.typed" in names
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md":  # pages stay here
                assert path.relative_to(ROOT).as_posix() in names


def test_readme_example_from_elsewhere(clean, tmp_path):
    (tmp_path / "readme.txt").write_text(session(), encoding="utf-8")
    flags = ("-o", "NORMALIZE_WHITESPACE", "-o", "ELLIPSIS")
    assert _run(clean, "-m", "doctest", *flags, "readme.txt", cwd=tmp_path) == ""


def test_tables_come_from_the_installed_package(clean, tmp_path):
    code = "from scaling import datasets; print(datasets.builtin('hoffmann2022'))"
    path = Path(_run(clean, "-c", code, cwd=tmp_path).strip())
    assert path.is_file()
    assert path.is_relative_to(clean.parents[1])
    code = "from economics import gpu, prices; print(prices(gpu('H100 SXM'), as_of='2026-10-10').median > 1)"
    assert _run(clean, "-c", code, cwd=tmp_path).strip() == "True"


def test_core_is_light(clean, tmp_path):
    """The core install has no torch, and the commands are there."""
    listed = _run(clean, "-m", "pip", "list", "--format", "freeze", cwd=tmp_path).lower().split()
    installed = {row.split("==")[0] for row in listed}
    assert "isoflop" in installed
    assert not installed & {"torch", "datasets", "transformers", "mlflow"}
    _run(clean, "-m", "pip", "check", cwd=tmp_path)
    for command in ("scaling", "economics"):
        assert "Usage" in _run(clean.parent / command, "--help", cwd=tmp_path)
