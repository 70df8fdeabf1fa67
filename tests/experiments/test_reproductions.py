"""The pages of reproductions hold what their scripts give, and the index what the pages give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.reproductions import gadre
from experiments.reproductions.__main__ import FOLDER, HEAD, SCRIPTS, main
from experiments.reproductions.page import Page
from experiments.reproductions.tables import NotAtHandError, find

pytestmark = pytest.mark.filterwarnings("ignore::scaling.errors.ScalingWarning")


def page(name: str) -> Page:
    try:
        return SCRIPTS[name]()
    except NotAtHandError as error:
        pytest.skip(str(error))


@pytest.mark.public_data
@pytest.mark.parametrize("name", ["gadre", "seed_repeats"])
def test_pages_hold_what_their_scripts_give(name: str) -> None:
    made = page(name)
    assert made.text() == (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    rows = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    assert {"row": made.row(), "coupled": list(made.coupled)} == rows[name]


@pytest.mark.public_data
def test_the_published_forecasts_come_out_as_published() -> None:
    """Their notebook prints +0.71% for 1.4B at M = 640 and +0.73% for 6.9B at M = 20 (RedPajama)."""
    try:
        rows = gadre.table(find("gadre_overtraining.csv"), "rpj")
    except NotAtHandError as error:
        pytest.skip(str(error))
    errors = dict(gadre.forecast(gadre.law_of("rpj"), rows))
    assert errors["1.4B, M = 640"] == pytest.approx(0.0071, abs=5e-4)
    assert errors["6.9B, M = 20"] == pytest.approx(0.0073, abs=5e-4)


def test_every_script_has_its_page_and_its_row() -> None:
    """And no page speaks of a folder of one machine, or holds a whole table (10 kB is no table)."""
    rows = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert list(rows) == list(SCRIPTS)
    for name in SCRIPTS:
        text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith("# ") and len(text) < 10_000
        assert "| " + " | ".join(rows[name]["row"]) + " |" in readme
        assert len(rows[name]["row"]) == len(HEAD)
        for line in rows[name]["coupled"]:
            assert "| " + " | ".join(line) + " |" in readme
    assert readme.count("<!-- index -->") == 1


def test_a_table_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SCALING_DATA_DIR", raising=False)
    with pytest.raises(NotAtHandError, match=r"gadre_overtraining.csv: set SCALING_DATA_DIR"):
        find("gadre_overtraining.csv")
    monkeypatch.setenv("SCALING_DATA_DIR", str(tmp_path / "raw"))
    with pytest.raises(NotAtHandError, match="nor in the folder above"):
        main(["gadre"])
    (tmp_path / "there.csv").touch()
    assert find("there.csv") == tmp_path / "there.csv"
