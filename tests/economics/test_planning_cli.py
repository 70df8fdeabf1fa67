"""`optimum`, `suggest` and `plan` on the command line with what cannot be: an exit code and words, never a fault."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from economics.cli.app import app
from scaling import fit_chinchilla
from tests.scaling.fit_worlds import scattered

RUNNER = CliRunner()
GPU = ("--gpu", "A100-80GB-SXM", "--as-of", "2026-10-10", "--draws", "100")
#: Zero, less, no number, no end, people's spelling, more than there is, nothing, text, a decimal comma.
SILLY = ("0", "-1", "nan", "inf", "1B", "1e30", "1e400", "", "abc", "1,5")
#: Option -> what else is asked with it.
ASKED = {
    "compute --flops": (),
    "compute --usd": GPU,
    "inference --served": ("--like", "1B,20B"),
    "inference --served ": ("--like", "1B,20B", *GPU),
    "inference --like": ("--served", "1T"),
    "inference --usd": ("--served", "1B", *GPU),
    "data --unique": ("--flops", "1e20"),
    "data --worth": ("--unique", "1B", "--flops", "1e20"),
    "data --r-d": ("--unique", "1B", "--flops", "1e20"),
    "data --r-d-range": ("--unique", "1B", "--flops", "1e20"),
    "loss --loss": (),
    "loss --loss ": GPU,
    "loss --probability": ("--loss", "2.6"),
    "loss --hours": ("--loss", "2.6", *GPU),
    "loss --among": ("--loss", "2.6", "--as-of", "2026-10-10"),
    "deadline --hours": ("--n-gpus", "8", *GPU),
    "deadline --up-to": ("--hours", "5", *GPU),
    "deadline --quantile": ("--hours", "5", "--n-gpus", "8", *GPU),
    "smaller --params": ("--flops", "1e20", *GPU),
    "smaller --like": ("--params", "100M"),
}


def economics(*words: object):
    return RUNNER.invoke(app, [str(w) for w in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fit, and tables that are none or say little."""
    path = tmp_path_factory.mktemp("tables")
    n, d, loss = scattered(60, seed=1)
    fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=40).save(path / "fit.json")
    rows = list(zip(n, d, loss, strict=True))

    def table(name, rows, head="params,tokens,loss"):
        lines = (",".join(map(str, row)) for row in rows)
        (path / f"{name}.csv").write_text("\n".join([head, *lines, ""]), encoding="utf-8")

    table("good", rows)
    table("names", rows, "model_size,n_train_tok,final_eval")
    table("bits", zip(n, d, loss / np.log(2), strict=True), "params,tokens,loss_bits")
    table("two", rows[:2])
    table("one_size", [(1e8, x, 2 + 300 / x**0.3) for x in np.geomspace(1e9, 1e10, 8)])
    table("one_count", [(x, 1e9, 2 + 300 / x**0.3) for x in np.geomspace(1e7, 1e9, 8)])
    table("nan", [*rows[:20], (1e8, 1e9, "nan")])
    table("head", [])
    (path / "empty.csv").write_text("", encoding="utf-8")
    return path


@pytest.mark.parametrize("what", ASKED, ids=lambda w: w.replace(" --", "-").strip())
def test_silly_values_of_every_question(folder, what):
    kind, option = what.split()
    for value in SILLY:
        done = economics("optimum", kind, folder / "fit.json", f"{option}={value}", *ASKED[what])
        said = (value, done.exit_code, done.stderr)
        assert done.exit_code in (0, 1, 2) and "Traceback" not in done.stderr, said
        assert done.exit_code != 2 or len(done.stderr.strip().splitlines()) in range(1, 7), said
        if done.exit_code == 2:
            assert "parameters are no model" not in done.stderr and "decimal=" not in done.stderr, said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compute", "--usd", "1e12", *GPU), "more GPUs than there are to rent: give --n-gpus"),
        (("compute", "--usd", "1e30", *GPU), "more money than there is"),
        (("deadline", "--hours", "5", *GPU), "give --n-gpus or --up-to, one of them"),
        (("deadline", "--hours", "0", *GPU), "hours must be hours above 0 (0.5 or '30 min' or '3 d'), got '0'"),
        (("deadline", "--hours", "5", "--up-to", "1B", *GPU), "--up-to must be a whole number from 1 to 10,000,000"),
        (("inference", "--served", "-1", "--like", "1B,20B"), "served must be 0 or more tokens"),
        (("inference", "--served", "1e30", "--like", "1B,20B", *GPU), "more than anybody serves"),
        (("loss", "--loss", "1e30", *GPU), "takes hardly a model"),
        (("data", "--unique", "0", "--flops", "1e20"), "--unique-tokens must be positive"),
        (("compute", "--usd", "1,5", *GPU), "write the decimal point as a point"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_words_of_the_command(folder, words, said):
    done = economics("optimum", words[0], folder / "fit.json", *words[1:])
    assert done.exit_code == 2 and said in " ".join(done.stderr.split()), done.stderr


def test_a_quantile_may_be_a_percentage(folder):
    one, other = (
        economics("optimum", "compute", folder / "fit.json", "--usd", "100", "--quantile", q, *GPU).stdout
        for q in ("90%", "0.9")
    )
    assert one == other and one.startswith("lowest loss")


@pytest.mark.parametrize("command", ["plan", "suggest"])
def test_tables_that_are_none_or_say_little(folder, command):
    more = (*GPU, *(("--market", "on-demand") if command == "plan" else ()), "--budget", "20")
    for name, codes, words in (
        ("names", (2,), "no column for loss. Seen: model_size, n_train_tok, final_eval"),
        ("nan", (2,), "line 22: loss is empty"),
        ("empty", (2,), "empty.csv is empty"),
        ("head", (2,), "a header and no rows"),
        ("two", (1,), ""),
        ("one_size", (0, 1), ""),
        ("one_count", (0, 1), ""),
    ):
        if command == "plan" and name in ("two", "one_count"):
            continue  # as one size; every page takes seconds
        done = economics(command, folder / f"{name}.csv", *more)
        assert done.exit_code in codes and words in " ".join(done.stderr.split()), (name, done.stderr)
        assert "={" not in done.stderr  # an option of the command, no Python
    assert economics(command, folder, *more).exit_code == 2
    if command == "suggest":
        nats, bits = (economics(command, folder / f"{name}.csv", *more).stdout for name in ("good", "bits"))
        assert nats == bits  # the same runs in another unit


@pytest.mark.parametrize(("command", "option"), [("plan", "--out"), ("suggest", "--csv")])
def test_nothing_is_half_written(folder, tmp_path, monkeypatch, command, option):
    words = (command, folder / "fit.json", "--budget", "20", *GPU)
    for place in (tmp_path, folder / "fit.json"):  # a folder; and the input itself
        assert economics(*words, option, place).exit_code == 2

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "x.html"))

    monkeypatch.setattr(os, "fsync", full)
    done = economics(*words, option, tmp_path / "x.html")
    assert done.exit_code == 2 and "No space left on device" in done.stderr and not list(tmp_path.iterdir())


def test_suggestions_at_the_edge_of_what_can_be_asked(folder):
    words = ("suggest", folder / "good.csv", *GPU)
    for more, code, said in (
        (("--budget", "20", "--max-hours", "0"), 2, "--max-hours must be hours above 0"),
        (("--budget", "20", "--max-hours", "1 s"), 2, "no run ends within 1 s: the shortest takes"),
        (("--budget", "0.01"), 1, "$0.01 do not pay for the smallest run"),
        (("--budget", "0.0001"), 1, "$0.0001 do not pay"),
        (("--budget", "20", "--trunks", "1e9"), 2, "trunks must be a whole number from 1 to 64"),
        (("--budget", "20", "--sizes", "1e30,1e31"), 2, "sizes must be a pair from 1 to 1e+14"),
        (("--budget", "20", "--vocab", "1B"), 2, "vocab must be a whole number from 2 to 10,000,000"),
        (("--budget", "20", "--market", "spot", "--checkpoint-every", "none"), 2, "--checkpoint-every optimal"),
    ):  # fmt: skip
        done = economics(*words, *more)
        assert done.exit_code == code and said in " ".join((done.stdout + done.stderr).split()), (
            more,
            done.stderr,
        )
    one = economics(
        *words,
        "--budget",
        "20",
        "--sizes",
        "20M,20M",
        "--token-counts",
        "200M,200M",
        "--trunks",
        "1",
        "--json",
    )
    assert one.exit_code == 0 and len(json.loads(one.stdout)["runs"]) == 1
