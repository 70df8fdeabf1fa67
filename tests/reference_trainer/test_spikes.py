"""The detector: what it must find, when, and what it must leave alone."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping

import numpy as np
import pytest

from experiments.benchmarks.synthetic_logs import healthy
from reference_trainer.errors import DetectorError
from reference_trainer.spike_norms import NormWatch, impossible
from reference_trainer.spikes import Alarm, Detector

SIGNALS = ("loss", "grad_norm", "update_norm", "param_norm", "v_norm", "lr")


def curve(
    n: int = 2000, sd: float = 0.03, seed: int = 0, level: float = 3.0, fall: float = 2.0
) -> np.ndarray:
    """A loss that falls as a power law, with white noise."""
    rng = np.random.default_rng(seed)
    return level + fall * (1 + np.arange(n) / 30) ** -0.5 + sd * rng.standard_normal(n)


def watch(losses, detector: Detector | None = None, **others) -> list[Alarm]:
    detector = detector or Detector()
    rows = [dict(zip(("loss", *others), x, strict=True)) for x in zip(losses, *others.values(), strict=True)]
    return [alarm for step, row in enumerate(rows) if (alarm := detector.observe(step, row))]


def of(alarms: list[Alarm], tier: str) -> list[Alarm]:
    return [alarm for alarm in alarms if alarm.tier == tier]


# ------------------------------------------------------------------------------------ the loss


@pytest.mark.parametrize(("rise", "latest"), [(0.06, 90), (0.3, 6), (3.0, 5)])
def test_a_shift_is_found_and_stays_open(rise, latest):
    loss = curve()
    loss[1200:] += rise
    detector = Detector()
    (alarm,) = of(watch(loss[:1300], detector), "shift")
    assert 1200 <= alarm.step <= 1200 + latest
    assert abs(alarm.first_step - 1200) <= 25
    assert detector.open_alarm == alarm.first_step
    assert f"lowest level {alarm.baseline:.4g}" in alarm.evidence[0]


def test_a_slow_drift_is_found_before_it_has_cost_a_fifth_of_a_nat():
    loss = curve()
    loss[1200:] += 0.004 * np.arange(800)
    (alarm,) = of(watch(loss[:1500]), "shift")
    assert 1200 < alarm.step < 1250


def test_a_single_outlier_is_a_point_and_closes_at_once():
    loss = curve()
    loss[1200] += 1.5
    detector = Detector()
    alarms = watch(loss[:1201], detector)
    assert [(a.tier, a.step) for a in alarms] == [("point", 1200)]
    assert detector.open_alarm == 1200
    assert watch_on(detector, loss, 1201, 2000) == []
    assert detector.open_alarm is None


def watch_on(detector: Detector, loss, begin: int, end: int) -> list[Alarm]:
    return [a for s in range(begin, end) if (a := detector.observe(s, {"loss": float(loss[s])}))]


def test_a_spike_that_returns_closes_its_alarm():
    loss = curve()
    loss[1200:1240] += np.linspace(2.0, 0.3, 40)
    detector = Detector()
    watch(loss[:1230], detector)
    assert detector.open_tiers["shift"] == 1200
    watch_on(detector, loss, 1230, 1275)
    assert detector.open_alarm is None
    assert (
        watch_on(detector, loss, 1275, 2000) == []
    )  # and what happened does not ring again in the long medians


def test_not_finite_is_evidence_and_never_memory():
    loss = curve()
    twin, detector = Detector(), Detector()
    watch(loss[:1200], twin)
    watch(loss[:1200], detector)
    alarm = detector.observe(1200, {"loss": math.nan, "grad_norm": math.inf})
    assert alarm is not None and alarm.tier == "nonfinite" and alarm.score == math.inf
    assert alarm.evidence == ("loss is nan", "grad_norm is inf")
    assert (detector.level, detector.noise) == (twin.level, twin.noise)
    loss[1300:] += 0.3
    assert [a.tier for a in watch_on(detector, loss, 1201, 1500) if a.tier == "shift"] == ["shift"]
    assert "nonfinite" not in detector.open_tiers


def test_a_withheld_update_is_evidence():
    detector = Detector()
    watch(curve(200), detector)
    alarm = detector.observe(200, {"loss": 3.5, "finite": 0.0})
    assert alarm is not None and alarm.tier == "nonfinite" and "withheld" in alarm.evidence[0]


@pytest.mark.parametrize("sd", [0.002, 0.03, 0.15])
def test_a_fast_fall_a_cooldown_and_calmer_batches_are_no_anomaly(sd):
    rng = np.random.default_rng(4)
    n = 4000
    loss = curve(n, sd=0.0, fall=8.0) - 0.15 * np.clip((np.arange(n) - 3200) / 800, 0, 1) ** 0.5
    loss += sd * rng.standard_normal(n) * np.where(np.arange(n) < 1500, 1.0, 0.5)
    lr = np.minimum((np.arange(n) + 1) / 300, 1.0) * np.clip((n - np.arange(n)) / 800, 0, 1)
    assert watch(loss, lr=lr) == []


def test_losses_printed_with_two_digits():
    assert of(watch(np.round(curve(4000, sd=0.003), 2)), "shift") == []


def test_warming_the_rate_up_again_may_lift_the_loss_and_a_jump_of_the_rate_may_not():
    n = 2400
    lift = 0.12 * np.clip((np.arange(n) - 1500) / 300, 0, 1)
    slow = 1e-4 * (1 + 9 * np.clip((np.arange(n) - 1500) / 300, 0, 1))
    sudden = np.where(np.arange(n) >= 1500, 1e-2, 1e-4)
    loss = curve(n) + lift
    assert of(watch(loss, lr=slow), "shift") == []
    assert len(of(watch(loss, lr=sudden), "shift")) == 1


def test_synthetic_healthy_logs_raise_no_shift():
    """Five kinds of schedule, noise and cadence that set no threshold; the benchmark has two hundred."""
    for seed in range(2000, 2005):
        log = healthy(seed, 2500)
        for names in (("loss",), tuple(n for n in log if n != "step")):
            detector = Detector()
            for i, step in enumerate(log["step"]):
                alarm = detector.observe(int(step), {n: float(log[n][i]) for n in names})
                assert alarm is None or alarm.tier in ("point", "norm"), (seed, alarm)


# ------------------------------------------------------------------------------------ steps that do not just rise


def test_a_run_that_goes_back_forgets_what_came_after():
    loss = curve(1500)
    detector = Detector()
    bad = loss.copy()
    bad[1100:] += 2.0
    watch(bad[:1150], detector)
    assert detector.open_alarm == 1100
    assert watch_on(detector, loss, 1000, 1500) == []
    assert detector.open_alarm is None


def test_a_restart_further_back_than_the_memory_begins_anew():
    loss = curve(1500)
    detector = Detector()
    watch(loss, detector)
    assert watch_on(detector, loss, 100, 1500) == []


def test_steps_may_be_ten_apart_and_have_holes():
    loss = curve(1500)
    loss[900:] += 0.3
    detector = Detector()
    steps = 10 * np.arange(1500) + np.where(np.arange(1500) > 600, 5000, 0)
    alarms = [
        a for s, x in zip(steps, loss, strict=True) if (a := detector.observe(int(s), {"loss": float(x)}))
    ]
    (alarm,) = of(alarms, "shift")
    assert 0 <= alarm.step - steps[900] <= 60


def test_without_a_loss_it_says_what_it_got():
    with pytest.raises(DetectorError, match=r"step 3: .* got only grad_norm") as caught:
        Detector().observe(3, {"grad_norm": 1.0})
    assert caught.value.column == "loss"


# ------------------------------------------------------------------------------------ the norms


def norms(n: int, seed: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    lr = np.full(n, 1e-3)
    return {
        "grad_norm": 0.5 * np.exp(0.1 * rng.standard_normal(n)),
        "update_norm": 300 * lr * np.exp(0.03 * rng.standard_normal(n)),
        "param_norm": 50 + 0.01 * np.arange(n),
        "v_norm": 0.1 * np.exp(0.05 * rng.standard_normal(n)),
        "lr": lr,
    }


def test_norms_lead_the_loss_and_date_its_alarm():
    loss, other = curve(), norms(2000)
    other["grad_norm"][1197:1210] *= np.linspace(5, 40, 13)
    loss[1200:1260] += np.linspace(1.5, 0.2, 60)
    alarms = watch(loss, **other)
    assert (alarms[0].tier, alarms[0].signal, alarms[0].step) == ("norm", "grad_norm", 1197)
    assert of(alarms, "shift")[0].first_step == 1197


@pytest.mark.parametrize("signal", ["grad_norm", "update_norm", "v_norm"])
def test_each_norm_raises_its_own_alarm(signal):
    other = norms(600)
    other[signal][400] *= 6
    (alarm,) = watch(curve(600), **other)
    # The update over the learning rate has the tighter limit and the same news.
    assert alarm.tier == "norm" and alarm.signal.startswith(signal) and alarm.step == 400


def test_an_update_that_grows_with_the_rate_is_judged_by_their_ratio():
    other = norms(600)
    other["lr"] = 1e-3 * np.minimum(np.arange(600) / 300 + 0.01, 1.0)
    other["update_norm"] = 300 * other["lr"]
    assert watch(curve(600), **other) == []
    other["update_norm"][400:] *= 2.6
    assert [a.signal for a in watch(curve(600), **other)] == ["update_norm/lr"]


def test_what_no_optimizer_step_can_do():
    assert impossible({"param_norm": 50.0}, {"param_norm": 50.2, "update_norm": 0.3}) == []
    (moved,) = impossible({"param_norm": 50.0}, {"param_norm": 58.0, "update_norm": 0.3})
    (reset,) = impossible({"v_norm": 0.1}, {"v_norm": 0.01})
    assert moved.signal == "param_norm" and "something else changed them" in moved.says
    assert "was reset" in reset.says


def test_norm_watch_has_nothing_to_say_about_zeros_and_gaps():
    watcher = NormWatch()
    for step in range(200):
        row: Mapping[str, float] = {"grad_norm": 0.0 if step % 7 else 1.0, "lr": 0.0, "update_norm": 0.0}
        assert watcher.check(step, row) == []


# ------------------------------------------------------------------------------------ state, cost


@pytest.mark.parametrize("stop", [10, 130, 777, 1210, 1231])
def test_a_restored_detector_answers_to_the_bit(stop):
    loss, other = curve(), norms(2000)
    loss[1200:1260] += 1.0
    other["grad_norm"][1198:1210] *= 30
    loss[1500] = math.nan
    rows = [dict(zip(("loss", *other), x, strict=True)) for x in zip(loss, *other.values(), strict=True)]
    whole, second = Detector(), Detector()
    for step, row in enumerate(rows[:stop]):
        whole.observe(step, row)
    text = json.dumps(whole.state_dict(), allow_nan=False)
    second.load_state_dict(json.loads(text))
    for step in range(stop, 2000):
        a, b = whole.observe(step, rows[step]), second.observe(step, rows[step])
        assert repr(a) == repr(b)
        assert (whole.open_alarm, whole.level, whole.noise) == (second.open_alarm, second.level, second.noise)
    assert json.dumps(whole.state_dict()) == json.dumps(second.state_dict())


def test_a_state_that_misses_a_part_is_refused():
    state = Detector().state_dict()
    del state["norms"]
    with pytest.raises(DetectorError, match="no 'norms': another version wrote it"):
        Detector().load_state_dict(state)


def test_memory_is_bounded_and_a_step_is_cheap():
    loss, other = curve(6000), norms(6000)
    rows = [
        dict(zip(("loss", *other), x, strict=True)) for x in zip(loss.tolist(), *other.values(), strict=True)
    ]
    detector = Detector()
    sizes, times = [], []
    for part in range(3):
        begin = time.process_time()
        for step in range(2000 * part, 2000 * part + 2000):
            detector.observe(step, rows[step])
        times.append((time.process_time() - begin) / 2000)
        sizes.append(len(json.dumps(detector.state_dict())))
    assert sizes[2] < 1.2 * sizes[1] < 150_000
    assert min(times) < 50e-6
