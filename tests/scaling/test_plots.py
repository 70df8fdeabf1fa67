"""Plots: the numbers they draw, what they say of fits that determine nothing, and the files they write."""

from __future__ import annotations

import io
import itertools
import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from scaling import ChinchillaFit, DataError, fit_chinchilla
from scaling.datasets import builtin
from scaling.plots import (
    KINDS,
    contours_data,
    curves_data,
    draw,
    isoflop_data,
    plot_data,
    profile_data,
    residuals_data,
    save,
    svg,
    tokens_data,
)
from scaling.plots.labels import packed, spread
from scaling.plots.numbers import budgets, natural_breaks, size_groups
from scaling.plots.style import SIZE, SIZES, _log_ticks, flops_text

mpl.use("Agg")

#: Kinds whose numbers are not there before they are drawn: a profile refits, so it is tested apart.
QUICK = tuple(kind for kind in KINDS if kind != "profile")


def _fit(source=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_chinchilla(source, **options)


def _grid(noise=0.004, seed=1):
    n, d = np.meshgrid(np.geomspace(5e6, 2e8, 6), [1e8, 4e8, 1.6e9, 6.4e9])
    n, d = n.ravel(), d.ravel()
    loss = (1.8 + 480 / n**0.35 + 2100 / d**0.37) * np.exp(
        noise * np.random.default_rng(seed).normal(size=n.size)
    )
    return {"params": n, "tokens": d, "loss": loss}


@pytest.fixture(scope="module")
def fits():
    return {
        "grid": _fit(**_grid(), n_boot=60),
        "hoffmann": _fit(builtin("hoffmann2022"), n_boot=60),
        "cpu": _fit(builtin("cpu_sweep"), n_boot=60),
        "bare": _fit(**_grid(), n_boot=0),
    }


@pytest.fixture(scope="module")
def drawn(fits):
    """``drawn(name, kind)``: the axes of a plot, drawn once for all tests that only look."""
    known = {}

    def look(name, kind):
        if (name, kind) not in known:
            known[name, kind] = draw(fits[name], kind, _new_axes(kind))
        return known[name, kind]

    return look


@pytest.fixture(scope="module")
def pictures(fits):
    """``pictures(kind)``: the plot of the Hoffmann points as SVG."""
    known = {}

    def look(kind):
        if kind not in known:
            known[kind] = svg(fits["hoffmann"], kind)
        return known[kind]

    return look


def _axes(ax):
    return [ax, *ax.child_axes]


def _texts(ax):
    return [t.get_text() for a in _axes(ax) for t in (*a.texts, a.title, a._left_title)]


def _new_axes(kind="curves"):
    figure = Figure(figsize=SIZES.get(kind, SIZE), layout="constrained")
    FigureCanvasAgg(figure)  # without one, canvas.draw() draws nothing and lays nothing out
    return figure.add_subplot()


# --- the numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("name", ["hoffmann", "cpu", "bare"])
def test_plots_regenerate_from_the_saved_fit_and_from_the_csv(fits, pictures, name, kind, tmp_path):
    """The saved fit holds runs and draws: same numbers, same picture. So does the CSV beside a picture."""
    fits[name].save(tmp_path / "fit.json")
    again = ChinchillaFit.load(tmp_path / "fit.json")
    data = plot_data(again, kind)
    pd.testing.assert_frame_equal(data, plot_data(fits[name], kind))
    if name == "hoffmann":  # pictures are slow: one table shows it
        read = pd.read_csv(io.StringIO(data.to_csv(index=False)))
        assert svg(again, kind, data=read) == pictures(kind)


def test_curves_are_the_law_and_its_interval(fits):
    fit = fits["grid"]
    data = curves_data(fit)
    law = data[data["series"] == "law"]
    np.testing.assert_allclose(law["loss"], fit.law.loss(law["params"], law["tokens"]), rtol=1e-14)
    row = law.iloc[37]
    mean = fit.predict(row["params"], row["tokens"]).mean
    np.testing.assert_allclose([row["low"], row["high"]], mean.interval, rtol=1e-12)
    # Six sizes: every run stands at its own loss. 43 sizes: runs move to the size of their group, and
    # keep their residual.
    runs = data[data["series"] == "run"]
    assert law["size"].nunique() == 6
    assert (runs["loss"] == runs["loss_at_size"]).all()
    fit = fits["hoffmann"]
    runs = curves_data(fit).query("series == 'run'")
    moved = np.log(runs["loss_at_size"]) - np.log(fit.law.loss(runs["size"], runs["tokens"]))
    np.testing.assert_allclose(moved, fit.residuals, atol=1e-12)


def test_every_point_of_a_contour_has_its_loss(fits):
    for fit in fits.values():
        data = contours_data(fit)
        lines = data[data["series"] == "contour"]
        np.testing.assert_allclose(fit.law.loss(lines["params"], lines["tokens"]), lines["loss"], rtol=1e-9)
        assert 3 <= lines["loss"].nunique() <= 12
        best = data[data["series"] == "optimum"]
        np.testing.assert_allclose(best["tokens"], fit.law.tokens_at(best["params"]), rtol=1e-12)


def test_minima_of_the_slices_are_the_optima(fits):
    fit = fits["hoffmann"]
    data = isoflop_data(fit)
    for c, line in data[data["series"] == "slice"].groupby("budget"):
        lowest = line["loss"].idxmin()
        best = data[(data["series"] == "optimum") & (data["budget"] == c)].iloc[0]
        answer = fit.optimal(c)
        assert best["params"] == answer.params.value
        assert (best["params_low"], best["params_high"]) == pytest.approx(answer.params.interval)
        around = line["params"].loc[[lowest - 1, lowest + 1]].to_numpy()
        assert around[0] < best["params"] < around[1]
        assert best["loss"] <= line["loss"].min()
    runs = data[(data["series"] == "run") & data["budget"].notna()]
    at = runs["budget"] / 6 / runs["params"]
    left = np.log(runs["loss_at_budget"]) - np.log(fit.law.loss(runs["params"], at))
    np.testing.assert_allclose(left, fit.residuals[runs.index], atol=1e-12)


def test_budgets_of_designed_runs_are_found():
    """Runs made at three budgets give those back, whatever their order; strays belong to none."""
    c = np.repeat([1e18, 1e19, 1e20], 6)
    n = np.sqrt(c / 120) * np.tile(np.geomspace(0.3, 3, 6), 3)
    c = np.append(c, [4e18, 4e18])
    n = np.append(n, [1e8, 3e8])
    d = c / 6 / n
    order = np.random.default_rng(3).permutation(len(c))
    loss = 1.8 + 480 / n**0.35 + 2100 / d**0.37
    fit = _fit(params=n[order], tokens=d[order], loss=loss[order], n_boot=0)
    flops, index = budgets(fit)
    np.testing.assert_allclose(flops, [1e18, 1e19, 1e20], rtol=1e-9)
    assert (index[np.argsort(order)] == [*np.repeat([0, 1, 2], 6), -1, -1]).all()


def test_mark_is_the_answer_of_the_fit(fits):
    fit = fits["hoffmann"]
    mark = tokens_data(fit).query("series == 'mark'").iloc[0]
    answer = fit.tokens_at(1e9)
    assert (mark["tokens"], mark["low"], mark["high"]) == (answer.value, *answer.interval)
    assert mark["identified"]
    assert mark["note"] == f"D*(1B) = {answer}"
    assert "mark" not in set(tokens_data(fit, mark=None)["series"])


def test_extrapolation_is_told_from_the_range_of_the_runs(fits):
    fit = fits["grid"]
    best = tokens_data(fit).query("series == 'optimum'")
    c = 6 * best["params"] * best["tokens"]
    inside = (c >= fit.runs.compute.min()) & (c <= fit.runs.compute.max())
    assert (inside == (best["decades_beyond"] == 0)).all()
    assert best["params"].max() >= 1e9
    last = best.iloc[-1]
    away = np.log10(6 * last["params"] * last["tokens"] / fit.runs.compute.max())
    assert last["decades_beyond"] == pytest.approx(away)


def test_residuals_are_in_percent_and_outliers_are_named(fits):
    fit = fits["hoffmann"]
    data = residuals_data(fit).query("series == 'run'")
    np.testing.assert_allclose(data["residual"], 100 * fit.residuals)
    worst = data.loc[data["residual"].abs().idxmax()]
    assert worst["outlier"]
    assert f"{worst['row']:.0f}" in _texts(draw(fit, "residuals", _new_axes()))
    assert data.sort_values("normal_quantile")["residual"].is_monotonic_increasing


def test_cloud_shows_correlations_and_free_coefficients_alone(fits, drawn):
    ax = drawn("hoffmann", "cloud")
    draws = fits["hoffmann"].draws
    wanted = np.corrcoef(draws.E, draws.beta)[0, 1]
    assert f"{wanted:+.2f}".replace("-", "−") in _texts(ax)
    held = _fit(**_grid(), n_boot=60, fixed={"E": 1.8})
    assert len(draw(held, "cloud", _new_axes()).child_axes) == 16
    assert any("E held at 1.8" in t for t in _texts(draw(held, "cloud", _new_axes())))
    tied = _fit(**_grid(), n_boot=60, tied=True)
    labels = [a.get_xlabel() for a in draw(tied, "cloud", _new_axes()).child_axes]
    assert "α" in labels
    assert "β" not in labels


def test_profile_is_drawn_from_its_data(drawn):
    """Held and tied coefficients have no profile: one is left here."""
    fit = _fit(**_grid(), n_boot=40, fixed={"E": 1.8}, tied=True)
    data = profile_data(fit, n_boot=20)
    assert set(data["coefficient"]) == {"", "alpha"}
    best = data[data["series"] == "optimum"].iloc[0]
    assert best["value"] == fit.law.alpha
    assert best["low"] < best["value"] < best["high"]
    ax = draw(fit, "profile", _new_axes(), data=data)
    assert [a.get_xlabel() for a in ax.child_axes] == ["α"]
    assert "no bootstrap draws" in " ".join(_texts(drawn("bare", "profile")))


# --- honesty -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", QUICK)
def test_a_fit_that_is_not_identified_says_so_on_every_plot(fits, drawn, kind):
    assert fits["cpu"].verdict == "not identified"
    said = " ".join(_texts(drawn("cpu", kind)))
    assert "Not identified: E is at its bound 0" in said
    assert "identified" not in " ".join(_texts(drawn("hoffmann", kind)))


def test_a_refused_answer_is_no_answer_on_the_plot(fits, drawn):
    mark = tokens_data(fits["cpu"]).query("series == 'mark'").iloc[0]
    assert not mark["identified"]
    assert "D*(1B) is not identified" in mark["note"]
    assert "decades of compute beyond the runs" in mark["note"]
    ax = drawn("cpu", "tokens")
    assert mark["note"] in _texts(ax)
    # The band is far wider than the plot: the plot keeps to where something can be seen.
    low, high = ax.child_axes[0].get_ylim()
    assert high / low < 1e12


@pytest.mark.parametrize("kind", QUICK)
def test_without_draws_there_are_no_bands(fits, drawn, kind):
    ax = drawn("bare", kind)
    assert not [c for a in _axes(ax) for c in a.collections if isinstance(c, PolyCollection)]
    if kind != "residuals":  # has no intervals to miss
        assert "no bootstrap draws" in " ".join(_texts(ax))
    frame = plot_data(fits["bare"], kind)
    if "low" in frame:
        assert frame["low"].isna().all()


def _noise():
    rng = np.random.default_rng(0)
    n, d = 10 ** rng.uniform(7, 9, 40), 10 ** rng.uniform(9, 11, 40)
    return {"params": n, "tokens": d, "loss": np.exp(1 + 0.1 * rng.normal(size=40))}


def _ray():
    rng = np.random.default_rng(0)
    n = 10 ** rng.uniform(7, 9, 30)
    d = 20 * n * np.exp(0.05 * rng.normal(size=30))
    loss = (1.8 + 480 / n**0.35 + 2100 / d**0.37) * np.exp(0.01 * rng.normal(size=30))
    return {"params": n, "tokens": d, "loss": loss}


def _wide():
    n, d = (
        a.ravel() for a in np.meshgrid([1e3, 1e5, 1e7, 1e9, 1e12], [1e4, 1e6, 1e9, 1e12, 1e15], indexing="ij")
    )
    return {"params": n, "tokens": d, "loss": 1 + 40 / n**0.3 + 200 / d**0.3}


def _few():
    grid = _grid()
    chosen = np.random.default_rng(0).choice(24, 8, replace=False)
    return {k: v[chosen] for k, v in grid.items()}


WORLDS = {
    "noise alone": _noise,
    "D = 20 N": _ray,
    "twelve decades": _wide,
    "eight runs": _few,
    "no noise": lambda: _grid(noise=0.0),
    "losses of a millionth": lambda: _grid() | {"loss": _grid()["loss"] * 1e-6},
}


@pytest.mark.parametrize("world", WORLDS)
def test_every_world_can_be_drawn(world):
    """Whatever the runs, plots come without an error, a warning, or a limit that is no number."""
    fit = _fit(**WORLDS[world](), n_boot=10)
    for kind in QUICK:
        ax = draw(fit, kind, _new_axes())
        limits = [v for a in _axes(ax) for v in (*a.get_xlim(), *a.get_ylim())]
        assert np.isfinite(limits).all()


# --- pictures ----------------------------------------------------------------------------------------


DEGENERATE = {
    "a law flat in size": (_grid(), {"fixed": {"alpha": 50}}),
    "a law flat in both": (_grid(), {"fixed": {"alpha": 50, "beta": 50}}),
    "nothing left to fit": (_grid(), {"fixed": {"E": 1.8, "A": 480, "B": 2100, "alpha": 0.35, "beta": 0.37}}),
    "no noise": (_grid(noise=0.0), {}),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_fits_can_be_drawn(name):
    runs, options = DEGENERATE[name]
    fit = _fit(**runs, **options, n_boot=20)
    for kind in QUICK:
        if name == "a law flat in both" and kind in ("contours", "tokens"):
            with pytest.raises(DataError, match="no compute-optimal tokens to draw: A = inf"):
                draw(fit, kind, _new_axes(kind))
        else:
            draw(fit, kind, _new_axes(kind))


def test_every_curve_and_optimum_of_an_isoflop_plot_is_seen():
    n, d = (a.ravel() for a in np.meshgrid([1e7, 3e7, 1e8], [2e8, 2e9, 2e10]))
    fit = _fit(params=n, tokens=d, loss=1.8 + 480 / n**0.35 + 2100 / d**0.37, n_boot=0)
    data = isoflop_data(fit)
    ax = draw(fit, "isoflop", _new_axes("isoflop"), data=data)
    (low, high), (left, right) = ax.get_ylim(), ax.get_xlim()
    best = data[data["series"] == "optimum"]
    near = best[best["params"].between(left, right)]
    assert near["loss"].between(low, high).all()
    for _, line in data[data["series"] == "slice"].groupby("budget"):
        assert line["loss"].between(low, high).any()
    told = any("beyond the plot" in text for text in _texts(ax))
    assert told == (len(near) < len(best))


@pytest.mark.parametrize("kind", QUICK)
def test_draw_on_given_axes_and_on_a_figure_of_its_own(fits, kind):
    import matplotlib.pyplot as plt

    ax = _new_axes()
    assert draw(fits["grid"], kind, ax) is ax
    assert not plt.get_fignums()
    own = draw(fits["grid"], kind)
    assert plt.get_fignums() == [own.figure.number]
    plt.close(own.figure)


def test_files_leave_no_figure_and_no_setting_behind(fits):
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    svg(fits["grid"], "curves")
    assert dict(mpl.rcParams) == before
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("name", ["hoffmann", "cpu"])
def test_nothing_is_cut_off_and_no_label_covers_another(drawn, name, kind):
    ax = drawn(name, kind)
    ax.figure.canvas.draw()
    inside = ax.figure.get_tightbbox()
    width, height = ax.figure.get_size_inches()
    assert inside.x0 > -0.02
    assert inside.y0 > -0.02
    assert inside.x1 < width + 0.02
    assert inside.y1 < height + 0.02
    for axes in _axes(ax):
        axis_labels = [
            [t for t in axis.get_ticklabels() if t.get_visible() and t.get_text()]
            for axis in (axes.xaxis, axes.yaxis)
            if axes.axison
        ]
        texts = [t for t in axes.texts if t.get_visible() and t.get_text()]
        for group in (*axis_labels, texts):
            boxes = [t.get_window_extent().shrunk(0.9, 0.8) for t in group]
            for (i, a), (j, b) in itertools.combinations(enumerate(boxes), 2):
                assert not a.overlaps(b), (group[i].get_text(), group[j].get_text())


def test_axes_say_what_they_measure(drawn):
    ax = drawn("hoffmann", "curves")
    assert ax.get_xlabel() == "training tokens D"
    assert ax.get_ylabel() == "loss (nats/token)"
    ax = drawn("hoffmann", "contours")
    assert ax.get_xlabel() == "total parameters N"
    ticks = [t.get_text() for t in ax.get_xticklabels() if t.get_text()]
    assert {"100M", "1B", "10B"} <= set(ticks)
    assert drawn("cpu", "curves").get_ylabel() == "loss (nats/byte)"


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_save_writes_a_picture_and_its_numbers(fits, suffix, tmp_path):
    first, table = save(fits["grid"], "curves", tmp_path / f"a{suffix}")
    second, _ = save(fits["grid"], "curves", tmp_path / f"b{suffix}")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    assert list(pd.read_csv(table)) == list(plot_data(fits["grid"], "curves"))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [f"a{suffix}", "a.csv", f"b{suffix}", "b.csv"]
    )


def test_wrong_names_are_refused(fits, tmp_path):
    with pytest.raises(DataError, match=r"no plot 'loss': choose one of curves, contours"):
        draw(fits["grid"], "loss")
    with pytest.raises(DataError, match=r"written as \.png, \.svg, \.pdf"):
        save(fits["grid"], "curves", tmp_path / "plot.gif")
    assert not list(tmp_path.iterdir())


def test_a_plot_never_lands_on_the_runs_it_was_made_from(fits, tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("the runs")
    fit = replace(fits["hoffmann"], runs=replace(fits["hoffmann"].runs, source=str(table)))
    with pytest.raises(DataError, match="is the input itself"):
        save(fit, "cloud", tmp_path / "runs.svg")
    assert table.read_text() == "the runs" and not (tmp_path / "runs.svg").exists()


def test_svgs_share_a_page(pictures):
    """Well-formed and small; ids differ between plots and every reference is met."""
    seen = set()
    for kind in QUICK:
        text = pictures(kind)
        assert len(text) < 130_000
        assert "<style" not in text
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg")
        assert root.get("aria-label") == KINDS[kind]
        ids = [e.get("id") for e in root.iter() if e.get("id")]
        assert len(ids) == len(set(ids))
        assert not seen & set(ids)
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', text)) == set(ids)
        seen |= set(ids)


def test_the_small_svg_keeps_its_lines(fits):
    """Dots are shortened strokes; lines that happen to be level are not dots."""
    text = svg(fits["grid"], "residuals")
    assert len(re.findall(r"h\.01", text)) == 4 * (len(fits["grid"].runs) - _n_outliers(fits["grid"]))
    level = re.findall(r"M (\S+) (\S+)L(\S+) (\S+)", text)
    assert sum(y == y2 and abs(float(x) - float(x2)) > 100 for x, y, x2, y2 in level) > 20


def _n_outliers(fit):
    return int(residuals_data(fit).query("series == 'run'")["outlier"].sum())


def test_large_tables_are_thinned_in_the_picture_alone():
    rng = np.random.default_rng(0)
    n, d = 10 ** rng.uniform(7, 9, 1500), 10 ** rng.uniform(9, 11, 1500)
    loss = (1.8 + 480 / n**0.35 + 2100 / d**0.37) * np.exp(0.01 * rng.normal(size=1500))
    fit = _fit(params=n, tokens=d, loss=loss, n_boot=0)
    for kind in ("curves", "residuals"):
        data = plot_data(fit, kind)
        assert (data["series"] == "run").sum() == 1500
        assert len(svg(fit, kind, data=data)) < 200_000


def test_importing_plots_loads_nothing_heavy():
    code = (
        "import sys, scaling.plots; print([m for m in ('matplotlib', 'pandas', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[2])  # fmt: skip
    assert done.stdout.strip() == "[]"


# --- helpers -----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_natural_breaks_are_the_best_of_all(values, count):
    """Against every way to cut the sorted numbers into so many groups."""
    x = np.sort(np.array(values, dtype=float))
    distinct = np.unique(x)
    count = min(count, len(distinct))

    def cost(groups):
        return sum(((g - g.mean()) ** 2).sum() for g in groups)

    best = min(
        cost([x[(x >= a) & (x < b)] for a, b in itertools.pairwise([-1.0, *cut, 99.0])])
        for cut in itertools.combinations(distinct[1:], count - 1)
    )
    found = natural_breaks(x, count)
    assert (np.diff(found) >= 0).all()
    # Numbers are told apart on 200 cells of their range: the cost may be off by that much.
    assert cost([x[found == k] for k in np.unique(found)]) <= best + 0.02 * max(np.ptp(x), 1.0)


def test_groups_of_sizes():
    group, size = size_groups(np.array([1e8, 1.001e8, 3e8, 1e9]))
    assert group.tolist() == [0, 0, 1, 2]
    assert size == pytest.approx([1.0005e8, 3e8, 1e9], rel=1e-4)
    assert len(size_groups(np.geomspace(1e6, 1e9, 40))[1]) == 7


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.1))
@settings(max_examples=100, deadline=None)
def test_spread_keeps_order_and_distance(places, gap):
    given_places = np.array(places)
    out = spread(given_places, gap)
    order = np.argsort(given_places, kind="stable")
    assert (np.diff(out[order]) >= gap * (1 - 1e-9)).all()
    if (np.diff(given_places[order]) >= gap * (1 + 1e-9)).all():
        np.testing.assert_allclose(out, given_places, atol=1e-12)
    assert out.mean() == pytest.approx(given_places.mean(), abs=1e-9)


@given(st.floats(-3, 15), st.floats(0.02, 14))
@settings(max_examples=200, deadline=None)
def test_log_axes_have_a_few_labels(start, length):
    low, high = 10**start, 10 ** (start + length)
    major, minor = _log_ticks(low, high)
    assert 2 <= len(major) <= 9
    assert all(low <= v <= high for v in (*major, *minor))


def test_flops_are_written_with_powers_of_ten():
    assert flops_text(1e18) == "10¹⁸"
    assert flops_text(5.76e20) == "5.76×10²⁰"
    assert flops_text(5.76e20, 2) == "5.8×10²⁰"


def test_notes_are_not_broken():
    assert packed(["aaa", "bbb", "cc"], 8, " · ") == ["aaa", "bbb · cc"]
