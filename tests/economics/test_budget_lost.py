"""Money a guard could lose sight of: clocks set back, machines that died unsaved, text read as digits."""

from __future__ import annotations

import json
import math

import pytest

from economics.billing import quantile_of
from economics.budget import BudgetExceeded, BudgetGuard
from scaling.errors import DataError


class Time:
    """Wall clock and monotonic clock, moved by hand; `set_back` moves the wall clock alone."""

    def __init__(self) -> None:
        self.wall, self.up = 1e9, 500.0

    def go(self, seconds: float) -> None:
        self.wall, self.up = self.wall + seconds, self.up + seconds

    def set_back(self, seconds: float) -> None:
        self.wall -= seconds


def make(time: Time, cap: float = 10.0, price: float = 10.0, **more) -> BudgetGuard:
    return BudgetGuard(cap, price, clock=lambda: time.wall, monotonic=lambda: time.up, **more)


class TestText:
    def test_a_number_in_text_is_that_number(self):
        """Not the draws 2 and 4: 24 h at $2 are $48."""
        with pytest.raises(BudgetExceeded) as caught:
            make(Time(), 10, 2.0).check("24")
        assert caught.value.needed == pytest.approx(48 + 2 * 120 / 3600)
        with pytest.raises(BudgetExceeded):
            make(Time(), 10, 2.0, planned_hours="24").check()
        assert quantile_of("30 min", 0.9) == 0.5

    @pytest.mark.parametrize(
        "plan",
        [
            "long",
            b"24",
            {"a": 1.0},
            [1.0, math.nan],
            [-1.0],
            [True],
            math.inf,
            -1.0,
            "nan",
            True,
            [[1.0, 2.0]],
        ],
    )
    def test_what_is_no_plan_is_refused(self, plan):
        with pytest.raises(DataError):
            make(Time()).check(plan)
        with pytest.raises(DataError):
            make(Time(), planned_hours=plan)

    def test_quantiles_lie_between_0_and_1(self):
        for bad in (2, -0.1, math.nan, "90"):
            with pytest.raises(DataError, match="quantile"):
                quantile_of([1.0, 2.0], bad)
        with pytest.raises(DataError, match="quantile"):
            make(Time(), quantile=2)
        assert make(Time(), quantile="90%").quantile == 0.9

    def test_numbers_of_other_libraries(self):
        np = pytest.importorskip("numpy")
        assert quantile_of(np.int64(24), 0.9) == quantile_of(np.float32(24), 0.9) == 24.0


class TestSetBack:
    @pytest.mark.parametrize("seconds", [60, 3600, 86400])
    def test_time_goes_on(self, seconds):
        """Half an hour, the clock is set back, an hour more: 1.5 h at $10, whatever the wall says."""
        time = Time()
        guard = make(time, 100.0)
        time.go(1800)
        assert guard.spent == pytest.approx(5.0)
        time.set_back(seconds)
        time.go(3600)
        assert guard.spent == pytest.approx(15.0)

    def test_the_cap_holds(self):
        time = Time()
        guard = make(time, 10.0, max_step_s=30)
        up = 0
        while guard.step():
            time.go(30)
            up += 30
            if up == 1800:
                time.set_back(3600)
        time.go(60)
        guard.close()
        true_bill = 10.0 * (up + 60 + 60) / 3600
        assert 9.5 < true_bill <= 10.0

    def test_a_clock_set_forward_counts(self):
        """A monotonic clock may stand still while the machine sleeps: the wall clock then knows better."""
        time = Time()
        guard = make(time, 100.0)
        time.wall += 3600
        assert guard.spent == pytest.approx(10.0)


class TestDiedUnsaved:
    def test_a_journal_remembers_machines_that_never_saved(self, tmp_path):
        """A checkpoint after 10 min, then instances killed after 6 min each, and no other checkpoint."""
        time, path = Time(), tmp_path / "bill.json"
        first = make(time, instance="spot-0", journal=path)
        time.go(600)
        checkpoint, truth = json.loads(json.dumps(first.state_dict())), 10.0 * 600 / 3600
        for k in range(1, 21):
            died = time.wall
            time.go(300)  # the wait is not billed
            guard = make(time, instance=f"spot-{k}", journal=path, previous_ended_at=died)
            guard.load_state_dict(checkpoint, previous_ended_at=died)
            assert guard.spent == pytest.approx(truth)
            if not guard.step(seconds=360):
                break
            time.go(360)
            truth += 10.0 * 360 / 3600
        assert 8.6 < truth <= 10.0 and k == 8  # the reserve holds two steps more

    def test_without_a_known_end_the_worst_is_taken(self, tmp_path):
        time, path = Time(), tmp_path / "bill.json"
        make(time, instance="a", journal=path)
        time.go(720)
        again = make(time, instance="b", journal=path)
        assert again.spent == pytest.approx(2.0)
        time.go(360)
        assert make(time, instance="b", journal=str(path)).spent == pytest.approx(3.0)

    def test_is_written_at_the_start_at_every_step_charge_and_end(self, tmp_path):
        time, path = Time(), tmp_path / "bill.json"

        def latest() -> float:
            return json.loads(path.read_text())["bill"]["latest"]

        guard = make(time, journal=path)
        for write in (guard.step, lambda: guard.charge("disk", 1.0), guard.close):
            before = latest()
            time.go(60)
            write()
            assert latest() == before + 60
        assert json.loads(path.read_text())["bill"]["ledger"][0]["usd"] == 1.0
        assert sorted(p.name for p in tmp_path.iterdir()) == ["bill.json", "bill.json.lock"]

    def test_a_damaged_journal_is_no_fresh_start(self, tmp_path):
        path = tmp_path / "bill.json"
        for text in ("", "[1]", "{}", '{"bill": {"version": 1}, "longest_step_s": 0, "refused": false}'):
            path.write_text(text)
            with pytest.raises(DataError):
                make(Time(), journal=path)
            assert path.read_text() == text


class TestResume:
    def test_nobody_ends_before_the_last_sign_of_life(self):
        time = Time()
        first = make(time)
        time.go(1800)
        state = first.state_dict()
        second = make(time, instance="b")
        with pytest.raises(DataError, match="last sign"):
            second.load_state_dict(state, previous_ended_at=time.wall - 900)
        for bad in (math.nan, math.inf, "noon", time.wall * 1000):
            with pytest.raises(DataError, match="previous_ended_at"):
                second.load_state_dict(state, previous_ended_at=bad)
        second.load_state_dict(state, previous_ended_at=time.wall)
        assert second.spent == pytest.approx(5.0)

    @pytest.mark.parametrize(
        "tariff", [{"billing_granularity": "hour"}, {"minimum_s": 3600.0}, {"price": 60.0}], ids=str
    )
    def test_the_dearer_tariff_stays(self, tariff):
        """Ten minutes that were billed as $10 are not $1.67 after a restart that says so."""
        time = Time()
        first = make(time, 100.0, **tariff)
        time.go(600)
        assert first.spent == pytest.approx(10.0)
        second = make(time, 100.0)
        second.load_state_dict(first.state_dict())
        assert second.spent == pytest.approx(10.0)

    def test_what_is_booked_before_the_state_is_loaded_stays(self):
        time = Time()
        first = make(time, spent_usd=2.0)
        first.charge("disk", 1.0)
        state = first.state_dict()
        second = make(time, spent_usd=3.0)
        second.charge("disk", 1.0)
        second.load_state_dict(state)
        assert second.spent == pytest.approx(2.0 + 1.0 + 3.0 + 1.0)
        second.load_state_dict(state)
        assert second.spent == pytest.approx(7.0)

    def test_the_same_script_started_again_counts_its_past_once(self):
        time = Time()
        second = make(time, spent_usd=2.0)
        second.load_state_dict(make(time, spent_usd=2.0).state_dict())
        assert second.spent == pytest.approx(2.0)


@pytest.mark.parametrize("state", [{}, None, [], {"bill": {}, "longest_step_s": 0.0, "refused": False}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(DataError, match="state"):
        make(Time()).load_state_dict(state)


def test_seconds_are_seconds():
    guard = make(Time())
    assert guard.step("60")
    for bad in (math.nan, -1.0, "long"):
        with pytest.raises(DataError, match="seconds"):
            guard.step(bad)
    for bad in (-1e9, math.nan):
        with pytest.raises(DataError, match="startup_s"):
            guard.check(startup_s=bad)
    for bad in (math.nan, math.inf, "noon"):
        with pytest.raises(DataError, match="started_at"):
            make(Time(), started_at=bad)


class TestWaiting:
    def test_waiting_for_a_machine_is_not_billed_where_it_is_known_how_soon_one_is_gone(self, tmp_path):
        """1 h, 9 h of waiting, 1 h: $20 and at most 15 min of the first machine's end, not $110."""
        time, path = Time(), tmp_path / "bill.json"
        first = make(time, 1000.0, instance="spot-1", journal=path)
        time.go(3600)
        first.step()
        time.go(9 * 3600)
        second = make(time, 1000.0, instance="spot-2", journal=path, gone_after_s=900)
        time.go(3600)
        assert second.spent == pytest.approx(20.0 + 10.0 * 900 / 3600)
        (note,) = second.ledger
        assert (
            note.reason
            == "spot-1 taken as billed until 900 s after its last sign of life: its end was not given"
        )
        time.go(5 * 3600)  # and what is settled stays so on a third one
        third = make(time, 1000.0, instance="spot-3", journal=path, previous_ended_at=time.wall - 4 * 3600)
        assert third.spent == pytest.approx(20.0 + 10.0 * 900 / 3600 + 10.0)

    def test_no_more_is_counted_than_until_now_and_no_less_than_was_written_ahead(self, tmp_path):
        time, path = Time(), tmp_path / "bill.json"
        make(time, 1000.0, instance="a", journal=path)
        time.go(600)
        assert make(time, 1000.0, instance="b", journal=path, gone_after_s=3600).spent == pytest.approx(
            600 / 360
        )
        time.go(600)
        third = make(time, 1000.0, instance="c", journal=path, gone_after_s=0)
        assert third.spent == pytest.approx(
            (5 + 5) / 360
        )  # journals are written 5 s ahead; a is corrected too

    def test_the_same_machine_idle_is_billed(self, tmp_path):
        time, path = Time(), tmp_path / "bill.json"
        make(time, 1000.0, instance="a", journal=path)
        time.go(7200)
        assert make(time, 1000.0, instance="a", journal=path, gone_after_s=60).spent == pytest.approx(20.0)

    def test_what_was_assumed_can_be_corrected(self, tmp_path):
        """$10 an hour: b begins 9 h after a was taken away, and its first try counts them."""
        time, path = Time(), tmp_path / "bill.json"
        first = make(time, 1000.0, instance="a", journal=path)
        time.go(3600)
        first.step()
        died = time.wall
        time.go(9 * 3600)
        assert make(time, 1000.0, instance="b", journal=path).spent == pytest.approx(100.0)
        time.go(360)
        assert make(time, 1000.0, instance="b", journal=path, gone_after_s=7200).spent == pytest.approx(
            10 + 20 + 1
        )
        time.go(360)
        known = make(time, 1000.0, instance="b", journal=path, previous_ended_at=died)
        ahead = 5 / 360  # the last writing covers 5 s more
        assert known.spent == pytest.approx(10.0 + 2.0 + ahead)
        time.go(360)
        again = make(time, 1000.0, instance="b", journal=path, gone_after_s=7200)
        assert again.spent == pytest.approx(10.0 + 3.0 + ahead)

    def test_an_instance_that_was_taken_for_gone_and_comes_back_was_never_gone(self, tmp_path):
        time, path = Time(), tmp_path / "bill.json"
        make(time, 1000.0, instance="a", journal=path)
        time.go(3600)
        make(time, 1000.0, instance="b", journal=path, gone_after_s=0)
        time.go(3600)
        back = make(time, 1000.0, instance="a", journal=path, previous_ended_at=time.wall)
        assert back.spent == pytest.approx(20.0 + 10.0)
