"""Spot runs that cannot be: negative waits and prices, machines that go slower than none, saves for nothing."""

from __future__ import annotations

import math

import pytest

from economics import cost
from economics.interruptions import interruption_rate
from economics.spot import spot_run
from scaling.errors import DataError

NAN = math.nan


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("wait_hours", (-5, NAN, math.inf, "1", True)),
        ("restart_hours", (-1, NAN, "x")),
        ("checkpoint_hours", (-1, NAN, math.inf)),
        ("growth", (-3, 5, 1.01, NAN, "1")),
        ("usd_per_hour", (-1, NAN, math.inf)),
        ("on_demand_usd_per_hour", (-1, NAN)),
        ("mean_up_hours", (0, -1, NAN, 1e-9, 1e-320, "6")),
        ("faults_per_gpu_hour", (-1, NAN, 1e9, 1e300)),
        ("nodes", (0, NAN, math.inf, 1e12)),
        ("checkpoint_every", (0, -1, NAN, math.inf, True, "never")),
    ],
)
def test_arguments_out_of_their_range_are_refused(name, values):
    for value in values:
        with pytest.raises(DataError, match=r"must be|must lie|interruptions per hour"):
            spot_run(24, **{name: value})


def test_more_machines_are_never_safer():
    for growth in (0.0, 0.5, 1.0):
        rates = [interruption_rate(n, 8, growth=growth) for n in (1, 8, 64)]
        assert rates == sorted(rates)
    assert interruption_rate(64, 8, growth=0.0, faults_per_gpu_hour=0) == pytest.approx(1 / 3.24)


def test_saves_for_nothing_are_done_once_a_minute():
    """Without a cost of saving, what is lost is half a minute an interruption: 24 h stay 24 h and a few minutes."""
    run = spot_run(24, checkpoint_hours=0, usd_per_hour=1.10, on_demand_usd_per_hour=1.79)
    assert run.interval == pytest.approx(1 / 60)
    assert run.rework_hours == pytest.approx(24 / 3.24 / 120, rel=0.01)
    assert "rework_hours" in repr(run) and not any(f.code == "no_checkpoints" for f in run.findings)
    asked = cost(N="1B", D="20B", gpu="A100 SXM 80GB", n_gpus=8, price=1.1, market="spot", draws=200,
                 spot={"checkpoint_hours": 0})  # fmt: skip
    assert "$" in repr(asked)


def test_a_save_that_never_succeeds_takes_for_ever():
    assert spot_run(24, checkpoint_hours=1e4).wall_hours == math.inf
