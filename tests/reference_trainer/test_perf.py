"""The pace, with a clock that the test turns."""

from __future__ import annotations

import sys
import types
from statistics import median

import pytest
import torch

from reference_trainer import nvml
from reference_trainer.perf import DROP, WINDOW, Perf


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def perf(clock: Clock, **options: object) -> Perf:
    given = {
        "step_tokens": 4096,
        "flops_per_token": {"6N": 6e6, "palm": 7e6},
        "peak_flops": 1e11,
        "usd_per_hour": 3.6,
    }
    out = Perf(**given | options, clock=clock)
    out.begin(0)
    return out


def test_numbers_of_one_reading(clock):
    """10 steps in 8 s, 1 s of it waiting for data, beside 2 s of evaluation."""
    meter = perf(clock)
    with meter.waiting():
        clock.now += 1.0
    clock.now += 7.0
    with meter.aside():
        clock.now += 2.0
    row = meter.read(10)
    assert row == pytest.approx({
        "tokens_per_s": 10 * 4096 / 8, "step_ms": 800, "data_wait_ms": 100, "mfu_6N": 5120 * 6e6 / 1e11,
        "mfu_palm": 5120 * 7e6 / 1e11, "wall_s": 10, "usd": 0.01, "goodput": 0.8,
    })  # fmt: skip


def test_what_is_not_known_is_left_out(clock):
    meter = perf(clock, peak_flops=None)
    assert meter.read(0, total=100) == {"wall_s": 0.0, "usd": 0.0}
    clock.now += 1
    row = meter.read(1, total=float("inf"))
    assert {"tokens_per_s", "goodput"} <= set(row) and not {k for k in row if k[:3] in ("mfu", "eta")}


def test_what_is_left_is_seen_through_compilation_and_evaluations(clock):
    """A first reading of 60 s (compilation), then 10 steps in 8 s and 2 s of evaluation each: 1 s a step."""
    meter = perf(clock)
    clock.now += 60
    meter.read(10, total=1000)
    for step in range(20, 101, 10):
        clock.now += 8
        with meter.aside():
            clock.now += 2
        row = meter.read(step, total=1000, usd=5.0)
    assert row["eta_s"] == pytest.approx(900) and row["usd_projected"] == pytest.approx(5 + 0.9)
    assert row["goodput"] == pytest.approx((60 + 9 * 8) / (60 + 9 * 10))


def test_steps_that_are_done_again_do_not_count_twice(clock):
    """Checkpoint at 100 s, killed at 150 s, resumed: of 250 s 200 s count."""
    meter = perf(clock)
    clock.now += 100
    meter.read(100)
    saved = meter.state_dict()
    clock.now += 50
    last = meter.read(150)["wall_s"]
    again = perf(clock)
    again.load_state_dict(saved, wall_s=last)
    again.begin(100)
    clock.now += 100
    row = again.read(200)
    assert row["wall_s"] == pytest.approx(250) and row["goodput"] == pytest.approx(200 / 250)
    assert row["tokens_per_s"] == pytest.approx(4096)


def test_going_back_inside_a_run(clock):
    """The steps after the checkpoint were for nothing, their time was not free."""
    meter = perf(clock)
    clock.now += 100
    meter.read(100)
    saved = meter.state_dict()
    clock.now += 60
    meter.read(160)
    meter.load_state_dict(saved)
    meter.begin(100)
    clock.now += 40
    row = meter.read(140)
    assert row["wall_s"] == pytest.approx(200) and row["goodput"] == pytest.approx(140 / 200)


def test_a_state_counts_the_steps_since_the_last_reading(clock):
    meter = perf(clock)
    clock.now += 10
    assert meter.state_dict() == {"useful_s": pytest.approx(10), "wall_s": pytest.approx(10)}
    assert meter.read(10)["goodput"] == pytest.approx(1.0)


def run(meter: Perf, clock: Clock, rates: list[float]) -> list[bool]:
    """Which readings raise the alarm; rates are in tokens/s."""
    out = []
    for step, rate in enumerate(rates, start=1):
        clock.now += 4096 / rate
        meter.read(step)
        out.append(meter.alarm is not None)
    return out


def test_a_drop_is_said_once(clock):
    meter = perf(clock)
    steady, slow = [1000.0] * 25, [690.0] * 4
    assert run(meter, clock, steady) == [False] * 25
    clock.now, meter = 0.0, perf(clock)
    found = run(meter, clock, [*steady, *slow, *steady, *slow, 710.0])
    assert [i for i, alarm in enumerate(found) if alarm] == [25, 54]


def test_the_alarm_says_what_it_saw(clock):
    meter = perf(clock)
    run(meter, clock, [1000.0] * 6)
    clock.now += 4096 / 500
    meter.read(7)
    assert meter.alarm is not None
    assert meter.alarm.startswith("step 7: 500 tokens/s, 50% of the 1,000 usual here")


def test_the_alarm_is_the_rule_that_is_written_down(clock):
    """Against the same rule in other words, on a pace that wanders."""
    torch.manual_seed(0)
    rates = (1000 * torch.rand(300).mul(1.5).add(0.2)).tolist()
    low, expected = False, []
    for i, rate in enumerate(rates):
        before = rates[max(0, i - WINDOW) : i]
        now = len(before) >= 5 and rate < DROP * median(before)
        expected.append(now and not low)
        low = now
    assert run(perf(clock), clock, rates) == expected and 10 < sum(expected) < 150


def test_a_slow_first_reading_is_no_alarm(clock):
    assert not any(run(perf(clock), clock, [1.0, *[1000.0] * 30]))


# ------------------------------------------------------------------------------------------------ the device


def fake_nvml(**broken: bool) -> types.ModuleType:
    """What pynvml offers, for a device that is 1410 MHz, 64 degrees, 312.5 W."""
    module = types.ModuleType("pynvml")
    asked: list[object] = []

    def answer(name: str, value: float):
        def ask(handle: object, *_: object) -> float:
            asked.append(handle)
            if broken.get(name):
                raise RuntimeError("Not Supported")
            return value

        return ask

    module.NVML_CLOCK_SM, module.NVML_TEMPERATURE_GPU, module.asked = 1, 0, asked
    module.nvmlInit = lambda: None
    module.nvmlDeviceGetHandleByUUID = lambda name: name
    module.nvmlDeviceGetClockInfo = answer("clock", 1410)
    module.nvmlDeviceGetTemperature = answer("temperature", 64)
    module.nvmlDeviceGetPowerUsage = answer("power", 312_500)
    return module


@pytest.fixture
def cuda(monkeypatch) -> torch.device:
    """A device that torch knows by its UUID alone."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(uuid="4f-07"))
    return torch.device("cuda", 0)


def test_the_device_is_asked_once_a_second_and_by_its_own_name(monkeypatch, cuda, clock):
    module = fake_nvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    read = nvml.gpu_reader(cuda, clock)
    assert read() == {"gpu_clock_mhz": 1410, "gpu_temp_c": 64, "gpu_power_w": 312.5}
    assert read() is read() and module.asked == ["GPU-4f-07"] * 3
    clock.now += 1
    read()
    assert len(module.asked) == 6


def test_a_device_that_cannot_say_everything(monkeypatch, cuda):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(power=True))
    assert nvml.gpu_reader(cuda)() == {"gpu_clock_mhz": 1410, "gpu_temp_c": 64}


def test_without_the_library_or_the_device_there_is_nothing(monkeypatch, cuda, clock):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.gpu_reader(cuda)() == {} == nvml.gpu_reader(torch.device("cpu"))()
    meter = perf(clock, machine=nvml.gpu_reader(cuda))
    clock.now += 1
    assert not {k for k in meter.read(1) if k.startswith("gpu")}
