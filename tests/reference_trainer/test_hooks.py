"""The seam between the loop and who watches it."""

from __future__ import annotations

import pytest

from reference_trainer.hooks import CONTINUE, Action, Observer, Silent
from scaling.errors import DataError


def test_silence():
    observer: Observer = Silent()
    assert observer.observe(1, {"loss": float("nan")}) is CONTINUE and observer.open_alarm is None
    observer.load_state_dict(observer.state_dict())


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "rollback"},
        {"kind": "rollback", "to_step": -1},
        {"kind": "skip"},
        {"kind": "skip", "skip": -3},
        {"kind": "lower_lr"},
        {"kind": "lower_lr", "lr_factor": 0.0},
        {"kind": "lower_lr", "lr_factor": 1.5},
        {"kind": "retreat"},
    ],
)
def test_actions_that_mean_nothing_are_refused(fields):
    with pytest.raises(DataError):
        Action(**fields)


def test_actions_that_mean_something():
    assert Action("rollback", to_step=0, skip=10, lr_factor=0.5).skip == 10
    assert Action("lower_lr", lr_factor=0.75).kind == "lower_lr"
