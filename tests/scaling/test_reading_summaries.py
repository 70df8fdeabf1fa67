"""Rows that sum up others are no runs; runs whose labels hold such a word are."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from scaling.errors import DataError, DataWarning
from scaling.table import load_runs

RUNS = "run_id,params,tokens,loss\na,1e8,2e9,3.4\nb,2e8,4e9,3.1\nc,4e8,8e9,2.9\n"
N, D, LOSS = [1e8, 2e8, 4e8, 8e8], [2e9, 4e9, 8e9, 1.6e10], [3.4, 3.1, 2.9, 2.7]
BASE = pd.DataFrame({"params": N, "tokens": D, "loss": LOSS})


@pytest.mark.parametrize(
    "word", ["Total", "Mean", "Std", "Average", "Min", "Max", "Sum", "Median", " MEAN ", "Total:", "std"]
)
def test_a_summary_row_is_refused_by_its_line_and_dropped_when_told(word):
    source = f"{RUNS}{word},233333333,4666666667,3.1333\n"
    with pytest.raises(DataError, match="line 5: a summary of other rows") as caught:
        load_runs(io.StringIO(source))
    assert caught.value.rows == (5,)
    with pytest.warns(DataWarning, match="rows_dropped"):
        runs = load_runs(io.StringIO(source), on_bad="drop")
    assert runs.row.tolist() == [2, 3, 4]
    assert runs.audit.dropped == ((5, f"a summary of other rows ({word.strip()!r}), not a run"),)


def test_summaries_of_every_group_and_at_the_foot():
    body = "a,1e8,2e9,3.4\nb,2e8,4e9,3.1\nMean,1.5e8,3e9,3.25\nc,4e8,8e9,2.9\nd,8e8,1.6e10,2.7\nMean,6e8,1.2e10,2.8\n"
    with pytest.raises(DataError) as caught:
        load_runs(io.StringIO("name,params,tokens,loss\n" + body))
    assert caught.value.rows == (4, 7)
    # a label column that does not name the runs, a blank one, and cells left empty
    for head in ("family", "note"):
        family = "dense" if head == "family" else ""
        lines = "".join(f"{family},{n},{d},{x}\n" for n, d, x in zip(N, D, LOSS, strict=True))
        with pytest.raises(DataError) as caught:
            load_runs(io.StringIO(f"{head},params,tokens,loss\n{lines}Mean,,,3.025\nStd,,,0.2586\n"))
        assert caught.value.rows == (6, 7)


def test_a_mean_over_seeds_repeats_the_name_of_its_group():
    body = (
        "A,0,1e8,2e9,3.4\nA,1,1e8,2e9,3.41\nA,Mean,1e8,2e9,3.405\nB,0,2e8,4e9,3.1\nB,**Mean**,2e8,4e9,3.1\n"
    )
    with pytest.raises(DataError) as caught:
        load_runs(io.StringIO("model,seed,params,tokens,loss\n" + body))
    assert caught.value.rows == (4, 6)


def test_what_describe_writes_under_a_table():
    frame = pd.concat([BASE, BASE.describe()])
    for source, first in ((frame, 4), (io.StringIO(frame.to_csv()), 6)):
        with pytest.raises(DataError, match="a summary of other rows") as caught:
            load_runs(source)
        assert caught.value.rows == tuple(range(first, first + 8))


def test_a_total_in_the_index_of_a_frame():
    frame = BASE.copy()
    frame.loc["Total"] = frame.sum()
    with pytest.raises(DataError, match="row 4: a summary of other rows"):
        load_runs(frame)
    with pytest.warns(DataWarning, match="rows_dropped"):
        assert load_runs(frame, on_bad="drop").params.tolist() == N


def test_a_summary_outside_the_selection_does_not_matter():
    source = RUNS.replace("\n", ",0\n").replace("loss,0", "loss,seed") + "Mean,2e8,4e9,3.1,\n"
    assert len(load_runs(io.StringIO(source), where="seed == 0")) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"run_id": ["max-lr", "min-lr", "mean_pool", "total-1"]},
        {"pooling": ["mean", "max", "mean", "max"]},
        {"pooling": ["cls", "cls", "mean", "max"]},
        {"pooling": ["cls", "mean", "mean", "mean"]},
        {"reduction": ["mean"] * 4},
        {"run_id": list("abcd"), "reduction": ["mean", "sum", "mean", "sum"]},
        {"noise": ["none", "10%", "20%", "30%"]},
        {"run_id": list("abcd"), "reduction": ["none", "x", "y", "sum"]},
    ],
)
def test_runs_that_only_mention_such_a_word_stay(more):
    assert load_runs(BASE.assign(**more)).loss.tolist() == LOSS


def test_a_run_that_is_called_so_can_be_kept():
    frame = BASE.assign(name=["a", "b", "c", "Max"])
    with pytest.raises(DataError, match="row 3: a summary"):
        load_runs(frame)
    with pytest.warns(DataWarning, match="summary_rows"):
        assert len(load_runs(frame, allow=["summary_rows"])) == 4
