"""Grams of CO2 per kWh by region: where a run takes place, and how dirty the electricity is there."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from economics.errors import EconomicsError
from economics.gpu_names import read_table
from economics.run_numbers import plain
from scaling.errors import DataError, shown

_OR = "You can also give grams of CO2 per kWh."
_GRAMS = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(?:(k)?g(?:\s*co2e?q?)?\s*/\s*kwh)?", re.IGNORECASE)
#: Words for a cloud in front of its region -> its prefix in the table.
_CLOUDS = {
    "aws": "aws", "amazon": "aws", "azure": "azure", "microsoft azure": "azure", "gcp": "gcp", "google": "gcp",
    "google cloud": "gcp",
}  # fmt: skip
_CLOUD = re.compile(rf"({'|'.join(sorted(_CLOUDS, key=len, reverse=True))})[ :/]+(.+)")
#: "us-east-1a" is a zone of us-east-1, "us-central1-a" one of us-central1.
_ZONE = re.compile(r"([a-z-]+-\d+)[a-z]|([a-z-]+\d+)-[a-z]")
#: A part of a country in ISO 3166-2: "DE-BY", "CA-ON", "GB-SCT".
_PART = re.compile(r"([a-z]{2,3})-[a-z0-9]{1,3}")


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
        A country (ISO 3166 code of three or two letters, or English name), a state of the USA (``"US-CA"``, or
        its name), a cloud region or one of its zones (``"gcp:us-central1"``, ``"aws:us-east-1"``,
        ``"azure:eastus"``; the prefix may be left out), or grams per kWh of your own (a number, or text such as
        ``"400 g/kWh"``).

    Raises
    ------
    UnknownRegion
        No region has this name, or two have it ("Georgia"; "CA" is Canada and California): names those it may be.
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
    grams = _number(region)
    if grams is not None:
        return GridIntensity("", "given", _grams(grams), None, "given", "given by the user")
    if not isinstance(region, str):
        raise DataError(
            f"region must be a name or grams of CO2 per kWh, got {shown(region)}", column="region"
        )
    forms = _forms(_key(region))
    found: tuple[str, ...] = next((_lookup()[form] for form in forms if form in _lookup()), ())
    if len(found) == 1:
        return _table()[found[0]]
    if found:
        raise UnknownRegion(f"region {region!r} is {_named(found, ' or ')}: give the key.", suggestions=found)
    raise _unknown(region, forms)


def regions() -> tuple[str, ...]:
    """Return the keys of all regions.

    Examples
    --------
    >>> {"FRA", "US-CA", "gcp:europe-west9", "aws:eu-west-3"} <= set(regions())
    True
    """
    return tuple(_table())


def _named(keys: Sequence[str], between: str = ", ") -> str:
    return between.join(f"{key} ({_table()[key].name})" for key in keys)


def _unknown(region: str, forms: Sequence[str]) -> UnknownRegion:
    """Return the refusal of a name that no region has, with what is nearest to it."""
    part = _PART.fullmatch(forms[0])
    whole = [k for k in _lookup().get(part[1], ()) if len(k) == 3] if part else []
    states = [k for k in _table() if k.startswith("US-")]
    if whole and whole[0] != "USA":
        what = f"of {_table()[whole[0]].name} only the whole is known, {whole[0]}."
        return UnknownRegion(f"the grid of region {region!r} is not known: {what} {_OR}", suggestions=whole)
    if whole:
        what = f"the USA have the states {', '.join(states)}."
        return UnknownRegion(f"the grid of region {region!r} is not known: {what} {_OR}", suggestions=states)
    # Of two or three letters every code is like some other: a guess would only mislead.
    spellings = [] if len(forms[0]) < 4 else [s for s in _lookup() if len(s) > 3]
    near = [s for form in forms for s in difflib.get_close_matches(form, spellings, n=6, cutoff=0.6)]
    elsewhere = _lookup().get(forms[0].rpartition(":")[2], ())  # of another cloud
    suggestions = tuple(dict.fromkeys((*elsewhere, *(key for s in near for key in _lookup()[s]))))[:5]
    hint = (
        f"did you mean {_named(suggestions)}?"
        if suggestions
        else "give a country, a state of the USA, a cloud region such as gcp:us-central1 or aws:us-east-1."
    )
    return UnknownRegion(f"the grid of region {region!r} is not known: {hint} {_OR}", suggestions=suggestions)


def _number(region: object) -> float | None:
    """Return grams per kWh, where the region is a number of them."""
    if isinstance(region, int | float) and not isinstance(region, bool):
        return plain(region)
    match = _GRAMS.fullmatch(region.strip()) if isinstance(region, str) else None
    return None if match is None else float(match[1]) * (1000.0 if match[2] else 1.0)


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
    """Every spelling -> keys: the key, the key without its provider, the name, and others people write."""
    known: dict[str, list[str]] = defaultdict(list)
    for row in read_table("grid_intensity.csv"):
        spellings = {row["region"]}
        if row["kind"] == "cloud":
            spellings.add(row["region"].split(":")[1])
        else:
            spellings.add(row["name"])
        if row["kind"] == "state":
            spellings.add(row["region"].removeprefix("US-"))
        for spelling in spellings:
            known[_key(spelling)].append(row["region"])
    for row in read_table("region_spellings.csv"):
        known[_key(row["spelling"])].insert(0, row["region"])
    return {spelling: tuple(dict.fromkeys(keys)) for spelling, keys in known.items()}


def _forms(key: str) -> tuple[str, ...]:
    """Return what a name may be a spelling of: itself, the region of a zone, with its cloud, without blanks."""
    cloud, rest = "", key
    if match := _CLOUD.fullmatch(key):
        cloud, rest = f"{_CLOUDS[match[1]]}:", match[2]
    forms = [key]
    for name in (rest, rest.replace(" ", "")):
        forms.append(cloud + name)
        if zone := _ZONE.fullmatch(name):
            forms.append(cloud + (zone[1] or zone[2]))
    return tuple(dict.fromkeys(forms))


def _key(region: str) -> str:
    return " ".join(str(region).casefold().replace("_", "-").split())
