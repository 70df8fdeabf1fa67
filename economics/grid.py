"""Grams of CO2 per kWh by region: where a run takes place, and how dirty the electricity is there."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from economics.errors import EconomicsError
from economics.gpu_names import read_table
from scaling.errors import DataError


class UnknownRegion(EconomicsError, DataError):
    """No region has this name, or several share it; `suggestions` are those it may be."""

    def __init__(self, message: str, *, suggestions: Sequence[str] = ()) -> None:
        super().__init__(message, column="region")
        self.suggestions = tuple(suggestions)


@dataclass(frozen=True)
class GridIntensity:
    """How much CO2 a kilowatt-hour of a grid stands for.

    Parameters
    ----------
    region, name : str
        Key in the table, and what it is.
    g_per_kwh : float
        Grams of CO2 equivalent per kWh, average of the year (not of the hour, and not the marginal plant).
    year : int or None
        Year the figure is for; None for one of the user's own.
    basis : {"lifecycle", "generation", "given"}
        Whether building the plants and their fuel supply counts, or only what leaves the chimney.
    source : str
        Where it was read.
    """

    region: str
    name: str
    g_per_kwh: float
    year: int | None
    basis: str
    source: str

    def __str__(self) -> str:
        year = f", {self.year}" if self.year else ""
        return f"{self.name}: {self.g_per_kwh:g} g/kWh ({self.basis}{year}; {self.source})"


def grid_intensity(region: str | float | GridIntensity) -> GridIntensity:
    """Return the grid of a region.

    Parameters
    ----------
    region : str, float or GridIntensity
        A country (ISO 3166 alpha-3 code or English name), a state of the USA (``"US-CA"`` or its name), a
        cloud region (``"gcp:us-central1"``, ``"aws:us-east-1"``, ``"azure:eastus"``; the prefix may be left
        out), or grams per kWh of your own.

    Raises
    ------
    UnknownRegion
        No region has this name, or two have it ("Georgia"): names those it may be.
    DataError
        A number that cannot be grams per kWh.

    Examples
    --------
    >>> print(grid_intensity("France"))
    France: 56.039 g/kWh (lifecycle, 2023; Our World in Data (codecarbon 3.3.2))
    >>> grid_intensity("us-east-1").g_per_kwh, grid_intensity(120).basis
    (343.48, 'given')
    """
    if isinstance(region, GridIntensity):
        return region
    if isinstance(region, int | float):
        return GridIntensity("", "given", _grams(float(region)), None, "given", "given by the user")
    found = _lookup().get(_key(region), ())
    if len(found) == 1:
        return _table()[found[0]]
    if found:
        raise UnknownRegion(
            f"region {region!r} is {' or '.join(f'{k} ({_table()[k].name})' for k in found)}: give the key.",
            suggestions=found,
        )
    near = difflib.get_close_matches(_key(region), _lookup(), n=6, cutoff=0.6)
    suggestions = tuple(dict.fromkeys(key for spelling in near for key in _lookup()[spelling]))[:5]
    hint = (
        f"did you mean {', '.join(f'{k} ({_table()[k].name})' for k in suggestions)}?"
        if suggestions
        else "give a country, a state of the USA, a cloud region such as gcp:us-central1 or aws:us-east-1"
    )
    raise UnknownRegion(
        f"the grid of region {region!r} is not known: {hint} You can also give grams of CO2 per kWh.",
        suggestions=suggestions,
    )


def regions() -> tuple[str, ...]:
    """Return the keys of all regions.

    Examples
    --------
    >>> {"FRA", "US-CA", "gcp:europe-west9", "aws:eu-west-3"} <= set(regions())
    True
    """
    return tuple(_table())


def _grams(value: float) -> float:
    if not 0 <= value < 2000 or 0 < value < 2:
        hint = f"; {value:g} kg/kWh are {1000 * value:g} g/kWh" if 0 < value < 2 else ""
        raise DataError(
            f"region={value:g} cannot be grams of CO2 per kWh (hydropower has about 20, lignite 1,100){hint}",
            column="region",
        )
    return value


@cache
def _table() -> dict[str, GridIntensity]:
    rows = {row["region"]: row for row in read_table("grid_intensity.csv")}
    return {key: _entry(rows, row) for key, row in rows.items()}


def _entry(rows: dict[str, dict[str, str]], row: dict[str, Any]) -> GridIntensity:
    """One row; a cloud that does not publish its grid has the figure of the place it names."""
    figures = rows[row["same_as"]] if row["same_as"] else row
    source = figures["source"] if figures is row else f"as {row['same_as']}: {figures['source']}"
    return GridIntensity(
        region=row["region"],
        name=row["name"],
        g_per_kwh=float(figures["g_per_kwh"]),
        year=int(figures["year"]),
        basis=figures["basis"],
        source=source,
    )


@cache
def _lookup() -> dict[str, tuple[str, ...]]:
    """Every spelling -> keys: the key, the key without its provider, and the name."""
    known: dict[str, list[str]] = defaultdict(list)
    for row in read_table("grid_intensity.csv"):
        spellings = {row["region"]}
        if row["kind"] == "cloud":
            spellings.add(row["region"].split(":")[1])
        else:
            spellings.add(row["name"])
        for spelling in spellings:
            known[_key(spelling)].append(row["region"])
    return {spelling: tuple(keys) for spelling, keys in known.items()}


def _key(region: str) -> str:
    return " ".join(str(region).casefold().replace("_", "-").split())
