"""What lies between a GPU's rated power and the electricity meter: each factor with range and source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from economics.gpu_names import read_table
from economics.quantile_draws import normal
from economics.run_numbers import plain
from scaling.errors import DataError, shown

if TYPE_CHECKING:
    from economics.hardware import GPU

#: The range of a factor is its 5th to 95th percentile.
_Z = NormalDist().inv_cdf(0.95)
#: The highest rating in the table of accelerators is 1,400 W (a test looks); several times that is a node.
MOST_WATTS = 5000


@dataclass(frozen=True)
class Factor:
    """One factor of a product, with the range it may lie in.

    Parameters
    ----------
    name : str
        What it is.
    value : float
        Central value.
    low, high : float
        5th and 95th percentile; both equal to `value` for a factor the user gave.
    source : str
        Where it comes from.
    bounds : (float, float)
        What it cannot leave.
    """

    name: str
    value: float
    low: float
    high: float
    source: str
    bounds: tuple[float, float] = (0.0, float("inf"))

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Draw `n` values, shape (n,): a normal with its own width on either side, cut at the bounds."""
        drawn = normal(rng, n)
        below = np.minimum(drawn, 0.0)
        # Steps in place: ten thousand numbers stay in the cache, and temporary ones cost more than the sums.
        drawn *= (self.high - self.value) / _Z
        below *= (2.0 * self.value - self.low - self.high) / _Z
        drawn += below
        drawn += self.value
        np.maximum(drawn, self.bounds[0], out=drawn)
        return np.minimum(drawn, self.bounds[1], out=drawn)

    def __str__(self) -> str:
        spread = f" [{self.low:.3g}, {self.high:.3g}]" if self.low != self.high else ""
        return f"{self.name} {self.value:.4g}{spread} ({self.source})"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {
            "name": self.name,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "source": self.source,
        }


def power_drawn(value: float | str | None = None) -> Factor:
    """Share of its rated power that a node draws while it trains.

    By default 0.76 of the rating, measured for 8 x H100 nodes in training (Newkirk et al. 2025, arXiv
    2506.14551), with the 90% range 0.5 to 1 of Epoch AI (training-cost-trends, energy.py); the same kind of
    node was never seen above 8.4 of 10.2 kW (Latif et al. 2024, arXiv 2412.08602).

    Raises
    ------
    DataError
        Not a share: 76 instead of 0.76, for example.
    """
    if value is None:
        source = "8 x H100 nodes, arXiv 2506.14551; range: Epoch AI"
        return Factor("share of rated power drawn", 0.76, 0.5, 1.0, source, (0.05, 1.0))
    value = _number("fraction", value)
    if not 0 < value <= 1:
        hint = f"; {value:g}% is {value / 100:g}" if 1 < value <= 100 else ""
        raise DataError(f"fraction must lie between 0 and 1, got {shown(value)}{hint}", column="fraction")
    return _given("share of rated power drawn", value)


def server_factor(gpu: GPU, value: float | str | None = None) -> Factor:
    """Rated power of a server over that of its GPUs: CPUs, memory, network, fans, power supplies.

    By default from the rating of the vendor's server with this GPU (``server_power.csv``), over the range of
    servers where there are several; for other GPUs 1.8, the mean Epoch AI uses, between 1.25 and 2.08. Low
    power cards in a large host can lie above that.

    Raises
    ------
    DataError
        Below 1.
    """
    if value is not None:
        value = _number("server_factor", value)
        if not 1 <= value < 10:
            raise DataError(
                f"server_factor is server over GPU power and so at least 1 (1.8 for DGX H100), got {shown(value)}",
                column="server_factor",
            )
        return _given("server over GPU power", value)
    rows = [row for row in read_table("server_power.csv") if row["gpu"] == gpu.name]
    if not rows or gpu.tdp_w is None:
        source = "assumed: mean and range of DGX servers, Epoch AI energy.py@85c568c"
        return Factor("server over GPU power", 1.8, 1.25, 2.08, source, (1.0, 10.0))
    ratios = [1e3 * float(row["rated_kw"]) / int(row["n_gpus"]) / gpu.tdp_w for row in rows]
    source = ", ".join(f"{row['server']} {row['rated_kw']} kW" for row in rows)
    mean = sum(ratios) / len(ratios)
    return Factor("server over GPU power", mean, min(ratios), max(ratios), source, (1.0, 10.0))


def pue_factor(value: float | str | None = None) -> Factor:
    """Power usage effectiveness: electricity of the facility over that of its servers.

    Parameters
    ----------
    value : float or str, optional
        Your own, or an operator of ``pue.csv`` ("aws", "azure", "google", "meta", "gpu-cloud", "survey"). By
        default 1.25, an AI data center outside the largest clouds, with the range 1.08 to 1.54 from the
        best large operator to the survey average.

    Raises
    ------
    DataError
        Below 1, implausibly high, or an operator that is not in the table (names those that are).
    """
    operators = {row["operator"]: row for row in read_table("pue.csv")}
    if isinstance(value, str):
        row = operators.get(value.strip().casefold())
        if row is None:
            raise DataError(
                f"no PUE is known for {value!r}: give a number, or one of {', '.join(operators)}",
                column="pue",
            )
        return _given("PUE", float(row["pue"]), f"{row['scope']}, {row['year']}: {row['source']}")
    if value is None:
        low, middle, high = (float(operators[o]["pue"]) for o in ("meta", "gpu-cloud", "survey"))
        source = "assumed: AI data center; range: Meta to the Uptime survey average"
        return Factor("PUE", middle, low, high, source, (1.0, 3.0))
    value = _number("pue", value)
    if not 1 <= value <= 3:
        raise DataError(
            f"PUE is facility over server energy, from 1 to about 2 (average 1.54); got {shown(value)}",
            column="pue",
        )
    return _given("PUE", value)


def rated_power(gpu: GPU, watts: float | str | None = None) -> tuple[float | None, bool]:
    """Watts of one GPU to start from, and whether they are a mean that was measured rather than a rating.

    Parameters
    ----------
    gpu : GPU
        The accelerator.
    watts : float or str, optional
        A rating of your own.

    Returns
    -------
    watts : float or None
        None where neither rating nor measurement is published.
    measured : bool

    Raises
    ------
    DataError
        Watts that no board has.
    """
    if watts is not None:
        number = plain(watts)
        if not 1 <= number <= MOST_WATTS:
            raise DataError(
                f"watts is the rated power of one GPU, 1 to {MOST_WATTS:,} W; got {shown(watts)}: kilowatts? a node?",
                column="watts",
            )
        return number, False
    if gpu.tdp_w is not None:
        return float(gpu.tdp_w), False
    if gpu.measured_power_w is not None:
        return float(gpu.measured_power_w), True
    return None, False


def unknown_power(gpu: str, argument: str) -> str:
    """Say that the power of a GPU is not published, and which argument takes it."""
    return (
        f"the power of {gpu} is not published, so energy and CO2 are not known: {argument} takes the rated power of "
        "one GPU."
    )


def _number(name: str, value: object) -> float:
    """Return a factor as a number; text may be a number or a percentage."""
    text = value.strip() if isinstance(value, str) else value
    percent = isinstance(text, str) and text.endswith("%")
    number = plain(text.removesuffix("%") if isinstance(text, str) else text)
    if math.isnan(number):
        raise DataError(f"{name} must be a number, got {shown(value)}", column=name)
    return number / 100.0 if percent else number


def _given(name: str, value: float, source: str = "given") -> Factor:
    return Factor(name, float(value), float(value), float(value), source)
