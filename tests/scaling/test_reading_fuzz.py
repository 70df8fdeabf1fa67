"""Whatever comes in, out come runs or a DataError; and what does not matter changes nothing."""

from __future__ import annotations

import csv
import io
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from scaling.errors import DataError, DataWarning
from scaling.table import RunTable, load_runs
from scaling.units import format_count

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(source, **more):
    """Read, quietly; None where the table is refused as it should be."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataWarning)
        try:
            runs = load_runs(source, **more)
        except DataError as error:
            assert str(error)
            return None
    assert isinstance(runs, RunTable)
    for values in (runs.params, runs.tokens, runs.loss):
        assert np.all(np.isfinite(values) & (values > 0))
    assert str(runs.audit)
    assert runs._repr_html_()
    return runs


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            "1.3B",
            "125m",
            "1,3",
            "1,300",
            "1.300,5",
            "inf",
            "-1",
            "0",
            "1e400",
            "n/a",
            "ppl",
            "bits/byte",
            "nats/token",
        ]
    ),
    st.lists(st.integers(), max_size=2),
    st.dates(),
)
NAMES = st.sampled_from(
    [
        *(
            "params",
            "tokens",
            "loss",
            "n_params_M",
            "tokens_B",
            "ppl",
            "bpb",
            "log10_params",
            "log_N",
            "flops",
        ),
        *(
            "C",
            "N",
            "D",
            "L",
            "loss_unit",
            "bytes_per_token",
            "tokenizer",
            "status",
            "seed",
            "run_id",
            "sigma",
        ),
        *("epochs", "unique_tokens", "steps", "batch", "seq_len", "warmup_steps", "dataset", "outlier"),
        *("params_active", "loss_kind", "tokens_kind", "val_loss", "x"),
    ]
)


@RELAXED
@given(st.lists(st.dictionaries(NAMES, JUNK, max_size=6), max_size=5), st.sampled_from(["raise", "drop"]))
def test_records_of_junk(records, on_bad):
    read(records, on_bad=on_bad)


@RELAXED
@given(
    st.dictionaries(NAMES, st.lists(JUNK, min_size=3, max_size=3), max_size=8),
    st.sampled_from(["raise", "drop"]),
)
def test_columns_of_junk_as_dict_and_as_frame(columns, on_bad):
    read(columns, on_bad=on_bad)
    read(pd.DataFrame(columns), on_bad=on_bad)


GOOD = st.fixed_dictionaries(
    {
        "params": st.floats(1e6, 1e12),
        "tokens": st.floats(1e7, 1e14),
        "loss": st.floats(0.1, 11.0),
    }
)


@RELAXED
@given(st.lists(GOOD, min_size=1, max_size=12), st.dictionaries(NAMES, JUNK, max_size=4), st.data())
def test_good_rows_with_some_junk(rows, extra, data):
    """Half-good tables reach the checks that wholly bad ones never see."""
    frame = pd.DataFrame(rows).astype(object)
    for name, value in extra.items():
        if name not in frame:
            frame[name] = pd.Series([value] * len(frame), dtype=object)
        else:
            frame.loc[data.draw(st.integers(0, len(frame) - 1)), name] = None
    read(frame, on_bad="drop")
    read(io.StringIO(frame.to_csv(index=False)), on_bad="drop")


@RELAXED
@given(st.text(max_size=200))
def test_any_text(text):
    read(io.StringIO(text))


@RELAXED
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"PAR1", b"\x1f\x8b", b"BZh", b"\xff\xfe", b"\xef\xbb\xbf", b"{", b"["]),
)
def test_any_bytes(content, start):
    read(io.BytesIO(start + content))


@RELAXED
@given(
    st.text(alphabet="params,tokens,loss;\t|\"\n\r# 0123456789.eEBmM-_'{}[]:", max_size=120),
    st.sampled_from(
        ["", "params,tokens,loss\n", "N;D;L\n", "# params tokens loss\n", "params\ttokens_B\tppl\n"]
    ),
)
def test_text_that_is_nearly_a_table(text, header):
    read(io.StringIO(header + text), on_bad="drop")


def sweep(n=12):
    rng = np.random.default_rng(3)
    N, D = 10 ** rng.uniform(7, 10, n), 10 ** rng.uniform(9, 12, n)
    loss = 1.82 + 482 / N**0.348 + 2085 / D**0.366
    return pd.DataFrame({"params": np.round(N), "tokens": np.round(D), "loss": np.round(loss, 6)})


@RELAXED
@given(st.permutations(range(12)), st.permutations(["params", "tokens", "loss"]))
def test_order_of_rows_and_columns_does_not_matter(rows, columns):
    runs = read(sweep().iloc[list(rows)][list(columns)])
    plain = read(sweep())
    for role in ("params", "tokens", "loss"):
        assert np.array_equal(getattr(runs, role), getattr(plain, role)[list(rows)])
    assert runs.audit.findings == plain.audit.findings


WRITTEN = st.sampled_from(["{:.0f}", "{:,.0f}", "{:_.0f}", "{:.17g}", "{:.16e}", "  {:.0f} "])


@RELAXED
@given(
    WRITTEN,
    WRITTEN,
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["params", "N", "n_params", "Model Size", "PARAMETER COUNT"]),
    st.sampled_from(["tokens", "D", "num_tokens", "Tokens seen"]),
    st.sampled_from(["loss", "L", "val_loss", "eval/loss", "final loss"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_spelling_does_not_matter(count, other, delimiter, params, tokens, loss, end, quoted):
    frame = sweep()
    if delimiter == ";" and "," in count + other:
        return  # there a comma may be the decimal mark
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    )
    writer.writerow([params, tokens, loss])
    for row in frame.itertuples():
        writer.writerow([count.format(row.params), other.format(row.tokens), repr(row.loss)])
    runs = read(io.StringIO(out.getvalue(), newline=""))
    for role in ("params", "tokens", "loss"):
        assert np.array_equal(getattr(runs, role), frame[role])


@RELAXED
@given(st.sampled_from([("M", 1e6), ("B", 1e9), ("k", 1e3), ("T", 1e12)]), st.booleans())
def test_a_unit_in_the_header_equals_a_unit_in_the_cell(unit, lower):
    letter, scale = unit
    frame = sweep()
    in_header = frame.assign(params=frame.params / scale).rename(columns={"params": f"params_{letter}"})
    suffix = letter.lower() if lower else letter
    in_cell = frame.assign(
        params=[f"{x!r}{suffix}" if "e" not in repr(x) else repr(x * scale) for x in in_header.iloc[:, 0]]
    )
    assert read(in_header).params == pytest.approx(frame.params.to_numpy(), rel=1e-12)
    assert read(in_cell).params == pytest.approx(frame.params.to_numpy(), rel=1e-12)


@RELAXED
@given(st.integers(3, 6))
def test_written_counts_come_back(digits):
    frame = sweep()
    written = frame.assign(params=[format_count(x, digits) for x in frame.params])
    assert read(written).params == pytest.approx(frame.params.to_numpy(), rel=0.51 * 10 ** (1 - digits))


@RELAXED
@given(
    st.sampled_from(["bits/token", "nats/token", "perplexity"]),
    st.sampled_from(["argument", "column", "header"]),
)
def test_a_unit_is_the_same_wherever_it_is_said(unit, place):
    frame = sweep()
    written = {
        "bits/token": frame.loss / np.log(2),
        "nats/token": frame.loss,
        "perplexity": np.exp(frame.loss),
    }[unit]
    table = frame.assign(loss=written)
    if place == "argument":
        runs = read(table, loss_unit=unit)
    elif place == "column":
        runs = read(table.assign(loss_unit=unit))
    else:
        name = {"bits/token": "bits_per_token", "nats/token": "nats_per_token", "perplexity": "ppl"}[unit]
        runs = read(table.rename(columns={"loss": name}))
    assert runs.loss == pytest.approx(frame.loss.to_numpy())
    assert runs.loss_unit == "nats/token"


@RELAXED
@given(st.sets(st.integers(0, 11), max_size=5), st.sampled_from(["", "nan", "-1", "0", "x", "inf"]))
def test_dropping_bad_rows_is_leaving_them_out(bad, cell):
    frame = sweep().astype(object)
    frame.loc[sorted(bad), "loss"] = cell
    runs = read(io.StringIO(frame.to_csv(index=False)), on_bad="drop")
    left = [i for i in range(12) if i not in bad]
    assert runs.row.tolist() == [i + 2 for i in left]
    assert [row for row, _ in runs.audit.dropped] == [i + 2 for i in sorted(bad)]
    assert np.array_equal(runs.params, sweep().params[left])
