"""Which rows are taken: where=, status, and what they leave behind."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from scaling.errors import DataError, DataWarning
from scaling.table import load_runs

N, D, LOSS = [1e8, 2e8, 4e8, 8e8], [2e9, 4e9, 8e9, 1.6e10], [3.4, 3.1, 2.9, 2.7]
BASE = pd.DataFrame({"params": N, "tokens": D, "loss": LOSS})


# -- where -----------------------------------------------------------------------------------------

TAGGED = BASE.assign(seed=[0, 0, 1, 1], batch=["512", "512", "2048", "2048"], name=["a", "b", "c", None])


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("seed == 0", [0, 1]),
        ("seed == 0 and params > 1.5e8", [1]),
        ("name == 'c'", [2]),
        ({"seed": 1}, [2, 3]),
        ({"seed": [0, 1], "name": ("a", "c")}, [0, 2]),
        ({"batch": 512}, [0, 1]),
        (lambda f: f.loss < 3, [2, 3]),
        (lambda f: f[f.loss < 3], [2, 3]),
        (lambda f: [True, False, False, True], [0, 3]),
        ([True, False, False, True], [0, 3]),
        (np.array(LOSS) < 3, [2, 3]),
        (BASE.loss < 3, [2, 3]),
        ({"seed": pd.Series([1])}, [2, 3]),
        ({"seed": range(1)}, [0, 1]),
    ],
)
def test_where_selects(where, kept):
    assert load_runs(TAGGED, where=where).row.tolist() == kept


def test_where_reads_text_tables_as_numbers_and_quantities_by_their_name():
    source = "n_params_M,tokens_B,loss,batch,run\n100,2,3.4,512,007\n200,4,3.1,2048,008\n"
    assert load_runs(io.StringIO(source), where="batch == 512").row.tolist() == [2]
    assert load_runs(io.StringIO(source), where="params > 1.5e8").row.tolist() == [3]
    assert load_runs(io.StringIO(source), where={"run": "007"}).row.tolist() == [2]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("seed == 7", "selects none of 4 rows. Present: seed: 0, 1"),
        ({"seed": 7}, "Present: seed: 0, 1"),
        ({"sede": 7}, "no column 'sede'.*seed"),
        ("sede == 7", "cannot be evaluated.*seed"),
        ("seed ==", "cannot be evaluated"),
        ("seed + 1", "one True or False per row"),
        (lambda f: [True], "one True or False per row"),
        (lambda f: 1 / 0, "ZeroDivisionError"),
        (3, "cannot be evaluated"),
        (lambda f: f[f.loss < 3].reset_index(drop=True), "not those of the frame: keep its index"),
        ("seed = 7", "where='seed = 7' assigns instead of comparing.*use =="),
        ("sede = 7 and params > 1e8", "use =="),
        ([0, 3], "one True or False per row"),
        ([True, False], r"where=<list of 2> must give one True or False per row.*\(2,\)"),
        ([False] * 4, "selects none of 4 rows"),
        (np.ma.array([True] * 4, mask=[0, 0, 0, 1]), "one True or False"),
        (BASE, "one True or False"),
    ],
)
def test_where_that_does_not_work(where, words):
    with pytest.raises(DataError, match=words):
        load_runs(TAGGED, where=where)


def test_bad_rows_outside_the_selection_do_not_matter():
    source = "params,tokens,loss,seed\n1e8,2e9,3.4,0\n2e8,4e9,oops,1\n"
    assert len(load_runs(io.StringIO(source), where={"seed": 0})) == 1


def test_cells_that_are_lists_or_arrays_are_carried_along():
    shapes = [np.arange(2000), np.arange(2000), np.arange(2000) * (np.arange(2000) != 1000), np.array([1.0])]
    frame = BASE.assign(layers=[[1, 2], [1, 2], [3], []], shape=shapes, tags=[{"a"}, {"a"}, set(), ({},)])
    runs = load_runs(frame)
    assert runs.loss.tolist() == LOSS
    assert runs.frame["layers"].tolist() == [[1, 2], [1, 2], [3], []]
    assert load_runs(frame, where={"layers": [[3]]}).row.tolist() == [2]
    with pytest.raises(DataError, match=r"Present: layers: \[1, 2\], \[3\], \[\]"):
        load_runs(frame, where={"layers": "none"})
    # rows 0 and 1 are the same run, row 2 differs in one number in the middle of a long array
    frame = frame.assign(params=1e8, tokens=2e9, loss=3.4, layers=[[1]] * 4, tags=[{"a"}] * 4)
    with pytest.warns(DataWarning, match="duplicates"):
        assert load_runs(frame).row.tolist() == [0, 2, 3]


# -- status ----------------------------------------------------------------------------------------


def test_only_finished_runs_are_taken():
    frame = BASE.assign(status=["ok", "truncated", "FAILED", "finished"])
    runs = load_runs(frame)
    assert runs.row.tolist() == [0, 3]
    assert runs.audit.dropped == ((1, "status truncated"), (2, "status FAILED"))
    assert runs.audit.finding("status").severity == "info"
    assert runs.audit.finding("status").evidence["counts"] == {"truncated": 1, "FAILED": 1}
    assert len(load_runs(frame, status=None)) == 4
    assert load_runs(frame, status=["ok", "truncated"]).row.tolist() == [0, 1, 3]
    with pytest.raises(DataError, match="there are: 4 crashed"):
        load_runs(BASE.assign(State="crashed"))


def test_a_failed_run_may_lack_its_loss():
    frame = BASE.assign(status=["ok", "ok", "ok", "failed"])
    frame.loc[3, "loss"] = np.nan
    assert len(load_runs(frame)) == 3
