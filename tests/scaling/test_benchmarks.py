"""The benchmarks run, at their smallest; memory is held for real, since it does not depend on the machine's load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks import law_coverage, tables
from experiments.benchmarks.coverage import OPTIMUM, Study, grid, measure, studies, table
from experiments.benchmarks.fit_speed import GRID, Scipy, fresh_process, race_bootstrap, race_global
from scaling import datasets, fit_chinchilla, load_runs

ROOT = Path(__file__).parents[2]


def test_ten_thousand_runs_fit_in_300_mb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    seconds, peak = fresh_process(10_000, 40)
    assert seconds > 0 and peak < 300


def test_memory_does_not_grow_with_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    few, many = (fresh_process(240, n_boot)[1] for n_boot in (60, 3000))
    assert many < few + 10


def test_races_against_scipy_run_and_scipy_means_the_same_objective() -> None:
    runs = load_runs(datasets.builtin("hoffmann2022"))
    for race in (race_global(runs, 2), race_bootstrap(runs, 60, 1)):
        assert min(race.ours, race.exact, race.numerical) > 0
        assert len(race.row()) == 6
    fit = fit_chinchilla(runs, n_boot=0)
    rows, law = np.arange(len(runs)), fit.law
    at = np.array([np.log(law.A), np.log(law.B), np.log(law.E), law.alpha, law.beta])
    value, slope = Scipy(runs).both(at, rows)
    assert value == pytest.approx(fit.objective, rel=1e-10) == Scipy(runs).value(at, rows)
    assert np.abs(slope).max() < 1e-8
    away = at + 0.01
    steps = np.eye(5) * 1e-6
    numerical = [
        (Scipy(runs).value(away + s, rows) - Scipy(runs).value(away - s, rows)) / 2e-6 for s in steps
    ]
    assert Scipy(runs).both(away, rows)[1] == pytest.approx(numerical, rel=1e-5, abs=1e-9)
    assert len(GRID) == 4500


def test_coverage_is_measured_and_written_up() -> None:
    study = Study("tiny", 9, grid(4, 3), OPTIMUM)
    one, again = (measure(study, worlds=3, n_boot=40) for _ in range(2))
    assert one.covered == again.covered and one.worlds == 3
    text = table([one])
    assert text.count("\n") == 2 and "| tiny | 3 | 95% |" in text
    assert len({s.name for s in studies()}) == len(studies())


def test_coverage_of_other_laws_is_measured_and_written_up() -> None:
    every = law_coverage.studies()
    assert len({s.name for s in every}) == len(every)
    assert {s.law for s in every} == {"data-constrained", "repetition-penalty", "coupled", "overtraining"}
    study = next(s for s in every if s.name == "over-training, 5 sizes x 5 D")
    one, again = (law_coverage.measure(study, worlds=2, n_boot=20) for _ in range(2))
    assert (one.covered, one.spread) == (again.covered, again.spread) and one.refused == 0
    assert set(one.covered) == {"E", "a", "b", "eta", "loss beyond"}
    cells = [str(cell) for cell in law_coverage.row(one)]
    assert cells[:4] == ["over-training, 5 sizes x 5 D", "25", "2", "200"]
    log = f"| {' | '.join(cells)} | 7 s\n\n| law fitted | runs |\n"
    assert law_coverage.measured(log) == {study.name: (cells, 7.0)}
    assert law_coverage.by_chance(10**9) == pytest.approx(0.95, abs=1e-8)
    assert law_coverage.by_chance(200) == pytest.approx(1 - 2 * (1 + 0.025 * 199) / 201)


def test_tables_go_between_their_markers(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n")
    tables.write("a", tables.markdown(["x", "y"], [[1, 2]]), readme)
    assert (
        readme.read_text() == "before\n<!-- a -->\n| x | y |\n| --- | --- |\n| 1 | 2 |\n<!-- /a -->\nafter\n"
    )
    with pytest.raises(SystemExit, match="<!-- b -->"):
        tables.write("b", "", readme)


def test_the_readme_holds_what_the_scripts_wrote() -> None:
    text = tables.README.read_text()
    for name, part in (
        ("coverage", "points of Hoffmann et al., rows"),
        ("law_coverage", "| coupled, k = 0.6 | 64 | 200 |"),
        ("fit_speed", "4,000 bootstrap refits"),
    ):
        written = text.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]
        assert part in written and "MISSED" not in written


@pytest.mark.slow
def test_the_speed_script_runs_whole() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.benchmarks.fit_speed", "--tiny"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "global fit" in done.stdout and "peak memory" in done.stdout
