"""``scaling fit --law NAME``: other laws in words, as JSON, saved and read again, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scaling.laws.coupled import CoupledLaw
from scaling.laws.data_constrained import DataConstrainedLaw
from tests.scaling.fit_worlds import crossed
from tests.scaling.test_cli import answer, scaling


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """36 runs of a coupled law with little noise."""
    n, d, _ = crossed(6, 6, params=(2e7, 5e9), tokens=(3e8, 1e12))
    loss = CoupledLaw(1.8, 3e8**0.35, 2e10**0.37, 0.35, 0.37, 0.7).loss(n, d)
    loss = loss * np.exp(0.0005 * np.random.default_rng(0).normal(size=36))
    path = tmp_path_factory.mktemp("laws") / "runs.csv"
    rows = "\n".join(
        f"{a!r},{b!r},{c!r}" for a, b, c in zip(n.tolist(), d.tolist(), loss.tolist(), strict=True)
    )
    path.write_text(f"params,tokens,val_loss\n{rows}\n")
    return path


def test_a_law_in_words_and_as_json(runs: Path, tmp_path: Path) -> None:
    done = scaling("fit", runs, "--law", "coupled", "--n-boot", 40, "--save", tmp_path / "fit.json")
    assert done.exit_code == 0, done.stderr
    assert "CoupledLaw in params, tokens: 36 runs" in done.stdout and "verdict: identified" in done.stdout
    got = answer("fit", tmp_path / "fit.json")
    assert got["name"] == "coupled" and got["verdict"] == "identified"
    assert got["coefficients"]["k"]["low"] < got["law"]["k"] < got["coefficients"]["k"]["high"] < 1
    tied = answer("fit", runs, "--law", "overtraining", "--n-boot", 0, "--fixed", "E=1.8")
    assert tied["fixed"] == {"E": 1.8} and tied["law"]["E"] == 1.8
    assert answer("fit", runs, "--law", "chinchilla", "--n-boot", 0)["law"]["alpha"] > 0


def test_an_unidentified_law_is_exit_code_1(tmp_path: Path) -> None:
    law = DataConstrainedLaw(1.87, 520.0, 1490.0, 0.353, 0.353, 15.0, 5.0)
    held = [
        w for name in ("E", "A", "B", "alpha", "beta") for w in ("--fixed", f"{name}={getattr(law, name)}")
    ]
    lines = ["params,tokens,unique_tokens,loss"]
    lines += [f"{n},{d},1e10,{law.loss(n, d, 1e10)}" for n in (1e8, 1e9, 4e9) for d in (1e9, 4e9, 1e10)]
    path = tmp_path / "once.csv"
    path.write_text("\n".join(lines) + "\n")
    done = scaling("fit", path, "--law", "data-constrained", *held)
    assert done.exit_code == 1 and "R_D is not identified" in done.output
    assert "see their data 4 and more times" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--law", "farseer"), "no law is called 'farseer'"),
        (("--law", "kaplan", "--tied"), "has no option tied"),
        (("--law", "coupled", "--sigma", "val_loss"), "no option --sigma"),
        (("--law", "data-constrained"), "no column unique_tokens"),
    ],
)
def test_bad_input_is_exit_code_2(runs: Path, words: tuple[str, ...], said: str) -> None:
    done = scaling("fit", runs, *words)
    assert done.exit_code == 2 and said in done.stderr.replace("\n", " "), done.output


def test_other_commands_say_what_a_saved_law_is_not(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    assert scaling("fit", runs, "--law", "overtraining", "--n-boot", 0, "--save", path).exit_code in (0, 1)
    done = scaling("predict", path, "--params", "1B")
    assert done.exit_code == 2 and "fit of the law 'overtraining'" in done.stderr
    done = scaling("fit", path, "--n-boot", 5)
    assert done.exit_code == 2 and "--n-boot cannot change" in done.stderr
