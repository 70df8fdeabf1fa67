"""``economics optimum``: every question from the command line, its exit codes, and what it refuses."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from economics.cli.app import app
from scaling import fit_chinchilla
from tests.scaling.fit_worlds import scattered

RUNNER = CliRunner()
KINDS = ("compute", "inference", "data", "loss", "deadline", "smaller")
RUN = ("--gpu", "A100 SXM 80GB", "--n-gpus", "8", "--as-of", "2026-10-10", "--draws", "300")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    n, d, loss = scattered(80, seed=1)
    path = tmp_path_factory.mktemp("fit") / "fit.json"
    fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=60).save(path)
    return path


def optimum(*words: object):
    return RUNNER.invoke(app, ["optimum", *(str(w) for w in words)])


def answer(*words: object, code: int = 0):
    done = optimum(*words, "--json")
    assert done.exit_code == code, done.stdout + done.stderr
    return json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_help_and_json_everywhere():
    assert all(kind in optimum().stdout for kind in KINDS)
    assert all("--json" in optimum(kind, "--help").stdout for kind in KINDS)


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (("compute", "--flops", "1e20"), "compute-optimal run for 1e+20 FLOP"),
        (("compute", "--usd", "300", *RUN), "lowest loss for $300.00"),
        (("inference", "--served", "1T", "--like", "1B,20B"), "least FLOP over the life of a model with"),
        (("inference", "--served", "1T", "--flops", "1e22"), "lowest loss for 1e+22 FLOP of training"),
        (
            ("inference", "--served", "100B", "--like", "1B,20B", "--serving", "busy=0.5", *RUN),
            "fewest dollars",
        ),
        (
            ("inference", "--served", "100B", "--usd", "5k", *RUN),
            "lowest loss for $5,000, 100B tokens served",
        ),
        (("data", "--unique", "5B", "--flops", "1e21"), "best run for 1e+21 FLOP with 5B unique tokens"),
        (("data", "--unique", "5B", "--usd", "2k", "--r-d", "15", *RUN), "lowest loss for $2,000, 5B unique"),
        (("loss", "--loss", "2.4"), "fewest FLOP for a loss of 2.4"),
        (
            ("loss", "--loss", "2.6", "--among", "T4", "--among", "L40S", *RUN[4:]),
            "fewest dollars for a loss",
        ),
        (("deadline", "--hours", "12", *RUN), "lowest loss within 12 h"),
    ],
)
def test_every_question(saved, words, question):
    kind, *rest = words
    found = answer(kind, saved, *rest)
    assert found["question"].startswith(question)
    assert found["params"]["low"] <= found["params"]["value"] <= found["params"]["high"]
    assert (found["usd"] is not None) == ("usd" in words or "--gpu" in words or "--among" in words)
    told = optimum(kind, saved, *rest).stdout
    assert told.startswith(question) and "D*/N*" in told


def test_smaller_and_the_gpus_of_a_deadline(saved):
    flops = answer("smaller", saved, "--params", "500M", "--like", "1B,22B")
    assert flops["break_even"]["value"] > 0
    money = answer("smaller", saved, "--params", "500M", "--like", "1B,22B", *RUN)
    assert money["flops"] == flops and money["usd_extra"]["value"] > 0
    run = answer(
        "deadline", "--hours", "2 d", "--params", "1B", "--tokens", "20B", "--gpu", "A100 SXM 80GB", *RUN[4:]
    )
    assert run["wall_hours"]["value"] <= 48


def test_what_cannot_be_is_an_exit_code(saved):
    """1: the answer is no; 2: the question is none."""
    assert answer("compute", saved, "--usd", "0.5", *RUN, code=1)["verdict"] == "not affordable"
    assert "not affordable" in optimum("compute", saved, "--usd", "0.5", *RUN).stdout
    assert optimum("loss", saved, "--loss", "1.2").exit_code == 1
    for words, said in (
        (("compute", saved), "--flops, --usd"),
        (("compute", saved, "--flops", "1e20", "--usd", "3"), "--flops, --usd"),
        (("compute", "--flops", "1e20"), "what predicts the loss"),
        (("compute", saved, "--usd", "300"), "give --gpu"),
        (("compute", saved, "--usd", "300", *RUN, "--params", "1B"), "--params is what is looked for"),
        (("inference", saved, "--loss", "2.4"), "--served"),
        (("inference", saved, "--served", "1T", "--like", "1B"), "N,D"),
        (("data", saved, "--flops", "1e20"), "--unique"),
        (("data", saved, "--unique", "1B", "--flops", "1e20", "--r-d-range", "4"), "--r-d-range"),
        (("loss", saved), "give --loss"),
        (("loss", saved, "--loss", "2.4", "--hours", "3 d"), "--hours: no use"),
        (("compute", saved, "--flops", "1e20", *RUN), "--gpu, --n-gpus, --as-of, --draws: no use"),
        (
            ("inference", saved, "--served", "1T", "--loss", "2.4", "--serving", "busy=0.5"),
            "--serving: no use",
        ),
        (("deadline", saved, "--hours", "3"), "give --gpu"),
        (("smaller", saved, "--flops", "1e20"), "give --params"),
        (("loss", saved, "--loss", "2.4", "--unidentified", "guess"), "unidentified"),
    ):
        done = optimum(*words)
        assert done.exit_code == 2 and said in done.stderr.replace("\n", " "), (words, done.stderr)
