"""Real tables: the embedded ones, and the published ones where they are at hand."""

from __future__ import annotations

import pandas as pd
import pytest

from scaling import datasets
from scaling.errors import DataError
from scaling.table import load_runs

# Doubts are looked at in the audit here; where the warning itself is the point, pytest.warns sees it.
pytestmark = pytest.mark.filterwarnings("ignore::scaling.errors.DataWarning")


# -- the embedded tables ---------------------------------------------------------------------------


def test_embedded_points_load_without_a_doubt():
    runs = load_runs(datasets.builtin("hoffmann2022"))
    assert len(runs) == 234
    assert not runs.audit.warnings
    assert runs.params[0] == 7.382e7


def test_embedded_sweeps_keep_their_units():
    sweep = load_runs(datasets.builtin("cpu_sweep"))
    assert (len(sweep), sweep.loss_unit, sweep.params_kind) == (52, "nats/byte", "total")
    assert {"lr", "batch_tokens", "params_non_embedding"} <= set(sweep.covariates)
    assert {f.code for f in sweep.audit.warnings} == set()
    markov = load_runs(datasets.builtin("cpu_markov"))
    assert (len(markov), markov.loss_unit, markov.params_kind) == (19, "nats/token", "non_embedding")
    # N leaves out the output head there: FLOPs are twice 6·N·D for the smallest size, rightly said
    assert {f.code for f in markov.audit.warnings} == {"flops_disagree"}


@pytest.mark.public_data
def test_published_extraction_gives_245_runs(public_table):
    runs = load_runs(public_table("epoch_chinchilla"))
    assert len(runs) == 245
    frame = pd.read_csv(public_table("epoch_chinchilla"))
    assert runs.params == pytest.approx(frame["Model Size"].to_numpy())
    assert runs.tokens == pytest.approx((frame["Training FLOP"] / (6 * frame["Model Size"])).to_numpy())
    assert not runs.audit.warnings
    # 18 points of the figure were read twice: same size and colour, compute apart by rounding
    assert len(runs.audit.finding("same_loss").evidence["rows"]) == 18


@pytest.mark.public_data
def test_published_collection_needs_one_experiment(public_table):
    path = public_table("open_athena_isoflops")
    with pytest.raises(DataError, match=r"where=\{'experiment': "):
        load_runs(path)
    experiments = pd.read_csv(path).experiment.value_counts()
    for name, rows in experiments.items():
        runs = load_runs(path, where={"experiment": name})
        assert len(runs) == rows
        assert runs.audit.columns["flops"][0] == "budget"
        doubts = {f.code for f in runs.audit.warnings}
        assert doubts == ({"loss_low"} if name == "llama_3__raw_loss" else set())
