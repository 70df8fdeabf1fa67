"""Public training logs: what the detector, the classifier and the reader's guide must say of them, and what not."""

from __future__ import annotations

import pytest

from reference_trainer.log_guide import read_guide
from reference_trainer.spike_class import classify
from reference_trainer.spike_events import find_spikes
from reference_trainer.spikes import Detector
from reference_trainer.training_log import read_training_log

SIGNALS = ("loss", "grad_norm", "update_norm", "param_norm", "v_norm", "lr")
#: First step and class of the one event besides data outliers; None where there is none.
LABELS = {
    "llmc_gpt2_124M_adamw_fineweb10B": None,
    "modded_124M_adam_wsd_5100": None,
    "modded_124M_muon_wsd_5100": None,
    "cpu_base_lr3e-3": None,
    "cpu_inj_random_labels_1": None,
    "cpu_inj_repeat_token_10": None,
    "cpu_inj_lr100x_5": (600, "persistent", "rollback"),
    "cpu_inj_random_labels_20": (600, "recoverable", "wait"),
}


@pytest.mark.loss_curves
@pytest.mark.parametrize("alone", [True, False], ids=["loss only", "all signals"])
@pytest.mark.parametrize("name", LABELS)
def test_public_logs_get_their_labels(name, alone, loss_curves):
    log = dict(read_training_log(loss_curves / f"{name}.csv").history())
    if alone:
        log = {"step": log["step"], "loss": log["loss"]}
    spikes = find_spikes(log)
    named = [(s, classify(log, s)) for s in spikes]
    grave = [(s.first_step, d.kind, d.advice) for s, d in named if d.kind != "data outlier"]
    if LABELS[name] is None:
        assert grave == []
        assert all(d.advice == "none" for _, d in named)
    else:
        ((step, kind, advice),) = grave
        assert abs(step - LABELS[name][0]) <= 1 and (kind, advice) == LABELS[name][1:]
    if not alone and name == "cpu_inj_lr100x_5":
        causes = [cause.cause for cause in named[-1][1].causes]
        assert step == 600 and "learning rate too high" in causes  # before the loss, which rose at 601
    if not alone and name in ("cpu_inj_repeat_token_10", "cpu_inj_random_labels_1"):
        assert 600 in [s.first_step for s in spikes]


@pytest.mark.loss_curves
@pytest.mark.parametrize(
    ("name", "kinds", "advice"),
    [
        ("bloom_176B_tr11_excerpts", {"recoverable"}, "wait"),
        ("bigscience_104B_tr8_excerpts", {"persistent", "divergent"}, "rollback"),
    ],
)
def test_public_excerpts_get_their_labels(name, kinds, advice, loss_curves):
    log = read_training_log(loss_curves / f"{name}.csv").history()
    found = [classify(log, spike) for spike in find_spikes(log)]
    assert found and {d.kind for d in found} <= kinds
    assert {(d.advice, d.confidence) for d in found} == {(advice, "low")}


@pytest.mark.loss_curves
@pytest.mark.parametrize("alone", [True, False], ids=["loss only", "all signals"])
@pytest.mark.parametrize(
    "name",
    [
        "llmc_gpt2_124M_adamw_fineweb10B",
        "modded_124M_adam_wsd_5100",
        "modded_124M_muon_wsd_5100",
        "cpu_base_lr3e-3",
    ],
)
def test_healthy_public_logs_raise_no_shift(name, alone, loss_curves):
    history = read_training_log(loss_curves / f"{name}.csv").history()
    names = [n for n in SIGNALS if n in history and not (alone and n != "loss")]
    detector = Detector()
    for i, step in enumerate(history["step"]):
        alarm = detector.observe(int(step), {n: float(history[n][i]) for n in names})
        assert alarm is None or alarm.tier in ("point", "norm")


@pytest.mark.loss_curves
def test_public_logs_that_are_healthy(loss_curves):
    """GPT-2 124M by llm.c: its command line has 700 steps of warm-up and a cosine to 0 over 19,560 steps."""
    found = read_guide(loss_curves / "llmc_gpt2_124M_adamw_fineweb10B.csv")
    (warm,), (shape,) = found.of("warm-up"), found.of("schedule")
    assert warm.numbers["steps"] == pytest.approx(700, abs=3) and shape.numbers["shape"] == "cosine"
    assert shape.numbers["end"] == pytest.approx(19_560, rel=0.01) and shape.numbers["floor"] < 0.01
    assert {f.kind for f in found.features} <= {"warm-up", "schedule", "spike"}
    for name in ("modded_124M_adam_wsd_5100", "modded_124M_muon_wsd_5100"):
        found = read_guide(loss_curves / f"{name}.csv")
        (shape,) = found.of("schedule")  # seen in the loss alone
        assert 3_400 < shape.numbers["cooldown_start"] < 4_400 and shape.confidence == "low"
        assert {f.kind for f in found.features} <= {"schedule", "spike"}
        assert all(f.numbers["class"] == "data outlier" for f in found.of("spike"))


@pytest.mark.loss_curves
def test_public_logs_of_incidents(loss_curves):
    found = read_guide(loss_curves / "cpu_inj_lr100x_5.csv")
    (jump,) = found.of("learning rate jump")
    assert jump.where == "lines 602-606" and jump.numbers["factor"] == pytest.approx(100, rel=0.01)
    assert any(
        f.numbers["class"] == "persistent" and "learning rate jump" in f.decision for f in found.of("spike")
    )
    bloom = read_guide(loss_curves / "bloom_176B_tr11_excerpts.csv")
    assert [f.numbers["class"] for f in bloom.of("spike")] == ["recoverable"] and "excerpt" in bloom.of(
        "gap"
    )[0].decision
    failed = read_guide(loss_curves / "bigscience_104B_tr8_excerpts.csv").of("spike")
    assert failed and {f.numbers["class"] for f in failed} <= {"persistent", "divergent"}
    assert all(f.confidence == "low" for f in failed)
