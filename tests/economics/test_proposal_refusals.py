"""What a decision is not made from: arguments and tables that cannot be, each with an error of its kind."""

from __future__ import annotations

import pytest

from economics import UnknownGPU, plan
from economics.errors import PriceError
from economics.run_search import BudgetError
from scaling import fit_chinchilla
from scaling.errors import DataError
from tests.scaling.fit_worlds import scattered

DAY = "2026-10-10"
GPUS = ("A100-80GB-SXM", "H100-80GB-SXM")


@pytest.fixture(scope="module")
def fit():
    n, d, loss = scattered(60, seed=1)
    return fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=60)


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"budget": 0}, DataError, "budget"),
        ({"budget": "much"}, DataError, "budget"),
        ({"gpu": "A1000"}, UnknownGPU, "A100"),
        ({"gpu": []}, DataError, "one or more"),
        ({"markets": "flea market"}, PriceError, "no market is called"),
        ({"market": "spot"}, DataError, "give markets"),
        ({"price": 1.5, "gpu": list(GPUS)}, DataError, "price is that of one kind"),
        ({"risk": 1.0}, DataError, "risk"),
        ({"splits": [1.2]}, DataError, "splits"),
        ({"factors": "x"}, DataError, "factors"),
        ({"target": "tokens@much"}, DataError, "target"),
        ({"unique_tokens": -1}, DataError, "unique_tokens"),
        ({"N": "1B"}, DataError, "looked for"),
        ({"prior": "nobody"}, DataError, "nobody"),
        ({"budget": 0.01}, BudgetError, "before the first token"),
    ],
)  # fmt: skip
def test_bad_input(fit, more, error, words):
    asked = {"budget": 50, "gpu": GPUS[0], "as_of": DAY, "draws": 100, **more}
    with pytest.raises(error, match=words):
        plan(fit, asked.pop("budget"), **asked)


def test_bad_tables(tmp_path):
    with pytest.raises((DataError, OSError), match=r"nowhere\.csv"):
        plan(tmp_path / "nowhere.csv", 50, gpu=GPUS[0])
    empty = tmp_path / "empty.csv"
    empty.write_text("params,tokens,loss\n", encoding="utf-8")
    with pytest.raises(DataError):
        plan(empty, 50, gpu=GPUS[0])


def test_a_run_without_end(fit):
    """Machines that are taken away, and nothing saved: no sum buys a run."""
    asked = {"gpu": GPUS[0], "markets": "spot", "checkpoint_every": None, "as_of": DAY, "draws": 100}
    with pytest.raises(DataError, match="does not end"):
        plan(fit, 50, **asked)
