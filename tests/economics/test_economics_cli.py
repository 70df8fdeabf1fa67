"""The command ``economics``: answers on stdout, everything else on stderr, verdicts as exit codes."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from economics import cost as library_cost, prices
from economics.cli.app import app
from economics.cli.options import _ARGUMENTS, Costing
from economics.cli.spelling import as_commands

ROOT = Path(__file__).parents[2]
X1 = ROOT / "experiments" / "X1-pretraining"
RUNNER = CliRunner()
COMMANDS = ("cost", "compare", "budget", "suggest", "gpus", "energy", "check-plan", "prices")
DAY = ("--as-of", "2026-10-10")
RUN = ("--params", "1B", "--tokens", "20B", "--gpu", "A100 SXM 80GB", "--n-gpus", "8", *DAY)


def economics(*words: object, stdin: str | None = None):
    return RUNNER.invoke(app, [str(w) for w in words], input=stdin)


def answer(*words: object, code: int = 0, stdin: str | None = None):
    """Run with --json and return the document; nothing else may be on standard output."""
    done = economics(*words, "--json", stdin=stdin)
    assert done.exit_code == code, done.stdout + done.stderr
    return json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


# --- help and start-up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_lists_every_command(words):
    done = economics(*words)
    assert done.exit_code == 0
    assert all(command in done.stdout for command in COMMANDS)
    assert economics("prices").exit_code == 0


def test_every_command_takes_json():
    leaves = [(c,) for c in COMMANDS if c != "prices"]
    leaves += [("prices", c) for c in ("show", "add", "refresh", "import-skypilot")]
    for words in leaves:
        assert "--json" in economics(*words, "--help").stdout


def test_help_loads_nothing_heavy():
    heavy = ["numpy", "scipy", "pandas", "pyarrow", "matplotlib", "statsmodels", "pydantic"]
    code = f"import sys, economics.cli.app; print(*set({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "economics", "gpus", "T4"], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.startswith("T4")


def test_every_argument_of_cost_is_an_option():
    options = {_ARGUMENTS.get(f.name, f.name) for f in fields(Costing)}
    assert options == set(inspect.signature(library_cost).parameters)


def test_options_default_to_what_the_library_does():
    library = inspect.signature(library_cost).parameters
    for name, value in Costing().keywords().items():
        expected = library[name].default
        assert value == (str(expected) if name == "seq_len" else expected), name


# --- cost --------------------------------------------------------------------------------------------------------


def test_cost_is_that_of_the_library():
    done = answer("cost", *RUN)
    run = library_cost(N="1B", D="20B", gpu="A100 SXM 80GB", n_gpus=8, as_of="2026-10-10")
    assert done["usd"]["value"] == run.usd.value
    assert done["gpu_hours"]["low"] == run.gpu_hours.low
    assert set(done["breakdown_usd"]) == set(run.breakdown)


def test_cost_in_words():
    done = economics("cost", *RUN, "--sensitivity", "usd")
    assert done.exit_code == 0
    assert "1B parameters, 20B tokens on 8 x A100-80GB-SXM" in done.stdout
    assert "every factor at its median" in done.stdout
    assert "--overheads ablations=1.0" in done.stdout and "overheads={" not in done.stdout


def test_every_kind_of_option_reaches_the_library():
    done = answer(
        "cost", *RUN, "--mfu", "35%,45%", "--price", "1.79", "--overheads", "evaluation=2%", "--overheads",
        "start_hours=0.1", "--spot", "mean_up_hours=6", "--checkpoint-every", "30 min", "--region", "120", "--pue",
        "1.1", "--energy", "fraction=0.7", "--no-act-ckpt", "--seq-len", "4096", "--market", "spot",
    )  # fmt: skip
    assert done["price"]["usd_per_gpu_hour"]["value"] == pytest.approx(1.79)
    assert "120" in done["factors"]["grid"]
    assert "30 min" in done["factors"]["interruptions"]


def test_what_if():
    done = answer("cost", *RUN, "--mfu", "40%", "--what-if", "mfu=50%", "--what-if", "n-gpus=16")
    assert done["changes"] == {"mfu": "50%", "n_gpus": "16"}
    assert done["difference"]["wall_hours"]["value"] < 0
    assert "before" in economics("cost", *RUN, "--what-if", "tokens=40B").stdout


def test_a_run_that_does_not_fit_is_a_negative_verdict():
    words = ("--params", "70B", "--tokens", "1B", "--gpu", "T4", "--n-gpus", "1", "--price", "0.5")
    done = economics("cost", *words)
    assert done.exit_code == 1
    assert "70B parameters" in done.stdout
    assert "does_not_fit" in {f["code"] for f in answer("cost", *words, code=1)["findings"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cost", "--params", "1B", "--tokens", "20B"), "give --gpu"),
        (("cost", "--tokens", "20B", "--gpu", "T4"), "give --params"),
        (("cost", *RUN, "--mfu", "40"), "40%"),
        (("cost", *RUN, "--mfu", "40%,x"), "x"),
        (("cost", *RUN, "--market", "cheap"), "no market is called"),
        (("cost", *RUN, "--what-if", "mfu"), "NAME=VALUE"),
        (("cost", *RUN, "--what-if", "speed=2"), "tokens"),
        (("cost", *RUN, "--spot", "x=1"), "mean_up_hours"),
        (("cost", *RUN, "--overheads", "x=1"), "evaluation"),
        (("cost", *RUN, "--sensitivity", "happiness"), "wall_hours"),
        (("cost", *RUN, "--plots", "picture.png"), "give a folder"),
        (("cost", *RUN[:5], "H100", *DAY), "H100-80GB-SXM"),
        (("cost", *RUN, "--nonsense"), "No such option"),
        (("gpus", "A1000"), "did you mean"),
        (("gpus", "--dtype", "fp12"), "no dtype is called"),
        (("gpus", "V100-32GB-SXM2", "--dtype", "bf16"), "no bf16"),
        (("prices", "show", "H100-80GB-SXM", "--market", "reserved"), "economics prices add"),
        (("prices", "add", "me", "T4"), "give one price"),
        (("prices", "add", "me", "T4", "--usd-per-gpu-hour", "700"), "700"),
        (("prices", "import-skypilot", "nowhere.csv", "--day", "2026-10-10"), "nowhere.csv"),
        (("compare", "T4", *RUN), "without --gpu"),
        (("compare", "nothing", "--params", "1B", "--tokens", "20B"), "no accelerator is called"),
        (("budget", "50", "--gpu", "T4"), "give --params"),
        (("budget", "50", *RUN), "leave them out"),
        (("budget", "50", "--law", "Kaplan joint", "--gpu", "T4"), "no L(N, D)"),
        (("budget", "50", "--law", "x", "--builtin", "hoffmann2022", "--gpu", "T4"), "give one of"),
        (("check-plan", "nowhere.toml"), "nowhere.toml"),
        (("energy", "T4", "0"), "positive"),
    ],
)
def test_bad_input(words, said):
    done = economics(*words)
    assert done.exit_code == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert said in " ".join(done.stderr.split())
    error = answer(*words, code=2)
    assert error["exit_code"] == 2 and error["error"]["message"]


def test_plots(tmp_path):
    done = answer("cost", *RUN, "--plots", tmp_path / "a")
    assert [Path(f).name for f in done["files"]] == [
        "breakdown.png",
        "breakdown.csv",
        "tornado.png",
        "tornado.csv",
    ]
    assert all(Path(f).stat().st_size for f in done["files"])
    pictures = (
        "compare",
        "A100 SXM 80GB",
        "H100 SXM",
        "--params",
        "1B",
        "--tokens",
        "20B",
        "--n-gpus",
        "8",
        *DAY,
    )
    assert economics(*pictures, "--plots", tmp_path / "b").exit_code == 0
    assert (tmp_path / "b" / "pareto.png").is_file()
    assert economics("prices", "show", "H100 SXM", *DAY, "--plots", tmp_path / "c").exit_code == 0
    assert (tmp_path / "c" / "price_history.csv").is_file()


def test_pictures_do_not_overwrite_the_price_book_that_is_read(tmp_path, own_book):
    """The numbers of a picture are a CSV of its name, which may be the book."""
    rows = (ROOT / "data" / "hardware" / "gpu_prices.csv").read_bytes()
    (tmp_path / "price_history.csv").write_bytes(rows)
    (tmp_path / "breakdown.csv").write_bytes(rows)
    (tmp_path / "pareto.csv").symlink_to(tmp_path / "breakdown.csv")
    book = ("--book", tmp_path / "breakdown.csv", "--plots", tmp_path)
    for words in (
        ("prices", "show", "H100 SXM", *DAY, "--book", tmp_path / "price_history.csv", "--plots", tmp_path),
        ("cost", *RUN, *book),
        ("compare", "H100 SXM", "--params", "1B", "--tokens", "20B", *DAY, *book),
    ):
        assert "is the input itself" in answer(*words, code=2)["error"]["message"]
    own_book.parent.mkdir()
    assert economics("prices", "add", "mine", "H100 SXM", "--usd-per-gpu-hour", "2.5").exit_code == 0
    kept = own_book.read_bytes()
    own_book.rename(own_book.parent / "breakdown.csv")
    own_book.symlink_to(own_book.parent / "breakdown.csv")
    assert economics("cost", *RUN, "--plots", own_book.parent).exit_code == 2
    assert own_book.read_bytes() == kept and (tmp_path / "breakdown.csv").read_bytes() == rows


# --- compare, budget ---------------------------------------------------------------------------------------------


def test_compare():
    words = ("compare", "A100 SXM 80GB", "H100 SXM", "nothing", "--params", "1B", "--tokens", "20B", *DAY)
    done = answer(*words, "--count", "8", "--count", "64")
    assert len(done["runs"]) == 4
    assert done["failures"][0]["gpu"] == "nothing"
    costs = [run["usd"]["value"] for run in done["runs"]]
    assert costs == sorted(costs)
    assert "*" in economics(*words).stdout


def test_budget_with_a_published_law_and_round_trip():
    words = ("budget", "1M", "--gpu", "H100 SXM", "--n-gpus", "512", *DAY, "--draws", "500")
    done = answer(*words, "--params", "7B")
    assert done["cost"]["usd"]["value"] == pytest.approx(1e6, rel=1e-6)
    law = "Hoffmann Approach 3 (unrounded)"
    best = answer(*words, "--law", law)
    assert best["loss"]["value"] < answer(*words, "--params", "7B", "--law", law)["loss"]["value"]
    assert law in economics("budget", "1", "--law", "list").stdout


def test_money_that_buys_nothing_is_a_negative_verdict():
    words = ("budget", "1", "--params", "7B", "--gpu", "H100 SXM", "--n-gpus", "512", *DAY)
    done = economics(*words)
    assert done.exit_code == 1 and "not affordable" in done.stdout
    assert answer(*words, code=1)["needed_usd"] > 1


# --- gpus, energy, prices ----------------------------------------------------------------------------------------


def test_gpus():
    parts = answer("gpus")
    assert {"H100-80GB-SXM", "T4"} <= {p["name"] for p in parts}
    assert {p["name"] for p in answer("gpus", "--dtype", "fp8")} < {p["name"] for p in parts}
    assert answer("gpus", "NVIDIA A100-SXM4-80GB")["dense_tflops"]["bf16"] == 312
    assert "memory" in economics("gpus", "H100 SXM").stdout


def test_energy():
    """8 x H100 for 100 h: 10.2 kW x 0.76 x 1.25 x 100 h = 969 kWh."""
    done = answer("energy", "H100 SXM", "800", "--pue", "1.25", "--region", "gcp:us-central1")
    assert done["facility_kwh"]["value"] == pytest.approx(969)
    assert "969" in economics("energy", "H100 SXM", "800", "--pue", "1.25").stdout


def test_prices_show():
    done = answer("prices", "show", "H100 SXM", *DAY)
    assert done["usd_per_gpu_hour"]["value"] == prices("H100 SXM", as_of="2026-10-10").median
    assert "coreweave" in economics("prices", "show", "H100 SXM", *DAY).stdout


def test_a_quote_of_ones_own_is_used(own_book):
    done = answer("prices", "add", "acme", "H100 SXM", "--usd-per-instance-hour", "16", "--gpus-per-instance", "8",
                  "--day", "2026-10-10")  # fmt: skip
    assert done["usd_per_gpu_hour"] == 2.0
    assert own_book.is_file()
    shown = answer("prices", "show", "H100 SXM", *DAY)
    assert "acme" in {p["provider"] for p in shown["providers"]}


def test_import_skypilot(tmp_path):
    catalog = tmp_path / "lambda" / "vms.csv"
    catalog.parent.mkdir()
    head = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
    info = "\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81920}}]}\""
    row = f"gpu_8x_h100_sxm5,H100,8,208,1800,23.92,us-west-1,{info},\n"
    bad = row.replace("23.92", "0.01").replace("us-west-1", "us-east-1")
    catalog.write_text(head + row + bad, encoding="utf-8")
    book = tmp_path / "book.csv"
    words = ("prices", "import-skypilot", catalog, "--day", "2026-10-10", "--into", book)
    assert answer(*words, "--dry-run")["path"] is None and not book.exists()
    done = answer(*words)
    assert done["accepted"] == 1 and len(done["rejected"]) == 1
    assert book.is_file()
    catalog.write_text(head + bad, encoding="utf-8")
    nothing = economics(*words)
    assert nothing.exit_code == 1 and "price_sentinel" in nothing.stdout


# --- check-plan --------------------------------------------------------------------------------------------------


def test_check_plan():
    written = answer("check-plan", X1 / "plan-as-written.toml", code=1)
    assert not written["passed"] and len(written["findings"]) >= 17
    done = economics("check-plan", X1 / "plan.toml")
    assert done.exit_code == 0 and "agrees with itself" in done.stdout


def test_check_plan_from_standard_input():
    text = (X1 / "plan.toml").read_text(encoding="utf-8")
    assert answer("check-plan", "-", stdin=text)["passed"]
    for nothing in ("", "name = 'x'\n", "[run]\nhours = 24\n"):
        said = answer("check-plan", "-", stdin=nothing, code=1)
        assert said["verdict"] == "nothing checked" and not said["passed"] and not said["checked"]
        assert "nothing checked" in economics("check-plan", "-", stdin=nothing).stdout
    bad = economics("check-plan", "-", stdin="[run]\nhour = 3\n")
    assert bad.exit_code == 2
    assert "standard input: [run] has no key 'hour' (line 2); did you mean 'hours'?" in " ".join(
        bad.stderr.split()
    )


# --- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("say spot={'growth': 0.5} (0: all at once)", "say --spot growth=0.5 (0: all at once)"),
        ("or spot={'mean_up_hours': ...}.", "or --spot mean_up_hours=."),
        (
            "refresh_prices() or add_price(...) brings",
            "`economics prices refresh` or `economics prices add` brings",
        ),
        ("(include_hostless=True takes them)", "(--include-hostless takes them)"),
        ("give n_gpus.", "give --n-gpus."),
        ("nothing to change here", "nothing to change here"),
    ],
)
def test_messages_speak_of_options(python, shell):
    assert as_commands(python) == shell


PLAIN = (
    "cost",
    "--params",
    "7B",
    "--tokens",
    "140B",
    "--gpu",
    "H100 SXM",
    "--n-gpus",
    "64",
    "--draws",
    "200",
)


@pytest.mark.parametrize(
    "words",
    [
        ("--spot", "mean_up_hours=abc"),
        ("--spot", "growth=fast"),
        ("--energy", "fraction=much"),
        ("--price", "700"),
        ("--price", "0.01"),
        ("--book", "no/such/book.csv"),
        ("--mfu", "337%"),
    ],
)
def test_bad_values_are_bad_input_and_no_fault_of_the_program(words):
    done = economics(*PLAIN, *words)
    assert done.exit_code == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_shares_are_written_as_people_write_them():
    one, other = (economics(*PLAIN, "--energy", f"fraction={x}", "--json") for x in ("70%", "0.7"))
    assert one.exit_code == 0, one.stderr
    assert json.loads(one.stdout)["energy_kwh"] == json.loads(other.stdout)["energy_kwh"]
