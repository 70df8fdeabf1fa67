"""The copy of a run in a bucket follows the run, and can be gone on with at any moment."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import stat
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "X1-pretraining" / "run-cloud"


@pytest.fixture
def keep():
    spec = importlib.util.spec_from_file_location("keep", FOLDER / "keep.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_run(folder: Path, *steps: int, text: str = "a") -> None:
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for step in steps:
        path = folder / "checkpoints" / f"step_{step:08d}"
        path.mkdir(parents=True)
        (path / "model.safetensors").write_text(f"{text}{step}")
        (path / "manifest.json").write_text(f'{{"of": "{text}{step}"}}')
    (folder / "log.jsonl").write_text("row\n" * max(steps))
    (folder / "lock").write_text("")


def files(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(params=["folder", "s3"])
def target(request, tmp_path, monkeypatch):
    """A folder, or what a stand-in for the command `aws` keeps in one."""
    if request.param == "folder":
        return str(tmp_path / "bucket"), tmp_path / "bucket"
    (tmp_path / "bin").mkdir()
    aws = tmp_path / "bin" / "aws"
    aws.write_text(
        f"""#!/bin/sh
set -e
at() {{ echo "$1" | sed "s#^s3://name#{tmp_path}/s3#"; }}
[ "$1" = s3 ] || exit 9
if [ "$2" = ls ]; then
  [ -d "$(at "$3")" ] || exit 1
  for name in "$(at "$3")"*; do [ ! -d "$name" ] || echo "                           PRE $(basename "$name")/"; done
  exit 0
fi
[ "$#" -eq 5 ] && [ "$5" = --only-show-errors ] || exit 9
case $2 in
  cp) mkdir -p "$(dirname "$(at "$4")")"; cp "$3" "$(at "$4")" ;;
  rm) [ "$3" = --recursive ] && case $4 in */) rm -r "$(at "$4")" ;; *) exit 9 ;; esac ;;
  sync) [ ! -d "$(at "$3")" ] || cp -r "$(at "$3")". "$4" ;;
  *) exit 9 ;;
esac
"""
    )
    aws.chmod(aws.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{aws.parent}:{os.environ['PATH']}")
    return "s3://name/x1", tmp_path / "s3" / "x1"


def test_the_copy_follows_the_run(keep, target, tmp_path):
    url, kept = target
    run = tmp_path / "run"
    fake_run(run, 4, 8)
    keeper = keep.Keeper(run, keep.Store(url))
    keeper.copy()
    assert files(kept) == {k: v for k, v in files(run).items() if k != "lock"}
    fake_run(run, 8, 12)  # rotated
    keeper.copy()
    assert files(kept) == {k: v for k, v in files(run).items() if k != "lock"}
    fake_run(run, 8, 12, text="b")  # the same steps, made again after going back
    keeper.copy()
    assert files(kept) == {k: v for k, v in files(run).items() if k != "lock"}
    new = keep.Keeper(tmp_path / "new", keep.Store(url))
    new.fetch()
    assert files(tmp_path / "new") == files(kept)
    fake_run(tmp_path / "new", 16)
    new.fetch()  # what is on the machine is newer
    assert "checkpoints/step_00000008/manifest.json" not in files(tmp_path / "new")
    new.copy()  # a next machine removes what the last one left
    assert set(files(kept)) == {
        "log.jsonl",
        *(f"checkpoints/step_00000016/{n}" for n in ("manifest.json", "model.safetensors")),
    }


def test_at_any_moment_the_copy_can_be_gone_on_with(keep, tmp_path, monkeypatch):
    """Cut off after every single operation: the log is as long as the newest whole checkpoint says."""
    for cut in range(40):
        run, kept = tmp_path / f"run{cut}", tmp_path / f"kept{cut}"
        keeper = keep.Keeper(run, keep.Store(str(kept)))
        fake_run(run, 4, 8)
        keeper.copy()
        fake_run(run, 12, 16)
        done = 0

        def counted(self, *arguments, real, cut=cut):
            nonlocal done
            if done == cut:
                raise OSError("the machine is gone")
            done += 1
            return real(self, *arguments)

        with monkeypatch.context() as patch:
            for name in ("put", "remove"):
                real = getattr(keep.Store, name)
                patch.setattr(keep.Store, name, lambda self, *a, real=real: counted(self, *a, real=real))
            whole = keeper.try_copy()
        manifests = sorted(kept.glob("checkpoints/*/manifest.json"))
        assert manifests  # there is one to go on from, and both of its files are there
        newest = manifests[-1].parent
        assert (newest / "model.safetensors").is_file()
        assert len((kept / "log.jsonl").read_text().split()) >= int(newest.name[-8:])
        if whole:
            assert cut > 5
            return
    pytest.fail("the copy never ended")


def test_a_bucket_that_is_away_stops_no_training(keep, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(keep, "_PAUSE_S", 0.0)
    fake_run(tmp_path / "run", 4)
    keeper = keep.Keeper(tmp_path / "run", keep.Store("s3://name/x1"))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))  # no command aws
    assert keep.train(keeper, ["true"], every=1) == keep.NOT_FETCHED  # before training it does stop it
    assert "nothing is trained" in capfd.readouterr().err
    monkeypatch.setattr(keeper, "fetch", lambda: None)
    command = [sys.executable, "-c", "import time; time.sleep(0.5)"]
    assert keep.train(keeper, command, every=0.1) == keep.NOT_COPIED
    assert capfd.readouterr().err.count("not copied this time") > keep._LAST_TRIES
    assert keep.train(keeper, [sys.executable, "-c", "raise SystemExit(75)"], every=9) == 75
