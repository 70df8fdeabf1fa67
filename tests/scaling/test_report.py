"""The report: its words follow the data, its numbers the fit, and the same fit gives the same bytes."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from scaling import Finding, NotIdentifiedError, RunTable, datasets, fit_chinchilla
from scaling.report import Origin, Report, build_report, phrases, words
from scaling.report.answer import answer
from scaling.report.outlook import _far_ratio
from scaling.report.remedies import remedies
from scaling.units import format_count

ROOT = Path(__file__).parents[2]


def fit_of(name: str, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_chinchilla(datasets.builtin(name), **{"n_boot": 200, **options})


@pytest.fixture(scope="module", autouse=True)
def coarse_profiles():
    """Profile the objective on fewer points and leave less future out: how much is not what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scaling.profile._GRID", 7)
        patch.setattr("scaling.plots.objective.profile_data.__defaults__", (20,))
        patch.setattr("scaling.report.outlook._CUTS", (0.65,))
        patch.setattr("scaling.report.outlook._CUT_REFITS", 40)
        yield


@pytest.fixture(scope="module")
def hoffmann():
    return fit_of("hoffmann2022")


@pytest.fixture(scope="module")
def sweep():
    return fit_of("cpu_sweep")


@pytest.fixture(scope="module")
def page_of_hoffmann(hoffmann):
    """The whole page, plots included."""
    return build_report(hoffmann)


@pytest.fixture
def no_plots(monkeypatch):
    """Leave the plots out where they are not what is tested: they take seconds."""
    monkeypatch.setattr("scaling.report.build._plots", lambda fit: [])


def text_of(report: Report) -> str:
    """Return what a reader sees of the page, without the plots."""
    body = re.sub(r"<(style|svg)\b.*?</\1>", "", report.html, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def straight(n_sizes: int = 5, noise: float = 0.002, seed: int = 0) -> dict[str, np.ndarray]:
    """A well-conditioned table of the truth T of the issue's cases."""
    N, D = (a.ravel() for a in np.meshgrid(np.geomspace(3e7, 3e9, n_sizes), [1e9, 4e9, 1.6e10, 6.4e10]))
    rng = np.random.default_rng(seed)
    loss = (1.82 + 482 / N**0.348 + 2085 / D**0.366) * np.exp(noise * rng.normal(size=N.size))
    return {"params": N, "tokens": D, "loss": loss}


# --- fits that determine next to nothing --------------------------------------------------------

HELD = {"E": 1.82, "A": 482.0, "B": 2085.0, "alpha": 0.348, "beta": 0.366}


def flat(a: float, b: float, noise: float = 0.003, seed: int = 0) -> dict[str, np.ndarray]:
    """Runs on which size (a = 0) or data (b = 0) or both have no effect."""
    N, D = (x.ravel() for x in np.meshgrid(np.geomspace(1e7, 1e9, 6), np.geomspace(1e9, 1e11, 4)))
    loss = 1.8 + a * 482 / N**0.348 + b * 2085 / D**0.366
    rng = np.random.default_rng(seed)
    return {"params": N, "tokens": D, "loss": loss * np.exp(noise * rng.normal(size=N.size))}


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(
    ("runs", "options"),
    [
        *((flat(1, 0, seed=seed), {}) for seed in (0, 3, 6)),
        (flat(0, 1), {}),
        (flat(0, 0), {}),
        (flat(1, 1, noise=0.0), {}),
        (straight(), {"fixed": HELD}),
        (straight(), {"fixed": {"alpha": 50}}),
        (straight(), {"fixed": {"A": 1e-9}}),
    ],
)
def test_a_degenerate_fit_gets_a_page(runs, options):
    """Intervals from zero, laws that are flat, nothing left to fit: there are words for all of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = fit_chinchilla(**runs, n_boot=40, **options)
    page = text_of(build_report(fit))
    assert fit.verdict == "identified" or "No answer" in page or "loosely" in page


# --- words follow the data ---------------------------------------------------------------------

IDENTIFIED = (
    "the runs determine this",
    "22.7B tokens",
    "lies inside",
    "What to run next",
    "How to split a larger",
)
NOT_IDENTIFIED = (
    "the runs do not determine this",
    "No answer from these runs",
    "no number to plan with",
    "What would identify it",
    "Come nearer to the question",
    "they are no law to extrapolate with",
)


@pytest.mark.usefixtures("no_plots")
def test_words_flip_between_identified_and_not(hoffmann, sweep):
    good, bad = text_of(build_report(hoffmann)), text_of(build_report(sweep))
    for phrase in IDENTIFIED:
        assert phrase in good and phrase not in bad, phrase
    for phrase in NOT_IDENTIFIED:
        assert phrase in bad and phrase not in good, phrase


def with_findings(fit, *, identification=(), model=()):
    d = replace(fit.diagnostics, identification=tuple(identification), model=tuple(model))
    return replace(fit, diagnostics=d)


BEND = Finding("curvature_in_residuals", "warning", "They bend.", {"share": 0.4, "p_value": 0.001})


@pytest.mark.usefixtures("no_plots")
def test_an_identified_law_that_the_runs_bend_away_from_says_so_first(hoffmann):
    bent, straight_ = (build_report(with_findings(hoffmann, model=m)) for m in ((BEND,), ()))
    assert bent.head.chip == "the runs determine this, but bend away from the law"
    assert "bend away from the law" in bent.prediction.partition("- verdict")[0]
    assert '<section class="answer weak">' in bent.html
    assert straight_.head.chip == "the runs determine this"
    assert '<section class="answer identified">' in straight_.html
    other = Finding("of_a_later_version", "warning", "Odd.", {})
    assert "raised a doubt" in build_report(with_findings(hoffmann, model=(other,))).head.chip


def test_one_fact_is_not_told_as_both_good_and_bad(hoffmann):
    title = "optimum in the middle of the runs"
    wide = Finding("wide_optimum", "warning", "", {"params": 1e9, "low": 0.0, "high": 1e12})
    for findings, shown in (((), True), ((wide,), False)):
        fit = with_findings(hoffmann, identification=findings)
        told = [s.title for s in words.can_tell(fit, answer(fit, 1e9))]
        assert any(title in t for t in told) == shown
    doubts = {s.title: s.text for s in words.cannot_tell(fit, answer(fit, 1e9))}
    assert "an unlimited factor" in doubts["The optimum is loose even inside the runs"]


def test_the_side_of_the_runs_is_named(hoffmann):
    for params, side in ((1e11, "beyond the largest run"), (1e5, "below the smallest run")):
        head = answer(hoffmann, params)
        assert any(side in s.text for s in words.cannot_tell(hoffmann, head)), side


def test_suggested_runs_of_unusual_shape_are_explained():
    runs = RunTable.from_arrays(params=[1e8, 1e8], tokens=[1e9, 3e10], loss=[3.0, 2.9])
    assert _far_ratio(runs, ((1e8, 1e10), (1e9, 1e10))) == ""
    said = _far_ratio(runs, ((1e8, 1e10), (3.3e8, 1.3e12)))
    assert (
        "3,900 tokens per parameter, where the runs here have 10 to 300" in said and "no model to use" in said
    )


@pytest.mark.usefixtures("no_plots")
def test_the_cpu_sweep_says_why_and_what_would_help(sweep):
    page = text_of(build_report(sweep))
    assert re.search(
        r"level that no model can pass, E, is open: in \d+% of the bootstrap refits it is zero", page
    )
    assert (
        "optimum is at the edge of the grid or beyond it" in page and "below the smallest run (7.09K)" in page
    )
    away = re.search(r"lies (\d\.\d) decades of compute", page)
    assert away and float(away[1]) > 5.5
    assert "batch_tokens = 512 (28 runs) or batch_tokens = 2048 (24 runs)" in page
    assert "--where 'batch_tokens == 512'" in page
    assert "Train sizes smaller than 7.09K" in page
    assert "1B not determined" in page


@pytest.mark.usefixtures("no_plots")
def test_a_question_far_outside_an_identified_law(hoffmann):
    report = build_report(hoffmann, params=1e12)
    page = text_of(report)
    assert hoffmann.verdict == "identified" and not report.head.usable
    assert "No answer from these runs" in page and "Come nearer to the question" in page
    assert "No floor in sight" not in page


@pytest.mark.usefixtures("no_plots")
def test_far_but_not_too_far_is_an_answer_with_a_caution(hoffmann):
    report = build_report(hoffmann, params=1e11)
    assert report.head.usable and 1.5 < report.head.decades_outside < 3
    assert "if the law holds that far out" in report.head.chip
    assert "no interval covers the law being wrong out there" in text_of(report)


@pytest.mark.usefixtures("no_plots")
def test_a_table_that_determines_no_law_gets_a_page_that_says_so():
    N = np.geomspace(1e7, 1e9, 8)
    runs = RunTable.from_arrays(params=N, tokens=20 * N, loss=1.8 + 480 / N**0.35)
    with pytest.raises(NotIdentifiedError) as caught:
        fit_chinchilla(runs)
    report = build_report(caught.value, runs=runs)
    page = text_of(report)
    assert "All 8 runs have D = 20 N" in page and ".partial" not in page
    assert "What the runs do determine" in page and "E + A/C^alpha" in page
    assert "Repeat some sizes at a quarter of and at four times their tokens" in page
    assert report.fit is None and len(report.files("x.html")) == 2
    with pytest.raises(ValueError, match="runs="):
        build_report(caught.value)


@pytest.mark.usefixtures("no_plots")
def test_without_a_bootstrap_nothing_has_an_interval():
    report = build_report(fit_chinchilla(**straight(), n_boot=0))
    page = text_of(report)
    assert "no interval" in report.head.interval
    assert "There are no intervals: no bootstrap was made" in page
    assert "Get intervals" in page
    assert "nan" not in page.lower()


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"fixed": {"E": 1.82}}, "E held at 1.82"),
        ({"tied": True}, "Exponents tied, α = β"),
        ({"weights": np.arange(1, 21.0)}, "Rows weighted"),
        ({"sigma": np.linspace(0.01, 0.02, 20)}, "Residuals scaled by each run's noise"),
        ({"groups": "model_size"}, "5 resampled model sizes"),
        ({"resample": "wild"}, "20 rows, their residuals flipped at random"),
        ({"interval": "bias-corrected", "level": 0.9}, "90% bias-corrected intervals"),
    ],
)
def test_the_method_is_told_as_it_was(options, phrase):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = fit_chinchilla(**straight(), n_boot=40, **options)
    assert phrase in text_of(build_report(fit))


@pytest.mark.usefixtures("no_plots")
def test_open_intervals_are_written_out():
    """cpu_markov: draws with an exponent near zero put no end to D*."""
    page = text_of(build_report(fit_of("cpu_markov")))
    assert "No answer" in page
    assert not re.search(r"\b(inf|nan)\b", page)


# --- numbers follow the fit --------------------------------------------------------------------


@pytest.mark.usefixtures("no_plots")
def test_numbers_are_those_of_the_fit(hoffmann):
    report = build_report(hoffmann)
    page = text_of(report)
    tokens = hoffmann.tokens_at(1e9)
    low, high = phrases.count(tokens.low), phrases.count(tokens.high)
    assert f"95% interval: {low} to {high}" in page
    for name, symbol in (("E", "E"), ("A", "A"), ("alpha", "α"), ("params_exponent", "a")):
        e = hoffmann.ci(name)
        assert f"{symbol} {e.value:.6g} {e.low:.5g} to {e.high:.5g}" in page
    optimum = hoffmann.optimal(1e21)
    assert f"1e21 {phrases.count(optimum.params.value)}" in page
    heavy = hoffmann.diagnostics.influence
    assert f"line {heavy.rows[0]} " in page and f"hoffmann{heavy.rows[0] - 2:03d}" in page
    assert hoffmann.law.to_json() in report.html.replace("&#34;", '"')


def test_the_written_prediction(hoffmann, page_of_hoffmann):
    prediction = page_of_hoffmann.prediction
    tokens = hoffmann.tokens_at(1e9)
    value, low, high = (format_count(x, 4) for x in (tokens.value, tokens.low, tokens.high))
    assert f"D*(1B) = {value} tokens, 95% [{low}, {high}]" in prediction
    assert not re.search(r"\d{6,}", prediction.partition("## Law")[0]), "numbers are for people up here"
    assert "verdict on the law: identified" in prediction
    assert hoffmann.law.to_json() in prediction
    assert not re.search(r"\b20[2-9]\d-\d\d-\d\d\b", prediction), "a date makes two runs differ"


def test_the_same_seed_gives_the_same_bytes(page_of_hoffmann):
    """Everything again from the table, plots included."""
    first, again = page_of_hoffmann, build_report(fit_of("hoffmann2022"))
    assert first.html == again.html and first.prediction == again.prediction
    assert first.fit.to_json() == again.fit.to_json()


# --- the page as a page ------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects tags that do not close, ids, and addresses outside the page."""

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.outside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "srcset") and not value.startswith("#"):
                self.outside.append(value)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


@pytest.mark.parametrize("which", ["identified", "not identified"])
def test_the_page_stands_alone(which, page_of_hoffmann, sweep):
    report = page_of_hoffmann if which == "identified" else build_report(sweep)
    page = Page(report.html)
    assert page.open == [] and page.outside == []
    assert not page.tags & {"script", "link", "img", "iframe", "object", "base"}
    assert len(page.ids) == len(set(page.ids)), "ids of several plots collide"
    style = "".join(re.findall(r"<style>.*?</style>", report.html, re.DOTALL))
    assert "@import" not in style and "url(" not in style
    from scaling.plots import KINDS

    assert report.html.count("<figure") == report.html.count("<svg") == len(KINDS)
    assert len(report.html) < 3e6


def test_every_plot_says_what_to_see():
    from scaling.plots import KINDS
    from scaling.report.captions import CAPTIONS

    assert set(CAPTIONS) == set(KINDS)


@pytest.mark.usefixtures("no_plots")
def test_names_from_outside_cannot_become_markup():
    evil = "<script>alert(1)</script>&'\""
    runs = RunTable.from_arrays(**straight(), run_id=[f"<b>{i}" for i in range(20)], source=evil)
    report = build_report(fit_chinchilla(runs, n_boot=40), origin=Origin(command=evil, sha256=evil))
    assert "<script" not in report.html and "<b>0" not in report.html
    assert "&lt;script&gt;" in report.html
    assert evil in report.prediction  # Markdown is text


@pytest.mark.usefixtures("no_plots")
def test_provenance_of_a_table_called_by_name(hoffmann):
    info = datasets.info("hoffmann2022")
    page = text_of(build_report(hoffmann, origin=Origin(info.sha256, "scaling report ...", info)))
    for piece in (info.sha256, info.licence, info.source, info.note, "numpy", "scaling report ..."):
        assert piece in page


@pytest.mark.usefixtures("no_plots")
def test_files(hoffmann, tmp_path):
    report = build_report(hoffmann)
    paths = report.save(tmp_path / "x1.html")
    assert [p.name for p in paths] == ["x1.html", "x1.prediction.md", "x1.fit.json"]
    assert paths[0].read_text(encoding="utf-8") == report.html
    assert type(hoffmann).load(paths[2]).law == hoffmann.law


# --- every finding has words -------------------------------------------------------------------


def codes() -> list[str]:
    """Codes of all findings that a fit can carry, as the source has them."""
    found = set()
    for name in ("verdicts", "residuals", "influence", "diagnose"):
        for node in ast.walk(ast.parse((ROOT / "scaling" / f"{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                assert isinstance(node.args[0], ast.Constant)
                found.add(node.args[0].value)
    assert len(found) > 10
    return sorted(found)


@pytest.mark.parametrize("code", codes())
def test_every_finding_has_a_heading_of_its_own(code):
    assert code in words._MEANING


def test_a_finding_of_a_later_version_is_shown_as_it_is(hoffmann):
    said = words.statement(hoffmann, Finding("quite_new", "warning", "Something was seen.", {}))
    assert said.title == "Quite new" and said.text == "Something was seen."


EDGE = {"flops": 1e20, "params": 5e10, "budgets_outside": 1}
CASES = [
    (
        Finding("optimum_outside", "warning", "", EDGE),
        "above the largest run",
        "Train sizes larger than 16.2B",
    ),
    (
        Finding("narrow_tokens_per_param", "warning", "D/N spans 2.", {}),
        "D/N spans 2.",
        "at four times their tokens",
    ),
    (Finding("few_units", "warning", "Only 4 units.", {}), "Only 4 units.", "More independent runs"),
    (Finding("second_basin", "warning", "2 minima.", {}), "wins by too little", ""),
    (
        Finding("wide_optimum", "error", "", {"params": 1e9, "low": 1e9, "high": 1e12}),
        "from 1B to 1T tokens (a factor of 1,000)",
        "",
    ),
]


@pytest.mark.parametrize(("finding", "said", "helps"), CASES, ids=lambda x: getattr(x, "code", ""))
def test_findings_in_words(hoffmann, finding, said, helps):
    diagnostics = replace(hoffmann.diagnostics, identification=(finding,), model=())
    fit = replace(hoffmann, diagnostics=diagnostics)
    head = answer(fit, 1e9)
    (statement,) = words.cannot_tell(fit, head)
    assert said in statement.text
    assert helps in " ".join(f"{r.title} {r.text}" for r in remedies(fit, head))
    assert fit.verdict in ("weak", "not identified")
    assert ("loosely" in head.chip) == (fit.verdict == "weak")


# --- numbers in words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (phrases.number(2.5141), "2.514"),
        (phrases.number(1130.4, 3), "1,130"),
        (phrases.number(float("inf")), "∞"),
        (phrases.number(float("nan")), "–"),
        (phrases.factor(1.1), "a factor of 1.1"),
        (phrases.factor(560_123), "a factor of 560,000"),
        (phrases.factor(3.2e12), "a factor of 3e12"),
        (phrases.factor(float("inf")), "an unlimited factor"),
        (phrases.decades(1.0), "1.0 decade of compute (a factor of 10)"),
        (phrases.decades(5.75), "5.8 decades of compute (a factor of 560,000)"),
        (phrases.plural(1, "run"), "1 run"),
        (phrases.plural(2000, "run"), "2,000 runs"),
        (phrases.percent(0.00334), "0.33%"),
    ],
)
def test_phrases(got, said):
    assert got == said


@pytest.mark.usefixtures("no_plots")
def test_the_page_says_whether_small_runs_foresaw_large_ones(hoffmann):
    report = build_report(hoffmann)
    text = text_of(report)
    assert "Would these points have predicted their own largest runs?" in text
    said = "Yes, within what was said: of the larger runs, (9[5-9]|100)% came out inside the 95% intervals"
    assert re.search(said, text)
    assert (
        "the form of the law is left open, after 2 cuts of these runs by compute and published laws" in text
    )
    assert "| 2.13e20 | 152 | 82 | 1.8 | identified |" in report.prediction
    few = {name: values[:10] for name, values in straight(3).items()}
    small = text_of(build_report(fit_chinchilla(**few, n_boot=60)))
    assert "taken from published tables alone" in small
