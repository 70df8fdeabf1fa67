"""Published laws, at the precision they were published with, each with its source.

The figures are rows of the embedded table ``published_fits``; this module turns them into laws.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from difflib import get_close_matches

from scaling.errors import DataError, DataWarning, warn
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.laws.kaplan import KaplanLaw
from scaling.laws.power import PowerLaw


@dataclass(frozen=True)
class PublishedFit:
    """A published law and what is known of it.

    Parameters
    ----------
    name : str
        Name of the row.
    year : int
        Year of publication.
    law : ChinchillaLaw, KaplanLaw, PowerLaw or None
        The law; None where only exponents of the optimum were published, or it has another form.
    params_exponent, tokens_exponent : float or None
        Exponents a and b of N* ~ C^a, D* ~ C^b as published.
    interval, conditions, source : str
        Published uncertainty, what was trained and counted, and where it stands.
    verified : str
        How the figures were checked.
    """

    name: str
    year: int
    law: ChinchillaLaw | KaplanLaw | PowerLaw | None
    params_exponent: float | None
    tokens_exponent: float | None
    interval: str
    conditions: str
    source: str
    verified: str


def names() -> tuple[str, ...]:
    """Return the names of all published fits."""
    return tuple(row["name"] for row in _rows())


def published(name: str) -> PublishedFit:
    """Return a published fit by its name.

    Raises
    ------
    DataError
        No row has this name; suggests the nearest, or lists all where none is near.

    Warns
    -----
    DataWarning
        The exponents were published with two digits: rounding alone moves D* by tens of per cent.

    Examples
    --------
    >>> hoffmann = published("Hoffmann Approach 3 (unrounded)")
    >>> f"{hoffmann.law.tokens_per_param(1e9):.1f} tokens per parameter at 1e9"
    '29.1 tokens per parameter at 1e9'
    """
    rows = {row["name"]: row for row in _rows()}
    if name not in rows:
        near = get_close_matches(str(name), rows, n=3, cutoff=0.3)
        hint = f"nearest: {', '.join(near)}" if near else f"there are {'; '.join(rows)}"  # names hold commas
        raise DataError(f"no published law is called {name!r}; {hint}", column="name")
    row = rows[name]
    law = _law(row)
    if isinstance(law, ChinchillaLaw) and law.two_digit_exponents:
        warn(
            f"{name}: exponents {law.alpha} and {law.beta} have two digits. {law.rounding_note()}",
            DataWarning,
        )
    return PublishedFit(
        name,
        int(row["year"]),
        law,
        _number(row["a"]),
        _number(row["b"]),
        row["interval"],
        row["conditions"],
        row["source"],
        row["verified"],
    )


def _law(row: dict[str, str]) -> ChinchillaLaw | KaplanLaw | PowerLaw | None:
    numbers = {key: _number(row[key]) for key in ("E", "A", "B", "alpha", "beta", "N_c", "D_c")}
    if row["form"] == "chinchilla":
        return ChinchillaLaw(*(numbers[k] for k in ("E", "A", "B", "alpha", "beta")))
    if row["form"] == "kaplan":
        return KaplanLaw(numbers["N_c"], numbers["D_c"], numbers["alpha"], numbers["beta"])
    if row["form"] == "kaplan_n":
        return _scaled(numbers["N_c"], numbers["alpha"])
    if row["form"] == "kaplan_d":
        return _scaled(numbers["D_c"], numbers["beta"])
    if row["form"] == "compute":
        return PowerLaw(*(numbers[k] for k in ("E", "A", "alpha")))
    return None


def _scaled(scale: float | None, exponent: float | None) -> PowerLaw:
    """Return (scale/x)^exponent, Kaplan et al.'s way to write a power law without a floor."""
    assert scale is not None and exponent is not None
    return PowerLaw(0.0, scale**exponent, exponent)


def _rows() -> list[dict[str, str]]:
    from scaling.datasets import builtin

    with builtin("published_fits").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
