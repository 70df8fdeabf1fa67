"""Spikes measured, named, and traced to causes; the labels of the public logs."""

from __future__ import annotations

import time

import numpy as np
import pytest

from reference_trainer.errors import DetectorError
from reference_trainer.spike_class import classify
from reference_trainer.spike_events import find_spikes, gather
from reference_trainer.spike_rows import read_rows
from reference_trainer.spikes import Detector

BLOOM = {
    "step": [12695, *range(31214, 31223), 31250, 31251, 45000],
    "loss": [2.464, 2.199, 2.220, 2.595, 2.242, 2.345, 5.098, 3.492, 3.213, 2.805, 2.216, 2.236, 2.114],
    "grad_norm": [0.17, 0.24, 0.95, 2.39, 15.9, 145, 960, 353, 379, 650, 0.27, 0.21, 0.14],
}  # as quoted in the chronicles of BLOOM 176B, github bigscience-workshop/bigscience


def history(n: int = 2000, seed: int = 0, sd: float = 0.05) -> dict[str, np.ndarray]:
    """A healthy log with all signals: an untrained loss of 10, norms with a few percent of noise."""
    rng = np.random.default_rng(seed)
    at = np.arange(n, dtype=float)
    lr = np.full(n, 1e-3)
    return {
        "step": at,
        "loss": 3 + 7 * (1 + at / 10) ** -0.6 + sd * rng.standard_normal(n),
        "grad_norm": 0.5 * np.exp(0.1 * rng.standard_normal(n)),
        "update_norm": 300 * lr * np.exp(0.03 * rng.standard_normal(n)),
        "param_norm": 50 + 0.01 * at,
        "v_norm": 0.1 * np.exp(0.02 * rng.standard_normal(n)),
        "lr": lr,
    }


def diagnose(log, **options):
    """The gravest spike of a log and what it is called."""
    spikes = find_spikes(log)
    grave = [s for s in spikes if {"shift", "nonfinite"} & set(s.tiers)] or spikes
    return grave[0], classify(log, grave[0], **options)


def causes(diagnosis) -> list[str]:
    return [cause.cause for cause in diagnosis.causes]


# ------------------------------------------------------------------------------------ classes


@pytest.mark.parametrize(
    ("excess", "kind", "advice"),
    [
        (lambda k: np.where(k < 1, 2.0, 0.0), "data outlier", "none"),
        (lambda k: 3 * np.exp(-k / 15), "recoverable", "wait"),
        (lambda k: 3 * np.exp(-k / 50), "recoverable", "wait"),
        (lambda k: np.full(len(k), 0.4), "persistent", "rollback"),
        (lambda k: 0.4 + 3 * np.exp(-k / 30), "persistent", "rollback"),
        (lambda k: 0.004 * k, "divergent", "rollback"),
        (lambda k: np.minimum(0.02 * np.exp(k / 20), 7.0), "divergent", "rollback"),
        (lambda k: np.where(k < 3, 0.3, np.nan), "divergent", "rollback"),
        (lambda k: np.where(k < 1, np.nan, 0.0), "data outlier", "wait"),
    ],
)
@pytest.mark.parametrize("sd", [0.01, 0.1])
def test_the_shape_of_a_spike_decides_its_class(excess, kind, advice, sd):
    log = {name: column for name, column in history(2000, sd=sd).items() if name in ("step", "loss")}
    log["loss"][1200:] += excess(np.arange(800.0))
    spike, found = diagnose(log)
    assert (found.kind, found.advice) == (kind, advice), found.reason
    assert found.confidence in ("high", "medium")
    assert spike.loss_before == pytest.approx(3 + 7 * (1 + 117) ** -0.6, abs=0.05)


def test_what_was_measured():
    log = history()
    log["loss"][1200:1230] += np.linspace(2.0, 0.5, 30)
    log["grad_norm"][1199:1210] = 9.0
    spike, _ = diagnose(log)
    assert (spike.first_step, spike.alarm_step, spike.tiers[0]) == (1199, 1199, "norm")
    assert abs(spike.peak_step - 1200) <= 2 and spike.loss_peak == pytest.approx(log["loss"][1200:1203].max())
    assert spike.end_step is not None and 1225 <= spike.end_step <= 1235
    assert spike.loss_after_500 == pytest.approx(np.median(log["loss"][1683:1716]), abs=0.02)
    assert spike.grad_norm_before == pytest.approx(0.5, rel=0.1) and spike.grad_norm_peak == 9.0


def test_several_spikes_are_kept_apart():
    log = history(4000)
    for begin in (1000, 1800, 3000):
        log["loss"][begin : begin + 20] += 2.0
    log["loss"][2500] += 2.0
    found = [(s.first_step, classify(log, s).kind) for s in find_spikes(log)]
    assert found == [
        (1000, "recoverable"),
        (1800, "recoverable"),
        (2500, "data outlier"),
        (3000, "recoverable"),
    ]


def test_a_run_that_goes_on_is_given_200_steps():
    log = history()
    log["loss"][1200:] += 0.8
    early = {name: column[:1300] for name, column in log.items()}
    _, found = diagnose(early, ongoing=True)
    assert (found.kind, found.advice, found.confidence) == ("recoverable", "wait", "low")
    assert "look again 200 steps" in found.reason
    assert diagnose(early)[1].advice == "rollback"
    later = {name: column[:1410] for name, column in log.items()}
    assert diagnose(later, ongoing=True)[1].advice == "rollback"


def test_a_streaming_detector_and_a_whole_log_agree():
    log = history()
    log["loss"][1200:1230] += 2.0
    detector = Detector()
    names = [n for n in log if n != "step"]
    alarms = [
        alarm
        for i in range(2000)
        if (alarm := detector.observe(i, {name: float(log[name][i]) for name in names}))
    ]
    assert gather(alarms, log) == find_spikes(log)


def test_a_restart_that_repeats_the_steps_ends_the_story():
    first, again = history(1300), history(2000, seed=1)
    first["loss"][1200:] += 3.0
    log = {name: np.concatenate([first[name], again[name][1000:]]) for name in first}
    spike, found = diagnose(log)
    assert found.kind in ("persistent", "divergent") and spike.shape.went_back
    assert spike.loss_after_500 is None and len(find_spikes(log)) == 1


# ------------------------------------------------------------------------------------ causes


def test_no_cause_without_evidence():
    log = {name: column for name, column in history().items() if name in ("step", "loss")}
    log["loss"][1200:] += 0.4
    assert diagnose(log)[1].causes == ()


def test_a_rate_that_jumped():
    log = history()
    log["lr"][1200:1205] *= 100
    log["update_norm"][1200:1205] *= 100
    log["param_norm"][1201:] += 20
    log["loss"][1201:] += 2.0
    _, found = diagnose(log)
    assert found.causes[0].cause == "learning rate too high" and found.causes[0].confidence == "high"
    assert "from 0.001 to 0.1 at step 1200, 100x" in found.causes[0].evidence


def test_a_loss_that_leaps_after_an_ordinary_update_is_the_batch():
    log = history()
    log["loss"][1200:1210] = 12.0
    log["loss"][1210:1260] += 0.5
    _, found = diagnose(log)
    (cause,) = [c for c in found.causes if c.cause == "corrupted data"]
    assert cause.confidence == "high" and "the batch did it" in cause.evidence
    log["update_norm"][1199] *= 20  # now the weights may have done it
    assert "corrupted data" not in causes(diagnose(log)[1])


def test_repeated_text_is_seen_when_the_loss_falls_and_returns():
    log = history()
    log["grad_norm"][1200:1210] *= 20
    log["loss"][1200:1210] = np.linspace(3.4, 0.4, 10)
    (spike,) = find_spikes(log)
    found = classify(log, spike)
    assert found.kind == "data outlier" and found.advice == "none"
    assert "repeated or trivial text" in found.causes[0].evidence


def test_a_second_moment_that_was_reset():
    log = history()
    log["v_norm"][1200:] *= 0.01
    log["update_norm"][1200:1230] *= 4
    log["loss"][1202:1260] += 1.0
    _, found = diagnose(log)
    assert found.causes[0].cause == "stale Adam second moment" and "reset" in found.causes[0].evidence


def test_weights_that_moved_by_themselves():
    log = history()
    log["param_norm"][1200:] += 5.0
    log["loss"][1201:] += 1.0
    _, found = diagnose(log)
    assert found.causes[0].cause == "numerical" and found.causes[0].confidence == "high"


def test_a_gradient_of_one_batch():
    log = history()
    log["grad_norm"][1200] *= 10
    (spike,) = find_spikes(log)
    found = classify(log, spike)
    assert causes(found) == ["rare-token gradient"] and found.causes[0].confidence == "low"


# ------------------------------------------------------------------------------------ excerpts, bad input, cost


def test_an_excerpt_that_returns():
    (spike,) = find_spikes(BLOOM)
    found = classify(BLOOM, spike)
    assert (found.kind, found.advice, found.confidence) == ("recoverable", "wait", "low")
    assert (spike.first_step, spike.peak_step, spike.end_step) == (31215, 31219, 31250)  # the gradient leads
    cut = {name: column[:10] for name, column in BLOOM.items()}
    assert classify(cut, find_spikes(cut)[0]).advice == "wait"  # still falling where it ends


@pytest.mark.parametrize(
    ("step", "loss", "kind"),
    [
        ([7000, 7010, 7220], [6.44, 11.42, 7.16], "persistent"),
        ([6900, 6910, 6920, 6930, 6940], [6.37, 6.60, 7.31, 9.12, 10.24], "divergent"),
        ([8738, 8739, 8740, 8741, 8742, 8743, 9026], [3.32, 3.42, 3.68, 7.27, 4.13, 7.60, 7.02], "divergent"),
        ([10, 11, 12, 13], [3.0, 3.1, float("nan"), float("nan")], "divergent"),
    ],
)
def test_an_excerpt_that_does_not(step, loss, kind):
    log = {"step": step, "loss": loss}
    (spike,) = find_spikes(log)
    found = classify(log, spike)
    assert (found.kind, found.advice, found.confidence) == (kind, "rollback", "low")


def test_segments_split_where_steps_go_back_or_jump():
    rows = read_rows({"step": [7000, 7010, 7220, 6900, 6910, 6920, 11446, 11447], "loss": np.ones(8)})
    assert rows.starts.tolist() == [0, 2, 3, 6]
    assert read_rows(
        {"step": [*range(100), *range(100, 2000, 10)], "loss": np.ones(290)}
    ).starts.tolist() == [0]
    assert find_spikes({"step": [], "loss": []}) == []


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ({"step": [1, 2]}, "there is no loss, only step"),
        ({"step": [1, 2], "loss": [1.0]}, "step has 2 rows and loss has 1"),
        ({"step": [1, float("nan")], "loss": [1.0, 1.0]}, "row 1 has the step nan"),
        ({"step": [1, 2], "loss": ["a", "b"]}, "loss does not consist of numbers"),
        ({"step": [[1, 2]], "loss": [[1, 2]]}, r"step has the shape \(1, 2\)"),
    ],
)
def test_bad_histories_are_refused(log, says):
    with pytest.raises(DetectorError, match=says):
        find_spikes(log)


def test_a_spike_of_another_log_is_refused():
    (spike,) = find_spikes(BLOOM)
    with pytest.raises(DetectorError, match="pass the history the spike was found in"):
        classify({"step": [1, 2], "loss": [1.0, 1.0]}, spike)


def test_a_log_of_20k_steps_is_named_in_two_seconds():
    log = history(20_000)
    for begin in range(1000, 19_000, 1500):
        log["loss"][begin : begin + 30] += 2.0
    begin = time.process_time()
    spikes = find_spikes(log)
    assert [classify(log, spike).kind for spike in spikes] == ["recoverable"] * 12
    assert time.process_time() - begin < 2.0
