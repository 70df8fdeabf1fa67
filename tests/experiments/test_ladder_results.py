"""What is committed of the ladders comes again from what is committed: fits from points, the page from fits."""

from __future__ import annotations

import pytest

from experiments.ladders import analysis, known_law, pages
from experiments.ladders.rules import OTHERS, RULE


@pytest.mark.parametrize("name", list(pages.LADDERS))
def test_the_committed_fit_is_that_of_the_committed_points(name):
    """The law is refitted from points.csv; it needs no random numbers."""
    content = analysis.read(pages.HOME / name)
    table = analysis.load(pages.HOME / name / "points.csv")
    fit = analysis.fit_or_refusal(table.select(RULE.rows(table)), 0)
    assert fit.law.to_dict() == pytest.approx(content["law"], rel=1e-6)
    assert len(table) == content["rows"] and content["rule"] == RULE.name and content["seeds"] >= 3


def test_the_committed_page_is_written_from_the_committed_fits(tmp_path, monkeypatch):
    committed = (pages.HOME / "prediction.md").read_text(encoding="utf-8")
    written: dict[str, str] = {}
    monkeypatch.setattr(pages, "write_atomically", lambda path, text: written.update({path.name: text}))
    pages.write()
    assert written["prediction.md"] == committed


def test_the_known_law_is_recovered():
    """What the ladder was made for, under a rule written before: by the form of the law that the runs allow."""
    content = analysis.read(pages.HOME / "known-law")
    truth, form = content["truth"], content["form"]
    again = known_law.truth(pages.seq_len("known-law"))
    assert {k: truth[k] for k in ("entropy", "block")} == pytest.approx(
        {k: again[k] for k in ("entropy", "block")}
    )
    assert form["rejected"] and not truth["holds"]  # k = 1 is spoken against, and its E is off
    e = form["estimates"]["E"]
    assert e["low"] <= truth["entropy"] < truth["reachable"] <= e["high"] and form["width"] <= 0.3
    assert content["rms"] <= 0.01 and form["rms"] <= 0.01 and len(content["rules"]) == 1 + len(OTHERS)
