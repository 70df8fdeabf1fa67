"""The page of a decision: its numbers are those of the document beside it, it loads nothing; and the command."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from typer.testing import CliRunner

from economics import plan
from economics.cli.app import app
from economics.proposal.numbers import FORMATS, Document, written
from economics.proposal.page import beside
from scaling import fit_chinchilla
from tests.scaling.fit_worlds import scattered

RUNNER = CliRunner()
NEXT = {"splits": [0.2], "sizes": "20M,80M", "token_counts": "200M,1B"}
ASKED = {
    "gpu": ["A100-80GB-SXM", "L40S"],
    "as_of": "2026-10-10",
    "draws": 300,
    "factors": [0.5, 1.0],
    **NEXT,
}
COMMAND = (
    "--gpu", "A100-80GB-SXM", "--market", "on-demand", "--as-of", "2026-10-10", "--draws", "300", "--sizes", "20M,80M",
    "--token-counts", "200M,1B",
)  # fmt: skip
_DATA = re.compile(r'<data value="([^"]*)" data-form="(\w+)" title="([^"]*)">([^<]*)</data>')


@pytest.fixture(scope="module")
def fit():
    n, d, loss = scattered(80, seed=1)
    return fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=100)


@pytest.fixture(scope="module")
def pages(fit, tmp_path_factory):
    """The page with an answer to everything, and the one that recommends nothing."""
    folder = tmp_path_factory.mktemp("pages")
    full = plan(
        fit, 50, serve_tokens="10B", unique_tokens="2B", loss=3.2, deadline_hours=20, prior="hoffmann2022", **ASKED
    )  # fmt: skip
    none = plan(None, 50, **{**ASKED, "gpu": "A100-80GB-SXM", "markets": "on-demand"})
    out = {}
    for name, found in (("full", full), ("none", none)):
        page, document = found.save(folder / f"{name}.html", command="economics plan runs.csv --budget 50")
        assert document == beside(page)
        out[name] = (page.read_text(encoding="utf-8"), json.loads(document.read_text(encoding="utf-8")))
    return out


@pytest.mark.parametrize("name", ["full", "none"])
def test_every_number_is_that_of_the_document(pages, name):
    html, content = pages[name]
    document, shown = Document(content), _DATA.findall(html)
    assert len(shown) > (120 if name == "full" else 40)
    for value, form, path, text in shown:
        held = document.at(path)
        assert str(held) == unescape(value), path
        assert written(held, form) == unescape(text), path
    assert not re.search(r"\b(nan|NaN|None|inf)\b", re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL))


def test_the_sentences_at_the_head_have_the_numbers_of_the_document(pages):
    html, content = pages["full"]
    best, head = content["best"], html.split("</section>")[0]
    for form, value in (("count", best["params"]["value"]), ("count", best["tokens"]["value"]),
                        ("percent", round(content["cap"]["over"], 2))):  # fmt: skip
        assert FORMATS[form](value) in head


@pytest.mark.parametrize("name", ["full", "none"])
def test_the_page_loads_nothing_from_elsewhere(pages, name):
    html, _ = pages[name]
    assert not re.findall(r'(?:src|href)\s*=\s*"(?!#)[^"]*"', html)
    assert not re.findall(r"url\((?!#|&#39;#)[^)]*\)|@import|<script|<link|<iframe", html)


def test_pictures_and_sections(pages):
    html, content = pages["full"]
    assert {"money-loss", "cap", "losses"} <= set(re.findall(r'<figure id="([^"]+)"', html))
    assert html.count("<svg") == 3 and "<svg" not in pages["none"][0]
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {o["name"] for o in content["others"]} == {"serving", "data", "loss"}
    assert "economics plan runs.csv --budget 50" in html


def test_the_same_question_gives_the_same_bytes(fit):
    one, two = (plan(fit, 50, **{**ASKED, "gpu": "A100-80GB-SXM"}).report() for _ in range(2))
    assert one.html == two.html and one.document == two.document


# --- the command ---------------------------------------------------------------------------------------------


def command(*words: object):
    return RUNNER.invoke(app, ["plan", *(str(w) for w in words)])


def test_command(fit, tmp_path):
    saved, page = tmp_path / "fit.json", tmp_path / "plan.html"
    fit.save(saved)
    done = command(saved, "--budget", "50", *COMMAND, "--out", page, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["usable"] is True
    assert str(page) in done.stderr and beside(page).exists()
    shown = page.read_text(encoding="utf-8")
    assert "--gpu A100-80GB-SXM --market on-demand" in shown and "--sizes 20M,80M" in shown


def test_command_without_a_law_exits_with_1():
    done = command("--budget", "$50", *COMMAND)
    assert done.exit_code == 1 and "verdict      not identified" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "give --budget"),
        (("nowhere.csv", "--budget", "50"), 2, "nowhere.csv"),
        (("--budget", "0"), 2, "budget"),
        (("--budget", "50", "--gpu", "A1000"), 2, "A1000"),
        (("--budget", "50", "--market", "flea"), 2, "no market is called"),
        (("--budget", "50", "--params", "1B"), 2, "--params is what is looked for"),
        (("--budget", "0.01", *COMMAND), 1, "not affordable"),
    ],
)
def test_command_refuses(words, code, said):
    done = command(*words)
    assert done.exit_code == code and said in done.stdout + done.stderr
