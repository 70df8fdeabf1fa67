"""Interrupted runs: closed forms against simulation, the best interval against a search, and the money."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from economics.interruption_draws import draw_hours, simulate
from economics.interruptions import (
    FAULTS_PER_GPU_HOUR,
    daly_interval,
    expected_hours,
    expected_interruptions,
    interruption_rate,
    optimal_interval,
    young_interval,
)
from economics.spot import spot_run
from scaling.errors import DataError

R = 1 / 3.24


def codes(run) -> set[str]:
    return {f.code for f in run.findings}


class TestClosedForm:
    @pytest.mark.parametrize("interval", [0.25, 0.5, 2.0, None])
    def test_is_the_formula_of_the_field(self, interval):
        """(T/tau)(1/r + R)(exp(r(tau + delta)) - 1), and (1/r + R)(exp(rT) - 1) without checkpoints."""
        work, save, restart = 24.0, 1 / 60, 0.25
        tau = interval or work
        delta = save if interval else 0.0
        expected = work / tau * (1 / R + restart) * math.expm1(R * (tau + delta))
        got = expected_hours(work, R, interval=interval, checkpoint=delta, restart=restart)
        assert float(got) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize(
        ("work", "rate", "interval", "save", "restart"),
        [
            (24, R, 0.5, 1 / 60, 0.25),
            (24, R, 0.7, 0.05, 1.0),  # 34 whole segments and a rest
            (100, 1.0, 0.2, 0.02, 0.1),
            (6, R, None, 0.0, 0.5),
            (3, 0.05, 10.0, 0.1, 0.0),
        ],
    )
    def test_within_one_percent_of_the_simulation(self, work, rate, interval, save, restart):
        terms = {"interval": interval, "checkpoint": save, "restart": restart}
        played = simulate(np.random.default_rng(0), 40_000, work, rate, **terms)
        closed = float(expected_hours(work, rate, **terms))
        assert played.std() / np.sqrt(played.size) < 0.004 * closed  # the simulation itself is good enough
        assert played.mean() == pytest.approx(closed, rel=0.01)

    def test_nothing_interrupts(self):
        assert float(expected_hours(24, 0.0)) == 24.0
        assert float(expected_hours(24, 0.0, interval=1.0, checkpoint=0.1)) == pytest.approx(26.4)

    def test_a_hopeless_run_never_ends(self):
        assert math.isinf(float(expected_hours(1000, 10.0)))
        assert math.isinf(spot_run(1e4, checkpoint_every=None).wall_hours)

    def test_broadcasts(self):
        assert expected_hours([1.0, 2.0], np.full((3, 1), R), interval=0.5).shape == (3, 2)

    def test_too_many_hours_for_a_number_are_never(self):
        """e^(rate x work) still fits into a float here, and the hours of its restarts do not."""
        assert float(expected_hours(31.0, 22.88, restart=2.0)) == np.inf

    @settings(max_examples=200, deadline=None)
    @given(
        work=st.floats(0.01, 1e3),
        rate=st.floats(0, 20),
        interval=st.none() | st.floats(1e-3, 1e3),
        save=st.floats(0, 1),
        restart=st.floats(0, 10),
    )
    def test_never_shorter_than_the_work(self, work, rate, interval, save, restart):
        terms = {"interval": interval, "checkpoint": save, "restart": restart}
        hours = float(expected_hours(work, rate, **terms))
        assert hours >= work
        assert float(expected_hours(work, rate * 1.5 + 0.01, **terms)) >= hours * (1 - 1e-12)
        assert float(expected_interruptions(work, rate, interval=interval, checkpoint=save)) >= 0


class TestInterval:
    @pytest.mark.parametrize("rate", [1e-4, 1e-2, R, 3.0])
    @pytest.mark.parametrize("save", [1e-3, 1 / 60, 0.25, 2.0])
    def test_is_the_minimum(self, rate, save):
        best = optimal_interval(rate, save)
        grid = best * np.geomspace(0.2, 5.0, 20_001)
        cost = np.expm1(rate * (grid + save)) / grid
        assert best == pytest.approx(grid[np.argmin(cost)], rel=2e-4)
        assert math.expm1(rate * (best + save)) / best <= cost.min() * (1 + 1e-12)

    def test_young_and_daly_are_its_expansions(self):
        """Young is off by order sqrt(r·delta), Daly by much less."""
        for save in (1e-4, 1e-3, 1e-2):
            best = optimal_interval(R, save)
            x = math.sqrt(R * save / 2)
            assert young_interval(R, save) == pytest.approx(best, rel=1.2 * x)
            assert daly_interval(R, save) == pytest.approx(best, rel=x**3)
        assert daly_interval(R, 10.0) == pytest.approx(3.24)

    def test_divides_the_run(self):
        best = optimal_interval(R, 1 / 60, work=5.0)
        assert 5.0 / best == pytest.approx(round(5.0 / best))
        assert optimal_interval(R, 1 / 60, work=0.1) == 0.1

    def test_limits(self):
        assert optimal_interval(0.0, 0.1) == math.inf
        assert optimal_interval(R, 0.0) == 0.0

    @given(rate=st.floats(1e-6, 10), save=st.floats(1e-6, 5), factor=st.floats(1.05, 10))
    def test_grows_with_the_save_and_falls_with_the_rate(self, rate, save, factor):
        best = optimal_interval(rate, save)
        assert 0 < best <= 1 / rate
        assert optimal_interval(rate, save * factor) >= best * (1 - 1e-9)
        assert optimal_interval(rate * factor, save) <= best * (1 + 1e-9)


class TestRate:
    def test_grows_with_nodes_and_adds_faults(self):
        one = interruption_rate(1, 8)
        assert one == pytest.approx(1 / 3.24 + 8 * FAULTS_PER_GPU_HOUR)
        assert interruption_rate(16, 8) == pytest.approx(16 * one)
        assert interruption_rate(16, 8, growth=0.0) == pytest.approx(1 / 3.24 + 128 * FAULTS_PER_GPU_HOUR)

    def test_llama3_on_demand(self):
        """419 interruptions in 54 days of 16,384 GPUs: one every 3.1 h."""
        assert 1 / interruption_rate(2048, 8, mean_up_hours=None) == pytest.approx(54 * 24 / 419)

    @pytest.mark.parametrize("bad", [{"nodes": 0}, {"mean_up_hours": 0.0}, {"faults_per_gpu_hour": -1.0}])
    def test_refuses(self, bad):
        with pytest.raises(DataError):
            interruption_rate(**bad)


class TestSpotRun:
    def test_the_parts_add_up(self):
        run = spot_run(24, checkpoint_every=0.5)
        parts = run.work_hours + run.saving_hours + run.rework_hours + run.restart_hours
        assert run.billed_hours == pytest.approx(parts)
        assert run.wall_hours == pytest.approx(parts + run.wait_hours)
        assert run.wait_each == pytest.approx(3.24 * 0.35 / 0.65)  # up 65% of the time

    def test_the_wait_delays_and_costs_nothing(self):
        short, long = (spot_run(24, wait_hours=w, usd_per_hour=1.0) for w in (0.0, 5.0))
        assert short.usd == long.usd
        assert long.wall_hours > short.wall_hours + 30

    def test_spot_without_checkpoints_on_a_long_run_is_dearer(self):
        prices = {"usd_per_hour": 1.10, "on_demand_usd_per_hour": 1.79}
        run = spot_run(24, checkpoint_every=None, **prices)
        assert codes(run) == {"spot_dearer"}
        finding = run.findings[0]
        assert finding.severity == "error"
        assert run.usd == pytest.approx(1.10 * (1 / run.rate + 0.25) * math.expm1(24 * run.rate))
        pays = finding.evidence["breakeven_hours"]
        assert not spot_run(
            0.99 * pays, checkpoint_every=None, **prices
        ).findings or "spot_dearer" not in codes(spot_run(0.99 * pays, checkpoint_every=None, **prices))
        assert "spot_dearer" in codes(spot_run(1.05 * pays, checkpoint_every=None, **prices))
        assert codes(spot_run(24, **prices)) == set()

    def test_a_spot_price_above_on_demand_never_pays(self):
        run = spot_run(24, usd_per_hour=2.0, on_demand_usd_per_hour=1.79)
        assert codes(run) == {"spot_dearer"}
        assert "Take it on demand" in run.findings[0].message

    def test_warns_without_prices_too(self):
        assert codes(spot_run(24, checkpoint_every=None)) == {"no_checkpoints"}
        assert codes(spot_run(24, checkpoint_every=6.0)) == {"interval_far_from_optimum"}
        assert codes(spot_run(24, checkpoint_every=None, mean_up_hours=None)) == set()

    def test_the_rework_of_a_day_with_half_hourly_checkpoints(self):
        """24 h at $1.10 with a save every 30 min and 3.24 h between preemptions: the $4-6 of rework."""
        run = spot_run(24, checkpoint_every=0.5, checkpoint_hours=1 / 60, restart_hours=0.25)
        extra = 1.10 * (run.rework_hours + run.restart_hours)
        assert 4.0 < extra < 6.0

    def test_the_best_interval_is_the_default(self):
        best = spot_run(24).billed_hours
        assert all(best <= spot_run(24, checkpoint_every=24 / n).billed_hours + 1e-12 for n in range(1, 300))

    def test_refuses(self):
        for bad in ({"work_hours": 0}, {"work_hours": math.inf}, {"work_hours": 1, "checkpoint_every": 0.0}):
            with pytest.raises(DataError):
                spot_run(**bad)
        with pytest.raises(DataError, match="optimal"):
            spot_run(1, checkpoint_every="best")


class TestDraws:
    @pytest.mark.parametrize("every", [0.5, 7.0, None])
    def test_have_the_mean_of_the_closed_form(self, every):
        work = 6.0 if every is None else 24.0
        run = spot_run(work, checkpoint_every=every)
        wall, billed = run.sample(np.random.default_rng(1), 200_000, rate_sd=0.0)
        assert billed.mean() == pytest.approx(run.billed_hours, rel=0.01)
        assert wall.mean() == pytest.approx(run.wall_hours, rel=0.01)
        assert np.all(billed >= work) and np.all(wall >= billed)

    def test_have_the_distribution_of_the_simulation(self):
        rng = np.random.default_rng(2)
        played = simulate(rng, 20_000, 24.0, R, interval=0.5, checkpoint=1 / 60, restart=0.0)
        drawn, _ = draw_hours(rng, np.full(200_000, R), 24.0, interval=0.5, checkpoint=1 / 60)
        for q in (0.1, 0.5, 0.9):
            assert np.quantile(drawn, q) == pytest.approx(np.quantile(played, q), rel=0.005)

    def test_the_rate_is_uncertain(self):
        run = spot_run(24)
        known, unknown = (
            run.sample(np.random.default_rng(3), 20_000, rate_sd=s)[1].std() for s in (0.0, 0.8)
        )
        assert unknown > 1.5 * known

    def test_nothing_to_draw_on_a_machine_that_stays(self):
        run = spot_run(10, mean_up_hours=None, faults_per_gpu_hour=0.0)
        wall, billed = run.sample(np.random.default_rng(4), 5)
        assert np.allclose(wall, run.wall_hours) and np.allclose(billed, run.billed_hours)
