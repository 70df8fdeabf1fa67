"""The draws of a cost: every uncertain factor on a stream of its own, and the arithmetic over them.

Each factor is drawn from a generator of its own, seeded with (seed, number of the factor). Two runs that differ
in one input therefore share the draws of all others: their difference is that of the input and not of luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from economics.grid import GridIntensity
from economics.logit_t import LogitT
from economics.overheads import HOURS_PER_MONTH
from economics.power import Factor
from economics.price_quote import PriceQuote, ProviderPrice
from economics.quantile_draws import Array, normal
from economics.run_plan import RunPlan
from economics.spot import ZONE_SD

#: Grams of CO2 per kWh where no region is given: median and 5th to 95th percentile of the 207 countries of
#: ``grid_intensity.csv`` (a test computes it again).
ANY_GRID = Factor(
    "grid, g CO2/kWh", 484.0, 42.0, 739.0, "no region given: all countries of the table", (0.0, 2e3)
)
#: Exponent beyond which an interrupted segment never gets through; keeps hopeless hours finite (e^300).
_HOPELESS = 300.0


@dataclass(frozen=True)
class Variates:
    """One value for each uncertain factor: arrays of one length, or of length 1 where it is certain.

    Parameters
    ----------
    mfu, price : array
        Share of the peak; $ per GPU-hour.
    rate, luck : array
        Factor on the preemption rate (zone and time), and the standard normal behind how many there are.
    start_hours, evaluation : array
        Of `economics.overheads.Overheads`.
    """

    mfu: Array
    price: Array
    rate: Array
    luck: Array
    start_hours: Array
    evaluation: Array


def variates(plan: RunPlan) -> Variates:
    """Draw the factors of time and money."""
    n, seed, one = plan.draws, plan.seed, np.ones(1)
    mfu, price = plan.mfu.value, plan.price
    bare = tuple(ProviderPrice(p.provider, p.usd_per_gpu_hour, p.date, "", ()) for p in price.providers)
    quote = PriceQuote(price.gpu, price.market, price.as_of, bare, between=price.between)
    return Variates(
        mfu=_mfu(mfu, seed, n) if isinstance(mfu, LogitT) else mfu * one,
        price=_price(quote, seed, n),
        rate=np.exp(ZONE_SD * _normal(seed, 2, n)) if plan.preempted else one,
        luck=_normal(seed, 3, n) if plan.interrupted else 0.0 * one,
        start_hours=sample_factor(plan.overheads.start_hours, seed, 4, n),
        evaluation=sample_factor(plan.overheads.evaluation, seed, 5, n),
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run takes, draw by draw: hours of the run's machines together, unless GPU-hours are said.

    Parameters
    ----------
    plan : RunPlan
    variates : Variates
        The factors it was computed from.
    work : array
        Training and evaluation, undisturbed.
    saving, rework, restarts, waits : array
        What interruptions add; waits are not billed.
    interruptions : array
        Their number.
    """

    plan: RunPlan
    variates: Variates
    work: Array
    saving: Array
    rework: Array
    restarts: Array
    waits: Array
    interruptions: Array

    @cached_property
    def billed_hours(self) -> Array:
        """Hours the machines are paid for, from their start."""
        return total(self.variates.start_hours, self.work, self.saving, self.rework, self.restarts)

    @property
    def wall_hours(self) -> Array:
        """Hours from the start of the machines to the end."""
        return total(self.billed_hours, self.waits)

    @cached_property
    def total_gpu_hours(self) -> Array:
        """Billed GPU-hours, with those of ablations."""
        run = self.plan.n_gpus * self.billed_hours
        return total(run, self.gpu_hours["ablations"]) if self.plan.overheads.ablations else run

    @cached_property
    def total_usd(self) -> Array:
        """All of it, $."""
        return total(self.total_gpu_hours * self.variates.price, *self._beside.values())

    @property
    def gpu_hours(self) -> dict[str, Array]:
        """GPU-hours by part."""
        n, share = self.plan.n_gpus, 1.0 / (1.0 + self.variates.evaluation)
        compute = n * self.work * share
        return {
            "compute": compute,
            "evaluation": n * self.work - compute,
            "start-up": n * self.variates.start_hours,
            "saving": n * self.saving,
            "rework": n * self.rework,
            "restarts": n * self.restarts,
            "ablations": self.plan.overheads.ablations * compute,
        }

    @property
    def usd(self) -> dict[str, Array]:
        """Dollars by part: those of GPU-hours, and storage, egress, people, other."""
        return {k: part * self.variates.price for k, part in self.gpu_hours.items()} | self._beside

    @property
    def _beside(self) -> dict[str, Array]:
        plan, extra, one = self.plan, self.plan.overheads, np.ones(1)
        stored = extra.stored_gb(plan.params, plan.tokens) * extra.storage_usd_gb_month
        months = self.wall_hours / HOURS_PER_MONTH + extra.months_kept if np.any(stored) else 0.0 * one
        return {
            "storage": stored * months,
            "egress": extra.traffic_gb(plan.params) * extra.egress_usd_gb * one,
            "people": extra.people_usd * one,
            "other": extra.other_usd * one,
        }


def evaluate(plan: RunPlan, v: Variates) -> Outcome:
    """Hours and dollars for given factors.

    Compute is FLOPs / (peak · MFU). Evaluation comes on top, except where the utilisation is one over whole
    runs: then it is a part of that time. An interrupted run follows `economics.interruptions`: segments of
    interval + save, (e^(r·s) - 1) interruptions each, every one of which loses 1/r - s/(e^(r·s) - 1) hours.
    """
    work = plan.flops / (plan.n_gpus * plan.peak * 3600.0) / v.mfu
    if not plan.mfu.whole_run:
        work = work * (1.0 + v.evaluation)
    saving, rework, count, waits = _interrupted(plan, work, v)
    return Outcome(plan, v, work, saving, rework, count * plan.restart_hours, waits, count)


def _interrupted(plan: RunPlan, work: Array, v: Variates) -> tuple[Array, Array, Array, Array]:
    """Hours of saving and of work done twice, interruptions, and hours of waiting, each of the run's machines."""
    zero = np.zeros(1)
    if not plan.interrupted:
        return zero, zero, zero, zero
    rate = plan.preempted * v.rate + plan.faults
    save = 0.0 if plan.interval is None else plan.checkpoint_hours
    step = work if plan.interval is None else np.minimum(plan.interval, work)
    segments, whole = work / step, step + save
    x = np.minimum(rate * whole, _HOPELESS)
    failing = np.expm1(x)
    count_mean = segments * failing
    count_var = count_mean * (failing + 1.0)  # geometric in each segment
    # Time to an interruption that falls within the segment: near x = 0 it is half of it.
    lost = np.where(x < 1e-4, whole / 2.0, 1.0 / rate - whole / failing)
    count = gamma_of(count_mean, count_var, v.luck)
    # Each loss scatters too: by less than an exponential, whose relative variance is 1.
    rework = lost * gamma_of(count_mean, count_var + count_mean / 3.0, v.luck)
    waits = plan.wait_hours * gamma_of(count_mean, count_var + count_mean, v.luck)
    return segments * save, rework, count, waits


def gamma_of(mean: Array, var: Array, z: Array) -> Array:
    """Gamma variable with this mean and variance at the quantile of a standard normal z.

    Wilson & Hilferty 1931: the cube root is normal. A smooth, increasing function of z, mean and spread, which
    a rejection sampler is not: that is what lets two runs share their luck.
    """
    root = np.sqrt(var) / (3.0 * np.maximum(mean, 1e-300))
    cube_root = z - root
    cube_root *= root
    cube_root += 1.0
    np.maximum(cube_root, 0.0, out=cube_root)
    out = mean * cube_root  # three products: a power takes ten times as long
    out *= cube_root
    out *= cube_root
    return np.asarray(out)


def energy_kwh(plan: RunPlan, gpu_hours: Array) -> tuple[Array, Array, Array] | None:
    """Kilowatt-hours of the boards, of the servers, of the facility; None where the power is not published."""
    if plan.energy.watts is None:
        return None
    drawn, server, pue = factor_draws(plan)
    boards = gpu_hours * (plan.energy.watts / 1e3) * drawn
    return boards, boards * server, boards * server * pue


def factor_draws(plan: RunPlan) -> tuple[Array, ...]:
    """Draws of `energy_parts`."""
    return tuple(
        sample_factor(factor, plan.seed, 6 + i, plan.draws) for i, factor in enumerate(energy_parts(plan))
    )


def energy_parts(plan: RunPlan) -> tuple[Factor, Factor, Factor]:
    """Share of the rating that is drawn, servers over boards, facility over servers."""
    return plan.energy.drawn, plan.energy.server, plan.energy.pue


def grid_factor(grid: GridIntensity | None) -> Factor:
    """Grams of CO2 per kWh: of the region, or of any country."""
    if grid is None:
        return ANY_GRID
    g, year = grid.g_per_kwh, f", {grid.year}" if grid.year else ""
    return Factor("grid, g CO2/kWh", g, g, g, f"{grid.name}{year}: {grid.source}", ANY_GRID.bounds)


def grid_draws(plan: RunPlan) -> Array:
    """Draws of the grams of CO2 per kWh."""
    return sample_factor(grid_factor(plan.energy.grid), plan.seed, 9, plan.draws)


# --- drawn once for a seed: a hundred what-ifs share their common random numbers, and the time to draw them ---


def sample_factor(factor: Factor, seed: int, stream: int, n: int) -> Array:
    """Draws of a factor, shape (n,); shape (1,) where it is certain."""
    return np.array([factor.value]) if factor.low == factor.high else _factor(factor, seed, stream, n)


@lru_cache(maxsize=64)
def _factor(factor: Factor, seed: int, stream: int, n: int) -> Array:
    return _kept(factor.sample(_rng(seed, stream), n))


@lru_cache(maxsize=4)
def _normal(seed: int, stream: int, n: int) -> Array:
    return _kept(normal(_rng(seed, stream), n))


@lru_cache(maxsize=8)
def _mfu(mfu: LogitT, seed: int, n: int) -> Array:
    return _kept(mfu.sample(_rng(seed, 0), n))


@lru_cache(maxsize=8)
def _price(quote: PriceQuote, seed: int, n: int) -> Array:
    first = quote.providers[0]
    same = all(
        p.usd_per_gpu_hour == first.usd_per_gpu_hour and p.date >= quote.as_of for p in quote.providers
    )
    if same and not quote.between:
        return _kept(np.array([first.usd_per_gpu_hour]))
    return _kept(quote.sample(_rng(seed, 1), n))


def _kept(draws: Array) -> Array:
    draws.setflags(write=False)
    return draws


def _rng(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])


def total(*parts: Array) -> Array:
    """Sum of arrays of length n or 1, leaving out those that are nothing."""
    out: Array = np.zeros(1)
    for part in parts:
        if part.size > 1 or part[0]:
            out = part if out.size == 1 and not out[0] else out + part
    return out
