"""The command ``scaling``: answers on stdout, everything else on stderr, verdicts as exit codes."""

from __future__ import annotations

import errno
import inspect
import io
import json
import math
import os
import re
import shlex
import stat
import subprocess
import sys
import threading
import warnings
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from scaling import datasets, fit_chinchilla, load_runs
from scaling.cli import failures, output
from scaling.cli.app import app
from scaling.cli.options import Fitting, Reading
from scaling.errors import DataWarning, ExtrapolationWarning

ROOT = Path(__file__).parents[2]
RUNNER = CliRunner()
FEW = ("--n-boot", "60")


def scaling(*words: object, stdin: str | bytes | None = None):
    """Run the command in this process."""
    return RUNNER.invoke(app, [str(w) for w in words], input=stdin)


def answer(*words: object, code: int = 0, stdin: str | None = None):
    """Run with --json and return the document; nothing else may be on standard output."""
    done = scaling(*words, "--json", stdin=stdin)
    assert done.exit_code == code, done.stdout + done.stderr
    return json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def subprocess_scaling(*words: object, **options):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    command = [sys.executable, "-m", "scaling", *map(str, words)]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=120, **options
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A saved fit of the embedded points."""
    path = tmp_path_factory.mktemp("cli") / "deep" / "er" / "fit.json"
    done = scaling("fit", "--builtin", "hoffmann2022", *FEW, "--save", path)
    assert done.exit_code == 0, done.stderr
    return path


@pytest.fixture
def one_budget(tmp_path) -> Path:
    """Eight sizes on one token count: alpha is there to be seen, D*(N) is not."""
    N = np.geomspace(1e7, 4e9, 8)
    rows = "".join(f"{n:.6g},1e10,{1.8 + 480 / n**0.35 + 0.4:.6f}\n" for n in N)
    path = tmp_path / "one_budget.csv"
    path.write_text("params,tokens,loss\n" + rows)
    return path


# --- help and start-up -------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_lists_every_command(words):
    done = scaling(*words)
    assert done.exit_code == 0
    for command in ("fit", "predict", "audit", "plot", "report", "isoflop", "compare-laws", "datasets"):
        assert command in done.stdout


def test_every_command_takes_json():
    for command in ("fit", "predict", "audit", "plot", "report", "isoflop", "compare-laws", "datasets"):
        assert "--json" in scaling(command, "--help").stdout


def test_help_loads_nothing_heavy():
    heavy = ["numpy", "scipy", "pandas", "pyarrow", "matplotlib", "statsmodels", "jinja2"]
    code = f"import sys, scaling.cli.app; print(*set({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_version():
    import scaling as package

    assert package.__version__ in scaling("--version").stdout


@pytest.mark.parametrize(
    ("function", "group", "elsewhere"),
    [
        (load_runs, Reading, {"source"}),
        (fit_chinchilla, Fitting, {"runs", "params", "tokens", "loss", "progress", "reading"}),
    ],
)
def test_every_argument_of_the_library_is_an_option(function, group, elsewhere):
    arguments = set(inspect.signature(function).parameters) - elsewhere
    assert {f.name for f in fields(group)} == arguments


def test_options_default_to_what_the_library_does():
    """An option left alone must not be a choice of its own."""
    library = inspect.signature(fit_chinchilla).parameters
    for name, value in Fitting().keywords().items():
        assert value == library[name].default, name
    library = inspect.signature(load_runs).parameters
    for name, value in Reading().keywords().items():
        default = library[name].default
        assert value == ((default,) if name == "status" else default), name


def test_plot_help_names_the_kinds_there_are():
    from scaling.plots import KINDS

    text = re.sub(r"[\s│]+", " ", scaling("plot", "--help").stdout)
    assert f"{', '.join(KINDS)}, or all" in text


# --- fit ---------------------------------------------------------------------------------------


def test_fit_as_json():
    got = answer("fit", "--builtin", "hoffmann2022", *FEW)
    assert got["verdict"] == "identified"
    # 22.69e9: certified for the embedded table.
    assert got["headline"]["tokens"]["value"] == pytest.approx(22.69e9, rel=1e-3)
    assert got["law"]["alpha"] == pytest.approx(0.342537, abs=1e-6)
    assert got["coefficients"]["alpha"]["low"] < got["law"]["alpha"] < got["coefficients"]["alpha"]["high"]
    assert got["audit"]["n_kept"] == 234 and got["source"] == "hoffmann2022_points.csv"


def test_fit_in_words():
    done = scaling("fit", "--builtin", "hoffmann2022_points", *FEW)  # the name of the file works, too
    assert done.exit_code == 0
    assert "verdict    identified" in done.stdout
    assert "22.7B tokens" in done.stdout
    assert done.stderr == ""


def test_a_negative_verdict_is_exit_code_1_and_still_shows_the_law():
    done = scaling("fit", "--builtin", "cpu_sweep", *FEW)
    assert done.exit_code == 1
    assert "verdict    not identified" in done.stdout and "alpha" in done.stdout
    assert "--unidentified return" in done.stdout and "unidentified='" not in done.stdout
    got = answer("fit", "--builtin", "cpu_sweep", *FEW, code=1)
    assert got["verdict"] == "not identified" and got["headline"]["tokens"] is None
    assert {"e_at_bound", "optimum_outside", "covariate_explains_residuals"} <= {
        f["code"] for f in got["findings"]
    }


def test_what_an_unidentified_table_does_determine_is_shown(one_budget):
    done = scaling("fit", one_budget, *FEW)
    assert done.exit_code == 1
    assert "all rows share D = 10B" in done.stdout
    assert "what the runs do determine" in done.stdout and "alpha   0.35" in done.stdout
    got = answer("fit", one_budget, *FEW, code=1)
    assert got["error"]["code"] == "not_identified_error"
    assert "beta" in got["error"]["evidence"]["quantities"]
    assert got["partial"]["coefficients"]["alpha"]["value"] == pytest.approx(0.35, abs=1e-3)


OPTIONS = [
    (("--fixed", "E=1.7"), "fixed", {"E": 1.7}),
    (("--fixed", "alpha=0.34", "--fixed", "beta=0.34"), "fixed", {"alpha": 0.34, "beta": 0.34}),
    (("--tied",), "tied", True),
    (("--delta", "0.01"), "delta", 0.01),
    (("--resample", "wild"), "resample", "wild"),
    (("--groups", "model_size"), "cluster_key", "model_size"),
    (("--groups", "layers"), "cluster_key", "layers"),
    (("--weights", "seed_count"), "weighted", True),
    (("--sigma", "noise"), "sigma_used", True),
    (("--sigma", "none"), "sigma_used", False),
    (("--n-boot", "40"), "n_boot", 40),
    (("--seed", "7"), "seed", 7),
    (("--level", "0.8"), "level", 0.8),
    (("--interval", "bias-corrected"), "interval", "bias-corrected"),
]


@pytest.fixture(scope="module")
def many_columns(tmp_path_factory) -> Path:
    """A table with a column for every option that names one."""
    N, D = (a.ravel() for a in np.meshgrid([2e7, 6e7, 2e8, 6e8, 2e9], [5e8, 2e9, 8e9, 3.2e10]))
    rng = np.random.default_rng(3)
    loss = (1.8 + 480 / N**0.35 + 2100 / D**0.37) * np.exp(0.003 * rng.normal(size=N.size))
    rows = [
        f"{n:.6g},{d:.6g},{x:.6f},{2 + i % 5},{1 + i % 3},{0.004 + 0.001 * (i % 4)},{0.005}"
        for i, (n, d, x) in enumerate(zip(N, D, loss, strict=True))
    ]
    path = tmp_path_factory.mktemp("cli") / "runs.csv"
    path.write_text("\n".join(["params,tokens,loss,layers,seed_count,noise,sigma", *rows]))
    return path


@pytest.mark.parametrize(
    ("words", "name", "value"), OPTIONS, ids=lambda x: " ".join(x) if type(x) is tuple else ""
)
def test_options_of_the_fit(many_columns, words, name, value):
    words = words if "--n-boot" in words else (*words, "--n-boot", "40")
    done = scaling("fit", many_columns, *words, "--json")
    assert json.loads(done.stdout)["settings"][name] == value, done.stderr


def test_weights_and_sigma_reach_the_fit(many_columns):
    plain, weighted, noisy = (
        answer("fit", many_columns, "--n-boot", 0, "--sigma", "none", *more)["law"]["alpha"]
        for more in ((), ("--weights", "seed_count"), ("--sigma", "noise"))
    )
    assert len({plain, weighted, noisy}) == 3
    table = replace(load_runs(many_columns), sigma=None)
    by_hand = fit_chinchilla(table, weights=table.covariates["seed_count"], n_boot=0)
    assert weighted == by_hand.law.alpha


def test_options_of_the_reading(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(
        "size;data;bpb;state;recipe\n10;1,0;1,30;ok;a\n20;2,0;1,20;ok;a\n40;;1,15;ok;a\n80;4,0;1,10;crashed;a\n"
        "160;9,0;1,05;ok;b\n"
    )
    got = answer(
        "audit", path, "--columns", "params_M=size", "--columns", "tokens_B=data", "--columns", "loss=bpb",
        "--columns", "status=state", "--columns", "batch_tokens=4096", "--loss-unit", "bits/byte",
        "--bytes-per-token", 4.0, "--decimal", ",", "--on-bad", "drop", "--where", "recipe == 'a'",
        "--warmup-tokens", "800M",
    )  # fmt: skip
    assert got["n_read"] == 5 and got["n_kept"] == 2
    assert got["loss_unit"] == "nats/token"
    assert "status crashed" in str(got["dropped"]) and got["columns"]["params"][0] == "size"
    assert "warmup" in str(got["findings"])
    everything = answer(
        "audit", path, "--columns", "params_M=size", "--columns", "tokens_B=data", "--columns", "loss=bpb",
        "--columns", "status=state", "--loss-unit", "unstated", "--decimal", ",", "--on-bad", "drop",
        "--status", "all",
    )  # fmt: skip
    assert everything["n_kept"] == 4 and everything["loss_unit"] == "unstated"


def test_allow_lets_a_suspicion_pass(tmp_path):
    path = tmp_path / "twice.csv"
    body = datasets.builtin("hoffmann2022").read_text().splitlines()
    header = [c for c in body[0].split(",") if c != "run_id"]
    keep = [body[0].split(",").index(c) for c in header if c in ("params_total", "tokens", "loss")]
    rows = [",".join(line.split(",")[i] for i in keep) for line in body[1:20]]
    path.write_text("\n".join(["params,tokens,loss", *rows, *rows]))
    refused = scaling("audit", path)
    if refused.exit_code == 2:  # duplicates are refused: the message names the way out as an option
        code = re.search(r"--allow (\w+)", refused.stderr)
        assert code, refused.stderr
        assert scaling("audit", path, "--allow", code[1]).exit_code == 0


# --- saved fits and standard input -------------------------------------------------------------


def test_a_saved_fit_answers_as_its_table_does(saved):
    words = ("--params", "1B", "--tokens", "20B")
    assert answer("predict", saved, *words) == answer("predict", "--builtin", "hoffmann2022", *FEW, *words)


@pytest.mark.parametrize("what", ["table", "fit"])
def test_standard_input(saved, what):
    text = (datasets.builtin("hoffmann2022") if what == "table" else saved).read_text()
    words = ("predict", "-", "--params", "1B", *(FEW if what == "table" else ()))
    assert answer(*words, stdin=text)["tokens"] == answer("predict", saved, "--params", "1B")["tokens"]


def test_level_may_change_on_a_saved_fit_and_nothing_else(saved):
    wide = answer("predict", saved, "--params", "1B")["tokens"]
    narrow = answer("predict", saved, "--params", "1B", "--level", 0.5)["tokens"]
    assert narrow["level"] == 0.5 and wide["low"] < narrow["low"] < narrow["high"] < wide["high"]
    done = scaling("predict", saved, "--params", "1B", "--where", "loss < 3", "--seed", 4)
    assert done.exit_code == 2 and "--where, --seed" in done.stderr


def test_a_damaged_fit_is_bad_input(saved, tmp_path):
    data = json.loads(saved.read_text())
    for name, change in {
        "cut": saved.read_text()[:2000],
        "part": json.dumps({k: v for k, v in data.items() if k != "draws"}),
        "other": json.dumps({**data, "format": "isoflop-fit-0"}),
    }.items():
        path = tmp_path / f"{name}.json"
        path.write_text(change)
        done = scaling("predict", path, "--params", "1B")
        assert done.exit_code == 2, name
        assert done.stderr.startswith(f"error: {path}") and done.stdout == ""


# --- predict -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name", "shown"),
    [
        (("--params", "1B"), "tokens", "22.7B tokens"),
        (("--tokens", "20B"), "params", "params"),
        (("--flops", "1e21"), "optimum", "compute-optimal run for 1e+21 FLOP"),
        (("--params", "1B", "--tokens", "20B"), "loss", "one run"),
        (("--params", "1B", "--flops", "1.2e20"), "loss", "D=20B"),
    ],
)
def test_predict(saved, words, name, shown):
    assert name in answer("predict", saved, *words)
    assert shown in scaling("predict", saved, *words).stdout


@pytest.mark.parametrize(
    ("words", "unit"),
    [(("--params", "1B"), "tokens"), (("--tokens", "20B"), "params"), (("--flops", "1e20"), None)],
)
def test_where_the_form_is_rejected_the_answer_comes_with_it_open_too(words, unit):
    asked = ("predict", "--builtin", "hoffmann2022", *words)
    found = answer(*asked)["open_form"]
    assert found["unit"] == unit if unit else found["tokens"]["low"] < found["tokens"]["high"]
    assert "with it left open" in scaling(*asked).stdout


@pytest.mark.parametrize(
    "words",
    [(), ("--flops", "1e20", "--tokens", "1B"), ("--params", "-3"), ("--params", "many"), ("--params", "0")],
)
def test_questions_that_make_no_sense(saved, words):
    assert scaling("predict", saved, *words).exit_code == 2


def test_an_answer_far_outside_is_refused_unless_asked_for(saved):
    refused = answer("predict", saved, "--params", "100T", code=1)
    assert "decades of compute beyond" in refused["error"]["message"]
    given_ = answer("predict", saved, "--params", "100T", "--unidentified", "return", code=1)
    assert given_["tokens"]["value"] > 1e14 and "decades" in given_["refused"]
    done = scaling("predict", saved, "--params", "100T", "--unidentified", "return")
    assert done.exit_code == 1 and "not to be planned with" in done.stderr
    assert scaling("predict", saved, "--params", "1B", "--unidentified", "maybe").exit_code == 2


def test_a_loss_far_outside_is_shown_with_its_refusal(saved):
    done = scaling("predict", saved, "--params", "1T", "--tokens", "1000T")
    assert done.exit_code == 1
    assert "one run" in done.stdout and "not to be planned with" in done.stderr and "warning" in done.stderr


# --- errors ------------------------------------------------------------------------------------

BAD = [
    ("fit", "no_such_file.csv"),
    ("fit",),
    ("fit", "x.csv", "--builtin", "cpu_sweep"),
    ("fit", "--builtin", "hofman"),
    ("fit", "--builtin", "published_fits"),
    ("fit", "--builtin", "cpu_sweep", "--columns", "loss"),
    ("fit", "--builtin", "cpu_sweep", "--columns", "loss=a", "--columns", "loss=b"),
    ("fit", "--builtin", "cpu_sweep", "--where", "nothing == 1"),
    ("fit", "--builtin", "cpu_sweep", "--fixed", "E=low"),
    ("fit", "--builtin", "cpu_sweep", "--fixed", "gamma=1"),
    ("fit", "--builtin", "cpu_sweep", "--level", "95"),
    ("fit", "--builtin", "cpu_sweep", "--resample", "all"),
    ("fit", "--builtin", "cpu_sweep", "--weights", "run_id"),
    ("fit", "--builtin", "cpu_sweep", "--n-boot", "-1"),
    ("fit", "--builtin", "cpu_sweep", "--n-boot", "some"),
    ("fit", "--nonsense"),
    ("plot", "--builtin", "cpu_sweep", "--kind", "pie"),
    ("plot", "--builtin", "cpu_sweep", "--kind", "curves", "--out", "x.docx"),
    ("plot", "--builtin", "cpu_sweep", "--out", "x.png"),
    ("report", "--builtin", "cpu_sweep", "--out", "x.pdf"),
    ("isoflop", "--builtin", "hoffmann2022", "--exponents", "0.3"),
    ("isoflop", "--builtin", "hoffmann2022", "--curve", "spline"),
    ("datasets", "info", "hofman"),
    ("datasets", "fetch", "hofman"),
    ("frobnicate",),
]


@pytest.mark.parametrize("words", BAD, ids=lambda w: " ".join(w))
def test_bad_input(words):
    """One readable block on stderr, never a traceback; with --json one document on stdout."""
    done = scaling(*words)
    assert done.exit_code == 2
    assert done.stdout == "" and done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    document = answer(*words, code=2)
    assert document["exit_code"] == 2
    assert document["error"]["message"] and document["error"]["code"].endswith("_error")


def test_errors_carry_their_evidence(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("params,tokens,loss\n1e8,2e9,3.1\n2e8,-4e9,3.0\n")
    document = answer("fit", path, code=2)
    assert document["error"]["evidence"]["rows"] == [3]
    assert "--on-bad drop" in document["error"]["message"]


def test_a_fault_is_told_from_a_verdict(monkeypatch, saved):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("scaling.cli.predict._answers", broken)
    done = scaling("predict", saved, "--params", "1B")
    assert done.exit_code == failures.FAULT == 3
    assert "Traceback" in done.stderr and "fault of the program" in done.stderr
    assert answer("predict", saved, "--params", "1B", code=3)["error"]["code"] == "fault"


def test_interrupted(monkeypatch, saved):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("scaling.cli.predict._answers", stop)
    assert scaling("predict", saved, "--params", "1B").exit_code == 130


# --- files -------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_file_alone(monkeypatch, tmp_path):
    path = tmp_path / "fit.json"
    path.write_text("old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = scaling("fit", "--builtin", "cpu_sweep", "--n-boot", 0, "--save", path)
    assert done.exit_code == 2
    assert f"cannot write {path}: No space left on device" in done.stderr
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["fit.json"]


def test_paths_that_cannot_be_written_are_refused_before_the_work(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("scaling.cli.fit.read_fit", lambda *a: pytest.fail("the work was done first"))
    for path in (tmp_path, tmp_path / "file" / "fit.json"):
        done = scaling("fit", "--builtin", "cpu_sweep", "--save", path)
        assert done.exit_code == 2 and str(path) in done.stderr


@pytest.fixture
def runs_csv(tmp_path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_bytes(datasets.fetch("cpu_sweep").read_bytes())
    return path


def _refused_unharmed(path: Path, said: str, *words: object) -> None:
    before = path.read_bytes()
    done = scaling(*words, "--n-boot", 0)
    assert done.exit_code == 2 and said in done.stderr, done.output
    assert path.read_bytes() == before


def test_no_output_may_be_the_input(runs_csv, tmp_path, monkeypatch):
    """Neither under its own name, nor as the numbers beside a picture, nor through a link."""
    soft, hard = tmp_path / "soft.json", tmp_path / "hard.html"
    soft.symlink_to(runs_csv)
    os.link(runs_csv, hard)
    for name in (runs_csv, soft, hard):
        _refused_unharmed(runs_csv, "is the input itself", "fit", runs_csv, "--save", name)
        assert soft.is_symlink()
    _refused_unharmed(
        runs_csv, "is the input itself", "plot", runs_csv, "--kind", "curves", "--out", tmp_path / "runs.png"
    )
    assert not (tmp_path / "runs.png").exists()
    _refused_unharmed(runs_csv, "is the input itself", "report", runs_csv, "--out", hard)
    monkeypatch.chdir(tmp_path)
    runs_csv.rename("curves.csv")
    _refused_unharmed(tmp_path / "curves.csv", "is the input itself", "plot", "curves.csv")


def test_no_two_outputs_may_be_one_file(runs_csv, tmp_path):
    out = tmp_path / "plots"
    out.mkdir()
    (out / "curves.csv").write_text("old")
    (out / "cloud.csv").symlink_to("curves.csv")
    _refused_unharmed(out / "curves.csv", "would be written twice", "plot", runs_csv, "--out", out)


def test_standard_input_may_be_a_file_to_lose(runs_csv):
    before = runs_csv.read_bytes()
    with runs_csv.open() as stdin:
        done = subprocess_scaling("fit", "-", "--n-boot", 0, "--save", runs_csv, stdin=stdin)
    assert done.returncode == 2 and "is the input itself" in done.stderr
    assert runs_csv.read_bytes() == before


def test_a_link_stays_and_its_file_is_written(runs_csv, tmp_path):
    target, link = tmp_path / "elsewhere" / "fit.json", tmp_path / "link.json"
    link.symlink_to(target)
    for _ in ("the file is new", "the file is there"):
        done = scaling("fit", runs_csv, "--n-boot", 0, "--save", link)
        assert done.exit_code in (0, 1), done.stderr
        assert link.is_symlink() and json.loads(target.read_text())["format"] == "isoflop-fit-1"


def test_a_pipe_is_written_to_and_not_replaced(runs_csv, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    scaling("fit", runs_csv, "--n-boot", 0, "--save", pipe)
    reader.join(10)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert json.loads(got[0])["format"] == "isoflop-fit-1"


def test_a_picture_is_written_whole_or_not_at_all(runs_csv, tmp_path, monkeypatch):
    picture = tmp_path / "p.png"
    picture.write_text("old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = scaling("plot", runs_csv, "--n-boot", 0, "--kind", "curves", "--out", picture)
    assert done.exit_code == 2 and done.stderr.endswith(f"error: {picture}: No space left on device\n")
    assert picture.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.png", "runs.csv"]


# --- the other commands ------------------------------------------------------------------------


def test_audit():
    done = scaling("audit", "--builtin", "cpu_sweep")
    assert done.exit_code == 0
    assert "params_total" in done.stdout and "52 kept" in done.stdout
    assert "pass --columns params=..." in done.stdout
    got = answer("audit", "--builtin", "cpu_sweep")
    assert got["n_runs"] == 52 and got["sha256"] == datasets.info("cpu_sweep").sha256


def test_doubts_are_told_on_stderr():
    done = scaling("fit", "--builtin", "cpu_markov", "--n-boot", 0, "--json")
    assert "1 doubt about this table (flops_disagree)" in done.stderr
    json.loads(done.stdout)


def test_datasets(tmp_path):
    for words in (("datasets",), ("datasets", "list")):
        done = scaling(*words)
        assert done.exit_code == 0
        assert [line.split()[0] for line in done.stdout.splitlines()] == list(datasets.names())
    assert [t["name"] for t in answer("datasets", "list")] == list(datasets.names())
    assert answer("datasets") == answer("datasets", "list")
    assert "Does NOT identify a law" in scaling("datasets", "info", "cpu_sweep").stdout
    assert answer("datasets", "info", "cpu_sweep")["rows"] == 52
    copy = tmp_path / "new" / "sweep.csv"
    assert answer("datasets", "fetch", "cpu_sweep", "--out", copy)["path"] == str(copy)
    assert copy.read_bytes() == datasets.builtin("cpu_sweep").read_bytes()


def test_isoflop():
    done = scaling("isoflop", "--builtin", "hoffmann2022", "--at", "1e21")
    assert done.exit_code == 0 and "law-shaped curve" in done.stdout and "C=1e21" in done.stdout
    got = answer(
        "isoflop", "--builtin", "hoffmann2022", "--curve", "parabola", "--at", "1e21", "--level", 0.9
    )
    assert got["level"] == 0.9 and got["optima"][0]["params"]["value"] > 1e9
    assert list(got["frontiers"]) == ["parabola"]
    refused = answer("isoflop", "--builtin", "cpu_sweep", code=1)
    assert "too_few_points" in refused["error"]["message"]


def test_compare_laws():
    words = (
        "compare-laws",
        "--builtin",
        "hoffmann2022",
        "--law",
        "chinchilla",
        "--law",
        "power",
        "--share",
        "0.65",
    )
    done = scaling(*words)
    assert done.exit_code == 0 and "152 predict 82" in done.stdout
    assert [law["name"] for law in answer(*words)["laws"]] == ["chinchilla", "power"]
    assert scaling(*words[:-1], "65").exit_code == 2


def test_plot(saved, tmp_path):
    got = answer("plot", saved, "--kind", "tokens", "--out", tmp_path / "new" / "tokens.png")
    assert Path(got["tokens"]["picture"]).read_bytes().startswith(b"\x89PNG")
    assert Path(got["tokens"]["numbers"]).read_text().count("\n") > 5
    done = scaling("plot", saved, "--kind", "tokens", "--kind", "curves", "--out", tmp_path / "several")
    assert done.exit_code == 0
    assert sorted(p.name for p in (tmp_path / "several").iterdir()) == [
        "curves.csv", "curves.png", "tokens.csv", "tokens.png",
    ]  # fmt: skip


# --- how things are written --------------------------------------------------------------------

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.floats().map(np.float64)


@given(st.recursive(LEAVES, lambda x: st.lists(x) | st.tuples(x, x) | st.dictionaries(st.text(), x)))
def test_everything_becomes_pure_json(value):
    text = json.dumps(output.plain(value), allow_nan=False)
    json.loads(text, parse_constant=lambda word: pytest.fail(word))


def test_numbers_that_json_lacks():
    assert output.plain({"a": math.nan, "b": (math.inf, -math.inf), "c": np.array([1.0, math.nan])}) == {
        "a": None,
        "b": ["Infinity", "-Infinity"],
        "c": [1.0, None],
    }
    assert float("Infinity") == math.inf


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("pass on_bad='drop' to leave them out", "pass --on-bad drop to leave them out"),
        ("select one with where=.", "select one with --where."),
        ("where={'source': 'a b'}.", "--where \"source == 'a b'\"."),
        (
            "columns={'tokens_B': ...} or columns={'log10_N': 'lnN'}",
            "--columns tokens_B=... or --columns log10_N=lnN",
        ),
        ("columns={'loss': 'a', 'params': 'b'}", "--columns loss=a --columns params=b"),
        ("columns={'loss': 'Val Loss'}", "--columns 'loss=Val Loss'"),
        ("columns={'sigma': 'sd (nats)'}", "--columns 'sigma=sd (nats)'"),
        ("columns={'sigma': 'sd'}", "--columns sigma=sd"),
        ("allow=['a b', 'c']", "--allow 'a b' --allow c"),
        ("(columns={'batch_tokens': 524288})", "(--columns batch_tokens=524288)"),
        ("status=... or status=None to take them", "--status ... or --status all to take them"),
        ("pass allow=['duplicates'].", "pass --allow duplicates."),
        ("pass decimal=',' if", "pass --decimal , if"),
        ("fit with n_boot=1000", "fit with --n-boot 1000"),
        ("95% is level=0.95", "95% is --level 0.95"),
        ("N=1e+09, D=2e+10 and C=1e19", "N=1e+09, D=2e+10 and C=1e19"),
        ("give budgets=, or lower group_tol", "give --budgets, or lower group_tol"),
    ],
)
def test_python_arguments_become_options(python, shell):
    assert output.as_options(python) == shell


def test_only_options_that_exist_are_named():
    told = set(output._ARGUMENTS.split("|"))
    every = " ".join(scaling(c, "--help").stdout for c in ("fit", "predict", "isoflop"))
    assert not {name for name in told if f"--{name.replace('_', '-')}" not in every}


def test_warnings_are_told_once_and_only_ours(capsys):
    with output.warnings_told():
        for _ in range(2):
            warnings.warn("far away, pass where='x > 1'", ExtrapolationWarning, stacklevel=1)
        warnings.warn("the audit says this", DataWarning, stacklevel=1)
        with pytest.raises(RuntimeWarning):  # not ours: left to whoever set the filters
            warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: far away, pass --where 'x > 1'\n"


def test_progress_bar_only_where_someone_watches(monkeypatch):
    with output.progress_bar("x") as advance:
        assert advance is None

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "_PATIENCE_S", 0.0)
    with output.progress_bar("bootstrap") as advance:
        advance(50, 200)
        advance(200, 200)
    assert "bootstrap" in terminal.getvalue()


# --- as a process ------------------------------------------------------------------------------


def test_encodings_and_names_that_cannot_be_written(tmp_path):
    """A terminal without the middle dot, a file name that is no UTF-8."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "scaling", "datasets", "info", "cpu_sweep"]
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    assert done.returncode == 0 and b"flops_exact = 6" in done.stdout and done.stderr == b""
    name = os.fsencode(tmp_path) + b"/r\xffns.csv"
    Path(os.fsdecode(name)).write_bytes(datasets.builtin("cpu_sweep").read_bytes())
    command = [sys.executable, "-m", "scaling", "fit", name, "--n-boot", "0", "--save", tmp_path / "fit.json"]
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    assert done.returncode in (0, 1) and b"Traceback" not in done.stderr, done.stderr
    assert "r?ns.csv" in json.loads((tmp_path / "fit.json").read_text())["runs"]["source"]


def test_as_a_process(tmp_path):
    done = subprocess_scaling("fit", "--builtin", "hoffmann2022", *FEW, "--json", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(done.stdout)["verdict"] == "identified"
    done = subprocess_scaling("fit", "nowhere.csv", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == "error: no such file: nowhere.csv\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device of Linux")
def test_standard_output_that_is_full():
    with open("/dev/full", "w") as full:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "scaling", "datasets", "--json"]
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_a_reader_that_goes_away_changes_nothing():
    """`scaling datasets | head -0`: no traceback, and the exit code of the answer."""
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["datasets"], ["datasets", "--json"], ["--help"]):
        command = [sys.executable, "-m", "scaling", *words]
        done = subprocess.run(command, env=env, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 0 and done.stderr == "", words
    os.close(write)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that can close streams")
@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("datasets >&-", 2, "cannot write to standard output"),
        ("datasets --json >&-", 2, "cannot write to standard output"),
        ("--help >&-", 2, "Bad file descriptor"),
        ("datasets 2>&-", 0, ""),
        ("fit nowhere.csv 2>&-", 2, ""),
        ("fit - <&-", 2, "is empty"),
        ("datasets >&- 2>&- <&-", 2, ""),
    ],
)
def test_closed_streams_are_no_verdict(shell, code, said, tmp_path):
    """Exit code 1 says that the runs do not determine the answer, and nothing else does."""
    command = f"{shlex.quote(sys.executable)} -m scaling {shell}"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", command], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr and "ignored" not in done.stderr
