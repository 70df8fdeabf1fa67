"""Faults people really met in tables of runs (numbered as in the list of cases), each with its right value.

T is the truth behind toy tables: E 1.82, A 482, B 2085, alpha 0.348, beta 0.366.
"""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from scaling.errors import DataError, DataWarning, UnitError
from scaling.table import load_runs

# Doubts are looked at in the audit here; where the warning itself is the point, pytest.warns sees it.
pytestmark = pytest.mark.filterwarnings("ignore::scaling.errors.DataWarning")


def truth(N, D):
    return 1.82 + 482 / N**0.348 + 2085 / D**0.366


def sweep(n=24, noise=0.003, seed=0) -> pd.DataFrame:
    """Return n runs of the law T, sizes and tokens crossed, ln loss with a little noise."""
    rng = np.random.default_rng(seed)
    N = np.tile(np.geomspace(2e7, 2e9, 6), n // 6)
    D = np.repeat(np.geomspace(1e9, 1e11, n // 6), 6)
    return pd.DataFrame(
        {"params": N, "tokens": D, "loss": truth(N, D) * np.exp(rng.normal(0, noise, len(N)))}
    )


def text(frame: pd.DataFrame) -> io.StringIO:
    return io.StringIO(frame.to_csv(index=False))


# -- rows ------------------------------------------------------------------------------------------


def test_u08_rows_inside_warmup_are_flagged():
    frame = sweep().assign(warmup_tokens=2e8)
    frame.loc[3, "tokens"] = 1e8
    with pytest.warns(DataWarning, match="inside_warmup"):
        runs = load_runs(frame)
    assert runs.audit.finding("inside_warmup").evidence["rows"] == [3]
    by_argument = load_runs(frame.drop(columns="warmup_tokens"), warmup_tokens=2e8)
    assert by_argument.audit.finding("inside_warmup").evidence["rows"] == [3]
    # warm-up given in steps, with the tokens of a step
    steps = frame.drop(columns="warmup_tokens").assign(warmup_steps=400, batch_tokens=500_000)
    assert load_runs(steps).audit.finding("inside_warmup").evidence["rows"] == [3]


def test_u20_pasted_duplicates_leave_the_24_rows():
    frame = sweep()
    once = load_runs(text(frame))
    with pytest.warns(DataWarning, match="duplicates"):
        pasted = load_runs(text(pd.concat([frame] * 4)))
    assert np.array_equal(pasted.params, once.params)
    assert np.array_equal(pasted.tokens, once.tokens)
    assert np.array_equal(pasted.loss, once.loss)
    assert len(pasted.audit.dropped) == 72
    assert pasted.audit.dropped[0] == (26, "equals line 2 in every column")
    kept = load_runs(text(pd.concat([frame] * 4)), allow=["duplicates"])
    assert len(kept) == 96


def test_u20_duplicates_in_another_spelling_and_with_a_row_counter():
    a = "Unnamed: 0,params,tokens,loss\n0,1.3B,26B,2.61\n1,1300000000,2.6e10,2.610\n2,125M,2B,3.4\n"
    runs = load_runs(io.StringIO(a))
    assert runs.audit.dropped == ((3, "equals line 2 in every column"),)


def test_u20_seeds_and_run_ids_tell_equal_rows_apart():
    frame = sweep()
    twice = pd.concat([frame, frame], ignore_index=True)
    for label in ("seed", "run_id"):
        runs = load_runs(twice.assign(**{label: np.arange(48)}))
        assert len(runs) == 48
        # equal to sixteen digits under two names: kept, and said
        assert runs.audit.finding("same_values").severity == "warning"
    # four digits can agree by chance: an explanation, no doubt
    rounded = sweep().round({"loss": 4})
    rounded = pd.concat([rounded, rounded.iloc[:1]], ignore_index=True).assign(run_id=np.arange(25))
    assert load_runs(rounded).audit.finding("same_values").severity == "info"


def test_u21_repeated_data_is_flagged_beyond_four_epochs():
    frame = sweep().assign(unique_tokens=2e10)
    with pytest.warns(DataWarning, match="repeated_data"):
        runs = load_runs(frame)
    found = runs.audit.finding("repeated_data")
    assert found.evidence["rows"] == np.flatnonzero(frame.tokens > 8e10).tolist()
    assert found.evidence["epochs"] == pytest.approx(5.0)
    assert runs.unique_tokens.tolist() == [2e10] * 24
    by_epochs = load_runs(sweep().assign(epochs=frame.tokens / 2e10))
    assert by_epochs.unique_tokens.max() == pytest.approx(2e10)


# -- units of the loss -----------------------------------------------------------------------------


def test_u26_perplexity_is_not_loss():
    ppl = sweep().assign(ppl=lambda f: np.exp(f.loss)).drop(columns="loss")
    ppl["ppl"] *= 1.5  # 1.5x: some above 12 although the losses are small
    runs = load_runs(text(ppl))
    assert runs.loss == pytest.approx(np.log(ppl.ppl))
    assert runs.audit.columns["loss"] == ("ppl", "perplexity -> nats/token")
    nameless = ppl.rename(columns={"ppl": "loss"})
    with pytest.raises(UnitError, match=r"loss_unit='perplexity'") as caught:
        load_runs(text(nameless))
    assert caught.value.rows == tuple(np.flatnonzero(nameless.loss > 12) + 2)
    assert load_runs(text(nameless), loss_unit="perplexity").loss == pytest.approx(np.log(ppl.ppl))


def test_u26_loss_beside_its_own_perplexity_is_no_conflict():
    frame = sweep().rename(columns={"loss": "CrossEntropyLoss"})
    frame["Perplexity"] = np.exp(frame.CrossEntropyLoss)
    runs = load_runs(frame)
    assert runs.audit.columns["loss"][0] == "CrossEntropyLoss"
    assert runs.audit.finding("same_quantity") is not None


def test_u27_a_quarter_of_the_rows_in_bits():
    frame = sweep()
    bits = np.arange(24) % 4 == 0
    frame.loc[bits, "loss"] /= np.log(2)
    with pytest.raises(UnitError, match=r"rows 0, 4, 8, 12, 16, 20 .* 1\.4\d\dx larger") as caught:
        load_runs(frame)
    assert caught.value.rows == (0, 4, 8, 12, 16, 20)
    # the other way round: a quarter in nats among bits
    other = sweep()
    other.loc[~bits, "loss"] /= np.log(2)
    with pytest.raises(UnitError, match=r"1\.4\d\dx smaller") as caught:
        load_runs(other)
    assert caught.value.rows == (0, 4, 8, 12, 16, 20)
    # stated: read as told, and the doubt stays
    stated = load_runs(frame, loss_unit="nats/token")
    assert stated.audit.finding("mixed_units").severity == "warning"
    # told row by row: converted, no doubt left
    labelled = load_runs(frame.assign(loss_unit=np.where(bits, "bits/token", "nats/token")))
    assert labelled.loss == pytest.approx(sweep().loss.to_numpy())
    assert not labelled.audit.warnings


def test_u27_few_rows_only_warn():
    """Eight to fifteen rows can be split so that almost anything fits: a doubt, no refusal."""
    frame = sweep(12, noise=0.001)
    frame.loc[[1, 6], "loss"] /= np.log(2)
    assert load_runs(frame).audit.finding("mixed_units").evidence["rows"] == [1, 6]
    assert load_runs(sweep(6)).audit.finding("mixed_units") is None


@pytest.mark.parametrize("share", [2, 6, 9])
@pytest.mark.parametrize("seed", range(6))
def test_u27_mixed_bits_are_found_wherever_they_are(share, seed):
    frame = sweep(24, noise=0.01, seed=seed)
    rows = np.sort(np.random.default_rng(seed).choice(24, share, replace=False))
    frame.loc[rows, "loss"] /= np.log(2)
    with pytest.raises(UnitError) as caught:
        load_runs(frame)
    assert caught.value.rows == tuple(rows)


def test_u27_bits_throughout_need_a_word_and_are_then_converted():
    frame = sweep().assign(loss_bits=lambda f: f.loss / np.log(2), sigma=0.01).drop(columns="loss")
    runs = load_runs(frame)
    assert runs.loss == pytest.approx(sweep().loss.to_numpy())
    assert runs.sigma == pytest.approx(np.full(24, 0.01 * np.log(2)))  # sigma is in the unit of the loss
    assert runs.loss_unit == "nats/token"


def test_u28_two_tokenizers_cannot_share_a_loss_per_token():
    frame = sweep().assign(tokenizer=["gpt2", "llama3"] * 12)
    with pytest.raises(DataError, match=r"2 tokenizers \(gpt2, llama3\).*bits/byte.*bytes_per_token.*where="):
        load_runs(frame)
    with pytest.warns(DataWarning, match="mixed_tokenizers"):
        load_runs(frame, allow=["mixed_tokenizers"])
    assert len(load_runs(frame, where={"tokenizer": "gpt2"})) == 12
    bpb = frame.rename(columns={"loss": "bits_per_byte"})
    runs = load_runs(bpb)
    assert runs.loss_unit == "bits/byte"
    assert runs.audit.finding("several_tokenizers").severity == "warning"


def test_u28_bytes_per_token_makes_two_tokenizers_comparable():
    frame = sweep().assign(tokenizer=["gpt2", "llama3"] * 12, bytes_per_token=[4.0, 4.5] * 12)
    runs = load_runs(frame)
    assert runs.loss_unit == "bits/byte"
    assert runs.loss == pytest.approx(frame.loss / frame.bytes_per_token / np.log(2))


def test_u28_bits_per_byte_stay_without_what_converts_them():
    frame = sweep().rename(columns={"loss": "bpb"})
    assert load_runs(frame).loss_unit == "bits/byte"
    converted = load_runs(frame, bytes_per_token=4.0)
    assert converted.loss_unit == "nats/token"
    assert converted.loss == pytest.approx(frame.bpb * np.log(2) * 4.0)
    with pytest.raises(UnitError, match="bytes of text divided by tokens"):
        load_runs(frame, bytes_per_token=0.25)  # tokens per byte


# -- cells -----------------------------------------------------------------------------------------


def test_u29_counts_as_text():
    runs = load_runs(io.StringIO("num_params,tokens,loss\n1.3B,26B,2.61\n125m,2.5B,3.4\n"))
    assert runs.params.tolist() == [1.3e9, 125e6]
    for cell in ("1.3X", "4B params?"):
        with pytest.raises(DataError) as caught:
            load_runs(io.StringIO(f"num_params,tokens,loss\n1.3B,26B,2.61\n{cell},2.5B,3.4\n"))
        assert f"line 3: num_params: {cell!r}" in str(caught.value)
        assert caught.value.rows == (3,)


def test_u33_a_byte_order_mark_and_no_known_column():
    content = "\ufeffx,y,model\n1,2,a\n".encode()
    with pytest.raises(DataError) as caught:
        load_runs(io.BytesIO(content))
    message = str(caught.value)
    assert "Seen: x, y, model." in message
    assert "Expected for params: params, n_params" in message
    assert "columns={'params': '<column>', 'tokens': '<column>', 'loss': '<column>'}" in message
    runs = load_runs(io.BytesIO("\ufeffparams,tokens,loss\n1e8,2e9,3.1\n".encode()))
    assert runs.audit.columns["params"] == ("params", "")


@pytest.mark.parametrize(
    "bad", ["", "nan", "NaN", "N/A", "null", "-", "inf", "-inf", "0", "-3.1", "0.0", "three", "1e999"]
)
def test_cells_without_a_usable_number(bad):
    rows = ["params,tokens,loss", "1e8,2e9,3.1", f"2e8,4e9,{bad}", "4e8,8e9,2.8"]
    source = "\n".join(rows)
    with pytest.raises(DataError, match=r"1 of 3 rows cannot be used: line 3: loss.*on_bad='drop'") as caught:
        load_runs(io.StringIO(source))
    assert caught.value.rows == (3,)
    runs = load_runs(io.StringIO(source), on_bad="drop")
    assert runs.loss.tolist() == [3.1, 2.8]
    assert [row for row, _ in runs.audit.dropped] == [3]
    assert runs.audit.finding("rows_dropped").evidence["rows"] == [3]


def test_all_bad_rows_come_in_one_error():
    lines = ["params,tokens,loss"] + [f"{i}e8,2e9," for i in range(1, 26)] + ["1e8,oops,-1"]
    with pytest.raises(DataError) as caught:
        load_runs(io.StringIO("\n".join([*lines, "3e8,2e9,3.0"])))
    message = str(caught.value)
    assert "26 of 27 rows" in message
    assert "and 16 more" in message
    assert len(caught.value.rows) == 26
    with pytest.raises(DataError, match=r"line 2: tokens: 'oops'.* and loss: -1 is not positive"):
        load_runs(io.StringIO("params,tokens,loss\n1e8,oops,-1\n1e8,2e9,3\n"))


def test_an_empty_required_column_is_an_error_even_when_dropping():
    source = "params,tokens,loss\n1e8,2e9,\n2e8,4e9,\n"
    with pytest.raises(DataError, match="no usable rows"):
        load_runs(io.StringIO(source), on_bad="drop")


def test_log10_columns_are_undone_and_a_nameless_base_is_asked_for():
    frame = sweep()
    logs = pd.DataFrame(
        {"log10_params": np.log10(frame.params), "ln_tokens": np.log(frame.tokens), "loss": frame.loss}
    )
    runs = load_runs(logs)
    assert runs.params == pytest.approx(frame.params.to_numpy())
    assert runs.tokens == pytest.approx(frame.tokens.to_numpy())
    assert runs.audit.columns["params"] == ("log10_params", "log10 undone")
    nameless = logs.rename(columns={"log10_params": "log_N"})
    with pytest.raises(UnitError, match=r"columns=\{'log10_params': 'log_N'\} or columns=\{'ln_params'"):
        load_runs(nameless)
    told = load_runs(nameless, columns={"log10_params": "log_N"})
    assert told.params == pytest.approx(frame.params.to_numpy())


# -- columns ---------------------------------------------------------------------------------------


def test_u35_several_losses_are_listed_not_chosen():
    frame = sweep().rename(columns={"loss": "train/loss"})
    frame["train/loss__MIN"] = frame["train/loss"] - 0.05
    frame["eval/loss"] = frame["train/loss"] + 0.1
    with pytest.raises(
        DataError,
        match=r"2 columns could be loss: 'train/loss' .*'eval/loss'.* columns=\{'loss': 'eval/loss'\}",
    ):
        load_runs(frame)
    runs = load_runs(frame, columns={"loss": "eval/loss"})
    assert runs.loss_kind == "validation"
    assert runs.loss == pytest.approx(frame["eval/loss"].to_numpy())


def test_u35_extremes_over_steps_are_no_loss():
    frame = sweep().rename(columns={"loss": "K2 - train/loss"})
    frame["K2 - train/loss__MIN"] = frame["K2 - train/loss"] - 0.05
    assert load_runs(frame).audit.columns["loss"][0] == "K2 - train/loss"
    alone = frame.drop(columns="K2 - train/loss")
    with pytest.raises(DataError, match="an extreme over runs or steps"):
        load_runs(alone)
    assert len(load_runs(alone, columns={"loss": "K2 - train/loss__MIN"})) == 24


def test_u35_steps_are_not_tokens():
    frame = pd.DataFrame({"Step": [1000, 2000], "n_params": [1e8, 2e8], "eval/loss": [3.5, 3.2]})
    with pytest.raises(DataError, match=r"'Step' counts optimizer steps.*columns=\{'batch_tokens': 524288\}"):
        load_runs(frame)
    assert load_runs(frame, columns={"batch_tokens": 524288}).tokens.tolist() == [524288e3, 1048576e3]
    both = frame.assign(batch_size=512, seq_len=1024)
    runs = load_runs(both)
    assert runs.tokens.tolist() == [524288e3, 1048576e3]
    assert runs.audit.columns["tokens"] == ("Step x batch_size x seq_len", "steps x batch x sequence length")
    assert runs.audit.finding("tokens_from_steps").severity == "info"


def test_u35_giga_flops_of_a_raw_export():
    N, D = 1.4e9, 2.8e10
    frame = pd.DataFrame(
        {
            "parameter_count": [N],
            "tokens": [D],
            "throughput/total_gflops": [6 * N * D / 1e9],
            "eval/loss": [2.9],
        }
    )
    runs = load_runs(frame)
    assert runs.flops[0] == pytest.approx(6 * N * D)
    assert runs.audit.finding("flops_disagree") is None


def test_u36_tokens_that_contradict_the_steps():
    frame = pd.DataFrame(
        {
            "n_params": [124e6],
            "num_iterations": [1000],
            "batch": [262144],
            "tokens": [524288000],
            "loss": [3.3],
        }
    )
    with pytest.raises(DataError, match=r"tokens is 2\.0x steps x batch") as caught:
        load_runs(frame)
    assert caught.value.rows == (0,)
    assert load_runs(frame, columns={"tokens": "tokens"}).tokens.tolist() == [524288000]
    right = frame.assign(batch=524288)
    assert load_runs(right).audit.finding("tokens_checked") is not None
    in_sequences = frame.assign(batch=512)  # 512 sequences of 1,024
    assert load_runs(in_sequences).audit.finding("batch_in_sequences").evidence["ratio"] == 1024
    full = frame.assign(batch=256, seq_len=1024)
    with pytest.raises(DataError, match=r"2\.0x steps x batch x sequence length"):
        load_runs(full)


def test_u36_an_empty_params_column_is_no_missing_column():
    with pytest.raises(DataError, match="line 2: params is empty"):
        load_runs(io.StringIO("params,tokens,loss\n,2e9,3.1\n,4e9,3.0\n"))


def test_a_flops_column_is_checked_and_never_preferred():
    frame = sweep().assign(flops=lambda f: 6 * f.params * f.tokens)
    frame.loc[5, "flops"] *= 3
    with pytest.warns(DataWarning, match="flops_disagree"):
        runs = load_runs(frame)
    found = runs.audit.finding("flops_disagree")
    assert found.evidence["rows"] == [5]
    assert found.evidence["ratio"] == pytest.approx(3.0)
    assert "row 5" in found.message
    assert runs.tokens == pytest.approx(frame.tokens.to_numpy())
    assert runs.compute[5] == pytest.approx(6 * runs.params[5] * runs.tokens[5])
    within = sweep().assign(flops=lambda f: 6 * f.params * f.tokens * 1.9)
    assert load_runs(within).audit.finding("flops_disagree") is None


@pytest.mark.parametrize(
    ("factor", "hint"), [(1e-9, "giga-FLOP"), (1 / 3, "forward pass"), (1e-15, "peta-FLOP")]
)
def test_the_likely_reason_is_named(factor, hint):
    frame = sweep().assign(flops=lambda f: 6 * f.params * f.tokens * factor)
    assert hint in load_runs(frame).audit.finding("flops_disagree").message


def test_u38_units_in_the_name_are_honoured():
    runs = load_runs(io.StringIO("n_params_M,tokens_B,loss\n124,2.5,3.6\n350,7,3.1\n"))
    assert runs.params.tolist() == [124e6, 350e6]
    assert runs.tokens.tolist() == [2.5e9, 7e9]
    model_profile = load_runs(io.StringIO("mparams,tokens,loss\n124.5,2.5e9,3.6\n"))
    assert model_profile.params.tolist() == [124.5e6]


def test_u38_millions_without_a_word():
    frame = sweep()
    frame["params"] /= 1e6
    with pytest.raises(UnitError, match=r"columns=\{'params_M': 'params'\}"):
        load_runs(frame)
    assert load_runs(frame, columns={"params_M": "params"}).params == pytest.approx(sweep().params.to_numpy())
    tokens = sweep()
    tokens["tokens"] /= 1e9
    with pytest.raises(UnitError, match="tokens_B"):
        load_runs(tokens)


def test_u38_a_quarter_of_the_rows_in_millions():
    frame = sweep()
    quarter = np.arange(24) % 4 == 0
    frame.loc[quarter, "params"] /= 1e6
    with pytest.raises(UnitError, match="two magnitudes: rows 0, 4, 8, 12, 16, 20") as caught:
        load_runs(frame)
    assert caught.value.rows == (0, 4, 8, 12, 16, 20)
    with pytest.warns(DataWarning, match="mixed_magnitudes"):
        load_runs(frame, allow=["mixed_magnitudes"])


def test_u38_a_unit_in_the_name_over_plain_counts():
    frame = sweep().rename(columns={"params": "params_B"})
    with pytest.raises(UnitError, match="more than any run"):
        load_runs(frame)


def test_u39_padding_is_not_data():
    frame = sweep().rename(columns={"tokens": "padded_tokens"})
    assert load_runs(frame).audit.finding("tokens_padded").severity == "warning"
    by_column = sweep().assign(tokens_kind=["padded"] + ["loss_bearing"] * 23)
    assert load_runs(by_column).audit.finding("tokens_padded").evidence["rows"] == [0]
    by_attrs = sweep()
    by_attrs.attrs["tokens_kind"] = "padded"
    assert load_runs(by_attrs).audit.finding("tokens_padded") is not None
    # where both are there, the tokens that bear loss are D
    both = sweep().assign(padded_tokens=lambda f: f.tokens * 20 / 14)
    assert load_runs(both).tokens == pytest.approx(sweep().tokens.to_numpy())


def test_u40_experts_need_the_active_parameters():
    frame = pd.DataFrame(
        {"params_total": ["131B"], "params_active": ["16B"], "tokens": ["1.02T"], "loss": [2.1]}
    )
    with pytest.warns(DataWarning, match="mixture_of_experts"):
        runs = load_runs(frame)
    assert runs.compute[0] == pytest.approx(9.79e22, rel=1e-3)  # 6 x 16e9 x 1.02e12, not 8.0e23
    assert runs.params.tolist() == [131e9]
    assert runs.params_kind == "total"
    only = load_runs(frame.drop(columns="params_total"))
    assert only.params_kind == "active"
    assert only.audit.finding("active_only").severity == "warning"
    dense = frame.assign(params_active="131B")
    assert load_runs(dense).audit.finding("mixture_of_experts") is None
