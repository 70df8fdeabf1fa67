"""The spending cap: ten thousand random lives of a run, and every promise by itself."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest

from economics.billing import billed_usd, boot_time, quantile_of
from economics.budget import BudgetExceeded, BudgetGuard
from scaling.errors import DataError
from scaling.estimate import Estimate


class Clock:
    """Seconds since the epoch, moved by hand."""

    def __init__(self, now: float = 1e9) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make(cap: float = 50.0, price: float = 2.0, clock: Clock | None = None, **more) -> BudgetGuard:
    return BudgetGuard(cap, price, clock=clock or Clock(), **more)


def test_needs_the_standard_library_alone():
    code = (
        "import sys; before = set(sys.modules); import economics.budget;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split() == ["economics", "scaling"]


def independent_bill(sessions: list[tuple[float, float, float]], granularity: float, minimum: float) -> float:
    """What a provider would bill for (start, end, price), written without the code under test."""
    total = 0.0
    for start, end, price in sessions:
        units = math.ceil(round(max(end - start, minimum) / granularity, 9))
        total += units * granularity * price / 3600.0
    return total


def live(rng: random.Random) -> float:
    """One random life of a run under a guard; returns what was billed over the cap (negative: within)."""
    cap = rng.choice([1.0, 5.0, 50.0]) * rng.uniform(0.2, 1.0)
    granularity = rng.choice([1.0, 60.0, 3600.0])
    price = rng.uniform(0.5, 12.0)
    minimum = rng.choice([0.0, 0.0, 60.0, 600.0])
    save, stop = rng.uniform(0, 300), rng.uniform(0, 120)
    longest = rng.choice([1.0, 30.0, 600.0])
    egress = rng.choice([0.0, 0.0, rng.uniform(0, 0.1 * cap)])
    catches_only = rng.random() < 0.3  # a loop that ignores the answer and waits for the error
    clock = Clock(rng.uniform(0, 2e9))
    kwargs = {
        "billing_granularity": granularity,
        "minimum_s": minimum,
        "final_save_s": save,
        "shutdown_s": stop,
        "shutdown_usd": egress,
        "max_step_s": longest,
        "clock": clock,
    }
    start = clock.now
    clock.now += rng.uniform(0, 900)  # install, data, compile: billed
    guard = BudgetGuard(cap, price, started_at=start, instance="0", **kwargs)
    sessions, charged, name = [], 0.0, 0
    try:
        guard.check()
    except BudgetExceeded as refused:
        assert refused.needed > cap
        return -cap  # not launched: nothing is billed
    for _ in range(rng.choice([5, 30, 60])):
        try:
            if not guard.step() and not catches_only:
                break
        except BudgetExceeded:
            break
        # Whatever is going on, a step is at most as long as declared; sometimes exactly that.
        took = longest if rng.random() < 0.2 else rng.uniform(0, longest)
        clock.now += took
        event = rng.random()
        if event < 0.1:
            usd = rng.uniform(0, 0.2 * cap)
            try:
                guard.charge("storage", usd)
                charged += usd
            except BudgetExceeded as refused:
                assert refused.needed > cap
        elif event < 0.2:  # the process dies and starts again on the same machine, within the time of a step
            state = json.loads(json.dumps(guard.state_dict()))
            clock.now += rng.uniform(0, longest - took)
            guard = BudgetGuard(cap, price, instance=str(name), **kwargs)
            guard.load_state_dict(state)
        elif event < 0.25:  # the machine is taken away; another one costs something else
            state, died = json.loads(json.dumps(guard.state_dict())), clock.now
            clock.now += rng.uniform(0, 7200)  # waiting for a machine is not billed
            new_price, startup = rng.uniform(0.5, 12.0), rng.uniform(0, 900)
            fresh = BudgetGuard(cap, new_price, instance=str(name + 1), **kwargs)
            fresh.load_state_dict(state, previous_ended_at=died)
            try:
                fresh.check(startup_s=startup)
            except BudgetExceeded:
                return (
                    independent_bill([*sessions, (start, died, price)], granularity, minimum) + charged - cap
                )
            sessions.append((start, died, price))
            start, price, name = clock.now, new_price, name + 1
            clock.now += startup
            guard = BudgetGuard(cap, price, started_at=start, instance=str(name), **kwargs)
            guard.load_state_dict(state, previous_ended_at=died)
    clock.now += rng.uniform(0, save)
    final = guard.close()
    billed = (
        independent_bill([*sessions, (start, clock.now + stop, price)], granularity, minimum)
        + charged
        + egress
    )
    assert final.spent == pytest.approx(billed, rel=1e-9)
    return billed - cap


def test_ten_thousand_random_lives_never_pass_the_cap():
    rng = random.Random(20)
    worst = max(live(rng) for _ in range(10_000))
    assert worst <= 1e-9


def test_the_reserve_is_not_wasteful():
    """With short steps and billing by the second the guard stops within a dollar of the cap."""
    clock = Clock()
    guard = make(50.0, 3.6, clock, max_step_s=5.0, final_save_s=30.0, shutdown_s=30.0)
    while guard.step():
        clock.now += 4.0
    clock.now += 30.0
    assert 49.9 < guard.close().spent <= 50.0


def test_counts_from_the_start_of_the_instance():
    clock = Clock()
    guard = make(price=1.8, clock=clock, started_at=clock.now - 1800)
    assert guard.spent == pytest.approx(0.9)
    with pytest.raises(DataError, match="future"):
        make(clock=clock, started_at=clock.now * 1000)


@pytest.mark.parametrize(
    ("granularity", "seconds", "usd"),
    [
        ("second", 61, 61 * 3.6 / 3600),
        ("minute", 61, 0.12),
        ("hour", 61, 3.6),
        ("hour", 3600, 3.6),
        (900, 901, 1.8),
    ],
)
def test_billing_granularity(granularity, seconds, usd):
    clock = Clock()
    guard = make(price=3.6, clock=clock, billing_granularity=granularity)
    clock.now += seconds
    assert guard.spent == pytest.approx(usd)


def test_minimum_time_is_billed():
    assert billed_usd(5, 3.6, 1.0, minimum_s=60) == pytest.approx(0.06)


class TestCheck:
    def test_refuses_with_the_numbers_and_what_fits(self):
        guard = make(50.0, 1.79, shutdown_usd=3.0, final_save_s=120, shutdown_s=60)
        with pytest.raises(BudgetExceeded) as caught:
            guard.check(40.0, tokens=5e9)
        refused = caught.value
        assert refused.needed == pytest.approx(40.05 * 1.79 + 3.0)
        assert refused.cap == 50.0 and refused.spent == 0.0
        assert refused.fits["hours"] == pytest.approx(47.0 / 1.79 - 0.05, abs=1e-3)
        assert refused.fits["fraction"] == pytest.approx(refused.fits["hours"] / 40.0)
        assert refused.fits["tokens"] == pytest.approx(5e9 * refused.fits["fraction"])
        for word in ("40.00 h", "$74.69", "$50.00", "26.21 h", "66%", "3.28e+09 tokens"):
            assert word in str(refused)
        guard.check(refused.fits["hours"])  # what fits, fits

    def test_takes_the_chosen_quantile(self):
        draws = [10.0, 20.0, 30.0]
        make(50.0, 2.0, quantile=0.5).check(draws)
        with pytest.raises(BudgetExceeded, match="90% quantile"):
            make(50.0, 2.0, quantile=0.9).check(draws)

    def test_takes_an_estimate(self):
        hours = Estimate(20.0, 12.0, 31.0, level=0.8)
        assert [quantile_of(hours, q) for q in (0.1, 0.5, 0.9)] == [12.0, 20.0, 31.0]
        with pytest.raises(BudgetExceeded):
            make(50.0, 2.0, planned_hours=hours).check()
        with pytest.raises(DataError, match=r"0\.1, 0\.5, 0\.9"):
            quantile_of(hours, 0.95)

    def test_takes_draws_as_an_array_and_refuses_nonsense(self):
        np = pytest.importorskip("numpy")
        assert quantile_of(np.arange(11.0), 0.9) == 9.0
        for nonsense in ("long", [], None, True, object()):
            with pytest.raises(DataError):
                quantile_of(nonsense, 0.9)

    def test_asks_before_a_machine_is_started_again(self):
        clock = Clock()
        guard = make(10.0, 4.0, clock, max_step_s=10)
        clock.now += 2.4 * 3600
        again = make(10.0, 4.0, clock, instance="instance-2", max_step_s=10)
        again.load_state_dict(guard.state_dict(), previous_ended_at=clock.now)
        assert again.spent == pytest.approx(9.6)
        again.check(startup_s=120)
        with pytest.raises(BudgetExceeded, match="the next step"):
            again.check(startup_s=600)


class TestStep:
    def test_answers_no_then_raises(self):
        clock = Clock()
        guard = make(1.0, 3.6, clock, max_step_s=100)
        clock.now += 700
        status = guard.step()
        assert not status
        assert "save and shut down now" in str(status)
        with pytest.raises(BudgetExceeded, match="stop") as caught:
            guard.step()
        assert caught.value.spent == pytest.approx(0.7)

    def test_learns_from_the_longest_step(self):
        clock = Clock()
        guard = make(10.0, 3.6, clock, max_step_s=1.0)
        guard.step()
        clock.now += 400.0  # four hundred times what was declared
        assert guard.step().committed == pytest.approx((400 + 2 * 500 + 120) * 0.001, rel=1e-6)

    def test_a_long_step_is_announced(self):
        guard = make(1.0, 3.6, max_step_s=1.0)
        assert guard.step()
        assert not guard.step(seconds=600)

    def test_closed_is_closed(self):
        clock = Clock()
        guard = make(clock=clock, shutdown_usd=1.5)
        clock.now += 3600
        status = guard.close()
        assert status.spent == pytest.approx(2.0 * (3660 / 3600) + 1.5)
        clock.now += 3600
        assert guard.close().spent == status.spent
        with pytest.raises(BudgetExceeded):
            guard.step()
            guard.step()


class TestCharge:
    def test_books_what_fits_and_nothing_else(self):
        guard = make(10.0, 1.0)
        guard.charge("egress", 4.0)
        with pytest.raises(BudgetExceeded, match="storage") as caught:
            guard.charge("storage", 6.0)
        assert guard.spent == pytest.approx(4.0)
        guard.charge("storage", caught.value.fits["usd"])
        guard.charge("rollback 1", 0.0)
        assert [c.reason for c in guard.ledger] == ["egress", "storage", "rollback 1"]

    def test_what_is_gone_is_booked(self):
        guard = make(10.0, 1.0)
        guard.charge("forgotten disk", 20.0, incurred=True)
        assert guard.status().remaining == pytest.approx(-10.0)
        assert not guard.step()

    @pytest.mark.parametrize("usd", [-1.0, math.nan, math.inf, "much", True])
    def test_refuses_what_is_no_money(self, usd):
        with pytest.raises(DataError):
            make().charge("x", usd)


class TestRestart:
    def test_the_same_machine_never_stopped(self):
        clock = Clock()
        first = make(price=2.0, clock=clock)
        clock.now += 3600
        state = json.loads(json.dumps(first.state_dict()))
        clock.now += 7200  # the process was dead, the machine was not
        second = make(price=2.0, clock=clock)
        second.load_state_dict(state)
        assert second.spent == pytest.approx(6.0)

    def test_another_machine_and_a_known_end(self):
        clock = Clock()
        first = make(price=2.0, clock=clock, spent_usd=5.0)
        first.charge("egress", 1.0)
        clock.now += 3600
        died, state = clock.now, first.state_dict()
        clock.now += 7200
        second = make(price=3.0, clock=clock, instance="spot-2")
        second.load_state_dict(state, previous_ended_at=died)
        clock.now += 3600
        assert second.spent == pytest.approx(5.0 + 1.0 + 2.0 + 3.0)

    def test_another_machine_and_an_unknown_end_takes_the_worst(self):
        clock = Clock()
        first = make(price=2.0, clock=clock)
        clock.now += 3600
        state = first.state_dict()
        clock.now += 3600
        second = make(price=3.0, clock=clock, instance="spot-2")
        second.load_state_dict(state)
        assert second.spent == pytest.approx(4.0)
        assert "end was not given" in second.ledger[-1].reason

    def test_refuses_an_end_before_the_start_and_a_foreign_state(self):
        clock = Clock()
        state = make(clock=clock).state_dict()
        with pytest.raises(DataError, match="before the start"):
            make(clock=clock, instance="b").load_state_dict(state, previous_ended_at=clock.now - 10)
        state["bill"]["version"] = 99
        with pytest.raises(DataError, match="version 99"):
            make(clock=clock).load_state_dict(state)

    def test_a_clock_that_runs_backwards_is_held(self):
        clock = Clock()
        guard = make(price=3.6, clock=clock)
        clock.now += 1000
        spent = guard.spent
        clock.now -= 900
        assert guard.spent == spent


def test_arguments_are_checked():
    for bad in ({"cap_usd": 0}, {"cap_usd": math.nan}, {"usd_per_hour": -1}):
        with pytest.raises(DataError):
            BudgetGuard(**{"cap_usd": 1.0, "usd_per_hour": 1.0, **bad})
    with pytest.raises(DataError, match="second, minute, hour"):
        make(billing_granularity="day")


def test_a_free_machine_has_no_end():
    assert make(price=0.0).status().hours_left == math.inf


def test_boot_time(tmp_path):
    (tmp_path / "uptime").write_text("3600.52 7000.00\n")
    assert boot_time(str(tmp_path / "uptime"), clock=Clock(1e9)) == pytest.approx(1e9 - 3600.52)
