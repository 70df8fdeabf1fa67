"""Logs as tables, and what goes wrong in real files: doubts are asked about, faults are refused with their place."""

from __future__ import annotations

import contextlib
import gzip
import math
import random

import numpy as np
import pytest

from reference_trainer.log_formats.choose import FORMATS
from reference_trainer.log_formats.values import quantity
from reference_trainer.training_log import read_training_log
from scaling.errors import DataError, UnitError
from tests.reference_trainer import log_samples as samples
from tests.reference_trainer.log_samples import codes, nan_equal

# ------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    "header",
    ["step,loss,grad_norm,lr", "Iteration,Train Loss,Grad Norm,Learning Rate", "iter,lm loss,gnorm,learning_rate",
     "_step,train/loss,train/grad_norm,train/lr", "global_step,train_loss,gradient_norm,lr"],
)  # fmt: skip
def test_spellings(written, header):
    log = read_training_log(written(f"{header}\n0,10.5,1.5,0.0001\n1,10.25,1.25,0.0002\n", "run.csv"))
    assert log["loss"].tolist() == [10.5, 10.25] and log["grad_norm"].tolist() == [1.5, 1.25]
    assert log["lr"].tolist() == [1e-4, 2e-4]


def test_units_are_said_or_asked(written):
    bits = read_training_log(written("step,loss (bits/token)\n1,2.0\n2,1.0\n", "a.csv"))
    np.testing.assert_allclose(bits["loss"], [2 * math.log(2), math.log(2)])
    assert bits.loss_unit == "nats/token"
    ppl = read_training_log(written("step,perplexity\n1,20.0\n2,inf\n", "b.csv"))
    nan_equal(ppl["loss"], [math.log(20), math.inf])
    bpb = read_training_log(written("step,train_bpb\n1,1.0\n", "c.csv"))
    assert bpb.loss_unit == "nats/byte" and bpb["loss"][0] == pytest.approx(math.log(2))
    whole = read_training_log(written("step,train_bpb\n1,1.0\n", "c.csv"), bytes_per_token=4.0)
    assert whole.loss_unit == "nats/token" and whole["loss"][0] == pytest.approx(4 * math.log(2))
    assert read_training_log(written("step,loss\n1,1.0\n", "d.csv")).loss_unit == "unstated"
    with pytest.raises(UnitError, match="nats/token"):
        read_training_log(written("step,loss\n1,1.0\n", "d.csv"), loss_unit="bananas")


def test_odd_cells(written):
    text = (
        "step;loss;mfu;step time (ms);tokens\r\n"
        "1.000;10,5;41%;120,5 ms;1.048.576\r\n"
        "2.000;nan;0,40;121;2.097.152\r\n"
        "3.000;;38%;;\r\n"
    )
    log = read_training_log(written(text, "german.csv"))
    assert log["step"].tolist() == [1000, 2000, 3000] and log["tokens"][:2].tolist() == [1_048_576, 2_097_152]
    assert log.steps.absent["loss"].tolist() == [False, False, True]
    np.testing.assert_allclose(log["mfu"], [0.41, 0.40, 0.38])
    assert log["step_s"][1] == pytest.approx(0.121)
    assert quantity("1,234 tok/s") == 1234.0 and quantity("-Infinity") == -math.inf


def test_columns_that_are_in_doubt_are_asked_for(written):
    path = written("step,loss,train_loss\n1,2.0,3.0\n", "run.csv")
    with pytest.raises(DataError, match="loss and train_loss could each be the loss"):
        read_training_log(path)
    assert read_training_log(path, columns={"loss": "train_loss"})["loss"].tolist() == [3.0]
    with pytest.raises(DataError, match="no column 'nll'"):
        read_training_log(path, columns={"loss": "nll"})
    with pytest.raises(DataError, match="no quantity 'los'"):
        read_training_log(path, columns={"los": "loss"})
    seeds = written("seed,step,loss\n0,1,2.0\n0,2,1.9\n1,1,2.1\n", "seeds.csv")
    with pytest.raises(DataError, match=r"column seed\) holds 2 runs"):
        read_training_log(seeds)
    assert read_training_log(seeds, run="1")["loss"].tolist() == [2.1]


# ------------------------------------------------------------------------------------------- what goes wrong


def test_unknown_format_says_what_was_tried_and_seen(written):
    path = written("Loading model\n\nepoch one went well\nepoch two went better\n")
    with pytest.raises(DataError) as refused:
        read_training_log(path)
    message = str(refused.value)
    assert all(f.NAME in message for f in FORMATS)
    assert "1: Loading model" in message and "4: epoch two went better" in message and "columns=" in message


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "is empty"), (b"\n\n \n", "is empty"), (b"step,loss\n", "header and no rows"),
     (b"step,loss\n1,2.0\n2,abc\n3,1.0\n", r"line 3, column 'loss': 'abc' is not a number"),
     (b"step,loss\n1,2.0\n2\n3,1.0\n", "line 3: has 1 cells"), (b"step,loss\n,2.0\n", "no step"),
     (b"step,lr\n1,2.0\n", "no column of losses"), (b"loss,lr\n1,2.0\n", "no column of steps"),
     (b"PK\x03\x04rest", "binary|no format|zip"), (b"\x1f\x8b broken", "damaged")],
)  # fmt: skip
def test_bad_files_are_refused_with_the_place(written, content, why):
    with pytest.raises(DataError, match=why):
        read_training_log(written(content, "run.csv"))


def test_missing_files_and_addresses(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_training_log(tmp_path / "none.csv")
    with pytest.raises(DataError, match="download"):
        read_training_log("https://example.org/log.csv")
    with pytest.raises(DataError, match="a folder"):
        read_training_log(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings(written, encoding):
    text = samples.NANOGPT.replace("saving", "gespeichert nach Prüfung, saving")
    assert read_training_log(written(text.encode(encoding)))["loss"].tolist()[0] == 10.9893


def test_two_encodings_in_one_file_and_the_zeros_of_a_crash(written):
    first, rest = samples.NANOGPT.encode().split(b"iter 30", 1)
    mixed = first + ("iter 30" + rest.decode()).encode("utf-16-le")
    log = read_training_log(written(mixed))
    assert log["step"].tolist() == [0, 10, 20, 30] and "nul_bytes" in codes(log)
    crashed = read_training_log(written(first + b"\0" * 4096 + b"\niter 30" + rest))
    assert crashed["step"].tolist() == [0, 10, 20, 30]
    assert "line 9" in next(f.message for f in crashed.findings if f.code == "nul_bytes")


def test_packed_and_crlf(written):
    plain = read_training_log(written(samples.MEGATRON))
    packed = read_training_log(
        written(gzip.compress(samples.MEGATRON.replace("\n", "\r\n").encode()), "log.gz")
    )
    nan_equal(plain["loss"], packed["loss"])
    assert plain.lines.tolist() == packed.lines.tolist()


def test_interleaved_ranks(written):
    def text(loss, mark):
        lines = [f"{mark(rank)}iter {10 * i}: loss {loss(i, rank):.4f}, time 100.00ms, mfu 40.00%"
                 for i in range(20) for rank in (2, 0, 1)]  # fmt: skip
        lines += lines[45:] * 2  # restarted twice at iteration 150
        return "\n".join(lines) + "\n"

    marked = read_training_log(written(text(lambda i, rank: 5 - 0.1 * i + rank, lambda r: f"[rank{r}]: ")))
    again = [*range(20), *range(15, 20), *range(15, 20)]
    assert marked["step"].tolist() == [10 * i for i in again]
    np.testing.assert_allclose(marked["loss"], [6 - 0.1 * i for i in again])  # the mean of 0, 1, 2 above
    found = next(f for f in marked.findings if f.code == "ranks")
    assert found.severity == "warning" and "3 processes" in found.message
    assert marked.lines[:3].tolist() == [1, 4, 7]
    same = read_training_log(written(text(lambda i, rank: 5 - 0.1 * i, lambda r: "")))
    np.testing.assert_allclose(same["loss"], [5 - 0.1 * i for i in again])
    assert next(f for f in same.findings if f.code == "ranks").severity == "info"


def test_a_restart_is_no_second_rank(written):
    """Steps written again after a restart stay rows of their own, in the order of the file."""
    steps = np.r_[0:60, 40:100]
    log = read_training_log(written(samples.csv(step=steps, loss=samples.curve(120)), "run.csv"))
    assert log["step"].tolist() == steps.tolist() and not codes(log)
    twice = samples.csv(step=np.arange(9), loss=np.arange(9.0))  # appended, header and all
    log = read_training_log(written(twice * 2, "run.csv"))
    assert log["step"].tolist() == [*range(9)] * 2 and "header_again" in codes(log)


def test_a_log_cut_off_keeps_all_but_its_last_line(written):
    log = read_training_log(written("step,loss,lr\n1,2.0,0.1\n2,1.9,0.1\n3,1.", "run.csv"))
    assert log["step"].tolist() == [1, 2] and "unfinished_line" in codes(log)


def test_long_logs_are_read_in_seconds(written):
    import time

    n = 50_000
    lines = [f"iter {i}: loss {5 + 1 / (i + 1):.4f}, time 120.00ms, mfu 41.00%" for i in range(n)]
    path = written("\n".join(lines))
    begin = time.process_time()
    assert len(read_training_log(path)) == n
    assert time.process_time() - begin < 10.0


@pytest.mark.parametrize("seed", range(3))
def test_broken_files_are_read_or_refused_by_name(written, seed):
    """Whatever is cut out of, doubled or put into a log: it is read, or a `DataError` says what is wrong."""
    rng = random.Random(seed)
    whole = [getattr(samples, name) for name in dir(samples) if name.isupper()]
    junk = [
        "nan",
        "inf",
        "1e400",
        ",",
        "\t",
        "\0",
        "é",
        "\x1b[36m",
        "%",
        "[rank1]: ",
        '"',
        "\r",
        "{",
        "9" * 400,
    ]
    for _ in range(60):
        text = rng.choice(whole)
        for _ in range(rng.randint(1, 5)):
            i = rng.randrange(len(text))
            cut = text[:i] + text[i + rng.randint(1, 30) :]
            text = (
                rng.choice([cut, text[:i] + rng.choice(junk) + text[i:], text[: i + 1], text + text]) or "x"
            )
        with contextlib.suppress(DataError):
            log = read_training_log(written(text), run=rng.choice([None, "brisk-owl-7"]))
            assert len(log.lines) == len(log.steps) and np.isfinite(log.steps.columns["step"]).all()
            assert all(len(values) == len(log) for values in log.steps.columns.values())


def test_a_step_that_is_no_number_is_refused_with_its_line(written):
    with pytest.raises(DataError, match="line 3: the step is nan"):
        read_training_log(written("step,loss\n1,2.0\nnan,1.9\n", "run.csv"))
