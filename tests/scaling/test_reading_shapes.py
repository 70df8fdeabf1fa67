"""JSON as programs nest it, and columns that share a name."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from scaling.errors import DataError
from scaling.table import load_runs

N, D, LOSS = [1e8, 2e8, 4e8, 8e8], [2e9, 4e9, 8e9, 1.6e10], [3.4, 3.1, 2.9, 2.7]
BASE = pd.DataFrame({"params": N, "tokens": D, "loss": LOSS, "run_id": list("abcd")})


@pytest.mark.parametrize("orient", ["columns", "index", "records", "split", "table"])
@pytest.mark.parametrize("index", [None, list("wxyz")])
def test_json_of_pandas_is_read_in_every_orientation(orient, index):
    frame = BASE if index is None else BASE.set_axis(index)
    runs = load_runs(io.StringIO(frame.to_json(orient=orient)))
    assert runs.params.tolist() == N
    assert runs.tokens.tolist() == D
    assert runs.loss.tolist() == LOSS
    assert runs.run_id.tolist() == list("abcd")
    assert runs.row.tolist() == [0, 1, 2, 3]


def test_a_dict_of_pandas_is_read():
    assert load_runs(BASE.to_dict()).params.tolist() == N
    assert load_runs(BASE.to_dict(orient="index")).loss.tolist() == LOSS


@pytest.mark.parametrize("indent", [None, 2])
def test_runs_under_a_name(indent):
    whole = {"project": "sweep", "runs": BASE.to_dict(orient="records")}
    assert load_runs(io.StringIO(json.dumps(whole, indent=indent))).loss.tolist() == LOSS
    assert load_runs(whole).loss.tolist() == LOSS
    with pytest.raises(DataError, match=r"several lists of records \(runs, old\)"):
        load_runs(whole | {"old": whole["runs"]})


@pytest.mark.parametrize("indent", [None, 2])
def test_one_run_with_lists_beside_its_numbers_is_one_run(indent):
    run = {"params": 1e8, "tokens": 2e9, "loss": 3.4, "layers": [1, 2], "evals": [{"task": "x"}]}
    runs = load_runs(io.StringIO("\n" + json.dumps(run, indent=indent)))
    assert (runs.params.tolist(), runs.loss.tolist(), runs.row.tolist()) == ([1e8], [3.4], [2])


def test_split_rows_must_fit_their_names():
    with pytest.raises(DataError, match="row 1 of data has not one value for each of 3 columns"):
        load_runs({"columns": ["params", "tokens", "loss"], "data": [[1e8, 2e9, 3.4], [1e8, 2e9]]})


def test_columns_of_arrays_stay_columns():
    columns = {name: BASE[name].to_numpy() for name in ("params", "tokens", "loss")}
    assert load_runs(columns).params.tolist() == N
    with pytest.raises(DataError, match="'loss' must be a sequence of values, not float"):
        load_runs(columns | {"loss": 3.0})


def test_columns_that_share_a_name_and_are_not_used_do_not_matter():
    text = "params,tokens,loss,lr,note,lr\n1e8,2e9,3.4,1,a,3\n2e8,4e9,3.1,2,b,4\n"
    frame = pd.read_csv(io.StringIO(text)).set_axis(["params", "tokens", "loss", "lr", "note", "lr"], axis=1)
    for source in (io.StringIO(text), frame):
        runs = load_runs(source)
        assert runs.loss.tolist() == [3.4, 3.1]
        assert runs.covariates["lr (column 4)"].tolist() == [1.0, 2.0]
        assert runs.covariates["lr (column 6)"].tolist() == [3.0, 4.0]
        assert "lr" not in runs.covariates
        assert runs.audit.finding("same_names").severity == "info"
    # none of them is meant by the bare name
    with pytest.raises(DataError, match=r"no column 'lr'.*lr \(column 4\), note"):
        load_runs(frame, columns={"seed": "lr"})
    with pytest.raises(DataError, match="no column 'lr'"):
        load_runs(frame, where={"lr": 1})
    assert len(load_runs(frame, where={"lr (column 6)": 3})) == 1
    assert frame.columns.tolist() == ["params", "tokens", "loss", "lr", "note", "lr"]
    with pytest.raises(DataError, match="two columns are named 'loss'"):
        load_runs(pd.concat([frame, frame[["loss"]]], axis=1))


def test_data_sets_in_columns_of_one_name_are_still_told_apart():
    n = np.geomspace(1e8, 1e10, 12)
    loss = 1.7 + 400 / n**0.34
    frame = pd.DataFrame({"params": n, "tokens": 20 * n, "loss": np.r_[loss[:6], 1.5 * loss[6:]]})
    frame = pd.concat([frame, frame.assign(loss=np.r_[1.5 * loss[:6], loss[6:]])], ignore_index=True)
    frame["dataset"] = ["a"] * 6 + ["b"] * 12 + ["a"] * 6
    with pytest.raises(DataError, match="names 2 data sets"):
        load_runs(frame)
    twice = pd.concat([frame, frame[["dataset"]]], axis=1)
    with pytest.raises(DataError, match=r"'dataset \(column 4\)' names 2 data sets"):
        load_runs(twice)
