"""Pages of fits without a bootstrap: no sentence speaks of an interval that is not there."""

from __future__ import annotations

import re
import warnings
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaling import ChinchillaFit, DataError, NotIdentifiedError, fit_chinchilla
from scaling.law_names import fit_law
from scaling.report import Report, build_report
from tests.scaling.fit_worlds import T, table


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing and leave little future out."""
    monkeypatch.setattr("scaling.report.build._plots", lambda fit: [])
    monkeypatch.setattr("scaling.report.outlook._CUT_REFITS", 20)


def bare(**data: Any) -> ChinchillaFit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_chinchilla(**data, n_boot=0)


def poor() -> ChinchillaFit:
    """Nine runs near one ray: without draws the design alone says that they determine nothing."""
    rng = np.random.default_rng(0)
    n = np.geomspace(1e7, 1e9, 9)
    d = 20 * n * np.exp(0.2 * rng.normal(size=9))
    return bare(params=n, tokens=d, loss=T.loss(n, d) * np.exp(0.01 * rng.normal(size=9)))


def written(report: Report) -> str:
    page = re.sub(r"<style.*?</style>", "", report.html, flags=re.DOTALL)
    return f"{unescape(re.sub(r'<[^>]+>', ' | ', page))}\n{report.prediction}"


def sentences_with_dashes(text: str) -> list[str]:
    """Lines of prose in which a dash stands for an interval; cells of tables may hold one."""
    return re.findall(r"[^|\n]*\b(?:from|between|within|to) –[^|\n]*", text)


@pytest.mark.parametrize("params", [1e9, 1e15])
@pytest.mark.parametrize("good", [True, False])
def test_no_interval_is_written_as_none(params: float, good: bool) -> None:
    fit = bare(runs=table(noise=0.005)) if good else poor()
    report = build_report(fit, params=params)
    text = written(report)
    assert not sentences_with_dashes(text)
    assert "nan" not in re.findall(r"[a-z]+", text) and "unlimited" not in text
    if report.head.usable:
        assert "tokens, no interval" in report.prediction
    else:
        assert "nothing says how far off that may be, as there are no intervals" in text
    assert "agree within their intervals" not in text


def test_a_page_of_what_it_cannot_show() -> None:
    law = fit_law("overtraining", table(noise=0.005), n_boot=0)
    with pytest.raises(DataError, match=r"fit of the main law .*got overtraining LawFit"):
        build_report(law)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="a refusal needs the runs"):
        build_report(NotIdentifiedError("nothing"))


def test_where_a_page_can_be_saved(tmp_path: Path) -> None:
    report = build_report(bare(runs=table(noise=0.005)))
    for path in (None, 3, b"x.html", ""):
        with pytest.raises(DataError, match="name a file"):
            report.save(path)  # type: ignore[arg-type]
    with pytest.raises(OSError) as caught:
        report.save(tmp_path)
    assert caught.value.filename == str(tmp_path)
    with pytest.raises(DataError, match="is a folder"):
        report.save("/")
