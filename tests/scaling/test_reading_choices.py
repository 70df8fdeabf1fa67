"""Choosing columns: what the caller may say, what the table decides, and what is asked back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from scaling.errors import DataError, DataWarning, UnitError
from scaling.table import load_runs

# Doubts are looked at in the audit here; where the warning itself is the point, pytest.warns sees it.
pytestmark = pytest.mark.filterwarnings("ignore::scaling.errors.DataWarning")

N, D, LOSS = [1e8, 2e8, 4e8, 8e8], [2e9, 4e9, 8e9, 1.6e10], [3.4, 3.1, 2.9, 2.7]
BASE = pd.DataFrame({"params": N, "tokens": D, "loss": LOSS})


# -- which parameter count -------------------------------------------------------------------------


def test_total_before_matmul_before_non_embedding():
    kinds = {"params_total": 4.0, "params_matmul": 3.0, "params_non_embedding": 2.0}
    left = dict(kinds)
    for expected in ("total", "matmul", "non_embedding"):
        frame = BASE.drop(columns="params").assign(**{name: np.array(N) * f for name, f in left.items()})
        runs = load_runs(frame)
        assert runs.params_kind == expected
        assert runs.params == pytest.approx(np.array(N) * kinds[f"params_{expected}"])
        others = set(left) - {f"params_{expected}"}
        assert others <= set(runs.covariates)
        found = runs.audit.finding("params_choice")
        assert (found is None) == (not others)
        if found:
            assert found.severity == "info"
            assert set(found.evidence["others"].values()) == others
        del left[f"params_{expected}"]


@pytest.mark.parametrize("name", ["total_embedding_params", "n_embedding_params_total", "embedding_params"])
def test_an_embedding_count_is_never_n(name):
    frame = BASE.rename(columns={"params": "non_embedding_params"}).assign(**{name: 5e7})
    runs = load_runs(frame)
    assert (runs.params.tolist(), runs.params_kind) == (N, "non_embedding")
    assert runs.covariates[name].tolist() == [5e7] * 4
    with pytest.raises(DataError, match="no column for params"):
        load_runs(frame.drop(columns="non_embedding_params"))


@pytest.mark.parametrize(
    "name", ["total_params_incl_embedding", "params_including_embeddings", "params (with embeddings)"]
)
def test_a_count_with_embeddings_is_the_total(name):
    runs = load_runs(BASE.rename(columns={"params": name}).assign(non_embedding_params=1e7))
    assert (runs.params.tolist(), runs.params_kind) == (N, "total")


def test_another_count_can_be_asked_for():
    frame = BASE.assign(params_no_embed=np.array(N) * 0.8)
    assert load_runs(frame).params_kind == "unstated"
    runs = load_runs(frame, columns={"params": "params_no_embed"})
    assert runs.params_kind == "non_embedding"
    assert runs.covariates["params_unstated"].tolist() == N


def test_two_plain_counts_that_differ_are_ambiguous():
    frame = BASE.assign(params_total=np.array(N) * 1.2)
    with pytest.raises(DataError, match=r"2 columns could be params: .*'params'.*'params_total'"):
        load_runs(frame)
    same = BASE.assign(n_params_M=np.round(np.array(N) / 1e6))
    runs = load_runs(same)
    assert runs.audit.columns["params"] == ("params", "")
    assert "'n_params_M' say the same" in runs.audit.finding("same_quantity").message


def test_weak_names_give_way():
    frame = BASE.assign(
        size=["100M", "200M", "400M", "800M"], C=[1, 2, 3, 4], N=[1, 2, 3, 4], budget=[5.0] * 4
    )
    runs = load_runs(frame)
    assert runs.params.tolist() == N
    assert runs.flops is None  # a budget of 5 is dollars, a C of 4 something else
    letters = BASE.rename(columns={"params": "N", "tokens": "D", "loss": "L"}).assign(
        C=6 * np.array(N) * np.array(D)
    )
    runs = load_runs(letters)
    assert (runs.params.tolist(), runs.tokens.tolist(), runs.loss.tolist()) == (N, D, LOSS)
    assert runs.flops == pytest.approx(runs.compute)


# -- derived ---------------------------------------------------------------------------------------


def test_tokens_from_flops():
    frame = pd.DataFrame({"Model Size": N, "Training FLOP": 6 * np.array(N) * np.array(D), "loss": LOSS})
    runs = load_runs(frame)
    assert runs.tokens == pytest.approx(D)
    assert runs.audit.columns["tokens"] == ("Training FLOP", "C / 6N")
    assert runs.audit.finding("tokens_from_flops").severity == "info"


def test_params_from_flops_is_a_doubt():
    frame = pd.DataFrame({"tokens": D, "flops": 6 * np.array(N) * np.array(D), "loss": LOSS})
    with pytest.warns(DataWarning, match="params_from_flops"):
        assert load_runs(frame).params == pytest.approx(N)


def test_nothing_is_derived_from_a_throughput():
    frame = pd.DataFrame({"params": N, "tflops": [180.0] * 4, "loss": LOSS})
    with pytest.raises(DataError, match="no column for tokens"):
        load_runs(frame)


def test_a_missing_flop_cell_is_a_bad_row_where_tokens_hang_on_it():
    frame = pd.DataFrame({"params": N, "flops": [1e18, None, 3e18, 4e18], "loss": LOSS})
    with pytest.raises(DataError, match="row 1: no tokens: C / 6N needs a value of flops"):
        load_runs(frame)


# -- told by the caller ----------------------------------------------------------------------------


def test_columns_take_units_numbers_and_names_in_any_case():
    frame = pd.DataFrame({"size": [100, 200], "Steps": [1000, 2000], "Metric": [3.4, 3.1]})
    runs = load_runs(
        frame,
        columns={"params_M": "SIZE", "batch_tokens": "0.5M", "val_loss": "metric"} | {"batch_tokens": 5e5},
    )
    assert runs.params.tolist() == [1e8, 2e8]
    assert runs.tokens.tolist() == [5e8, 1e9]
    assert runs.loss_kind == "validation"
    one_model = load_runs(frame, columns={"params": 1e8, "batch_tokens": 5e5, "loss": "Metric"})
    assert one_model.params.tolist() == [1e8, 1e8]
    assert one_model.audit.columns["params"] == ("argument", "1e+08 for all rows")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"parms": "params"}, "no such quantity; did you mean 'params'"),
        ({"zzz": "params"}, "known: params, tokens, loss"),
        ({"loss": "los"}, "no column 'los'.*did you mean 'loss'"),
        ({"loss": "zzz"}, "Columns: params, tokens, loss"),
        ({"params": "params", "params_M": "tokens"}, "gives params twice"),
        ({"params": -1.0}, "finite and positive"),
        ({"params": [1, 2]}, "not a number"),
    ],
)
def test_what_columns_cannot_mean(columns, words):
    with pytest.raises(DataError, match=words):
        load_runs(BASE, columns=columns)


def test_near_names_are_shown():
    frame = BASE.rename(columns={"loss": "loss_openlm"})
    with pytest.raises(
        DataError, match=r"Names that contain 'loss': loss_openlm.*columns=\{'loss': 'loss_openlm'\}"
    ):
        load_runs(frame)


def test_messages_stay_short_for_tables_of_many_columns():
    wide = pd.DataFrame(np.ones((3, 1500)), columns=[f"metric/loss_{i}" for i in range(1500)])
    for more in ({}, {"columns": {"loss": "x"}}, {"where": "x == 1"}, {"where": {"x": 1}}):
        with pytest.raises(DataError, match=r", \.\.\. \(\d+ in all\)") as caught:
            load_runs(wide if not more else pd.concat([BASE, wide], axis=1), **more)
        assert len(str(caught.value)) < 2500
    with pytest.raises(DataError, match=r"no column for params and tokens and loss.*\(1500 in all\)"):
        load_runs(wide)


@pytest.mark.parametrize("columns", ["loss", ["loss"], {"loss"}, 3])
def test_columns_must_be_a_mapping(columns):
    with pytest.raises(DataError, match="give a mapping of quantities to columns") as caught:
        load_runs(BASE, columns=columns)
    assert caught.value.column == "columns"


def test_warmup_tokens_may_be_written_as_people_write_them():
    runs = load_runs(BASE, warmup_tokens="2B")
    assert runs.covariates["warmup_tokens"].tolist() == [2e9] * 4
    assert runs.audit.finding("inside_warmup").message.startswith("row 0 has fewer tokens than 2x")
    # 4e9 tokens are just twice the warm-up, and 2.1e9 is too much for them
    runs = load_runs(BASE, warmup_tokens="2.1B")
    assert runs.audit.finding("inside_warmup").message.startswith("rows 0, 1 have fewer tokens than 2x")
    for wrong in ("2X", "-2B", "0"):
        with pytest.raises(DataError, match=r"2X|warmup_tokens"):
            load_runs(BASE, warmup_tokens=wrong)


def test_one_run_is_not_runs():
    runs = load_runs(BASE.assign(run_id="a"))
    assert runs.audit.finding("checkpoints").message.startswith("4 rows come from 1 run: rows of one run")
    assert (
        "come from 2 runs:"
        in load_runs(BASE.assign(run_id=list("aabb"))).audit.finding("checkpoints").message
    )
    sparse = load_runs(BASE.assign(active_params=[1e8, 2e8, 4e8, 1e8]))
    assert "row 3 is a mixture of experts" in sparse.audit.finding("mixture_of_experts").message


def test_options_are_checked():
    for more in (
        {"on_bad": "ignore"},
        {"bytes_per_token": 0.0},
        {"warmup_tokens": np.nan},
        {"allow": "everything"},
    ):
        with pytest.raises(DataError):
            load_runs(BASE, **more)
    with pytest.raises(UnitError):
        load_runs(BASE, loss_unit="bits per character")


def test_weak_names_of_labels_must_look_the_part():
    # "state" may be a place, "unit" a machine, "run" a number that starts again in every group
    frame = BASE.assign(state=["Ohio", "Texas", "Ohio", "Texas"], unit="A100", run=[1, 2, 1, 2])
    runs = load_runs(frame)
    assert len(runs) == 4
    assert runs.run_id is None
    assert load_runs(BASE.assign(run=["x-1", "x-2", "x-1", "x-2"])).run_id.tolist() == ["x-1", "x-2"] * 2
    assert load_runs(BASE.assign(run=[1, 2, 3, 4])).run_id.tolist() == ["1", "2", "3", "4"]
    assert len(load_runs(BASE.assign(state=["finished", "crashed"] * 2))) == 2
    assert load_runs(BASE.assign(unit="bits/token")).audit.columns["loss_unit"] == ("unit", "")


def test_words_may_be_said_for_the_whole_table():
    assert load_runs(BASE, columns={"tokens_kind": "padded"}).audit.finding("tokens_padded") is not None
    assert load_runs(BASE, columns={"loss_unit": "nats/byte"}).loss_unit == "nats/byte"
    assert load_runs(BASE, columns={"loss_kind": "train"}).loss_kind == "train"
    # not so for labels: a misspelt column would make all rows one run
    with pytest.raises(DataError, match="no column 'runid'"):
        load_runs(BASE, columns={"run_id": "runid"})


def test_compute_by_its_letter_gives_tokens_and_a_rate_is_asked_about():
    letters = pd.DataFrame({"N": N, "C": 6 * np.array(N) * np.array(D), "L": LOSS})
    assert load_runs(letters).tokens == pytest.approx(D)
    rate = pd.DataFrame({"params": N, "PFLOPs": 6e-15 * np.array(N) * np.array(D), "loss": LOSS})
    with pytest.raises(DataError, match=r"if it is the total: columns=\{'flops': 'PFLOPs'\}"):
        load_runs(rate)
    assert load_runs(rate, columns={"flops": "PFLOPs"}).tokens == pytest.approx(D)


def test_runs_that_were_read_are_not_read_again():
    runs = load_runs(BASE)
    assert load_runs(runs) is runs
    with pytest.raises(DataError, match="select"):
        load_runs(runs, where={"params": 1e8})
