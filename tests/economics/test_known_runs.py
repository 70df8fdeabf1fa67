"""Published runs: their GPU-hours, their money, their energy. Nothing here was used to calibrate."""

from __future__ import annotations

import numpy as np
import pytest

from economics.gpu_names import read_table
from economics.run_check import known_runs
from experiments.benchmarks.cost_speed import what_ifs
from experiments.benchmarks.known_runs import KNOWN, predict


def test_coverage_of_published_gpu_hours():
    """80% intervals: the number that holds lies in the binomial 95% range; errors as the README says."""
    runs = known_runs()
    assert len(runs) >= 30
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


@pytest.mark.parametrize("known", KNOWN, ids=lambda k: f"{k.what} {k.answer}")
def test_known_money_and_energy(known):
    run, estimate = predict(known)
    assert estimate.low <= known.figure <= estimate.high, f"{estimate!r}\n{run!r}"
    # An interval that holds everything would hold this too.
    assert estimate.high / estimate.low < 4


def test_a_what_if_takes_no_part_of_a_second():
    assert what_ifs(3) < 3.0
