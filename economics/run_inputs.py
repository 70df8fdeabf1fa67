"""Arguments of a cost that have rules of their own: size, price, preemptions, energy, accelerator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from economics.energy_use import EnergyFactors, energy_factors
from economics.grid import GridIntensity
from economics.hardware import GPU
from economics.interruptions import FAULTS_PER_GPU_HOUR, MEAN_UP_HOURS
from economics.price_quote import PriceQuote
from economics.price_rows import market_kind, read_number
from economics.price_search import fixed_price, prices
from economics.run_numbers import hours, positive, share, whole
from scaling.architecture import Arch
from scaling.errors import DataError, shown

#: What `cost(spot=...)` may replace, with its default.
SPOT_DEFAULTS: dict[str, Any] = {
    "mean_up_hours": MEAN_UP_HOURS,
    "growth": 1.0,
    "checkpoint_hours": 1 / 60,
    "restart_hours": 0.25,
    "wait_hours": None,
    "faults_per_gpu_hour": FAULTS_PER_GPU_HOUR,
    "gpus_per_node": 8,
}
#: What no run has: fewer or more parameters, more tokens (all text there is times a thousand), more GPUs.
PARAMS, MOST_TOKENS, MOST_GPUS = (1e3, 1e16), 1e18, 10_000_000
_ENERGY = "watts, fraction, server, pue"


def read_params(name: str, value: Any, what: str) -> float:
    """Read a number of parameters; what no model has is a slip of the unit."""
    number = positive(name, value, what)
    if not PARAMS[0] <= number <= PARAMS[1]:
        raise DataError(
            f"{name}={number:g} parameters are no model ({PARAMS[0]:g} to {PARAMS[1]:g} are): give {what}.",
            column=name,
        )
    return number


def read_tokens(value: Any) -> float:
    """Read a number of tokens."""
    number = positive("D", value, "tokens, such as 2e12 or '2T'")
    if not 1.0 <= number <= MOST_TOKENS:
        raise DataError(f"D={number:g} tokens are no training (1 to {MOST_TOKENS:g} are)", column="D")
    return number


def read_gpus(value: Any) -> int:
    """Read a number of GPUs."""
    number = whole("n_gpus", value)
    if number > MOST_GPUS:
        raise DataError(f"n_gpus={number:,} are more than there are ({MOST_GPUS:,} at most)", column="n_gpus")
    return number


def read_size(n: Any, n_active: Any, shape: Any) -> tuple[Arch | None, float, float]:
    """Return the shape, if known, the parameters in memory, and those a token uses."""
    if isinstance(shape, str):
        from scaling.published_archs import arch as published

        shape = published(shape)
    if shape is not None and not isinstance(shape, Arch):
        raise DataError(
            f"arch must be an Arch or the name of a published one, got {shown(shape)}", column="arch"
        )
    if n is None and shape is None:
        raise DataError("give N (parameters, such as 7e9 or '7B') or arch", column="N")
    total = read_params(
        "N", shape.params_total if n is None and shape else n, "parameters, such as 7e9 or '7B'"
    )
    if shape is not None and abs(total / shape.params_total - 1.0) > 0.05:
        raise DataError(
            f"N={total:.4g} and arch, which has {shape.params_total:.4g}, contradict each other: give one.",
            column="N",
        )
    if shape is not None:
        if n_active is not None:
            raise DataError("N_active follows from arch: give one of them", column="N_active")
        return shape, total, float(shape.params_active)
    active = total if n_active is None else read_params("N_active", n_active, "parameters a token uses")
    if active > total:
        raise DataError(f"N_active={active:.4g} exceeds N={total:.4g}: swapped?", column="N_active")
    return None, total, active


def read_price(asked: Mapping[str, Any], part: GPU) -> PriceQuote:
    """Return the price that was given, or what the book says of the market."""
    given, market = asked["price"], market_kind(asked["market"])
    if isinstance(given, PriceQuote):
        if given.gpu not in ("any", part.name):
            raise DataError(
                f"price is a quote for {given.gpu}, the run is on {part.name}: leave price out, or give one "
                f"for that part.",
                column="price",
            )
        if market not in ("on-demand", given.market):  # the default asks for nothing
            raise DataError(
                f"price is a quote of the {given.market} market, market={market!r} is another: leave price out, or "
                f"give a quote for that market.",
                column="price",
            )
        return given
    if given is not None:
        if isinstance(given, str):
            given = given if (number := read_number(given)) is None else number
        return fixed_price(given, part, market, as_of=asked["as_of"])
    return prices(part, market, asked["provider"], as_of=asked["as_of"], book=asked["book"])


def read_spot(given: Any, market: str) -> dict[str, Any]:
    """Return what is assumed of preemptions and saves, with what was given in place of the defaults."""
    if given is False and market == "spot":
        raise DataError(
            "spot=False with the spot market contradict each other: spot={'mean_up_hours': None} counts no preemptions",
            column="spot",
        )
    if given is None or isinstance(given, bool):
        return dict(SPOT_DEFAULTS)
    unknown = (
        sorted(map(str, set(given) - set(SPOT_DEFAULTS))) if isinstance(given, Mapping) else [shown(given)]
    )
    if unknown:
        raise DataError(
            f"spot must be a mapping of {', '.join(SPOT_DEFAULTS)}; got {', '.join(unknown)}", column="spot"
        )
    read = {name: _spot_value(name, value) for name, value in given.items()}
    return {**SPOT_DEFAULTS, **read}


def _spot_value(name: str, value: Any) -> Any:
    if name == "gpus_per_node":
        return whole(name, value)
    if value is None and name in ("mean_up_hours", "wait_hours"):
        return None
    if name in ("growth", "faults_per_gpu_hour"):
        number = read_number(value)
        if number is None or not 0.0 <= number <= 1.0:
            raise DataError(f"spot[{name!r}] must lie between 0 and 1, got {shown(value)}", column="spot")
        return number
    return hours(f"spot[{name!r}]", value, positive=name == "mean_up_hours")


def asks_for_preemption(given: Any) -> bool:
    """Tell whether preemptions were asked for on a market that has none."""
    return given is True or (isinstance(given, Mapping) and given.get("mean_up_hours") is not None)


def read_energy(asked: Mapping[str, Any], part: GPU) -> EnergyFactors:
    """Return the factors between GPU-hours and the meter."""
    given, region = asked["energy"], asked["region"]
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise DataError(f"energy must be a mapping of {_ENERGY}; got {shown(given)}", column="energy")
    unknown = sorted(map(str, set(given) - set(_ENERGY.split(", "))))
    if unknown:
        raise DataError(f"energy has no factor {', '.join(unknown)}: {_ENERGY}", column="energy")
    if isinstance(region, bool) or not (
        region is None or isinstance(region, str | int | float | GridIntensity)
    ):
        raise DataError(
            f"region must be a name or grams of CO2 per kWh, got {shown(region)}", column="region"
        )
    read = dict(given)
    if read.get("fraction") is not None:
        read["fraction"] = share("energy['fraction']", read["fraction"])
    for name in ("server", "watts"):
        if read.get(name) is not None:
            read[name] = _number(f"energy[{name!r}]", read[name])
    if asked["pue"] is not None and read.get("pue") is not None:
        raise DataError("pue and energy['pue'] are the same: give one of them", column="pue")
    pue = asked["pue"] if asked["pue"] is not None else read.get("pue")
    if isinstance(pue, str) and (number := read_number(pue)) is not None:
        pue = number
    if isinstance(pue, bool) or not (pue is None or isinstance(pue, str | int | float)):
        raise DataError(f"pue must be a number such as 1.2 or an operator, got {shown(pue)}", column="pue")
    return _energy_factors(part, region, tuple(sorted({**read, "pue": pue}.items())))


def _number(name: str, value: Any) -> float:
    number = None if isinstance(value, bool) else read_number(value)
    if number is None or not math.isfinite(number):
        raise DataError(f"{name} must be a number, got {shown(value)}", column="energy")
    return number


@lru_cache(maxsize=64)
def _energy_factors(part: GPU, region: Any, given: tuple[tuple[str, Any], ...]) -> EnergyFactors:
    return energy_factors(part, region=region, **dict(given))
