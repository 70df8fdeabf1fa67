"""RunTable: what from_arrays accepts and refuses, choosing rows, showing itself."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from scaling.audit import Audit
from scaling.errors import DataError, UnitError
from scaling.findings import Finding
from scaling.table import RunTable, load_runs


def table(n: int = 4, **more) -> RunTable:
    N = np.geomspace(1e7, 1e9, n)
    return RunTable.from_arrays(params=N, tokens=20 * N, loss=np.linspace(4.0, 2.5, n), **more)


def test_arrays_come_out_as_float64_copies_that_cannot_be_changed():
    N = np.array([10, 20], dtype=np.int32)
    runs = RunTable.from_arrays(params=N, tokens=[1, 2], loss=(3.0, 2.0), covariates={"lr": [1e-3, np.nan]})
    assert runs.params.dtype == runs.tokens.dtype == runs.loss.dtype == np.float64
    N[0] = 99
    assert runs.params[0] == 10
    with pytest.raises(ValueError, match="read-only"):
        runs.params[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        runs.covariates["lr"][0] = 1.0


def test_int64_counts_do_not_overflow_in_compute():
    # 6·N·D in int64 wraps round from 9.2e18 on: really seen in published exports.
    runs = RunTable.from_arrays(params=np.array([7 * 10**9]), tokens=np.array([2 * 10**12]), loss=[2.0])
    assert runs.compute[0] == pytest.approx(8.4e22)


def test_counts_may_be_written_as_text():
    runs = RunTable.from_arrays(params=["10M", "1.3B"], tokens=["1B", 26e9], loss=["3.9", 2.61])
    assert runs.params.tolist() == [1e7, 1.3e9]
    assert runs.tokens.tolist() == [1e9, 26e9]
    assert runs.loss.tolist() == [3.9, 2.61]


def test_pandas_columns_are_taken():
    frame = pd.DataFrame({"N": [1e7, 1e8], "D": [1e9, 2e9], "L": [3.9, 3.1]}, index=[7, 9])
    runs = RunTable.from_arrays(params=frame.N, tokens=frame.D, loss=frame.L)
    assert len(runs) == 2
    assert runs.row.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "column", "words", "rows"),
    [
        ({"tokens": [1.0]}, "tokens", "1 values and params has 2", ()),
        ({"params": [1.0, -2.0]}, "params", "position 1: -2 is not positive", (1,)),
        ({"loss": [0.0, 1.0]}, "loss", "position 0: 0 is not positive", (0,)),
        ({"tokens": [1.0, np.nan]}, "tokens", r"position 1: missing \(nan\)", (1,)),
        ({"tokens": [np.inf, 1.0]}, "tokens", "position 0: infinite", (0,)),
        ({"params": ["1.3X", "2B"]}, "params", "position 0: '1.3X'", (0,)),
        ({"loss": ["3M", "2"]}, "loss", "position 0: '3M'", (0,)),
        ({"params": [[1.0, 2.0]]}, "params", "one-dimensional", ()),
        ({"params": [1.0, [2.0]]}, "params", "one-dimensional", ()),
        ({"params": 1.0}, "params", "one-dimensional", ()),
        ({"params": [True, False]}, "params", "True is not a number", (0, 1)),
        ({"params": [None, 1.0]}, "params", "position 0", (0,)),
        ({"sigma": [0.1, 0.0]}, "sigma", "position 1", (1,)),
        ({"run_id": ["a"]}, "run_id", "1 values", ()),
        ({"run_id": "ab"}, "run_id", "one label per run", ()),
        ({"covariates": {"lr": ["a", "b"]}}, "lr", "not numbers", ()),
        ({"covariates": {"lr": [1.0]}}, "lr", "1 values", ()),
    ],
)
def test_refusals_name_argument_and_positions(change, column, words, rows):
    given_ = {"params": [1e6, 2e6], "tokens": [1e9, 2e9], "loss": [4.0, 3.0]} | change
    with pytest.raises(DataError, match=words) as caught:
        RunTable.from_arrays(**given_)
    assert caught.value.column == column
    assert caught.value.rows == rows


@pytest.mark.parametrize(
    ("said", "unit"),
    [("bits", "bits/token"), ("Nats", "nats/token"), ("bpb", "bits/byte"), ("unstated", "unstated")],
)
def test_the_loss_unit_gets_its_one_name(said, unit):
    assert table(2, loss_unit=said).loss_unit == unit


def test_arrays_of_perplexities_or_of_an_unknown_unit_are_refused():
    for said in ("perplexity", "ppl"):
        with pytest.raises(UnitError, match=r"loss=numpy\.log\(perplexity\).*load_runs"):
            table(2, loss_unit=said)
    with pytest.raises(UnitError, match="not known"):
        table(2, loss_unit="bits per character")


def test_masked_values_are_missing_ones():
    masked = np.ma.array([1e7, 1e8], mask=[False, True])
    with pytest.raises(DataError, match="params must be finite and positive: position 1: missing"):
        RunTable.from_arrays(params=masked, tokens=[2e8, 2e9], loss=[4.0, 3.0])
    with pytest.raises(DataError, match="row is masked at position 1"):
        table(2, row=np.ma.array([2, 3], mask=[0, 1]))
    with pytest.raises(DataError, match="mask is masked at position 0"):
        table(2).select(np.ma.array([True, True], mask=[1, 0]))
    runs = table(2, seed=np.ma.array([1, 2], mask=[0, 1]), covariates={"lr": masked})
    assert runs.seed.tolist() == [1, None]
    assert np.isnan(runs.covariates["lr"][1])
    columns = {"params": masked, "tokens": [2e8, 2e9], "loss": [4.0, 3.0]}
    with pytest.raises(DataError, match="row 1: params is empty"):
        load_runs(columns)
    nothing_masked = {**columns, "params": np.ma.array([1e7, 1e8])}
    assert load_runs(nothing_masked).params.tolist() == [1e7, 1e8]


def test_no_runs_is_an_error():
    with pytest.raises(DataError, match="empty"):
        RunTable.from_arrays(params=[], tokens=[], loss=[])


def test_many_bad_values_are_counted_not_listed():
    with pytest.raises(DataError, match="and 15 more") as caught:
        RunTable.from_arrays(params=np.zeros(25), tokens=np.ones(25), loss=np.ones(25))
    assert len(caught.value.rows) == 25


def test_select_keeps_everything_of_the_chosen_rows():
    runs = table(
        4,
        sigma=[0.1, 0.2, 0.3, 0.4],
        run_id=list("abcd"),
        covariates={"lr": [1, 2, 3, 4]},
        row=[2, 3, 4, 5],
        frame=pd.DataFrame({"x": range(4)}),
    )
    chosen = runs.select(runs.loss < 3.1)
    assert chosen.run_id.tolist() == ["c", "d"]
    assert chosen.sigma.tolist() == [0.3, 0.4]
    assert chosen.covariates["lr"].tolist() == [3.0, 4.0]
    assert chosen.row.tolist() == [4, 5]
    assert chosen.frame["x"].tolist() == [2, 3]
    assert (chosen.audit.n_read, chosen.audit.n_kept) == (4, 2)
    assert runs.select([3, 0, 0]).run_id.tolist() == ["d", "a", "a"]


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([True], "shape"),
        (np.zeros(4, dtype=bool), "empty"),
        ([], "empty"),
        ([4], "outside"),
        ([-5], "outside"),
        ([0.5], "whole positions"),
        ([[0]], "whole positions"),
    ],
)
def test_bad_selections(mask, words):
    with pytest.raises(DataError, match=words):
        table(4).select(mask)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_select_by_position_is_numpy_indexing(positions):
    runs = table(6)
    assert np.array_equal(runs.select(positions).loss, runs.loss[positions])


def test_one_line_says_it_all():
    runs = RunTable.from_arrays(params=[1e7, 1e9], tokens=[2e8, 3e10], loss=[4.0, 2.5])
    assert repr(runs) == (
        "RunTable: 2 runs, N 10M-1B, D 200M-30B, loss 2.5-4 nats/token, C 1.2e+16-1.8e+20, 20-30 tokens/param"
    )
    assert "1 run," in repr(table(1))
    assert "nats" not in repr(table(2, loss_unit="unstated"))
    assert "(non_embedding)" in repr(table(2, params_kind="non_embedding"))


def test_html_is_escaped_and_short():
    html = table(30, run_id=["<script>alert(1)</script>"] * 30, source="<b>.csv")._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tr>") == 11
    assert "20 more" in html


def test_experts_count_by_active_parameters():
    """U40: 131B total, 16B active, 1.02T tokens is 9.8e22 FLOPs, not 8.0e23."""
    runs = RunTable.from_arrays(params=[131e9], params_active=[16e9], tokens=[1.02e12], loss=[2.0])
    assert runs.compute[0] == pytest.approx(9.79e22, rel=1e-3)
    assert runs.params[0] == 131e9


def test_audit_reads_as_a_block_and_as_json():
    import json

    audit = Audit(
        columns={"params": ("n_params_M", "x 1e6"), "loss": ("val_loss", "")},
        n_read=30,
        n_kept=15,
        dropped=tuple((i, "loss is empty") for i in range(15)),
        findings=(Finding("a", "info", "first"), Finding("b", "warning", "second", {"rows": [1]})),
        unused=("colour",),
        source="runs.csv",
        row_word="line",
    )
    text = str(audit)
    assert text.splitlines()[0] == "Audit of runs.csv: 30 rows read, 15 kept"
    assert "params <- n_params_M  (x 1e6)" in text
    assert "not used: colour" in text
    assert "line 0: loss is empty" in text
    assert "and 5 more" in text
    assert text.index("[warning] b") < text.index("[info] a")
    assert json.loads(json.dumps(audit.to_dict()))["findings"][1]["evidence"] == {"rows": [1]}
    assert audit.finding("b").message == "second"
    assert audit.finding("c") is None
    assert [f.code for f in audit.warnings] == ["b"]


def test_a_table_of_arrays_needs_neither_pandas_nor_the_reader():
    code = (
        "import sys; from scaling.table import RunTable, load_runs\n"
        "r = RunTable.from_arrays(params=['1M'], tokens=[2e7], loss=[3]); repr(r); r.select([0]); "
        "r._repr_html_()\n"
        "bad = [m for m in ('pandas', 'scipy', 'scaling.reading') if m in sys.modules]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
