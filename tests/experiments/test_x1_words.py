"""The report's words follow the points: no verdict is written by hand, and every number has its file."""

from __future__ import annotations

import csv
import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.x1 import a100, law, page
from experiments.x1.files import FORMATS, lookup
from scaling import datasets

ROOT = Path(__file__).parents[2]
SILENT = "no points of one's own"
POINTS_JSON = {
    "points": 1, "trunks": 1, "tokens_paid": 1, "tokens_separate": 2, "share_of_separate": 0.5, "budgets_left_out": [],
    "times": ["wall_s"], "findings": [], "versions": ["x"], "spent_usd": 0.01, "cap_usd": 1.0, "usd_per_hour": 0.1,
}  # fmt: skip
CORPUS = {
    "tokenizer": "bytes", "sources": [], "train": {"tokens": 5}, "val": {"tokens": 6}, "held_out": "by hash",
    "missing": "pip said no", "most_epochs": 4,
}  # fmt: skip
ABOUT = {"command": "python -m experiments.x1", "profile": "smoke", "not_trained": ""}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Make the report with the points of a shipped table in place of one's own."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name in made:
            return made[name]
        out = made[name] = tmp_path_factory.mktemp(name.replace(" ", "-").replace("'", ""))
        if name != SILENT:
            (out / "points.csv").write_bytes(Path(datasets.builtin(name)).read_bytes())
            (out / "points.json").write_text(json.dumps(POINTS_JSON))
            (out / "corpus.json").write_text(json.dumps(CORPUS))
        law.build(out, 200, pages=False)
        a100.build(out, pages=False)
        page.build(out, {**ABOUT, "not_trained": "torch is not installed" if name == SILENT else ""})
        return out

    return make


def own(folder: Path) -> dict:
    return json.loads((folder / "law.json").read_text())["own"]


def text_of(folder: Path) -> str:
    words = re.sub(r"<[^>]+>", "", (folder / "report.html").read_text(encoding="utf-8"))
    return " ".join(html.unescape(words).split())


def test_points_that_identify_the_law_answer(report):
    said, text = own(report("hoffmann2022")), text_of(report("hoffmann2022"))
    assert (said["verdict"], said["usable"]) == ("identified", True)
    assert 2.2e10 < said["tokens"]["value"] < 2.35e10
    assert "The points made here determine it too." in text
    assert "22.7B tokens for 1B parameters: the runs determine this" in text
    assert "no law to extrapolate with" not in text and "do not determine" not in text


def test_points_that_do_not_are_refused(report):
    said, text = own(report("cpu_sweep")), text_of(report("cpu_sweep"))
    assert (said["verdict"], said["usable"], said["tokens"]) == ("not identified", False, None)
    assert "The points made here do not determine a law, so nothing is read off them for this size." in text
    assert "No answer from these runs for 1B parameters: the runs do not determine this" in text
    assert "they are no law to extrapolate with" in text and "determine it too" not in text
    assert any("decades of compute" in sentence for sentence in said["sentences"])
    assert "22.7B tokens" in text  # the published answer stays


def test_one_token_count_is_no_law_and_the_page_says_which_runs_would_help(report, tmp_path):
    text = Path(datasets.builtin("hoffmann2022")).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))[:12]
    with open(tmp_path / "points.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["params_total", "tokens", "loss", "loss_unit", "wall_s"])
        writer.writeheader()
        for i, row in enumerate(rows):
            n, loss = 1e8 * 1.3**i, float(row["loss"]) - 0.05 * i
            writer.writerow(
                {"params_total": n, "tokens": 1e9, "loss": loss, "loss_unit": "nats/token", "wall_s": i}
            )
    (tmp_path / "points.json").write_text(json.dumps(POINTS_JSON))
    law.build(tmp_path, 100, pages=False)
    said = own(tmp_path)
    assert said["verdict"] == "not identified" and said["law"] is None and said["remedies"][0]["text"]
    assert "wall_s" not in (tmp_path / "runs.csv").read_text()


def test_without_training_the_page_stands_and_says_so(report):
    text = text_of(report(SILENT))
    assert "No points were made here, so the published ones stand alone." in text
    assert text.count("torch is not installed") >= 3


def test_the_light_set_up_makes_the_page_too(tmp_path):
    """Without torch nothing is trained, and everything else is there."""
    program = (
        "import sys; sys.modules['torch'] = None; from experiments.x1.__main__ import main; sys.exit(main())"
    )
    words = [sys.executable, "-c", program, "--out", str(tmp_path), "--profile", "smoke"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "nothing was trained, as torch is not installed" in done.stderr
    assert "nothing was trained, as torch is not installed" in text_of(tmp_path)


DATA = re.compile(r'<data value="([^"]*)" data-form="(\w+)" title="([^"#]+)#([^"]+)">([^<]*)</data>')


@pytest.mark.parametrize("name", ["hoffmann2022", "cpu_sweep", SILENT])
def test_every_number_is_the_one_in_its_file(report, name):
    folder = report(name)
    found = DATA.findall((folder / "report.html").read_text(encoding="utf-8"))
    assert len(found) > 100
    for value, form, file, path, text in found:
        really = lookup(json.loads((folder / file).read_text(encoding="utf-8")), path)
        assert repr(really) == value and FORMATS[form](really) == html.unescape(text), (file, path)


def test_no_number_of_the_template_is_written_by_hand():
    """Digits in the template belong to names, places and the level of intervals: everything else is read."""
    template = (Path(page.__file__).parent / "templates" / "x1.html.j2").read_text(encoding="utf-8")
    body = re.sub(
        r"\{[{%].*?[%}]\}|<style>.*?</style>|<[^>]+>", " ", template[template.index("<body>") :], flags=re.S
    )
    assert set(re.findall(r"(?<![a-z\d])\d[\d.]*", body)) <= {"100", "80", "95", "90", "0.01"}


def test_the_plan_is_costed_at_both_prices_and_its_ladder_fits(report):
    plan = json.loads((report(SILENT) / "plan.json").read_text())
    dear, cheap, spot = plan["totals"]
    assert cheap["total_usd"] < spot["total_usd"] < dear["total_usd"] <= plan["budget_usd"]
    asked, six, best = plan["ladders"]
    assert (asked["sizes"], asked["budgets"], six["sizes"], six["budgets"]) == (3, 5, 6, 4)
    assert best["factor"] < six["factor"] < asked["factor"]
    assert best["usd"]["value"] <= plan["sweep_line_usd"]
    saves = {row["name"]: row["usd"]["value"] for row in plan["costs"]}
    assert (
        saves["spot, saves at the best interval"]
        <= saves["spot, a save every 30 min"]
        < saves["spot, no saves"]
    )
    both = plan["both_counts"]
    assert both["total"]["value"] < both["non_embedding"]["value"] and both["non_embedding_total"] > 1e9
    for shape, wanted in zip(plan["shapes"], (5e6, 25e6, 100e6), strict=False):
        assert abs(shape["params_non_embedding"] / wanted - 1) < 0.03
    assert (
        plan["model"]["params_total"]
        == 48_284_672
        == a100.solve_shape("48.3M", 50257, kv_group=4).arch.params_total
    )
