"""What muP promises, on small models: activations, and how far they move, do not depend on the width."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.benchmarks import tables
from experiments.benchmarks.mup import FIGURES, coordinate_table, interval, transfer_table
from experiments.benchmarks.mup_coordinates import QUANTITIES, coordinates, read_sizes, slopes
from experiments.benchmarks.mup_transfer import (
    LOG2_LRS,
    TRANSFER_BASE,
    TRANSFER_SEEDS,
    TRANSFER_WIDTHS,
    Run,
    best,
    bests,
    drift,
    read_runs,
    transfer_run,
)
from experiments.ladders.markov_source import MarkovSource, write_source

# ------------------------------------------------------------------------------------------- the trainer's muP

WIDTHS, SEEDS, STEPS = (32, 64, 128, 256), (0, 1), 4


@pytest.fixture(scope="module")
def sizes():
    return {
        mup: [
            s
            for width in WIDTHS
            for seed in SEEDS
            for s in coordinates(width, mup, seed, steps=STEPS, base=64)
        ]
        for mup in (True, False)
    }


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_activations_do_not_grow_with_the_width(sizes, quantity):
    """|d ln rms / d ln width| < 0.2 with muP after a few steps; without, what moves grows with the width."""
    with_mup, without = (slopes(sizes[mup], quantity, STEPS).mean() for mup in (True, False))
    assert abs(with_mup) < 0.2
    assert without > {"stream": 0.1, "logits": 0.4, "stream moved": 0.4, "logits moved": 0.4}[quantity]


def test_the_output_of_an_untrained_model_vanishes_with_the_width(sizes):
    """Arrays of constant size times 1/width: the sum of `width` independent terms falls as its root (table 8)."""
    assert slopes(sizes[True], "logits", 0).mean() == pytest.approx(-0.5, abs=0.1)
    assert slopes(sizes[False], "logits", 0).mean() == pytest.approx(0.5, abs=0.1)
    assert abs(slopes(sizes[True], "stream", 0).mean()) < 0.1


# ------------------------------------------------------------------------------------------- the study of transfer


def test_a_source_has_the_entropy_it_says():
    """Against counts: the mean of -ln p over a long draw, which is the entropy within its sampling error."""
    source = MarkovSource.dirichlet(6, seed=3)
    drawn = source.draw(200_000, seed=1)
    again = source.draw(200_000, seed=1)
    assert np.array_equal(drawn, again) and len(drawn) == 200_000 and set(drawn) == set(range(6))
    first = drawn[: 200_000 // 64]  # one chain
    surprise = -np.log(source.table[first[:-2], first[1:-1], first[2:]])[20:]
    assert surprise.mean() == pytest.approx(source.entropy, abs=4 * surprise.std() / len(surprise) ** 0.5)
    assert np.allclose(source.table.sum(axis=-1), 1)
    fair = MarkovSource.dirichlet(6)
    fair_entropy = -(fair.table * np.log(np.maximum(fair.table, 1e-300))).sum(axis=-1)
    assert fair_entropy.min() < fair.entropy < fair_entropy.max() < np.log(6)


def runs_of(optimum, mup=True, width=32, seed=0):
    return [Run(mup, width, float(lr), seed, 2 + 0.1 * (lr - optimum) ** 2) for lr in LOG2_LRS[mup]]


def test_the_best_rate_is_the_vertex_of_the_parabola():
    assert best(runs_of(-9.7)) == (pytest.approx(-9.7), True)
    assert best(runs_of(-20.0)) == (min(LOG2_LRS[True]), False)  # at the end of the grid: said so
    broken = [r if r.log2_lr < -9 else Run(True, 32, r.log2_lr, 0, float("inf")) for r in runs_of(-9.7)]
    assert best(broken)[0] == -10  # what failed beside it makes no parabola


def test_a_drift_is_found_where_there_is_one():
    runs = [
        r
        for seed in range(TRANSFER_SEEDS) for mup, by in ((True, 0.0), (False, -0.9))
        for width in TRANSFER_WIDTHS if mup or width != TRANSFER_BASE
        for r in runs_of(-9.5 + 0.01 * seed + by * np.log2(width / TRANSFER_BASE), mup, width, seed)
    ]  # fmt: skip
    still, moving = drift(bests(runs, True)), drift(bests(runs, False))
    assert still == pytest.approx((0.0, 0.0), abs=0.02)
    assert moving == pytest.approx((-0.9, 0.0), abs=0.02)
    assert transfer_table(runs).splitlines()[-1].count("-0.9") == 3  # the slope and both ends of its interval


def test_an_interval_is_students():
    """From tables: t of 2 degrees of freedom is 4.303 at 97.5%."""
    values = np.array([1.0, 2.0, 3.0])
    assert interval(values) == f"+2.00 [{2 - 4.303 / 3**0.5:+.2f}, {2 + 4.303 / 3**0.5:+.2f}]"


def test_a_run_of_the_study_is_made_by_the_trainer(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.benchmarks.mup_transfer.TRANSFER_STEPS", 40)
    source = MarkovSource.dirichlet(12)
    data = write_source(tmp_path, source, train=30_000, val=2_000)
    good = transfer_run(True, 32, -10.0, 0, data, tmp_path)
    assert source.entropy < good.loss < np.log(12)
    assert (good.mup, good.width, good.log2_lr, good.seed) == (True, 32, -10.0, 0)


# ------------------------------------------------------------------------------------------- what was written


def test_the_readme_holds_the_numbers_of_the_files():
    text = tables.README.read_text()
    runs = read_runs(FIGURES / "mup_transfer.csv")
    assert transfer_table(runs) in text
    sizes = read_sizes(FIGURES / "mup_coordinates.csv")
    assert coordinate_table(sizes) in text
    for name in ("mup_coordinates", "mup_transfer"):
        assert f"figures/{name}.png" in text and (FIGURES / f"{name}.png").stat().st_size > 10_000


def test_the_measured_drift_is_what_the_readme_claims():
    """With muP the best rate stays within a quarter of a doubling per doubling of the width; without, it falls."""
    runs = read_runs(FIGURES / "mup_transfer.csv")
    still, half = drift(bests(runs, True))
    assert abs(still) < 0.25
    falls, half = drift(bests(runs, False))
    assert falls + half < -0.5
