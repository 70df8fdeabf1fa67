"""Every way a table can come in gives the same runs, with row numbers a person can find."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys

import numpy as np
import pandas as pd
import pytest

from scaling.errors import DataError, DataWarning
from scaling.table import load_runs

CSV = "run_id,params,tokens,loss,lr\na,1.3B,26B,2.61,0.001\nb,125m,2.5B,3.40,\n"
RECORDS = [
    {"run_id": "a", "params": "1.3B", "tokens": 26e9, "loss": 2.61, "lr": 0.001},
    {"run_id": "b", "params": 125_000_000, "tokens": "2.5B", "loss": 3.40, "lr": None},
]


def check(runs, *, rows=(0, 1)):
    assert runs.params.tolist() == [1.3e9, 125e6]
    assert runs.tokens.tolist() == [26e9, 2.5e9]
    assert runs.loss.tolist() == [2.61, 3.40]
    assert runs.run_id.tolist() == ["a", "b"]
    assert runs.covariates["lr"][0] == 0.001
    assert np.isnan(runs.covariates["lr"][1])
    assert runs.row.tolist() == list(rows)
    assert len(runs.frame) == 2


LINES = (2, 3)
TEXTS = {
    "comma": CSV,
    "tab": CSV.replace(",", "\t"),
    "semicolon": CSV.replace(",", ";"),
    "pipe": CSV.replace(",", "|"),
    "blanks": "run_id params tokens loss lr\na 1.3B 26B 2.61 0.001\nb 125m 2.5B  3.40 nan\n",
    "windows lines": CSV.replace("\n", "\r\n"),
    "no last newline": CSV.rstrip("\n"),
    "quotes": CSV.replace("1.3B", '"1,300,000,000"').replace("a,", '"a",'),
    "blanks after commas": CSV.replace(",", ", "),
    "BOM": "\ufeff" + CSV,
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_tables(name, tmp_path):
    path = tmp_path / "runs.txt"
    path.write_text(TEXTS[name], encoding="utf-8", newline="")
    check(load_runs(path), rows=LINES)
    check(load_runs(str(path)), rows=LINES)
    check(load_runs(io.StringIO(TEXTS[name])), rows=LINES)
    check(load_runs(io.BytesIO(TEXTS[name].encode())), rows=LINES)


def test_trailing_commas_are_no_cells():
    check(
        load_runs(io.StringIO(CSV.replace("2.61,0.001", "2.61,0.001,,").replace("3.40,", "3.40,,,"))),
        rows=LINES,
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings(encoding, tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(
        CSV.replace("lr", "lr,größe").replace("0.001", "0.001,1").replace("3.40,", "3.40,,2").encode(encoding)
    )
    runs = load_runs(path)
    check(runs, rows=LINES)
    assert (runs.audit.finding("encoding") is not None) == (encoding == "latin-1")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files(compress, tmp_path):
    path = tmp_path / "runs.csv.any"
    path.write_bytes(compress(CSV.encode()))
    check(load_runs(path), rows=LINES)


def test_parquet(tmp_path):
    frame = pd.DataFrame(RECORDS).astype({"params": str, "tokens": str})
    frame.to_parquet(tmp_path / "runs.parquet")
    check(load_runs(tmp_path / "runs.parquet"))


def test_json_lines_have_line_numbers(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, RECORDS)) + "\n\n")
    check(load_runs(path), rows=(1, 2))
    path.write_text(json.dumps(RECORDS[0]) + "\n{broken\n")
    with pytest.raises(DataError, match="line 2: not valid JSON") as caught:
        load_runs(path)
    assert caught.value.rows == (2,)


def test_json_lists_and_columns(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(RECORDS))
    check(load_runs(path))
    path.write_text(json.dumps({key: [r[key] for r in RECORDS] for key in RECORDS[0]}, indent=1))
    check(load_runs(path))


def test_nested_json_records_are_flattened(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"config": {"n_params": 1e8}, "eval": {"loss": 3.0}, "tokens": 2e9}\n')
    runs = load_runs(path, columns={"params": "config/n_params"})
    assert runs.loss_kind == "validation"
    assert runs.audit.columns["params"] == ("config/n_params", "")


def test_python_objects():
    check(load_runs(RECORDS))
    check(load_runs({key: [r[key] for r in RECORDS] for key in RECORDS[0]}))
    check(load_runs({key: np.array([r[key] for r in RECORDS], dtype=object) for key in RECORDS[0]}))
    check(load_runs(pd.DataFrame(RECORDS)))
    check(load_runs(pd.DataFrame(RECORDS, index=[10, 20])))
    check(load_runs(pd.DataFrame(RECORDS).set_index("run_id")))
    check(load_runs(pd.DataFrame(RECORDS).convert_dtypes()))
    check(load_runs(pd.DataFrame(RECORDS).astype({"run_id": "category"})))


def test_an_arrow_table_is_a_table():
    import pyarrow as pa

    check(load_runs(pa.table({key: [str(r[key]) for r in RECORDS] for key in RECORDS[0]})))


def test_integer_columns_with_missing_values_keep_big_counts():
    frame = pd.DataFrame(
        {"params": pd.array([7 * 10**9, None], dtype="Int64"), "tokens": [1e9, 2e9], "loss": [3, 2]}
    )
    with pytest.raises(DataError, match="row 1: params is empty"):
        load_runs(frame)
    with pytest.warns(DataWarning, match="rows_dropped"):
        assert load_runs(frame, on_bad="drop").params.tolist() == [7e9]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CSV.encode())))
    runs = load_runs("-")
    check(runs, rows=LINES)
    assert runs.source == "standard input"


def test_the_frame_handed_in_is_not_changed():
    frame = pd.DataFrame(RECORDS)
    before = frame.copy(deep=True)
    load_runs(frame, where={"run_id": "a"})
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("   \n\n", "is empty"),
        ("params,tokens,loss\n", "no rows: params, tokens, loss"),
        ("1e8,2e9,3.1\n2e8,3e9,3.0\n", "line 1: the first line holds only numbers"),
        ("params,params,tokens,loss\n1e8,1e8,2e9,3\n", "two columns are named 'params'"),
        ("[]", "holds no rows"),
        ("[1, 2]", "row 0 is no record"),
        ("{}", "no column for params and tokens and loss"),
        ('{"params": [1e8], "tokens": [1e9, 2e9]}', "differ in length"),
        ("[[[[", "not valid JSON"),
        ("PK\x03\x04rest", "spreadsheet"),
        ("PAR1 and not", "Parquet"),
        ("a\0b", "binary"),
    ],
)
def test_what_is_no_table(text, words):
    with pytest.raises(DataError, match=words):
        load_runs(io.StringIO(text))


def test_frames_with_awkward_columns_and_cells():
    frame = pd.DataFrame([[1e8, 1e8, 2e9, 3.0]], columns=["params", "params", "tokens", "loss"])
    with pytest.raises(DataError, match="two columns are named 'params'"):
        load_runs(frame)
    multi = pd.DataFrame(
        [[1e8, 2e9, 3.0]],
        columns=pd.MultiIndex.from_tuples([("n", "params"), ("n", "tokens"), ("val", "loss")]),
    )
    assert load_runs(multi).loss_kind == "validation"
    with pytest.raises(DataError, match="row 0: loss is empty"):
        load_runs([{"params": 1e8, "tokens": 2e9, "loss": pd.NA}])


def test_a_cell_too_long_for_a_table():
    with pytest.raises(DataError, match="line 2: not readable as CSV"):
        load_runs(io.StringIO("params,tokens,loss\n1e8,2e9," + "9" * 200_000 + "\n"))


def test_what_is_no_file(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load_runs(tmp_path / "none.csv")
    with pytest.raises(DataError, match="cannot read"):
        load_runs(tmp_path / ("x" * 300))
    with pytest.raises(DataError, match="an address"):
        load_runs("https://example.org/runs.csv")
    with pytest.raises(DataError, match="is a folder"):
        load_runs(tmp_path)
    with pytest.raises(DataError, match=r"io\.StringIO"):
        load_runs(CSV)
    with pytest.raises(DataError, match="cannot read a table from int"):
        load_runs(3)
    with pytest.raises(DataError, match="must be a sequence"):
        load_runs({"params": 3})
    (tmp_path / "broken.gz").write_bytes(gzip.compress(CSV.encode())[:30])
    with pytest.raises(DataError, match="damaged"):
        load_runs(tmp_path / "broken.gz")


def test_line_numbers_are_those_of_an_editor():
    """Blank lines, comments and cells that span lines all count."""
    text = '# sweep of May\n\nparams,tokens,note,loss\n1e8,2e9,"two\nlines",3.1\n\n2e8,4e9,,oops\n'
    with pytest.raises(DataError, match=r"line 7: loss: 'oops'") as caught:
        load_runs(io.StringIO(text))
    assert caught.value.rows == (7,)


def test_a_header_may_be_a_comment():
    runs = load_runs(io.StringIO("# params tokens loss\n1e8 2e9 3.1\n2e8 3e9 3.0\n"))
    assert runs.params.tolist() == [1e8, 2e8]
    assert load_runs(io.StringIO("#params,tokens,loss\n1e8,2e9,3.1\n")).loss.tolist() == [3.1]


def test_the_separator_line_of_a_spreadsheet():
    runs = load_runs(io.StringIO("sep=;\nparams;tokens;loss\n1e8;2e9;3,1\n2e8;4e9;2,9\n"))
    assert runs.loss.tolist() == [3.1, 2.9]
    assert runs.row.tolist() == [3, 4]


def test_broken_rows_are_bad_rows():
    text = "params,tokens,loss\n1e8,2e9\n2e8,3e9,3.0\nparams,tokens,loss\n4e8,5e9,2.9,x\n"
    with pytest.raises(DataError) as caught:
        load_runs(io.StringIO(text))
    assert "line 2: has 2 cells, the header has 3" in str(caught.value)
    assert "line 4: repeats the header" in str(caught.value)
    assert "line 5: has 4 cells" in str(caught.value)
    assert caught.value.rows == (2, 4, 5)


# -- decimal comma ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "params;tokens;loss\n1,3B;26B;2,61\n125m;2,5B;3,40\n",
        "params;tokens;loss\n1.300.000.000;26B;2,61\n125.000.000;2,5B;3,40\n",
        'params,tokens,loss\n"1,3B",26B,"2,61"\n125m,"2,5B","3,40"\n',
        "params\ttokens\tloss\n1,3B\t26B\t2,610\n125m\t2,5B\t3,400\n",
        "params;tokens;loss\n1300000000;26000000000;2,610\n125000000;2500000000;3,400\n",
    ],
)
def test_decimal_comma(text):
    runs = load_runs(io.StringIO(text))
    assert runs.params.tolist() == [1.3e9, 125e6]
    assert runs.tokens.tolist() == [26e9, 2.5e9]
    assert runs.loss.tolist() == [2.61, 3.40]
    assert runs.audit.finding("decimal_comma").severity == "info"


def test_commas_between_thousands_are_not_decimal():
    runs = load_runs(io.StringIO('params,tokens,loss\n"1,300,000","26,000,000",2.61\n'))
    assert runs.params.tolist() == [1.3e6]
    assert runs.audit.finding("decimal_comma") is None


def test_two_meanings_of_the_comma_are_an_error():
    with pytest.raises(DataError, match="decimal mark in line 3 and is not in line 2"):
        load_runs(io.StringIO('params;tokens;loss\n"1,300,000";26e6;2.61\n1e7;2e8;3,4\n'))
    with pytest.raises(DataError, match=r"decimal='\.' or"):
        load_runs(io.StringIO("params;tokens;loss\n7.382e+07;3e9;3,4\n"))


def test_a_comma_that_could_be_either_warns():
    frame = pd.DataFrame({"params": ["1,300", "2,600"], "tokens": [1e6, 2e6], "loss": [3.4, 3.3]})
    with pytest.warns(match="thousands_comma"):
        runs = load_runs(frame)
    assert runs.params.tolist() == [1300.0, 2600.0]
    with pytest.raises(DataError):  # 1.3 parameters: the scale check speaks up
        load_runs(frame, decimal=",")
    with pytest.raises(DataError, match="decimal="):
        load_runs(frame, decimal=";")


def test_columns_of_several_lengths_are_named_with_their_file(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text('{"params": [1e8, 2e8], "tokens": [1e9], "loss": [3, 2]}')
    with pytest.raises(
        DataError, match=r"runs\.json: the columns differ in length: params has 2, tokens has 1"
    ):
        load_runs(path)


def test_ten_thousand_rows_take_a_second_at_most():
    import time

    rng = np.random.default_rng(0)
    N, D = 10 ** rng.uniform(7, 10, 10_000), 10 ** rng.uniform(9, 12, 10_000)
    loss = 1.8 + 482 / N**0.348 + 2085 / D**0.366
    rows = [
        f"r{i},{n / 1e6:.4f}M,{d:.0f},{x:.6f},note {i}"
        for i, (n, d, x) in enumerate(zip(N, D, loss, strict=True))
    ]
    text = "run_id,params,tokens,loss,note\n" + "\n".join(rows)
    start = time.process_time()
    runs = load_runs(io.StringIO(text))
    assert len(runs) == 10_000
    assert time.process_time() - start < 5.0  # about 0.6 s; its own time, as the machine may be busy
