"""Plots of costs and prices: they draw what their numbers say, on given axes, and write both."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from economics import PriceError, cost, plots, prices
from economics.plots.bars import bars_size
from scaling.errors import DataError

mpl.use("agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def run():
    return cost(N="1B", D="20B", gpu="A100 SXM 80GB", n_gpus=1, market="spot", as_of="2026-10-10", draws=2000)


@pytest.fixture(scope="module")
def comparison(run):
    return run.compare(["A100 SXM 80GB", "H100 SXM"], n_gpus=[8, 64], market="on-demand")


@pytest.fixture
def subjects(run, comparison):
    return {"breakdown": run, "tornado": run, "pareto": comparison, "price_history": "H100 SXM"}


@pytest.mark.parametrize("kind", plots.KINDS)
def test_draws_on_given_axes_and_on_its_own(kind, subjects):
    figure, given = plt.subplots(figsize=(7, 4.5), layout="constrained")
    assert plots.draw(subjects[kind], kind, given) is given
    figure.draw_without_rendering()
    own = plots.draw(subjects[kind], kind)
    assert own is not given
    assert own.get_title(loc="left")


@pytest.mark.parametrize("kind", plots.KINDS)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_saves_picture_and_numbers(kind, suffix, subjects, tmp_path):
    picture, table = plots.save(subjects[kind], kind, tmp_path / f"{kind}{suffix}", dpi=60)
    assert picture.stat().st_size > 2000
    read = pd.read_csv(table)
    assert list(read.columns) == list(plots.plot_data(subjects[kind], kind).columns)
    assert len(read)


def test_every_kind_is_a_function_with_its_numbers():
    for kind in plots.KINDS:
        assert callable(getattr(plots, kind)) and callable(getattr(plots, f"{kind}_data"))


def test_unknown_kind_and_suffix(run, tmp_path):
    with pytest.raises(DataError, match="kind must be one of breakdown"):
        plots.draw(run, "pie")
    with pytest.raises(DataError, match="suffix"):
        plots.save(run, "breakdown", tmp_path / "a.gif")


def test_breakdown_adds_up(run):
    data = plots.breakdown_data(run)
    parts = data[data["part"] != "total"]
    assert parts["share"].sum() == pytest.approx(1.0)
    assert parts["share"].is_monotonic_decreasing
    assert data["usd"].iloc[-1] == run.usd.value
    ax = plots.breakdown(run)
    shown = [t.get_text() for t in ax.get_yticklabels()]
    assert shown == [p for p, s in zip(parts["part"], parts["share"], strict=True) if s >= 0.005]
    assert {"compute", "rework", "restarts"} <= set(shown)


def test_tornado_has_the_largest_on_top_and_bars_end_at_the_answers(run):
    data = plots.tornado_data(run)
    swings = data[data["factor"] != "middle"]
    assert np.all(np.diff((swings["high"] - swings["low"]).abs()) <= 0)
    ax = plots.tornado(run)
    top = max(ax.patches, key=lambda p: p.get_y())
    middle = float(data[data["factor"] == "middle"]["low"].iloc[0])
    ends = {round(p.get_x() + p.get_width(), 6) for p in ax.patches}
    assert round(float(swings["high"].iloc[0]), 6) in ends
    assert top.get_x() == pytest.approx(middle)
    assert ax.get_yticklabels()[0].get_text() == run.sensitivity().top


@pytest.mark.parametrize("of", ["gpu_hours", "wall_hours", "energy_kwh", "co2_kg"])
def test_tornado_of_every_answer(run, of):
    assert plots.tornado(run, of=of).get_xlabel()


def test_pareto_marks_what_nothing_beats(comparison):
    data = plots.pareto_data(comparison)
    for _, row in data.iterrows():
        beaten = ((data["usd"] <= row["usd"]) & (data["wall_hours"] < row["wall_hours"])).any()
        assert row["pareto"] == (not beaten)
    assert {t.get_text() for t in plots.pareto(comparison).get_legend().get_texts()} == set(data["gpu"])


def test_history_is_the_book():
    data = plots.price_history_data("H100 SXM")
    newest = prices("H100 SXM", provider="coreweave", as_of="2026-10-10")
    mine = data[data["provider"] == "coreweave"].iloc[-1]
    assert mine["usd_per_gpu_hour"] == newest.median
    assert (data["low"] <= data["usd_per_gpu_hour"]).all() and (
        data["usd_per_gpu_hour"] <= data["high"]
    ).all()
    assert plots.price_history("H100 SXM").get_yscale() == "log"
    assert len(plots.price_history_data("A100 SXM 80GB", market="spot")) >= 3
    with pytest.raises(PriceError, match="Quotes for it"):
        plots.price_history_data("H100 SXM", market="reserved")


def test_more_bars_take_more_room():
    assert bars_size(3)[1] < bars_size(6)[1]
    assert bars_size(0) == bars_size(1)
