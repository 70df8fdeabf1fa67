"""Money is not turned into a size that the runs behind the law do not determine."""

from __future__ import annotations

import pytest

from economics import solve_budget
from scaling import NotIdentifiedError, datasets, fit_chinchilla

GPU = {"gpu": "H100 SXM", "n_gpus": 512, "as_of": "2026-10-10"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_open_size_needs_a_law_that_determines_it() -> None:
    fit = fit_chinchilla(datasets.builtin("cpu_sweep"), n_boot=100)
    with pytest.raises(NotIdentifiedError, match="not identified by these 52 runs"):
        solve_budget("1M", fit=fit, **GPU)
    given = solve_budget("1M", fit=fit, N="7B", **GPU)
    finding = next(f for f in given.findings if f.code == "law_not_identified")
    assert finding.severity == "error"
    assert solve_budget("1M", fit=fit, unidentified="return", **GPU).params > 0


def test_a_law_that_is_determined_answers() -> None:
    fit = fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=100)
    plan = solve_budget("1M", fit=fit, **GPU)
    assert not [f for f in plan.findings if f.code == "law_not_identified"]
