"""Published runs: their GPU-hours, their money, their energy. None of them was calibrated on."""

from __future__ import annotations

import re

import numpy as np
import pytest

from economics.gpu_names import read_table
from economics.run_check import known_runs
from experiments.benchmarks.cost_speed import LIMIT, measure, what_ifs
from experiments.benchmarks.known_runs import KNOWN, predict


def test_coverage_of_published_gpu_hours():
    """80% intervals: the number that holds lies in the binomial 95% range; errors as the README says."""
    runs = known_runs()
    assert len(runs) >= 25
    assert runs.coverage.honest, runs.coverage
    assert np.median(runs.error) < 0.30
    assert runs.check.interval_score < 1.6


def test_rows_left_out_carry_their_reason():
    rows = read_table("known_runs.csv")
    out = [row for row in rows if row["usable"] != "yes"]
    assert len(rows) == len(out) + len(known_runs())
    assert {row["reason"] for row in out} == {
        "circular",
        "faulty",
        "distilled",
        "duplicate",
        "missing",
        "scope",
    }
    assert all(row["why"] for row in out)


def test_usable_rows_are_sound():
    """No tokens from memory; hours are GPUs x wall time where both are told; no run was calibrated on."""
    calibrated = {row["model"].casefold() for row in read_table("calibration_runs.csv")}
    rows = [row for row in read_table("known_runs.csv") if row["usable"] == "yes"]
    for row in rows:
        assert not re.search(r"\bD\b[^;]*from memory", row["note"]), row["model"]
        assert row["model"].removeprefix("epoch:").casefold() not in calibrated
        if row["n_gpus"] and row["wall_hours"]:
            product = float(row["n_gpus"]) * float(row["wall_hours"])
            assert product == pytest.approx(float(row["gpu_hours"]), rel=0.25), row["model"]
    nemotron = next(row for row in rows if "Nemotron-4 340B" in row["model"])
    flops = 6 * float(nemotron["n_params"]) * float(nemotron["d_tokens"])
    assert flops == pytest.approx(float(nemotron["flop_reported"]), rel=0.05)


def test_no_known_figure_is_that_of_a_calibrated_run():
    calibrated = {row["model"].casefold() for row in read_table("calibration_runs.csv")}
    assert len(calibrated) == 26
    for known in KNOWN:
        assert not any(known.what.casefold().startswith(model) for model in calibrated), known.what


@pytest.mark.parametrize("known", KNOWN, ids=lambda k: f"{k.what} {k.answer}")
def test_known_money_and_energy(known):
    run, estimate = predict(known)
    assert estimate.low <= known.figure <= estimate.high, f"{estimate!r}\n{run!r}"
    # An interval that holds everything would hold this too.
    assert estimate.high / estimate.low < 4


@pytest.mark.slow
def test_a_cost_takes_less_than_twenty_bare_draws():
    """On demand and on spot, with a seed known and never drawn; the minimum over repeats."""
    for what, took, ratio in measure(counts=())[1:]:
        assert float(ratio) < LIMIT * (1.25 if "spot" in what else 1.0), (what, took)


def test_a_what_if_takes_no_part_of_a_second():
    assert what_ifs(3) < 3.0
