"""Energy and CO2 of a run: GPU boards, servers and facility apart, every factor named.

The product is GPU hours x rated power x share drawn x server factor x PUE, and grams per kWh of the region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from economics.grid import GridIntensity, grid_intensity
from economics.power import Factor, power_drawn, pue_factor, rated_power, server_factor, unknown_power
from economics.run_numbers import plain, positive
from scaling.errors import DataError, shown
from scaling.estimate import Estimate

if TYPE_CHECKING:
    from economics.hardware import GPU

#: Draws behind an interval of `energy`, and its level.
_DRAWS = 4000
_LEVEL = 0.8
#: Boards hold their power limit to a few percent; more than this is an error of unit or count.
_MOST_OF_RATING = 1.5


@dataclass(frozen=True)
class EnergyFactors:
    """What turns GPU hours into energy and CO2.

    Parameters
    ----------
    gpu : str
        Name of the GPU.
    watts : float or None
        Power of one GPU to start from: its rating, or the mean its vendor measured; None where neither is
        published: energy is then unknown, not zero.
    drawn, server, pue : Factor
        Share of the rating that is drawn, server over GPU power, facility over server energy.
    grid : GridIntensity or None
        The region's grid; None where no region is given: CO2 is then unknown, not zero.
    """

    gpu: str
    watts: float | None
    drawn: Factor
    server: Factor
    pue: Factor
    grid: GridIntensity | None = None

    @property
    def kw(self) -> tuple[float, float, float]:
        """Kilowatts per GPU at the central values: board, with its share of the server, of the facility.

        Raises
        ------
        DataError
            The power is not published.
        """
        board = self._rated_kw * self.drawn.value
        return board, board * self.server.value, board * self.server.value * self.pue.value

    @property
    def kg_per_kwh(self) -> float | None:
        """Kilograms of CO2 per kWh, or None."""
        return None if self.grid is None else self.grid.g_per_kwh / 1e3

    @property
    def _rated_kw(self) -> float:
        if self.watts is None:
            raise DataError(unknown_power(self.gpu, "watts=..."), column="watts")
        return self.watts / 1e3

    def sample_kw(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Draw kilowatts per GPU: shape (3, n), for board, server and facility; raises as `kw`."""
        board = self._rated_kw * self.drawn.sample(rng, n)
        server = board * self.server.sample(rng, n)
        return np.stack([board, server, server * self.pue.sample(rng, n)])

    def __str__(self) -> str:
        grid = "no region given: CO2 unknown" if self.grid is None else str(self.grid)
        rated = f"{self.watts:g} W" if self.watts is not None else "(power not published)"
        return "\n".join((f"{self.gpu} {rated}", *map(str, (self.drawn, self.server, self.pue)), grid))

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain types."""
        return {
            "gpu": self.gpu,
            "watts": self.watts,
            "drawn": self.drawn.to_dict(),
            "server": self.server.to_dict(),
            "pue": self.pue.to_dict(),
            "grid": None if self.grid is None else vars(self.grid).copy(),
        }


@dataclass(frozen=True)
class Energy:
    """Energy and CO2 of a number of GPU hours.

    Parameters
    ----------
    gpu_hours : float
        Hours times GPUs.
    gpu_kwh, server_kwh, facility_kwh : Estimate
        The boards alone, with the rest of the servers, and with cooling and losses of the building;
        80% intervals over the factors that were not given.
    co2_kg : Estimate or None
        Of the facility; None where no region is given.
    factors : EnergyFactors
        Everything behind it.
    """

    gpu_hours: float
    gpu_kwh: Estimate
    server_kwh: Estimate
    facility_kwh: Estimate
    co2_kg: Estimate | None
    factors: EnergyFactors

    def __str__(self) -> str:
        co2 = "unknown without a region" if self.co2_kg is None else self.co2_kg.format(_plain)
        return "\n".join(
            (
                f"{self.gpu_hours:,.0f} GPU hours",
                f"GPU boards: {self.gpu_kwh.format(_plain)}",
                f"servers: {self.server_kwh.format(_plain)}",
                f"facility: {self.facility_kwh.format(_plain)}",
                f"CO2: {co2}",
                *(f"  {line}" for line in str(self.factors).splitlines()),
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "gpu_hours": self.gpu_hours,
            "gpu_kwh": self.gpu_kwh.to_dict(),
            "server_kwh": self.server_kwh.to_dict(),
            "facility_kwh": self.facility_kwh.to_dict(),
            "co2_kg": None if self.co2_kg is None else self.co2_kg.to_dict(),
            "factors": self.factors.to_dict(),
        }


def energy_factors(
    gpu: GPU | str,
    *,
    watts: float | str | None = None,
    fraction: float | str | None = None,
    server: float | str | None = None,
    pue: float | str | None = None,
    region: str | float | GridIntensity | None = None,
) -> EnergyFactors:
    """Collect the factors between GPU hours and the meter; those not given carry a range.

    Parameters
    ----------
    gpu : GPU or str
        The accelerator.
    watts : float or str, optional
        Rated power of one GPU; that of the table, if not given.
    fraction : float or str, optional
        Share of its rated power ("70%") a node draws (`economics.power.power_drawn`).
    server : float, optional
        Server over GPU power (`economics.power.server_factor`); 1 counts the boards alone.
    pue : float or str, optional
        Facility over server energy, or an operator (`economics.power.pue_factor`).
    region : str, float or GridIntensity, optional
        Region, or grams of CO2 per kWh (`economics.grid.grid_intensity`).

    Raises
    ------
    UnknownGPU, UnknownRegion, DataError
        A name that is not in the tables, or a factor that cannot be one.

    Examples
    --------
    >>> [round(kw, 3) for kw in energy_factors("H100 SXM", pue=1.25).kw]
    [0.532, 0.969, 1.211]
    """
    from economics.hardware import gpu as find

    gpu = find(gpu)
    rated, measured = rated_power(gpu, watts)
    drawn = power_drawn(1.0 if measured and fraction is None else fraction)
    return EnergyFactors(
        gpu=gpu.name,
        watts=rated,
        drawn=drawn,
        server=server_factor(gpu, server),
        pue=pue_factor(pue),
        grid=None if region is None else grid_intensity(region),
    )


def energy(
    gpu_hours: float | str,
    gpu: GPU | str,
    *,
    watts: float | str | None = None,
    fraction: float | str | None = None,
    server: float | str | None = None,
    pue: float | str | None = None,
    region: str | float | GridIntensity | None = None,
    measured_gpu_kwh: float | None = None,
) -> Energy:
    """Energy and CO2 of a number of GPU hours.

    Parameters
    ----------
    gpu_hours : float or str
        Hours times GPUs ("1M"), as billed (idle hours draw less than this assumes).
    gpu, watts, fraction, server, pue, region
        As in `energy_factors`.
    measured_gpu_kwh : float, optional
        Energy of the boards from their counters; replaces hours, rating and share. None where there is no
        counter: zero is refused.

    Returns
    -------
    Energy

    Raises
    ------
    UnknownGPU, UnknownRegion, DataError
        As `energy_factors`; power that is not published; or hours or measured energy that are not positive.

    Examples
    --------
    Eight H100 for 100 hours: 560 kWh by their rating alone, 969 at the meter.

    >>> run = energy(800, "H100 SXM", pue=1.25, region="gcp:us-central1")
    >>> round(run.facility_kwh.value, 6), run.co2_kg
    (969.0, CO2: 418.6 kg, 80% [308.5, 523.1])
    """
    hours = positive("gpu_hours", gpu_hours, "hours times GPUs")
    factors = energy_factors(gpu, watts=watts, fraction=fraction, server=server, pue=pue, region=region)
    value = np.array(factors.kw) * hours
    draws = factors.sample_kw(np.random.default_rng(0), _DRAWS) * hours
    if measured_gpu_kwh is not None:
        measured = plain(measured_gpu_kwh)
        if not 0 < measured < math.inf:
            raise DataError(
                f"measured_gpu_kwh must be positive, got {shown(measured_gpu_kwh)}: a counter that reads zero is a "
                f"missing counter, leave it out.",
                column="measured_gpu_kwh",
            )
        most = _MOST_OF_RATING * factors._rated_kw * hours
        if measured > most:
            raise DataError(
                f"measured_gpu_kwh={measured:g} is {measured / most * _MOST_OF_RATING:.3g} times what "
                f"{hours:g} hours at {factors.watts:g} W are: joules, watt-hours or another number of GPUs?",
                column="measured_gpu_kwh",
            )
        value, draws = (kwh / kwh[0] * measured for kwh in (value, draws))
    per = factors.kg_per_kwh
    return Energy(
        gpu_hours=hours,
        gpu_kwh=_estimate("GPU boards", "kWh", value[0], draws[0]),
        server_kwh=_estimate("servers", "kWh", value[1], draws[1]),
        facility_kwh=_estimate("facility", "kWh", value[2], draws[2]),
        co2_kg=None if per is None else _estimate("CO2", "kg", value[2] * per, draws[2] * per),
        factors=factors,
    )


def _plain(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.4g}"


def _estimate(name: str, unit: str, value: float, draws: NDArray[np.float64]) -> Estimate:
    if np.ptp(draws) == 0:  # every factor was given: the product has no interval
        low = high = value
    else:
        low, high = (float(q) for q in np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]))
    return Estimate(float(value), float(low), float(high), _LEVEL, "optimum", name, unit)
